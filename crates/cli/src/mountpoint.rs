//! The directory to mount on, and whether it can be. A mount point may be dead or hang, so it is asked with care: the
//! mount table first, the directory itself only on a thread that may be left behind.

use crate::failure::{Exit, Failure, Outcome, io};
use carafe_fuse::table::{MountEntry, mounted_at};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// How long a mount may take to answer before it counts as stuck.
const ANSWER: Duration = Duration::from_secs(5);

/// How a mount answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Somebody serves it.
    Alive,
    /// Its daemon is gone: every call gives ENOTCONN.
    Dead,
    /// No answer in time.
    Stuck,
}

/// The absolute path of `dir` without touching what is mounted on it.
pub(crate) fn resolve(dir: &Path) -> Outcome<PathBuf> {
    let absolute = std::path::absolute(dir).map_err(io(format!("cannot resolve {}", dir.display())))?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else { return Ok(absolute) };
    let symlink = std::fs::symlink_metadata(&absolute).is_ok_and(|m| m.is_symlink());
    if symlink {
        return absolute.canonicalize().map_err(io(format!("cannot resolve {}", dir.display())));
    }
    match parent.canonicalize() {
        Ok(parent) => Ok(parent.join(name)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(missing(dir)),
        Err(e) => Err(io(format!("cannot resolve {}", dir.display()))(e)),
    }
}

/// Makes sure that something can be mounted on `dir`, and clears away a mount of ours whose daemon has died.
pub(crate) fn prepare(dir: &Path, nonempty: bool) -> Outcome<PathBuf> {
    let dir = resolve(dir)?;
    clear_dead(&dir)?;
    let meta = match std::fs::metadata(&dir) {
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(missing(&dir)),
        Err(e) => return Err(io(format!("cannot use the mount point {}", dir.display()))(e)),
    };
    if !meta.is_dir() {
        return Err(Failure::new(
            Exit::Refused,
            format!("the mount point {} is no directory", dir.display()),
        ));
    }
    let mut entries =
        std::fs::read_dir(&dir).map_err(io(format!("cannot read the mount point {}", dir.display())))?;
    if !nonempty && entries.next().is_some() {
        return Err(Failure::new(Exit::Refused, format!("the mount point {} is not empty", dir.display()))
            .next("mount on an empty directory, or hide what is there with --nonempty"));
    }
    Ok(dir)
}

fn missing(dir: &Path) -> Failure {
    Failure::new(Exit::Refused, format!("the mount point {} does not exist", dir.display()))
        .next(format!("mkdir -p {}", dir.display()))
}

/// A live FUSE mount there is an error, a dead one of ours goes away.
fn clear_dead(dir: &Path) -> Outcome {
    while let Some(mount) = table_entry(dir)? {
        if !mount.fs_type.starts_with("fuse") {
            return Ok(()); // the root of a disk or of a container's volume is a directory as good as any
        }
        match health(dir) {
            Health::Dead if mount.is_carafe() => {
                tracing::warn!(dir = %dir.display(), "clearing a mount whose daemon has died");
                carafe_fuse::unmount(dir, true)?;
            }
            health => return Err(already(dir, &mount, health)),
        }
    }
    Ok(())
}

fn already(dir: &Path, mount: &MountEntry, health: Health) -> Failure {
    let source = mount.source.to_string_lossy();
    let how = match health {
        Health::Alive => "",
        Health::Dead => " (its daemon has died)",
        Health::Stuck => " (it does not answer)",
    };
    Failure::new(Exit::Refused, format!("{} is already mounted: {source}{how}", dir.display()))
        .next(format!("carafe umount {}", dir.display()))
}

/// What the mount table says of `dir`.
pub(crate) fn table_entry(dir: &Path) -> Outcome<Option<MountEntry>> {
    mounted_at(dir).map_err(io("cannot read the mount table"))
}

/// Asks the mount on `dir` for its attributes.
pub(crate) fn health(dir: &Path) -> Health {
    let path = dir.to_owned();
    match in_time(move || std::fs::metadata(path)) {
        Some(Err(e)) if e.raw_os_error() == Some(libc::ENOTCONN) => Health::Dead,
        Some(_) => Health::Alive,
        None => Health::Stuck,
    }
}

/// Runs a call that may hang; `None` if it does.
pub(crate) fn in_time<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(call()));
    receive.recv_timeout(ANSWER).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_empty_directory_will_do_and_nothing_else_does() {
        let base = std::env::temp_dir().join(format!("carafe-mountpoint-{}", std::process::id()));
        std::fs::create_dir_all(base.join("empty")).unwrap();
        std::fs::write(base.join("file"), "x").unwrap();
        assert_eq!(prepare(&base.join("empty"), false).unwrap(), base.canonicalize().unwrap().join("empty"));
        let refused = |path: &Path| prepare(path, false).unwrap_err().to_string();
        assert!(refused(&base.join("missing")).contains("mkdir -p"));
        assert!(refused(&base.join("missing/deep")).contains("does not exist"));
        assert!(refused(&base.join("file")).contains("no directory"));
        assert!(refused(&base).contains("not empty"));
        assert!(prepare(&base, true).is_ok());
        std::fs::remove_dir_all(&base).unwrap();
    }
}
