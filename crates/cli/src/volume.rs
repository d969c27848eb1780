//! A file system opened for use: store, bucket, cache, client and vfs, put together and taken apart in order.

use crate::bucket;
use crate::failure::{Failure, Outcome};
use crate::janitor::Janitor;
use crate::secret::Secrets;
use crate::size::Size;
use crate::store::{self, MetaUrl};
use carafe_cache::{Cache, CacheConfig, CacheError, read_boot_id};
use carafe_meta::{Client, ClientOptions};
use carafe_types::record::Superblock;
use carafe_vfs::{Vfs, VfsOptions};
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Mutex;

/// What a mount does with the machine that it runs on.
#[derive(Args, Clone, Debug)]
pub(crate) struct VolumeArgs {
    /// Where the local cache is, which is the write buffer, too [default: /var/cache/carafe, or ~/.cache/carafe]
    #[arg(long, value_name = "DIR", help_heading = "Cache")]
    pub(crate) cache_dir: Option<PathBuf>,

    /// How much of the disk the local cache may take
    #[arg(long, value_name = "SIZE", default_value = "10GiB", help_heading = "Cache")]
    pub(crate) cache_size: Size,

    /// Cache in memory only; a daemon that dies then loses what it had not stored
    #[arg(long, conflicts_with = "cache_dir", help_heading = "Cache")]
    pub(crate) no_cache_disk: bool,

    /// How much memory the cache takes when there is no cache disk
    #[arg(long, value_name = "SIZE", default_value = "128MiB", help_heading = "Cache")]
    pub(crate) memory_cache_size: Size,

    /// close() waits until the file is stored, also where nobody else looks
    #[arg(long)]
    pub(crate) close_sync: bool,

    /// Objects that are uploaded at once
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) upload_parallel: u16,

    /// Accept a metadata store that keeps nothing over a restart
    #[arg(long, env = "CARAFE_ALLOW_VOLATILE", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) allow_volatile: bool,
}

/// An open file system.
pub(crate) struct Volume {
    pub(crate) meta_url: String,
    pub(crate) superblock: Superblock,
    pub(crate) client: Arc<Client>,
    pub(crate) vfs: Arc<Vfs>,
    pub(crate) cache: Cache,
    /// `None` for a cache in memory.
    pub(crate) cache_dir: Option<PathBuf>,
    janitor: Mutex<Option<Janitor>>,
}

impl Volume {
    /// Opens the file system at `url` for a session that says it is `role`.
    pub(crate) async fn open(
        url: &str,
        secrets: &Secrets,
        args: &VolumeArgs,
        role: String,
        read_only: bool,
    ) -> Outcome<Self> {
        let store = store::connect(&MetaUrl::parse(url)?, secrets, false).await?;
        let (info, superblock) = store::inspect(store.as_ref()).await?;
        store::check_fit(&info, args.allow_volatile)?;
        store::warn(&info);
        let bucket = bucket::open(&superblock, secrets).await?;
        let boot_id = read_boot_id().map_err(crate::failure::io("cannot read this boot's id"))?;
        let (cache, cache_dir) = open_cache(args, &superblock, boot_id)?;
        let mut options = VfsOptions::new(cache.clone(), bucket.clone(), boot_id);
        options.close_sync = args.close_sync;
        options.upload_parallel = usize::from(args.upload_parallel);
        // What a dead daemon accepted may be committed by its own session only.
        let uuid = carafe_vfs::resumable_session(&options)?;
        let allow_volatile = args.allow_volatile;
        let client = ClientOptions { role, uuid, read_only, allow_volatile, ..ClientOptions::default() };
        let client = Client::open(store, client).await?;
        let vfs = match Vfs::new(client.clone(), options).await {
            Ok(vfs) => vfs,
            Err(error) => {
                client.close().await;
                return Err(Failure::from(error));
            }
        };
        tracing::info!(
            name = superblock.name,
            uuid = %superblock.uuid,
            session = client.session().no.0,
            bucket = superblock.bucket,
            durability = info.durability,
            server = info.server,
            "file system opened"
        );
        let janitor = Mutex::new(Some(Janitor::start(client.clone(), bucket)));
        let meta_url = store::shown(url);
        Ok(Volume { meta_url, superblock, client, vfs, cache, cache_dir, janitor })
    }

    /// Stores everything that was written and leaves.
    pub(crate) async fn close(&self) -> Outcome {
        if let Some(janitor) = self.janitor.lock().await.take() {
            janitor.end().await;
        }
        self.vfs.shutdown().await.map_err(Failure::from).map_err(|e| {
            e.during("not everything that was written could be stored")
                .next("mount again on this machine with the same cache directory: its journal has the rest")
        })
    }
}

/// Without a usable disk, memory serves; a directory that another process has is a mistake to be told.
fn open_cache(args: &VolumeArgs, fs: &Superblock, boot_id: [u8; 16]) -> Outcome<(Cache, Option<PathBuf>)> {
    let memory = || Cache::memory(args.memory_cache_size.0);
    if args.no_cache_disk {
        return Ok((memory(), None));
    }
    let dir = args.cache_dir.clone().unwrap_or_else(default_dir);
    let config = CacheConfig::new(&dir, args.cache_size.0, fs.uuid.into_bytes(), boot_id);
    match Cache::open(config) {
        Ok(cache) => Ok((cache, Some(dir))),
        Err(error @ (CacheError::Busy { .. } | CacheError::Layout { .. })) => Err(error.into()),
        Err(error) => {
            tracing::warn!(
                %error,
                "the cache disk cannot be used: caching in memory, and a daemon that dies loses what it had not stored"
            );
            Ok((memory(), None))
        }
    }
}

fn default_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/cache/carafe");
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|h| Path::new(&h).join(".cache"));
    cache.or_else(home).unwrap_or_else(std::env::temp_dir).join("carafe")
}
