//! Which clean segment leaves next: S3-FIFO (Yang et al., SOSP 2023), by bytes.
//!
//! New segments enter a *small* queue of a tenth of the cache. One that was used again before it reaches the end goes to the *main* queue,
//! one that was not leaves, and only its hash stays in a *ghost* list: if it comes back soon it goes to main at once. Main is a FIFO in
//! which used segments take another round. A scan, however long, passes through the small queue only.
//!
//! Reads never come here: they count uses in the segment itself. What takes this lock has just written to the disk or is evicting.
//! Pinned segments that reach the end of a queue are left out of both until they are unpinned, so they are not looked at again and again.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use crate::segment::Heat;

/// Values of `Heat::queue`.
const NONE: u8 = 0;
const SMALL: u8 = 1;
const MAIN: u8 = 2;

/// The queues.
#[derive(Default)]
pub(crate) struct Policy {
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
    /// Queued segments without bytes (removed slices): swept when they are half of all.
    empty: usize,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Arc<Heat>>,
    bytes: u64,
}

impl Policy {
    /// Segments queued.
    pub(crate) fn len(&self) -> usize {
        self.small.items.len() + self.main.items.len()
    }

    /// A segment got `bytes` more.
    pub(crate) fn add(&mut self, heat: &Arc<Heat>, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let before = heat.bytes.fetch_add(bytes, Relaxed);
        match heat.queue.load(Relaxed) {
            NONE if self.ghosts.take(fingerprint(heat)) => self.push(heat.clone(), MAIN),
            NONE => self.push(heat.clone(), SMALL),
            queue => {
                self.queue(queue).bytes += bytes;
                self.empty -= usize::from(before == 0 && self.empty > 0);
            }
        }
    }

    /// A segment that a previous process left: what it kept is worth more than what was never seen.
    pub(crate) fn add_known(&mut self, heat: &Arc<Heat>, bytes: u64) {
        heat.bytes.store(bytes, Relaxed);
        self.push(heat.clone(), MAIN);
    }

    /// A segment lost `bytes`, at most what it has.
    pub(crate) fn sub(&mut self, heat: &Arc<Heat>, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let left = heat.bytes.load(Relaxed).saturating_sub(bytes);
        heat.bytes.store(left, Relaxed);
        let queue = heat.queue.load(Relaxed);
        if queue != NONE {
            let queue = self.queue(queue);
            queue.bytes = queue.bytes.saturating_sub(bytes);
            if left == 0 {
                self.empty += 1;
                self.sweep();
            }
        }
    }

    /// Puts back a segment that `pop` gave and that could not be evicted just now, or one that was unpinned.
    pub(crate) fn put_back(&mut self, heat: Arc<Heat>) {
        if heat.queue.load(Relaxed) == NONE && heat.bytes.load(Relaxed) > 0 {
            self.push(heat, MAIN);
        }
    }

    /// Takes the next victim out of the queues. `limit` is the size of the cache.
    pub(crate) fn pop(&mut self, limit: u64) -> Option<Arc<Heat>> {
        loop {
            let from_small = self.small.bytes > limit / 10 || self.main.items.is_empty();
            let queue = if from_small { SMALL } else { MAIN };
            let heat = match self.queue(queue).items.pop_front() {
                Some(heat) => heat,
                // Bytes without items cannot be; going on with the other queue ends the loop in any case.
                None if from_small && self.main.items.is_empty() => return None,
                None => {
                    self.queue(queue).bytes = 0;
                    continue;
                }
            };
            let bytes = heat.bytes.load(Relaxed);
            self.queue(queue).bytes -= bytes.min(self.queue(queue).bytes);
            heat.queue.store(NONE, Relaxed);
            if bytes == 0 {
                self.empty = self.empty.saturating_sub(1);
            } else if heat.uses() == 0 {
                if from_small {
                    let capacity = self.len();
                    self.ghosts.insert(fingerprint(&heat), capacity);
                }
                return Some(heat);
            } else {
                heat.set_uses(if from_small { 0 } else { heat.uses() - 1 });
                self.push(heat, MAIN);
            }
        }
    }

    fn push(&mut self, heat: Arc<Heat>, queue: u8) {
        heat.queue.store(queue, Relaxed);
        let bytes = heat.bytes.load(Relaxed);
        let queue = self.queue(queue);
        queue.bytes += bytes;
        queue.items.push_back(heat);
    }

    fn queue(&mut self, queue: u8) -> &mut Queue {
        if queue == SMALL { &mut self.small } else { &mut self.main }
    }

    /// Without this, a cache that never fills would remember every slice ever deleted.
    fn sweep(&mut self) {
        if self.empty < 1024 || self.empty * 2 < self.len() {
            return;
        }
        for queue in [&mut self.small, &mut self.main] {
            queue.items.retain(|heat| {
                let keep = heat.bytes.load(Relaxed) > 0;
                if !keep {
                    heat.queue.store(NONE, Relaxed);
                }
                keep
            });
        }
        self.empty = 0;
    }
}

/// Hashes of segments that left the small queue, the latest ones, about as many as the queues hold.
#[derive(Default)]
struct Ghosts {
    order: VecDeque<(u64, u64)>,
    latest: HashMap<u64, u64>,
    turn: u64,
}

impl Ghosts {
    fn insert(&mut self, fingerprint: u64, capacity: usize) {
        self.turn += 1;
        self.latest.insert(fingerprint, self.turn);
        self.order.push_back((fingerprint, self.turn));
        while self.order.len() > capacity.max(64) {
            if let Some((old, turn)) = self.order.pop_front()
                && self.latest.get(&old) == Some(&turn)
            {
                self.latest.remove(&old);
            }
        }
    }

    fn take(&mut self, fingerprint: u64) -> bool {
        self.latest.remove(&fingerprint).is_some()
    }
}

fn fingerprint(heat: &Heat) -> u64 {
    let mut hasher = DefaultHasher::new();
    (heat.key, heat.segment).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::SliceKey;
    use crate::segment::Segment;

    fn heat(n: u64) -> Arc<Heat> {
        Segment::new(SliceKey { session_uuid: 1, n }, 0, 1).heat
    }

    #[test]
    fn a_segment_that_comes_back_soon_survives_the_next_scan() {
        let mut policy = Policy::default();
        policy.add(&heat(1), 10);
        assert_eq!(policy.pop(100).unwrap().key.n, 1);
        policy.add(&heat(1), 10);
        (2..22).for_each(|n| policy.add(&heat(n), 10));
        let left: Vec<u64> = (0..19).map(|_| policy.pop(100).unwrap().key.n).collect();
        assert!(!left.contains(&1), "{left:?}");
    }

    #[test]
    fn the_queues_end_when_everything_was_popped() {
        let mut policy = Policy::default();
        for n in 0..100 {
            let heat = heat(n);
            heat.set_uses(3);
            policy.add(&heat, 1);
        }
        assert_eq!((0..100).filter_map(|_| policy.pop(50)).count(), 100);
        assert!(policy.pop(50).is_none());
    }

    #[test]
    fn removed_slices_do_not_pile_up_in_a_cache_that_never_fills() {
        let mut policy = Policy::default();
        for n in 0..100_000 {
            let heat = heat(n);
            policy.add(&heat, 5);
            policy.sub(&heat, 5);
        }
        assert!(policy.len() < 4096, "{}", policy.len());
        assert_eq!(policy.small.bytes, 0);
    }
}
