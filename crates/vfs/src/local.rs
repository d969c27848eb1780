//! The cache as the vfs uses it: a disk, and memory that takes over while the disk is full or broken.
//!
//! The one place that knows the cache's calls. What must wait for room waits here, without holding anything.

use crate::options::VfsOptions;
use carafe_cache::{Cache, CacheError, DirtyPermit, SliceFile, SliceKey};
use carafe_types::{FsError, FsResult, SessionUuid};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// After a failure the disk is left alone for this long.
const REST: Duration = Duration::from_secs(10);

/// Waiting for room looks again at least this often, should a release go unnoticed.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Where write buffers and cached slices are.
pub(crate) struct Local {
    disk: Cache,
    memory: Cache,
    released: Arc<Notify>,
    broken_at: Mutex<Option<Instant>>,
    /// Bytes that may be dirty, as of the last look: asking the cache each time costs more than a small write.
    dirty_limit: AtomicU64,
    patience: Duration,
}

impl Local {
    pub(crate) fn new(o: &VfsOptions) -> Self {
        let released = Arc::new(Notify::new());
        // Half of a cache may be dirty, so twice the bound gives the bound.
        let memory = Cache::memory(2 * o.memory_bytes);
        for cache in [&o.cache, &memory] {
            let released = released.clone();
            cache.on_release(move || released.notify_waiters());
        }
        Local {
            disk: o.cache.clone(),
            memory,
            released,
            broken_at: Mutex::new(None),
            dirty_limit: AtomicU64::new(o.cache.stats().dirty_limit_bytes),
            patience: o.patience,
        }
    }

    /// The cache for new write buffers.
    fn for_writing(&self) -> &Cache {
        let mut broken = self.broken_at.lock();
        match *broken {
            Some(at) if at.elapsed() < REST => &self.memory,
            _ => {
                *broken = None;
                &self.disk
            }
        }
    }

    /// Whether new data is kept in memory for now.
    pub(crate) fn in_memory_mode(&self) -> bool {
        self.broken_at.lock().is_some_and(|at| at.elapsed() < REST)
    }

    /// The disk has failed or is full: the next buffers are in memory.
    pub(crate) fn disk_failed(&self, e: &CacheError) {
        let first = self.broken_at.lock().replace(Instant::now()).is_none();
        self.dirty_limit.store(self.memory.stats().dirty_limit_bytes, Relaxed);
        if first {
            tracing::error!(error = %e, "the cache disk fails; new data is kept in memory, up to its bound, until it works again");
        }
    }

    /// Room for `bytes` dirty bytes; `pressed` is called each time that there is none.
    ///
    /// # Errors
    /// `Unavailable` if nothing was released for as long as the patience lasts.
    pub(crate) async fn room(&self, bytes: u64, pressed: impl Fn()) -> FsResult<DirtyPermit> {
        let until = Instant::now() + self.patience;
        loop {
            let released = self.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            if let Ok(permit) = self.for_writing().reserve_dirty(bytes) {
                return Ok(permit);
            }
            if Instant::now() >= until {
                return Err(FsError::Unavailable(
                    "the write buffer is full and the bucket takes nothing".into(),
                ));
            }
            pressed();
            let _look_again = tokio::time::timeout(LOOK_AGAIN, released).await;
        }
    }

    /// A new slice to write to, on the disk if that works.
    ///
    /// # Errors
    /// As the cache says; never for a failing disk alone.
    pub(crate) fn create(&self, key: SliceKey) -> Result<Arc<SliceFile>, CacheError> {
        match self.for_writing().create(key) {
            Err(e) if e.is_disk() => {
                self.disk_failed(&e);
                self.memory.create(key)
            }
            other => other,
        }
    }

    /// A slice to read from or to fill. In memory if it was written there, or if the disk fails.
    ///
    /// # Errors
    /// As the cache says.
    pub(crate) fn open(&self, key: SliceKey, len: u64) -> Result<Arc<SliceFile>, CacheError> {
        if let Some(file) = self.memory.get(key)? {
            return Ok(file);
        }
        match self.disk.get_or_insert(key, Some(len)) {
            Err(e) if e.is_disk() => {
                tracing::warn!(error = %e, "the cache disk cannot be used to read");
                self.memory.get_or_insert(key, Some(len))
            }
            other => other,
        }
    }

    /// Counts dirty bytes that must go in whatever the bound says.
    pub(crate) fn force_room(&self, bytes: u64) -> DirtyPermit {
        self.for_writing().force_dirty(bytes)
    }

    /// The disk cache, for recovery and figures.
    pub(crate) fn disk(&self) -> &Cache {
        &self.disk
    }

    /// Regular upkeep.
    pub(crate) fn maintain(&self) {
        self.disk.maintain();
        self.memory.maintain();
        self.dirty_limit.store(self.for_writing().stats().dirty_limit_bytes, Relaxed);
    }

    /// How full the write buffer is, 0.0 to 1.0 and above.
    pub(crate) fn fullness(&self) -> f64 {
        let s = self.for_writing().stats();
        s.dirty_bytes as f64 / (s.dirty_limit_bytes.max(1)) as f64
    }

    /// Bytes that one slice may hold before it is committed: the buffer must never be full of a single open file.
    pub(crate) fn rotate_bytes(&self, block_size: u64) -> u64 {
        let share = self.dirty_limit.load(Relaxed) / 8;
        let bytes = share.min(256 << 20).max(block_size);
        bytes / block_size * block_size
    }
}

/// The cache's name of a slice.
pub(crate) fn key_of(session: SessionUuid, n: u64) -> SliceKey {
    SliceKey::new(session.0, n)
}

/// A cache error as a file system call sees it.
pub(crate) fn to_fs_error(e: &CacheError) -> FsError {
    FsError::Io(e.to_string())
}
