//! Attributes, times and node numbers in the kernel's words.
//!
//! A node id is the inode number, so it means the same to the next daemon. The one exception is the root of the mount:
//! FUSE calls it 1, and inode numbers begin at 64.

use carafe_types::{Attr, FileKind, InodeNo, Timestamp};
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `st_blksize` of a regular file. C libraries take it as the size of their buffers, and each buffer is one request:
/// 64 KiB instead of 4 KiB saves 15 of 16.
const FILE_BUFFER: u32 = 64 << 10;

/// Maps between node ids and inode numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nodes {
    /// The directory that is the root of this mount.
    pub(crate) root: InodeNo,
}

impl Nodes {
    /// The inode behind a node id of the kernel.
    pub(crate) fn inode(self, node: INodeNo) -> InodeNo {
        if node == INodeNo::ROOT { self.root } else { InodeNo(node.0) }
    }

    /// The node id of an inode.
    pub(crate) fn node(self, ino: InodeNo) -> INodeNo {
        if ino == self.root { INodeNo::ROOT } else { INodeNo(ino.0) }
    }

    /// Attributes as the kernel wants them.
    pub(crate) fn attr(self, a: &Attr) -> FileAttr {
        FileAttr {
            ino: self.node(a.ino),
            size: a.size,
            blocks: if a.kind == FileKind::Symlink { 0 } else { a.size.div_ceil(512) },
            atime: to_system(a.atime),
            mtime: to_system(a.mtime),
            ctime: to_system(a.ctime),
            crtime: UNIX_EPOCH,
            kind: to_file_type(a.kind),
            perm: a.mode,
            nlink: a.nlink,
            uid: a.uid,
            gid: a.gid,
            rdev: a.rdev,
            blksize: if a.kind == FileKind::Regular { FILE_BUFFER } else { 4096 },
            flags: 0,
        }
    }
}

/// The attributes of nothing: with node id 0 an entry says that a name is absent.
pub(crate) fn absent() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// The kernel's word for a kind.
pub(crate) fn to_file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

/// The kind that `mknod` asks for; `None` for a mode that names none.
pub(crate) fn kind_of_mode(mode: u32) -> Option<FileKind> {
    match mode & libc::S_IFMT {
        0 | libc::S_IFREG => Some(FileKind::Regular),
        libc::S_IFDIR => Some(FileKind::Directory),
        libc::S_IFLNK => Some(FileKind::Symlink),
        libc::S_IFIFO => Some(FileKind::Fifo),
        libc::S_IFSOCK => Some(FileKind::Socket),
        libc::S_IFCHR => Some(FileKind::CharDevice),
        libc::S_IFBLK => Some(FileKind::BlockDevice),
        _ => None,
    }
}

fn to_system(t: Timestamp) -> SystemTime {
    let nanos = Duration::from_nanos(t.0.unsigned_abs());
    if t.0 >= 0 { UNIX_EPOCH + nanos } else { UNIX_EPOCH - nanos }
}

/// The time that a caller of `utimensat` gave, or `now`.
pub(crate) fn to_timestamp(t: TimeOrNow, now: Timestamp) -> Timestamp {
    match t {
        TimeOrNow::Now => now,
        TimeOrNow::SpecificTime(t) => match t.duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp(i64::try_from(after.as_nanos()).unwrap_or(i64::MAX)),
            Err(e) => Timestamp(i64::try_from(e.duration().as_nanos()).map_or(i64::MIN, |n| -n)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_the_mount_is_node_1_and_all_others_keep_their_number() {
        for root in [InodeNo::ROOT, InodeNo(4096)] {
            let nodes = Nodes { root };
            assert_eq!(nodes.node(root), INodeNo(1));
            assert_eq!(nodes.inode(INodeNo(1)), root);
            assert_eq!(nodes.node(InodeNo(77)), INodeNo(77));
            assert_eq!(nodes.inode(INodeNo(77)), InodeNo(77));
        }
    }

    #[test]
    fn times_before_1970_go_there_and_back() {
        for t in [Timestamp(-1_200_000_000), Timestamp(0), Timestamp(1_764_500_000_123_456_789)] {
            assert_eq!(to_timestamp(TimeOrNow::SpecificTime(to_system(t)), Timestamp(0)), t);
        }
        assert_eq!(to_timestamp(TimeOrNow::Now, Timestamp(5)), Timestamp(5));
    }

    #[test]
    fn a_time_beyond_the_range_is_held_at_its_end() {
        let far = UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert_eq!(to_timestamp(TimeOrNow::SpecificTime(far), Timestamp(0)), Timestamp(i64::MAX));
    }
}
