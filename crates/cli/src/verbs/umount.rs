//! `carafe umount DIR`: returns when everything that was written is stored and the daemon has ended.

use crate::ask::{self, AskError, MountReport};
use crate::failure::{Exit, Failure, Outcome};
use crate::mountpoint;
use crate::progress::Progress;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the daemon may take to end after its mount is gone. Everything is stored by then.
const END: Duration = Duration::from_secs(60);

/// Unmount a file system after storing everything that was written to it
#[derive(Args, Debug)]
pub(crate) struct UmountArgs {
    /// The mount point
    dir: PathBuf,

    /// Take it out of the tree although it is busy; what is open goes on being served until it is closed
    #[arg(long, visible_alias = "lazy")]
    force: bool,
}

pub(crate) fn run(args: &UmountArgs) -> Outcome {
    let dir = mountpoint::resolve(&args.dir)?;
    let Some(mount) = mountpoint::table_entry(&dir)? else {
        return Err(Failure::new(Exit::Refused, format!("nothing is mounted on {}", dir.display()))
            .next("`findmnt -t fuse.carafe` lists the mounts"));
    };
    if !mount.is_carafe() {
        return Err(Failure::new(
            Exit::Refused,
            format!("{} is no Carafe mount but {}", dir.display(), mount.fs_type),
        )
        .next(format!("umount {}", dir.display())));
    }
    let path = dir.clone();
    match mountpoint::in_time(move || ask::ask::<MountReport>(&path, ask::MOUNT)) {
        Some(Err(AskError::Dead)) => {
            tracing::warn!("the daemon had died; what it had not stored is finished by the next mount");
            Ok(carafe_fuse::unmount(&dir, true)?)
        }
        Some(Ok(report)) => end(&dir, &report, args.force),
        // It answers something else, or not at all.
        _ if args.force => Ok(carafe_fuse::unmount(&dir, true)?),
        answer => ask::in_time(answer, &dir).map(drop),
    }
}

fn end(dir: &Path, report: &MountReport, force: bool) -> Outcome {
    let progress = Progress::spinner("storing what was written");
    match ask::order(dir, ask::FLUSH) {
        Ok(()) => {}
        // A read-only mount takes no orders and has nothing to store.
        Err(AskError::Failed(rustix::io::Errno::ROFS)) => {}
        Err(error) if force => tracing::warn!(?error, "not everything could be stored"),
        Err(error) => {
            return Err(error.about(dir).during("not unmounted, since not everything could be stored"));
        }
    }
    carafe_fuse::unmount(dir, force)?;
    // A lazy unmount may leave open files, and its daemon with them.
    if let Some(process) = report.process.filter(|_| !force)
        && !process.wait(END)
    {
        return Err(Failure::new(
            Exit::Failed,
            format!("{} is unmounted, but its daemon (process {}) has not ended", dir.display(), process.pid),
        )
        .next("look at its log"));
    }
    drop(progress);
    Ok(())
}
