//! What `stat` tells of an inode.

use crate::id::{InodeNo, QuotaId};

/// Nanoseconds since 1970-01-01 UTC; reaches from 1677 to 2262.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// From seconds and nanoseconds, held at the ends of the range.
    pub fn from_parts(secs: i64, nanos: u32) -> Self {
        Timestamp(secs.saturating_mul(1_000_000_000).saturating_add(i64::from(nanos)))
    }

    /// Seconds (rounded down) and nanoseconds 0..1e9.
    pub fn parts(self) -> (i64, u32) {
        (self.0.div_euclid(1_000_000_000), self.0.rem_euclid(1_000_000_000) as u32)
    }
}

/// The type of a file. The numbers are stored: 3 bits in records, a byte in entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FileKind {
    /// S_IFREG
    Regular = 0,
    /// S_IFDIR
    Directory = 1,
    /// S_IFLNK
    Symlink = 2,
    /// S_IFIFO
    Fifo = 3,
    /// S_IFSOCK
    Socket = 4,
    /// S_IFCHR
    CharDevice = 5,
    /// S_IFBLK
    BlockDevice = 6,
}

impl FileKind {
    /// The kind that a stored number means.
    pub fn from_u8(n: u8) -> Option<Self> {
        use FileKind::*;
        [Regular, Directory, Symlink, Fifo, Socket, CharDevice, BlockDevice].get(usize::from(n)).copied()
    }
}

/// The attributes of an inode, put together from its record, or from guard and tally of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Which inode.
    pub ino: InodeNo,
    /// Its type.
    pub kind: FileKind,
    /// Permission bits, set-id bits and sticky bit: `mode & 0o7777`.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Hard links; for a directory 2 + subdirectories.
    pub nlink: u32,
    /// Bytes; of a symlink the length of its target; of a directory 4096.
    pub size: u64,
    /// Device number of a character or block device, else 0.
    pub rdev: u32,
    /// Last access. Not kept up by reads (mounts are `noatime`), only by `utimensat`.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of content or attributes.
    pub ctime: Timestamp,
    /// The nearest quota above.
    pub quota: QuotaId,
    /// Changes whenever the content does; a page cache is valid for one value of it.
    pub dataver: u64,
}
