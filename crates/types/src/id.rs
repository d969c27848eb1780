//! Numbers with a meaning. Each is a newtype: mixing two of them does not compile.

use std::fmt;

/// The number of an inode, unique in a file system for ever: numbers are never given twice.
///
/// The number says where the record lives: 64 consecutive numbers share a [`BucketNo`]. A directory's number is a
/// multiple of 64 and its first 63 children take the numbers after it, so that a small directory is one bucket and one
/// read (`metadata.md`, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct InodeNo(pub u64);

impl InodeNo {
    /// The root directory. Bucket 0 stays empty, so that no inode is ever 0 and FUSE's node id 1 stays free to mean the root.
    pub const ROOT: InodeNo = InodeNo(64);

    /// The bucket that holds this inode's record.
    pub fn bucket(self) -> BucketNo {
        BucketNo(self.0 >> 6)
    }

    /// The position inside the bucket, 0..=63.
    pub fn slot(self) -> u8 {
        (self.0 & 63) as u8
    }
}

impl fmt::Display for InodeNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A run of 64 inode numbers whose records lie together in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketNo(pub u64);

impl BucketNo {
    /// The inode at `slot` (0..=63) of this bucket.
    pub fn inode(self, slot: u8) -> InodeNo {
        InodeNo((self.0 << 6) | u64::from(slot & 63))
    }
}

/// The number of a session in its file system. Given by the store, never given twice within a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct SessionNo(pub u32);

/// The random identity of a session. Objects are named by it, so two sessions can never write the same object, also
/// when a restored store gives a [`SessionNo`] again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct SessionUuid(pub [u8; 16]);

impl fmt::Display for SessionUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// An immutable run of bytes in the bucket: the `n`th slice that a session wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceId {
    /// Who wrote it. The store maps the number to the [`SessionUuid`] that names the objects.
    pub session: SessionNo,
    /// Counted from 1 by that session.
    pub n: u64,
}

impl fmt::Display for SliceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.session.0, self.n)
    }
}

/// The life of a store's content: a restore from backup makes a new one, and what was mounted before gets an error
/// instead of mixing two histories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// The number of a quota. 0 is the file system's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct QuotaId(pub u32);

impl QuotaId {
    /// The quota of the whole file system, at the head of every chain.
    pub const ROOT: QuotaId = QuotaId(0);
}
