//! `carafe mount META_URL DIR`: serves until it is unmounted or told to end.
//!
//! A signal (SIGTERM, SIGINT) stores everything and unmounts. If a process keeps the mount busy, it leaves the tree and
//! is served on until that process lets go of it; a second signal ends it then. A read that waits for a dead bucket does
//! not keep the daemon: whatever could not be stored is in the journal of the cache directory, for the next mount.

use crate::args::Connect;
use crate::failure::{Exit, Failure, Outcome};
use crate::volume::{Volume, VolumeArgs};
use crate::{background, mountpoint, serve};
use carafe_fuse::{MountError, MountOptions, Mounted};
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Mount a file system
#[derive(Args, Debug)]
pub(crate) struct MountArgs {
    #[command(flatten)]
    connect: Connect,

    /// The mount point, an empty directory
    dir: PathBuf,

    /// Return when the mount serves, and go on in the background (log: /var/log/carafe.log for root, else
    /// ~/.local/state/carafe/carafe.log, or --log-file)
    #[arg(short = 'd', long)]
    pub(crate) background: bool,

    #[command(flatten)]
    volume: VolumeArgs,

    /// No changes
    #[arg(long)]
    read_only: bool,

    /// Mount this directory of the file system instead of its root
    #[arg(long, value_name = "PATH")]
    subdir: Option<String>,

    /// Mount although the directory is not empty; what is there is hidden
    #[arg(long)]
    nonempty: bool,

    /// Threads that read requests from the kernel; as many as processors, 2 to 4, when not given
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    fuse_threads: Option<u16>,

    /// Mount options as of mount(8): ro, rw, dev, nodev, suid, nosuid, exec, noexec, private (for the own user alone),
    /// read_ahead_kb=N
    #[arg(short = 'o', value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
}

pub(crate) fn run(args: &MountArgs, runtime: Runtime) -> Outcome {
    let dir = mountpoint::prepare(&args.dir, args.nonempty)?;
    if background::is_child() {
        background::detach()?;
    }
    let done = runtime.block_on(serve(args, &dir));
    // A call that hangs (a bucket that swallows packets) must not keep a process whose work is done.
    runtime.shutdown_background();
    done
}

async fn serve(args: &MountArgs, dir: &Path) -> Outcome {
    let mut ends = Ends::new()?;
    let mut options = mount_options(args, dir)?;
    let secrets = args.connect.secrets.read()?;
    let role = format!("mount {}", dir.display());
    let opening = Volume::open(&args.connect.meta_url, &secrets, &args.volume, role, options.read_only);
    let volume = Arc::new(tokio::select! {
        volume = opening => volume?,
        () = ends.next() => return Err(Failure::new(Exit::Failed, "ended by a signal before it was mounted")),
    });
    options.fs_name.clone_from(&volume.superblock.name);
    let mounted = match root(&volume, args, options).await {
        Ok(options) => serve::mount(volume.clone(), options, true).await,
        Err(failure) => Err(failure),
    };
    match mounted {
        Ok(mounted) => {
            tracing::info!(dir = %dir.display(), "mounted");
            background::tell_ready()?;
            let served = until_end(mounted, &volume, &mut ends).await;
            volume.close().await.and(served)
        }
        Err(failure) => {
            // What went wrong first is what is told.
            let _ = volume.close().await;
            Err(failure)
        }
    }
}

async fn root(volume: &Volume, args: &MountArgs, mut options: MountOptions) -> Outcome<MountOptions> {
    if let Some(path) = &args.subdir {
        options.root = serve::find_root(volume, path).await?;
    }
    Ok(options)
}

/// Serves until the kernel has ended the session.
async fn until_end(mut mounted: Mounted, volume: &Volume, ends: &mut Ends) -> Outcome {
    loop {
        tokio::select! {
            ended = mounted.wait() => {
                tracing::info!("unmounted");
                return Ok(ended?);
            }
            () = ends.next() => {}
        }
        tracing::info!("told to end: storing what was written");
        if let Err(error) = volume.vfs.sync().await {
            tracing::error!(%error, "not everything could be stored; the journal in the cache directory has the rest");
        }
        let dir = mounted.dir().to_owned();
        match take_away(dir, false).await {
            Err(MountError::Busy { dir }) => {
                tracing::warn!(
                    "{} is in use: served on until it is let go; a second signal ends it",
                    dir.display()
                );
                take_away(dir, true).await?;
                tokio::select! {
                    ended = mounted.wait() => return Ok(ended?),
                    () = ends.next() => return Ok(()),
                }
            }
            // Unmounted by somebody else meanwhile: the session ends by itself.
            Err(MountError::Unmount { source, .. }) if source.raw_os_error() == Some(libc::EINVAL) => {}
            done => done?,
        }
    }
}

async fn take_away(dir: PathBuf, lazily: bool) -> Result<(), MountError> {
    let blocking = tokio::task::spawn_blocking(move || carafe_fuse::unmount(&dir, lazily));
    blocking.await.unwrap_or_else(|e| Err(MountError::Session(std::io::Error::other(e))))
}

/// The signals that end a mount.
struct Ends {
    terminate: Signal,
    interrupt: Signal,
}

impl Ends {
    fn new() -> Outcome<Self> {
        let listen = |kind| signal(kind).map_err(crate::failure::io("cannot listen for signals"));
        Ok(Ends { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn mount_options(args: &MountArgs, dir: &Path) -> Outcome<MountOptions> {
    let mut options = MountOptions::new(dir, "");
    options.threads = args.fuse_threads.map_or(options.threads, usize::from);
    options.read_only = args.read_only;
    let mut unknown = Vec::new();
    for option in args.options.iter().map(String::as_str).filter(|o| !o.is_empty()) {
        match option {
            "ro" => options.read_only = true,
            "rw" => options.read_only = false,
            "dev" => options.dev = true,
            "nodev" => options.dev = false,
            "suid" => options.suid = true,
            "nosuid" => options.suid = false,
            "exec" => options.exec = true,
            "noexec" => options.exec = false,
            "private" => options.private = true,
            // What every mount has anyway, and what fstab entries carry.
            "allow_other"
            | "default_permissions"
            | "noatime"
            | "defaults"
            | "_netdev"
            | "nofail"
            | "auto"
            | "noauto" => {}
            other => match other.strip_prefix("read_ahead_kb=").and_then(|n| n.parse().ok()) {
                Some(kib) => options.read_ahead_kib = kib,
                None => unknown.push(other),
            },
        }
    }
    if unknown.is_empty() {
        return Ok(options);
    }
    Err(Failure::new(Exit::Usage, format!("unknown mount options: {}", unknown.join(", ")))
        .next("`carafe mount --help` lists the known ones"))
}
