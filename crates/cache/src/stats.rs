//! What the cache did, for metrics and for `carafe cache`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters since the start, and sizes now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Slices known.
    pub entries: u64,
    /// Bytes of slices here.
    pub used_bytes: u64,
    /// Bytes allowed now; less than `size_bytes` of the settings when others fill the disk.
    pub limit_bytes: u64,
    /// Bytes accepted and not yet clean, permits included.
    pub dirty_bytes: u64,
    /// Dirty bytes allowed now.
    pub dirty_limit_bytes: u64,
    /// Bytes held against eviction.
    pub pinned_bytes: u64,
    /// Reads that were answered.
    pub hits: u64,
    /// Reads of which at least a frame was not here.
    pub misses: u64,
    /// Segments (up to 4 MiB) evicted.
    pub evictions: u64,
    /// Bytes evicted.
    pub evicted_bytes: u64,
    /// Frames found damaged.
    pub corrupt_frames: u64,
    /// Writes to the index that failed; what they told is fetched again after a restart.
    pub index_errors: u64,
}

/// The counters behind `CacheStats`.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) evictions: AtomicU64,
    pub(crate) evicted_bytes: AtomicU64,
    pub(crate) corrupt_frames: AtomicU64,
    pub(crate) index_errors: AtomicU64,
}

impl Counters {
    /// Adds to a counter.
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }
}
