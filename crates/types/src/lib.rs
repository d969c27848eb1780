//! The nouns of Carafe: numbers, names, records and error kinds. No I/O, no clock, no randomness.
//!
//! Every other crate speaks in these types, so a record that is stored, sent or cached has exactly one
//! definition and one encoding (`docs/format.md`). The parts:
//!
//! - [`id`]: newtypes for everything that has a number, so that a slice is never taken for an inode;
//! - [`name`]: the validated name of a directory entry;
//! - [`attr`]: what `stat` tells, the union of what the records below hold;
//! - [`record`]: inode, directory guard and tally, extents, locks, sessions, quotas, volumes, the format record,
//!   each with a versioned encoding that rejects what it does not know;
//! - [`error`]: the kinds of failure that a file system call can have, before they become an errno;
//! - [`latency`]: times counted in buckets.

pub mod attr;
pub mod error;
pub mod id;
pub mod latency;
pub mod name;
pub mod record;
mod varint;

pub use attr::{Attr, FileKind, Timestamp};
pub use error::{FsError, FsResult};
pub use id::{BucketNo, Generation, InodeNo, QuotaId, SessionNo, SessionUuid, SliceId};
pub use latency::{Latencies, Latency};
pub use name::EntryName;
