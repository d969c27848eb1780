//! The local disk cache, which is also the write buffer, and the journal that lets a restarted daemon finish what a dead one accepted.
//!
//! The problem: bytes come from applications faster than a bucket takes them, are read again from where they were written, and must not
//! be moved twice. So there is **one sparse file per slice** for the slice's whole life here:
//!
//! 1. [`Cache::create`] makes it the write buffer of a new slice. It is *dirty*: pinned, never evicted, bounded by [`DirtyPermit`]s.
//! 2. [`SliceFile::seal`] ends the writing and finishes a crc32c for each 64 KiB frame.
//! 3. [`SliceFile::mark_clean`], after upload and commit, turns the same bytes into cache. Nothing is copied.
//! 4. [`Cache::get_or_insert`] and [`SliceFile::fill`] add slices, frame by frame, which are read from the bucket.
//!
//! Subtleties, and where each is solved:
//!
//! * One scan must not flush what is read all day: `policy` (S3-FIFO over 4 MiB segments, so that a slice may be larger than the cache).
//! * A disk lies: each frame is checked when it is read, and remembered as checked for a while (`slice::read`).
//! * A restart must be quick with 100,000 slices: `index` (256 small logs instead of a file of metadata per slice).
//! * Dirty bytes are bounded without blocking here: `space`; the caller waits, by callback or by condition variable.
//! * No cache disk at all: [`Cache::memory`] is the same type over memory.
//! * A killed daemon: [`Journal`], which survives the process but, not being synced, not the node.
//!
//! What is absent: this crate knows no inodes, no files of the user, no bucket and no async runtime. What is on disk is described in
//! `docs/format-cache.md`.

mod cache;
mod config;
mod entry;
mod error;
mod evict;
mod frames;
mod index;
mod index_log;
mod journal;
mod key;
mod memory;
mod open;
mod policy;
mod ranges;
mod segment;
mod shared;
mod slice;
mod space;
mod stats;
mod store;

pub use cache::{Cache, OrphansDropped};
pub use config::{CacheConfig, read_boot_id};
pub use entry::SliceState;
pub use error::CacheError;
pub use frames::{FRAME_BYTES, MAX_SLICE_BYTES};
pub use journal::{
    Damage, Journal, JournalHeader, JournalStats, JournalToken, Lsn, MAX_RECORD_BYTES, RecordRef, Recovered,
    Recovery, SEGMENT_BYTES_DEFAULT,
};
pub use key::SliceKey;
pub use slice::{Detached, FillOutcome, ReadOutcome, SliceFile, SlicePin};
pub use space::{DirtyPermit, WouldBlock};
pub use stats::CacheStats;
