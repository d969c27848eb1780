//! What can go wrong with a cache, told apart by what the caller does next.
//!
//! `DiskFull` and `DiskError` make the vfs fall back to memory; `DirtyCorrupt` and `LostDirty` mean that acknowledged bytes are gone and
//! end as EIO; the rest are refusals of a wrong call or of a wrong directory.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::entry::SliceState;
use crate::key::SliceKey;

/// Errors of the cache and of the journal.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Another process (or another `Cache` of this one) holds the flock of this file system's directory.
    #[error("cache directory {} is in use by another carafe process: stop it or give this mount its own --cache-dir", .dir.display())]
    Busy {
        /// The locked directory.
        dir: PathBuf,
    },
    /// The directory holds a layout that this version cannot read, or that of another file system.
    #[error("cache directory {} cannot be used: {reason}; empty it or choose another", .dir.display())]
    Layout {
        /// The directory.
        dir: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The cache disk has no room left (ENOSPC, EDQUOT, or the share that must stay free is reached), and nothing more can be evicted.
    #[error("cache disk is full while {op} {what}: free some space or lower --cache-size")]
    DiskFull {
        /// What was tried.
        op: &'static str,
        /// On which slice or path.
        what: String,
    },
    /// The cache disk failed.
    #[error("cache disk failed while {op} {what}: {source}")]
    DiskError {
        /// What was tried.
        op: &'static str,
        /// On which slice or path.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Bytes that were accepted and not yet uploaded do not match their checksum: they are lost.
    #[error("unsaved bytes of slice {key} at {offset} are damaged on the cache disk")]
    DirtyCorrupt {
        /// The slice.
        key: SliceKey,
        /// Offset in the slice of the first damaged frame.
        offset: u64,
    },
    /// After a crash: the journal names bytes that are not in the cache directory.
    #[error("unsaved bytes {range:?} of slice {key} are not in the cache directory any more")]
    LostDirty {
        /// The slice.
        key: SliceKey,
        /// The bytes, as offsets in the slice.
        range: Range<u64>,
    },
    /// `create` of a slice that is here already.
    #[error("slice {key} exists already")]
    Exists {
        /// The slice.
        key: SliceKey,
    },
    /// The slice is not in a state that allows the call.
    #[error("cannot {op} slice {key}: it is {state:?}")]
    WrongState {
        /// The slice.
        key: SliceKey,
        /// The call.
        op: &'static str,
        /// The state found.
        state: SliceState,
    },
    /// `fill` with something else than whole frames (or the end of the slice).
    #[error("fill of slice {key} with {bytes} bytes at {offset}: {reason}")]
    BadFill {
        /// The slice.
        key: SliceKey,
        /// Offset given.
        offset: u64,
        /// Length given.
        bytes: usize,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// Bytes after the slice's end, or beyond what any slice may have.
    #[error("bytes {range:?} are outside of slice {key}, which ends at {len}")]
    OutOfRange {
        /// The slice.
        key: SliceKey,
        /// The range asked for.
        range: Range<u64>,
        /// The slice's end, or the largest end allowed.
        len: u64,
    },
    /// A slice in memory has no file to hand to the kernel.
    #[error("slice {key} is held in memory and has no file")]
    NoFile {
        /// The slice.
        key: SliceKey,
    },
    /// Not the name of a slice.
    #[error("{name:?} is not the name of a slice")]
    BadName {
        /// Its first 80 characters.
        name: String,
    },
    /// A record larger than the journal takes.
    #[error("journal record of {bytes} bytes is larger than {max}")]
    RecordTooLarge {
        /// Its payload.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

impl CacheError {
    /// Sorts an answer of the disk into full and failed.
    pub(crate) fn disk(op: &'static str, what: impl ToString, source: io::Error) -> Self {
        if is_full(&source) {
            CacheError::DiskFull { op, what: what.to_string() }
        } else {
            CacheError::DiskError { op, what: what.to_string(), source }
        }
    }

    /// The same for a call about a path.
    pub(crate) fn path(op: &'static str, path: &Path, source: io::Error) -> Self {
        Self::disk(op, path.display(), source)
    }

    /// True if the cache disk cannot take bytes now: the caller keeps new data in memory.
    pub fn is_disk(&self) -> bool {
        matches!(self, CacheError::DiskFull { .. } | CacheError::DiskError { .. })
    }
}

/// Whether an answer of the disk means "no room".
pub(crate) fn is_full(error: &io::Error) -> bool {
    [Errno::NOSPC, Errno::DQUOT].iter().any(|full| error.raw_os_error() == Some(full.raw_os_error()))
}
