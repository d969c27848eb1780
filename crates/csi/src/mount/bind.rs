//! Showing a volume's directory at a target.

use super::{MountError, sys};
use crate::request::Attributes;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MoveMountFlags, OpenTreeFlags};
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Instant;

/// Why a volume's directory could not be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// It does not exist, or is no directory.
    Absent(Errno),
    /// A symbolic link or another mount is on the way.
    Unsafe(Errno),
    /// Anything else; the daemon may be dead.
    Other(MountError),
}

/// Opens `directory` below the file system mounted at `mount_point`; nothing on the way may be a link or a mount.
pub(crate) fn open_below(mount_point: &Path, directory: &Path) -> Result<OwnedFd, OpenError> {
    let root = open_point(mount_point).map_err(OpenError::Other)?;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_XDEV
        | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, directory, directory_flags(), Mode::empty(), resolve).map_err(|errno| {
        match errno {
            Errno::NOENT | Errno::NOTDIR => OpenError::Absent(errno),
            Errno::LOOP | Errno::XDEV => OpenError::Unsafe(errno),
            errno => OpenError::Other(MountError::system("opening", &mount_point.join(directory))(errno)),
        }
    })
}

/// Opens whatever is mounted (or lies) at `path`, which must be free of symbolic links.
pub(crate) fn open_point(path: &Path) -> Result<OwnedFd, MountError> {
    rustix::fs::openat2(CWD, path, directory_flags(), Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .map_err(MountError::system("opening", path))
}

/// `O_PATH` asks the file system nothing, so that a dead one can be opened too.
fn directory_flags() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// Mounts a clone of the directory `source` on `target`, with its attributes set before anyone can see it. Whatever is
/// mounted on `target` already is covered. Returns `false`, with nothing changed, if `deadline` has passed.
///
/// The clone's descriptor is closed on return: while one is open, unmounting the file system is EBUSY.
pub(crate) fn bind(
    source: &OwnedFd,
    target: &Path,
    attributes: Attributes,
    deadline: Instant,
) -> Result<bool, MountError> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = rustix::mount::open_tree(source, c"", flags)
        .map_err(MountError::system("cloning the mount for", target))?;
    let (set, clear) = mount_attributes(attributes);
    sys::set_private_attributes(tree.as_fd(), set, clear)
        .map_err(MountError::system("setting the mount attributes for", target))?;
    let point = open_point(target)?;
    if Instant::now() >= deadline {
        return Ok(false);
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(&tree, c"", &point, c"", flags)
        .map_err(MountError::system("mounting on", target))?;
    Ok(true)
}

fn mount_attributes(attributes: Attributes) -> (MountAttrFlags, MountAttrFlags) {
    let mut set = MountAttrFlags::empty();
    let mut clear = MountAttrFlags::empty();
    set.set(MountAttrFlags::MOUNT_ATTR_RDONLY, attributes.read_only);
    set.set(MountAttrFlags::MOUNT_ATTR_NOSUID, attributes.nosuid);
    set.set(MountAttrFlags::MOUNT_ATTR_NODEV, attributes.nodev);
    set.set(MountAttrFlags::MOUNT_ATTR_NOEXEC, attributes.noexec);
    if attributes.noatime {
        set |= MountAttrFlags::MOUNT_ATTR_NOATIME;
        // The three atime modes are one field; the kernel wants it cleared to be set.
        clear |= MountAttrFlags::MOUNT_ATTR__ATIME;
    }
    (set, clear)
}

/// Makes a directory to mount on. Its folder must exist; a directory that is there, also a dead mount, will do.
/// Answers whether it was made.
pub(crate) fn make_point(path: &Path, mode: u32) -> Result<bool, MountError> {
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => match rustix::fs::lstat(path) {
            Ok(stat) if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() => {
                Err(MountError::BadPath { path: path.to_owned(), reason: "it exists and is not a directory" })
            }
            _ => Ok(false),
        },
        Err(e) => Err(MountError::system("making", path)(Errno::from_io_error(&e).unwrap_or(Errno::IO))),
    }
}

/// Device and inode number of what is open, asked from the file system.
pub(crate) fn identity(fd: &OwnedFd, path: &Path) -> Result<(u64, u64), MountError> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    let stat =
        rustix::fs::statx(fd, c"", flags, StatxFlags::INO).map_err(MountError::system("looking at", path))?;
    Ok((rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino))
}
