//! An fsGroup: the group that shall be able to write in a volume.
//!
//! Only the volume's own directory is changed, and only while it still has the group that it was made with (root's): a walk
//! over millions of files would hold up the pod, and what a user has set is not ours to change. With set-group-id on the
//! directory everything that is made in it later has the group too.

use crate::mount::MountError;
use crate::request::{Access, VolumeContext};
use rustix::fs::{AtFlags, Gid, Mode, StatxFlags};
use std::os::fd::AsFd;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Read, write and search for owner and group, search for others, set-group-id.
const SHARED: u32 = 0o2775;

/// The group to be given, unless the volume's parameters decide.
pub(super) fn wanted(access: &Access, context: &VolumeContext) -> Option<u32> {
    access.group.filter(|_| !context.has_group && !access.attributes.read_only)
}

/// Gives a volume's directory to `group`; `target` is for the message.
pub(super) fn give(directory: &OwnedFd, target: &Path, group: u32) -> Result<(), MountError> {
    let failed = MountError::system("giving to its fsGroup the volume at", target);
    change(directory.as_fd(), group).map_err(failed)
}

fn change(directory: BorrowedFd<'_>, group: u32) -> rustix::io::Result<()> {
    let wanted = StatxFlags::GID | StatxFlags::MODE;
    let now = rustix::fs::statx(directory, c"", AtFlags::EMPTY_PATH, wanted)?;
    if now.stx_gid != 0 {
        return Ok(());
    }
    rustix::fs::chownat(directory, c"", None, Some(Gid::from_raw(group)), AtFlags::EMPTY_PATH)?;
    // The descriptor may be one that only names the directory; chmod takes such by its path in /proc alone.
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let mode = Mode::from_raw_mode(u32::from(now.stx_mode) & 0o7777 | SHARED);
    rustix::fs::chmod(path, mode)
}
