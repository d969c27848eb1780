//! One mount for a test, gone with its value.

use carafe_cache::{Cache, read_boot_id};
use carafe_fuse::{Control, MountOptions, Mounted, mount};
use carafe_meta::format::{FormatOptions, format};
use carafe_meta::memory::MemoryStore;
use carafe_meta::store::MetaStore;
use carafe_meta::{Client, ClientOptions};
use carafe_object::{Bucket, FsMarker};
use carafe_types::record::Limits;
use carafe_types::{FsError, FsResult, InodeNo};
use carafe_vfs::{Vfs, VfsOptions};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Capacity of the file system in these tests, bytes.
pub(crate) const CAPACITY: i64 = 1 << 40;

/// A mounted file system in memory.
pub(crate) struct World {
    mounted: Option<Mounted>,
    vfs: Arc<Vfs>,
    runtime: Runtime,
    dir: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut MountOptions)) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let vfs = runtime.block_on(open());
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut options = MountOptions::new(dir.path().canonicalize().unwrap(), "test");
        options.control = Some(Arc::new(Echo));
        change(&mut options);
        let mounted = mount(vfs.clone(), runtime.handle().clone(), &options).unwrap();
        World { mounted: Some(mounted), vfs, runtime, dir }
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Unmounts and waits for the end of the session.
    pub(crate) fn end(mut self) {
        let mut mounted = self.mounted.take().unwrap();
        mounted.unmount(false).unwrap();
        self.runtime.block_on(mounted.wait()).unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mounted) = &self.mounted {
            let _ = mounted.unmount(true);
        }
        let _ = self.runtime.block_on(self.vfs.shutdown());
    }
}

/// Answers every question with itself, and `slow` after a minute only.
#[derive(Debug)]
struct Echo;

impl Control for Echo {
    fn get(&self, ino: InodeNo, what: &str) -> BoxFuture<'_, FsResult<bytes::Bytes>> {
        let answer = format!("{what} of {ino}");
        let wait = Duration::from_secs(if what == "slow" { 60 } else { 0 });
        async move {
            tokio::time::sleep(wait).await;
            Ok(answer.into())
        }
        .boxed()
    }

    fn set(&self, what: &str, _: bytes::Bytes) -> BoxFuture<'_, FsResult<()>> {
        let known = what == "order";
        async move { if known { Ok(()) } else { Err(FsError::NotSupported) } }.boxed()
    }
}

async fn open() -> Arc<Vfs> {
    let store: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
    let options = FormatOptions {
        limits: Limits { bytes: Some(CAPACITY as u64), inodes: None },
        ..FormatOptions::new("test", "memory:")
    };
    let superblock = format(store.as_ref(), options).await.unwrap();
    let bucket = Bucket::memory();
    bucket.write_marker(&FsMarker::new(superblock.uuid, "test", 1).unwrap()).await.unwrap();
    let client = Client::open(store, ClientOptions::default()).await.unwrap();
    let cache = Cache::memory(64 << 20);
    Vfs::new(client, VfsOptions::new(cache, bucket, read_boot_id().unwrap())).await.unwrap()
}
