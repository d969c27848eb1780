//! Figures of a mount, for metrics and tests.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows, or a level.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub(crate) fn sub(&self, n: u64) {
        self.0.fetch_sub(n, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counted since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) reads: Counter,
    pub(crate) read_bytes: Counter,
    pub(crate) writes: Counter,
    pub(crate) written_bytes: Counter,
    pub(crate) packs: Counter,
    pub(crate) blocks: Counter,
    pub(crate) inline_files: Counter,
    pub(crate) uploaded: Counter,
    pub(crate) upload_errors: Counter,
    pub(crate) commits: Counter,
    pub(crate) lost_files: Counter,
    pub(crate) uploads_waiting: Counter,
}

/// Counts somebody who waits, also if the wait is given up.
pub(crate) struct InQueue<'a>(&'a Counter);

impl<'a> InQueue<'a> {
    pub(crate) fn enter(queue: &'a Counter) -> Self {
        queue.add(1);
        InQueue(queue)
    }
}

impl Drop for InQueue<'_> {
    fn drop(&mut self) {
        self.0.sub(1);
    }
}

/// A look at a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VfsStats {
    /// Inodes that are open or dirty.
    pub nodes: u64,
    /// Files with data that is not committed.
    pub dirty_files: u64,
    /// Bytes of dirty small files in memory.
    pub small_bytes: u64,
    /// Read calls.
    pub reads: u64,
    /// Bytes that they returned.
    pub read_bytes: u64,
    /// Write calls.
    pub writes: u64,
    /// Bytes that they brought.
    pub written_bytes: u64,
    /// Packs uploaded.
    pub packs: u64,
    /// Blocks uploaded.
    pub blocks: u64,
    /// Files that went into the store inline.
    pub inline_files: u64,
    /// Bytes uploaded, without frames and footers.
    pub uploaded_bytes: u64,
    /// Uploads that failed and were tried again.
    pub upload_errors: u64,
    /// Commits of written data, renames that publish among them.
    pub commits: u64,
    /// Files whose accepted data was lost.
    pub lost_files: u64,
    /// Fetches from the bucket.
    pub fetches: u64,
    /// Bytes that they brought.
    pub fetched_bytes: u64,
    /// Objects that wait for their turn to be uploaded.
    pub uploads_waiting: u64,
    /// Objects on their way to the bucket.
    pub uploads_running: u64,
    /// Bytes of the journal on disk.
    pub journal_bytes: u64,
    /// New data is kept in memory since the cache disk fails.
    pub memory_mode: bool,
}
