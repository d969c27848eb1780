//! The cache as its user, the vfs, sees it. How the pieces work together is told in the crate's documentation.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::config::CacheConfig;
use crate::entry::{Entry, SliceState};
use crate::error::CacheError;
use crate::frames::{MAX_SLICE_BYTES, frames_in, spans};
use crate::key::SliceKey;
use crate::open;
use crate::segment::Segment;
use crate::shared::Shared;
use crate::slice::SliceFile;
use crate::space::{DirtyPermit, WouldBlock};
use crate::stats::CacheStats;

/// A cache of slices, on a disk or in memory. Clones are the same cache. The directory's lock is released with the last clone and the
/// last [`SliceFile`].
#[derive(Clone)]
pub struct Cache {
    shared: Arc<Shared>,
}

/// What was dropped of a previous process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrphansDropped {
    /// Unfinished slices.
    pub slices: u64,
    /// Their bytes on disk.
    pub bytes: u64,
}

impl Cache {
    /// Opens the directory of this file system in `config.dir`, and loads what is in it.
    ///
    /// Unfinished slices of another boot are dropped at once, with a line in the log; the journal (`Recovery::Stale`) has their names.
    ///
    /// # Errors
    /// `Busy` if another process has it, `Layout` if it is not ours, `DiskFull` and `DiskError`.
    pub fn open(config: CacheConfig) -> Result<Self, CacheError> {
        let (shared, other_boot) = open::open(&config)?;
        let cache = Cache { shared: Arc::new(shared) };
        if other_boot {
            let dropped = cache.discard_orphans();
            if dropped.slices > 0 {
                tracing::error!(
                    dropped.slices,
                    dropped.bytes,
                    "unsaved slices of an earlier boot of this node are discarded"
                );
            }
        }
        Ok(cache)
    }

    /// A cache of up to `limit_bytes` in memory: no restart, no journal, no file descriptors, otherwise the same.
    pub fn memory(limit_bytes: u64) -> Self {
        // Memory is not checked again: a frame is right once it was stored.
        Cache { shared: Arc::new(Shared::new(limit_bytes, None, Duration::from_secs(1 << 31))) }
    }

    /// Starts a slice of which nothing is in the bucket. The handle takes writes.
    ///
    /// # Errors
    /// `Exists`, `DiskFull`, `DiskError`.
    pub fn create(&self, key: SliceKey) -> Result<Arc<SliceFile>, CacheError> {
        let mut map = self.shared.shard(key).map.write();
        if map.contains_key(&key) || self.shared.orphans.lock().contains_key(&key) {
            return Err(CacheError::Exists { key });
        }
        let file = self.shared.disk.as_ref().map(|disk| disk.create(key, true)).transpose()?;
        let entry = Entry::new(key, SliceState::Writing, None, file.is_none());
        Ok(self.shared.install(&mut map, entry, file))
    }

    /// The slice, if anything of it is here.
    ///
    /// # Errors
    /// `DiskError`; `LostDirty` if unsaved bytes are not in the directory any more.
    pub fn get(&self, key: SliceKey) -> Result<Option<Arc<SliceFile>>, CacheError> {
        match self.shared.lookup(key) {
            Some(entry) => self.shared.handle(&entry),
            None => Ok(None),
        }
    }

    /// The slice, made empty and clean if nothing of it is here: to be filled from the bucket. Give `len` if it is known.
    ///
    /// # Errors
    /// `Exists` if it is an orphan that was neither adopted nor discarded; `DiskFull`, `DiskError`, `LostDirty`.
    pub fn get_or_insert(&self, key: SliceKey, len: Option<u64>) -> Result<Arc<SliceFile>, CacheError> {
        if let Some(len) = len.filter(|&len| len > MAX_SLICE_BYTES) {
            return Err(CacheError::OutOfRange { key, range: 0..len, len: MAX_SLICE_BYTES });
        }
        loop {
            if let Some(open) = self.get(key)? {
                return Ok(open);
            }
            let mut map = self.shared.shard(key).map.write();
            if map.contains_key(&key) {
                // It is being removed just now, or was made by another thread.
                drop(map);
                std::thread::yield_now();
                continue;
            }
            if self.shared.orphans.lock().contains_key(&key) {
                return Err(CacheError::Exists { key });
            }
            let file = self.shared.disk.as_ref().map(|disk| disk.create(key, false)).transpose()?;
            let entry = Entry::new(key, SliceState::Clean, len, file.is_none());
            return Ok(self.shared.install(&mut map, entry, file));
        }
    }

    /// Removes a clean slice (its object was deleted). False if it is not here, or dirty.
    pub fn remove(&self, key: SliceKey) -> bool {
        let Some(entry) = self.shared.lookup(key) else { return false };
        let mut body = entry.gate.write();
        body.state == SliceState::Clean && self.shared.forget(&entry, &mut body, false)
    }

    /// Unfinished slices of a previous process of this boot.
    pub fn orphans(&self) -> Vec<SliceKey> {
        self.shared.orphans.lock().keys().copied().collect()
    }

    /// Takes an orphan as a slice that is being written, with exactly the bytes that the journal names. A slice that was finished before
    /// the crash is returned as it is: look at its state.
    ///
    /// # Errors
    /// `LostDirty` if those bytes are not here; `DiskError`.
    pub fn adopt_dirty(&self, key: SliceKey, written: &[Range<u64>]) -> Result<Arc<SliceFile>, CacheError> {
        if let Some(open) = self.get(key)? {
            return Ok(open);
        }
        let end = written.iter().map(|range| range.end).max().unwrap_or(0);
        let lost = || CacheError::LostDirty { key, range: 0..end };
        let disk = self.shared.disk.as_ref().ok_or_else(lost)?;
        let mut map = self.shared.shard(key).map.write();
        let mut orphans = self.shared.orphans.lock();
        let bytes = *orphans.get(&key).ok_or_else(lost)?;
        let file = disk.open(key).map_err(|e| CacheError::disk("opening", key, e))?;
        let size = file.metadata().map_err(|e| CacheError::disk("looking at", key, e))?.len();
        if end > size.min(MAX_SLICE_BYTES) {
            return Err(lost());
        }
        orphans.remove(&key);
        let entry = Entry::new(key, SliceState::Writing, None, false);
        let charge = mark_written(&entry, written);
        self.shared.space.used_correct(bytes, charge.0);
        self.shared.space.dirty_add(charge.1);
        let open = self.shared.install(&mut map, entry, Some(file));
        drop((orphans, map));
        // Frames are counted whole from now on, which may be more than the blocks that the orphan had.
        self.shared.shrink(self.shared.space.limit());
        Ok(open)
    }

    /// Removes all orphans: to be called after recovery.
    pub fn discard_orphans(&self) -> OrphansDropped {
        let mut dropped = OrphansDropped::default();
        for (key, bytes) in std::mem::take(&mut *self.shared.orphans.lock()) {
            if let Some(disk) = &self.shared.disk
                && let Err(e) = std::fs::remove_file(disk.path(key))
            {
                tracing::warn!(%key, error = %e, "unfinished slice cannot be removed");
            }
            self.shared.space.used_sub(bytes);
            dropped.slices += 1;
            dropped.bytes += bytes;
        }
        dropped
    }

    /// Room for `bytes` dirty bytes, without waiting. Hold the permit while the bytes are on their way into a slice (which then counts
    /// them itself), or as long as they are kept elsewhere (inline data).
    ///
    /// # Errors
    /// `WouldBlock`: wait for a release ([`Cache::on_release`], [`Cache::wait_release`]) and ask again.
    pub fn reserve_dirty(&self, bytes: u64) -> Result<DirtyPermit, WouldBlock> {
        self.shared.space.try_reserve(bytes)
    }

    /// Counts `bytes` as dirty whatever the bound says: for data found by recovery.
    pub fn force_dirty(&self, bytes: u64) -> DirtyPermit {
        self.shared.space.force_reserve(bytes)
    }

    /// Sets what is called when dirty bytes were released after somebody was refused. It must be quick and must not call the cache: locks
    /// are held. An async caller registers its wait, asks again, and only then waits.
    pub fn on_release(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.shared.space.set_hook(Arc::new(hook));
    }

    /// Blocks the thread until dirty bytes are released after this refusal; false after `timeout`.
    pub fn wait_release(&self, refused: WouldBlock, timeout: Duration) -> bool {
        self.shared.space.wait_release(refused, timeout)
    }

    /// To be called every some seconds: looks at the disk's free space and evicts if others filled the disk.
    pub fn maintain(&self) {
        self.shared.refresh_room();
        self.shared.shrink(self.shared.space.limit());
        self.shared.space.tell();
    }

    /// Evicts all that is clean and not pinned; returns the bytes freed.
    pub fn drop_clean(&self) -> u64 {
        self.shared.drop_clean()
    }

    /// Where the journal of this file system belongs; `None` without a disk.
    pub fn journal_dir(&self) -> Option<PathBuf> {
        self.shared.disk.as_ref().map(|disk| disk.root.join("journal"))
    }

    /// Sizes now, counters since the start.
    pub fn stats(&self) -> CacheStats {
        let (space, counters) = (&self.shared.space, &self.shared.counters);
        CacheStats {
            entries: self.shared.shards.iter().map(|shard| shard.map.read().len() as u64).sum(),
            used_bytes: space.used(),
            limit_bytes: space.limit(),
            dirty_bytes: space.dirty(),
            dirty_limit_bytes: space.dirty_limit(),
            pinned_bytes: space.pinned(),
            hits: counters.hits.load(Relaxed),
            misses: counters.misses.load(Relaxed),
            evictions: counters.evictions.load(Relaxed),
            evicted_bytes: counters.evicted_bytes.load(Relaxed),
            corrupt_frames: counters.corrupt_frames.load(Relaxed),
            index_errors: counters.index_errors.load(Relaxed),
        }
    }
}

/// Marks ranges as written; returns what they occupy and how many bytes they are.
fn mark_written(entry: &Entry, written: &[Range<u64>]) -> (u64, u64) {
    let mut body = entry.gate.write();
    for range in written.iter().filter(|range| range.start < range.end) {
        body.written.insert(range.clone());
        for span in spans(range) {
            let new = || Segment::new(entry.key, span.segment, frames_in(span.segment, None));
            body.segments.entry(span.segment).or_insert_with(new).set_present(span.mask);
        }
    }
    body.dirty_bytes = body.written.total();
    (body.cost(None), body.dirty_bytes)
}
