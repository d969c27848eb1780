//! What records are called.

use carafe_types::{BucketNo, InodeNo, QuotaId, SliceId};

/// The name of a record. Engines map it to their own keys (`docs/format.md`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// An inode, or the guard of a directory.
    Inode(InodeNo),
    /// The times of a directory, see `carafe_types::record::DirTimes`.
    DirTimes(InodeNo),
    /// The access time of a directory if one was set: nanoseconds as decimal text.
    DirAtime(InodeNo),
    /// How many subdirectories a directory has: decimal text, absent = 0.
    DirSubdirs(InodeNo),
    /// Inline bytes of a file, or the target of a symlink.
    Content(InodeNo),
    /// Extended attributes of an inode.
    Xattr(InodeNo),
    /// Locks on an inode.
    Locks(InodeNo),
    /// The extents of 256 MiB of a file.
    Extents {
        /// Which file.
        ino: InodeNo,
        /// Generation, from `Content::Many`.
        g: u32,
        /// Offset / 256 MiB.
        segment: u64,
    },
    /// Sessions that hold an unlinked inode open: `;<sid>;<sid>`.
    OpenHolders(InodeNo),
    /// How many owners a slice has beyond the first: decimal text, absent = 0.
    SliceOwners(SliceId),
    /// Live bytes of a pack: decimal text.
    PackLive(SliceId),
    /// The unchanging part of a quota.
    Quota(QuotaId),
    /// A CSI volume by its id.
    Volume(String),
    /// A snapshot of a volume by its id.
    Snapshot(String),
    /// While it is there, nothing that is charged to this quota changes: what lies in it is being copied.
    Gate(QuotaId),
    /// Anything that there is one of, by name (for example `gc-mark`).
    Single(&'static str),
}

impl Key {
    /// The inode whose state this record is part of; `None` for records of something else.
    pub fn inode(&self) -> Option<InodeNo> {
        match self {
            Key::Inode(ino)
            | Key::DirTimes(ino)
            | Key::DirAtime(ino)
            | Key::DirSubdirs(ino)
            | Key::Content(ino)
            | Key::Xattr(ino)
            | Key::Extents { ino, .. } => Some(*ino),
            Key::Locks(_)
            | Key::OpenHolders(_)
            | Key::SliceOwners(_)
            | Key::PackLive(_)
            | Key::Quota(_)
            | Key::Volume(_)
            | Key::Snapshot(_)
            | Key::Gate(_)
            | Key::Single(_) => None,
        }
    }

    /// The watched key whose holder may cache this record; `None` for records that nobody caches.
    pub fn watch_key(&self) -> Option<WatchKey> {
        self.inode().map(|ino| WatchKey::Bucket(ino.bucket()))
    }
}

/// What a session watches: a session that stands alone in the list may cache and answer from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WatchKey {
    /// The records of 64 inodes, with their content, attributes and extents.
    Bucket(BucketNo),
    /// The names in a directory.
    Names(InodeNo),
}
