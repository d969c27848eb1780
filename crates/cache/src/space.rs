//! How much may lie here: bytes in all, dirty bytes, pinned bytes.
//!
//! Dirty bytes are bounded to half of the cache and 2 GiB (metadata.md, 9). Nothing here waits: [`Space::try_reserve`] answers at once,
//! and who was refused is told of the next release, by a callback (async callers) or by a condition variable (threads). A permit is held
//! for bytes on their way in; bytes written to a slice are counted by the slice itself until it is clean.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};

/// Dirty bytes are never more than this, whatever the cache's size.
const DIRTY_BYTES_MAX: u64 = 2 << 30;

type Hook = Arc<dyn Fn() + Send + Sync>;

/// The counters of one cache.
pub(crate) struct Space {
    /// The size asked for.
    size: u64,
    /// What is allowed now: less than `size` if others fill the disk.
    limit: AtomicU64,
    used: AtomicU64,
    /// Dirty bytes of slices and of permits.
    dirty: AtomicU64,
    pinned: AtomicU64,
    /// Somebody was refused since the last release.
    starved: AtomicBool,
    releases: Mutex<u64>,
    released: Condvar,
    hook: RwLock<Option<Hook>>,
}

/// The answer to a reservation that does not fit: wait for a release, then try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the write buffer is full")]
pub struct WouldBlock {
    /// To be given to `Cache::wait_release`, which then misses no release after this refusal.
    pub releases: u64,
}

/// Room for dirty bytes, given back when dropped.
pub struct DirtyPermit {
    space: Arc<Space>,
    bytes: u64,
}

impl DirtyPermit {
    /// Bytes reserved.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Moves `bytes` (at most what is here) into a permit of its own.
    pub fn split(&mut self, bytes: u64) -> DirtyPermit {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        DirtyPermit { space: self.space.clone(), bytes }
    }

    /// Takes over the bytes of `other`, a permit of the same cache.
    pub fn merge(&mut self, mut other: DirtyPermit) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl std::fmt::Debug for DirtyPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DirtyPermit({})", self.bytes)
    }
}

impl Drop for DirtyPermit {
    fn drop(&mut self) {
        self.space.dirty_sub(self.bytes);
    }
}

impl Space {
    pub(crate) fn new(size: u64) -> Arc<Self> {
        Arc::new(Space {
            size,
            limit: AtomicU64::new(size),
            used: AtomicU64::new(0),
            dirty: AtomicU64::new(0),
            pinned: AtomicU64::new(0),
            starved: AtomicBool::new(false),
            releases: Mutex::new(0),
            released: Condvar::new(),
            hook: RwLock::new(None),
        })
    }

    /// Bytes of slices here.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(SeqCst)
    }

    /// Counts bytes before they are stored.
    pub(crate) fn used_add(&self, bytes: u64) {
        self.used.fetch_add(bytes, SeqCst);
    }

    /// Bytes are here no more.
    pub(crate) fn used_sub(&self, bytes: u64) {
        saturating_sub(&self.used, bytes);
    }

    /// `counted` bytes turned out to be `real`.
    pub(crate) fn used_correct(&self, counted: u64, real: u64) {
        if real >= counted {
            self.used_add(real - counted);
        } else {
            self.used_sub(counted - real);
        }
    }

    /// Bytes allowed now.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// What the disk leaves: `over` bytes too many lie on it, or it has `room` for more.
    pub(crate) fn set_disk_room(&self, room: Result<u64, u64>) {
        let used = self.used();
        let limit = match room {
            Ok(room) => used.saturating_add(room),
            Err(over) => used.saturating_sub(over),
        };
        self.limit.store(limit.min(self.size), Relaxed);
    }

    /// Dirty bytes, permits included.
    pub(crate) fn dirty(&self) -> u64 {
        self.dirty.load(SeqCst)
    }

    /// Dirty bytes allowed.
    pub(crate) fn dirty_limit(&self) -> u64 {
        (self.limit() / 2).min(DIRTY_BYTES_MAX)
    }

    /// Room for `bytes` dirty bytes. One request larger than the limit gets through when nothing else is dirty: it would wait for ever.
    pub(crate) fn try_reserve(self: &Arc<Self>, bytes: u64) -> Result<DirtyPermit, WouldBlock> {
        let fits = || {
            let limit = self.dirty_limit();
            let add = |dirty: u64| {
                (dirty == 0 || dirty.saturating_add(bytes) <= limit).then(|| dirty.saturating_add(bytes))
            };
            self.dirty.fetch_update(SeqCst, SeqCst, add).is_ok()
        };
        if !fits() {
            // The order matters: a release after `releases` was read is seen by the second try, or sees `starved`.
            let releases = *self.releases.lock();
            self.starved.store(true, SeqCst);
            if !fits() {
                return Err(WouldBlock { releases });
            }
        }
        Ok(DirtyPermit { space: self.clone(), bytes })
    }

    /// A permit without asking.
    pub(crate) fn force_reserve(self: &Arc<Self>, bytes: u64) -> DirtyPermit {
        self.dirty_add(bytes);
        DirtyPermit { space: self.clone(), bytes }
    }

    /// Counts bytes that were written to a slice.
    pub(crate) fn dirty_add(&self, bytes: u64) {
        self.dirty.fetch_add(bytes, SeqCst);
    }

    /// Dirty bytes became clean, or were dropped; tells who waits.
    pub(crate) fn dirty_sub(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        saturating_sub(&self.dirty, bytes);
        self.tell();
    }

    /// Tells who waits that it may be worth trying again.
    pub(crate) fn tell(&self) {
        if self.starved.swap(false, SeqCst) {
            *self.releases.lock() += 1;
            self.released.notify_all();
            let hook = self.hook.read().clone();
            if let Some(hook) = hook {
                hook();
            }
        }
    }

    /// Sets what is called at a release that somebody may wait for.
    pub(crate) fn set_hook(&self, hook: Hook) {
        *self.hook.write() = Some(hook);
    }

    /// Waits for a release after the refusal; false after `timeout`.
    pub(crate) fn wait_release(&self, refused: WouldBlock, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        let mut releases = self.releases.lock();
        while *releases == refused.releases {
            if self.released.wait_until(&mut releases, until).timed_out() {
                return *releases != refused.releases;
            }
        }
        true
    }

    /// Bytes held against eviction.
    pub(crate) fn pinned(&self) -> u64 {
        self.pinned.load(Relaxed)
    }

    /// Counts pinned bytes, if they stay under 40 % of the cache: with half for dirty bytes, eviction always finds something.
    pub(crate) fn try_pin(&self, bytes: u64) -> bool {
        let limit = self.limit() / 5 * 2;
        let add = |pinned: u64| Some(pinned.saturating_add(bytes)).filter(|&sum| sum <= limit);
        self.pinned.fetch_update(Relaxed, Relaxed, add).is_ok()
    }

    /// Pinned bytes are free to go.
    pub(crate) fn unpin(&self, bytes: u64) {
        saturating_sub(&self.pinned, bytes);
    }
}

/// A counter that is wrong must not become huge: it stops at zero.
fn saturating_sub(counter: &AtomicU64, bytes: u64) {
    let sub = |value: u64| {
        debug_assert!(value >= bytes, "counter {value} less {bytes}");
        Some(value.saturating_sub(bytes))
    };
    let _always_some = counter.fetch_update(SeqCst, SeqCst, sub);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn a_refused_writer_is_told_of_the_release() {
        let space = Space::new(200);
        let calls = Arc::new(AtomicUsize::new(0));
        let count = calls.clone();
        space.set_hook(Arc::new(move || {
            count.fetch_add(1, SeqCst);
        }));
        let first = space.try_reserve(100).unwrap();
        let refused = space.try_reserve(1).unwrap_err();
        assert!(!space.wait_release(refused, Duration::from_millis(1)));
        std::thread::scope(|s| {
            s.spawn(|| drop(first));
            assert!(space.wait_release(refused, Duration::from_secs(10)));
        });
        assert_eq!(calls.load(SeqCst), 1);
        space.try_reserve(100).unwrap();
    }

    #[test]
    fn a_request_above_the_limit_gets_through_alone() {
        let space = Space::new(200);
        let mut big = space.try_reserve(5000).unwrap();
        assert!(space.try_reserve(1).is_err());
        let part = big.split(4950);
        drop(big);
        assert!(space.try_reserve(1).is_err());
        drop(part);
        assert_eq!(space.dirty(), 0);
    }

    #[test]
    fn a_disk_that_fills_up_lowers_both_limits() {
        let space = Space::new(1000);
        space.used_add(600);
        space.set_disk_room(Err(100));
        assert_eq!((space.limit(), space.dirty_limit()), (500, 250));
        space.set_disk_room(Ok(5000));
        assert_eq!(space.limit(), 1000);
    }
}
