//! Taking bytes out: eviction by the policy, removal of a slice, and tidying up after the last user of an empty one.

use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use crate::entry::{Body, Entry, SliceState};
use crate::frames::SEGMENT_BYTES;
use crate::index::Change;
use crate::segment::Heat;
use crate::shared::Shared;
use crate::stats::Counters;
use crate::store::Store;

/// What became of a victim.
enum Evicted {
    /// Its bytes are gone, by whatever hand.
    Gone,
    /// Pinned: it comes back to the queues when it is unpinned.
    Parked,
    /// Somebody works with the slice just now.
    Busy,
}

impl Shared {
    /// Evicts until at most `target` bytes are here, or nothing is left to evict. No gate may be held.
    pub(crate) fn shrink(&self, target: u64) {
        // Each round takes a segment out for good, but for busy ones, which may come back twice.
        let mut tries = 2 * self.policy.lock().len() + 8;
        while self.space.used() > target && tries > 0 {
            tries -= 1;
            let Some(victim) = self.policy.lock().pop(self.space.limit()) else { return };
            if let Evicted::Busy = self.evict(&victim) {
                self.policy.lock().put_back(victim);
            }
        }
    }

    /// Evicts every clean segment that nobody pins; returns the bytes freed.
    pub(crate) fn drop_clean(&self) -> u64 {
        let before = self.counters.evicted_bytes.load(Relaxed);
        for entry in self.entries() {
            let heats: Vec<Arc<Heat>> = entry.gate.read().segments.values().map(|s| s.heat.clone()).collect();
            for heat in heats {
                self.evict(&heat);
            }
        }
        self.counters.evicted_bytes.load(Relaxed) - before
    }

    fn evict(&self, victim: &Arc<Heat>) -> Evicted {
        let Some(entry) = self.lookup(victim.key) else { return Evicted::Gone };
        let Some(mut body) = entry.gate.try_write() else { return Evicted::Busy };
        if entry.pins.lock().count > 0 {
            return Evicted::Parked;
        }
        let same =
            body.segments.get(&victim.segment).is_some_and(|segment| Arc::ptr_eq(&segment.heat, victim));
        if !same || body.state != SliceState::Clean {
            return Evicted::Gone;
        }
        let bytes = victim.bytes.load(Relaxed);
        let whole_slice = body.segments.len() == 1 && self.forget(&entry, &mut body, true);
        if !whole_slice && !self.punch_segment(&entry, &mut body, victim) {
            self.forget(&entry, &mut body, false);
        }
        Counters::add(&self.counters.evictions, 1);
        Counters::add(&self.counters.evicted_bytes, bytes);
        Evicted::Gone
    }

    /// Makes a hole where the segment was. False if the disk cannot: then the whole file has to go.
    fn punch_segment(&self, entry: &Entry, body: &mut Body, victim: &Arc<Heat>) -> bool {
        let start = u64::from(victim.segment) * SEGMENT_BYTES;
        let range = start..start + SEGMENT_BYTES;
        let punched = match (&self.disk, &entry.memory) {
            (Some(disk), _) => disk.open(entry.key).and_then(|file| Store::Disk(&file).punch(range)),
            (None, Some(bytes)) => Store::Memory(bytes).punch(range),
            (None, None) => Ok(()),
        };
        if let Err(e) = punched {
            tracing::debug!(key = %entry.key, error = %e, "no hole can be made in a cache file; it is removed");
            return false;
        }
        if let Some(segment) = body.segments.remove(&victim.segment) {
            let change = Change::Gone { segment: victim.segment, mask: segment.present() };
            self.uncharge(victim, victim.bytes.load(Relaxed));
            self.record(entry.key, [change]);
        }
        true
    }

    /// Clean bytes of a segment are here no more.
    pub(crate) fn uncharge(&self, heat: &Arc<Heat>, bytes: u64) {
        self.policy.lock().sub(heat, bytes);
        self.space.used_sub(bytes);
    }

    /// Removes a slice, whatever its state: file, index, map, counters. With `unused_only`, not while a handle is open; then false.
    pub(crate) fn forget(&self, entry: &Entry, body: &mut Body, unused_only: bool) -> bool {
        {
            let handle = entry.handle.lock();
            if unused_only && handle.strong_count() > 0 {
                return false;
            }
            if entry.gone.swap(true, AcqRel) {
                return true;
            }
        }
        let was_clean = body.state == SliceState::Clean;
        self.release_bytes(entry, body);
        // The order: another slice of this name may come as soon as the map is free of it.
        if let Some(disk) = &self.disk
            && let Err(e) = std::fs::remove_file(disk.path(entry.key))
        {
            tracing::debug!(key = %entry.key, error = %e, "cache file was not there to be removed");
        }
        if was_clean {
            self.record(entry.key, [Change::Removed]);
        }
        self.shard(entry.key).map.write().remove(&entry.key);
        true
    }

    /// Takes a slice out of all counters and makes its state `Gone`. Returns the bytes that it occupied.
    pub(crate) fn release_bytes(&self, entry: &Entry, body: &mut Body) -> u64 {
        let clean = body.state == SliceState::Clean;
        let mut bytes = if clean { 0 } else { body.cost(entry.len()) };
        body.state = SliceState::Gone;
        for segment in std::mem::take(&mut body.segments).into_values().filter(|_| clean) {
            let charged = segment.heat.bytes.load(Relaxed);
            self.policy.lock().sub(&segment.heat, charged);
            bytes += charged;
        }
        self.space.used_sub(bytes);
        self.space.dirty_sub(std::mem::take(&mut body.dirty_bytes));
        if let Some(memory) = &entry.memory {
            memory.truncate(0);
        }
        bytes
    }

    /// Called when the last handle is closed: a clean slice without bytes is not worth an entry and a file.
    pub(crate) fn reap_if_empty(&self, entry: &Entry) {
        if entry.gone.load(Acquire) {
            return;
        }
        if let Some(mut body) = entry.gate.try_write()
            && body.state == SliceState::Clean
            && body.segments.values().all(|segment| segment.present() == 0)
        {
            self.forget(entry, &mut body, true);
        }
    }

    /// The last pin is gone: segments that were left out of the queues come back.
    pub(crate) fn requeue(&self, entry: &Entry) {
        let body = entry.gate.read();
        if body.state == SliceState::Clean {
            let mut policy = self.policy.lock();
            body.segments.values().for_each(|segment| policy.put_back(segment.heat.clone()));
        }
    }
}
