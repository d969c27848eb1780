//! Taking mounts away. Nothing here asks a file system, a daemon or a store, so it also works when these are gone: a pod
//! must never be stuck in Terminating because of us.

use super::MountError;
use super::table::MountTable;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::path::Path;

/// More mounts on one point than recovery could ever stack.
const STACKED_MAX: usize = 4096;

/// Unmounts everything that is mounted at `point`, busy or not. What is in use stays usable by its user until closed.
pub(crate) fn unmount_all(point: &Path) -> Result<(), MountError> {
    for _ in 0..STACKED_MAX {
        if MountTable::read()?.top(point).is_none() {
            return Ok(());
        }
        match rustix::mount::unmount(point, UnmountFlags::NOFOLLOW) {
            // Gone between the two calls: the table will say so.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            Err(Errno::BUSY) => rustix::mount::unmount(point, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)
                .map_err(MountError::system("detaching", point))?,
            Err(errno) => return Err(MountError::system("unmounting", point)(errno)),
        }
    }
    Err(MountError::BadPath { path: point.to_owned(), reason: "mounts keep appearing on it" })
}

/// Unmounts the uppermost mount at `point` if nobody uses it; answers whether it is gone.
pub(crate) fn unmount_idle(point: &Path) -> Result<bool, MountError> {
    match rustix::mount::unmount(point, UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(true),
        Err(Errno::BUSY) => Ok(false),
        Err(errno) => Err(MountError::system("unmounting", point)(errno)),
    }
}

/// Removes a mount point on which nothing is mounted any more. It being gone already is a success; files in it are not
/// ours to delete.
pub(crate) fn remove_point(point: &Path) -> Result<(), MountError> {
    match rustix::fs::rmdir(point) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Err(MountError::NotEmpty(point.to_owned())),
        Err(errno) => Err(MountError::system("removing", point)(errno)),
    }
}
