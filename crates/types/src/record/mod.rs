//! The records that a store keeps, each with one encoding.
//!
//! Records in a bucket (inode, guard) stay within 64 bytes, because a Redis hash keeps its compact form only while
//! every value does (117.8 bytes a file against 166.6 with one byte more). They are hand-packed varints behind a
//! version byte. Records of which there are few (superblock, session, quota, volume) are JSON with a version, so that
//! a person can read them at 3 a.m.; unknown fields are kept out, unknown versions refused.

mod dir;
mod extent;
mod few;
mod inode;
mod lock;
mod xattr;

pub use dir::{DirTimes, Guard};
pub use extent::{BlockRange, Extent, ExtentKind, SEGMENT_BYTES, Segment};
pub use few::{
    CopyJob, CopySource, FORMAT_VERSION, Limits, QuotaRecord, SessionRecord, SnapshotRecord, Superblock,
    VolumeRecord, VolumeState,
};
pub use inode::{Content, Inode};
pub use lock::{Held, LockKind, LockOwner, LockRecord, LockType};
pub use xattr::Xattrs;

/// Why stored bytes are no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end too early.
    #[error("{what} record is truncated")]
    Truncated {
        /// Which record.
        what: &'static str,
    },
    /// More bytes than the record has.
    #[error("{what} record has {bytes} bytes too many")]
    Trailing {
        /// Which record.
        what: &'static str,
        /// How many are left over.
        bytes: usize,
    },
    /// A field holds what it cannot.
    #[error("{what} record holds an invalid {field}")]
    Invalid {
        /// Which record.
        what: &'static str,
        /// Which field.
        field: &'static str,
    },
    /// Written by another version of Carafe.
    #[error("{what} record has version {found}, this program knows {known}: use a newer carafe")]
    Version {
        /// Which record.
        what: &'static str,
        /// The version that was found.
        found: u8,
        /// The version that this program reads and writes.
        known: u8,
    },
    /// A JSON record does not parse.
    #[error("{what} record does not parse: {reason}")]
    Json {
        /// Which record.
        what: &'static str,
        /// What the parser says.
        reason: String,
    },
}
