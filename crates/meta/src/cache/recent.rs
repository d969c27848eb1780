//! When something last happened, for the recent past only.
//!
//! A reply that was on its way while a record changed must not be believed. Which record changed when is remembered for
//! the last few thousand changes; for anything older the answer is the *floor*, the newest moment that was forgotten.
//! That errs on the side of asking the store again.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Remembers the newest moment of each of the last `room` events.
#[derive(Debug)]
pub(crate) struct Recent<K> {
    last: HashMap<K, u64>,
    order: VecDeque<(K, u64)>,
    floor: u64,
    room: usize,
}

impl<K: Clone + Eq + Hash> Recent<K> {
    pub(crate) fn new(room: usize) -> Self {
        Recent { last: HashMap::new(), order: VecDeque::new(), floor: 0, room }
    }

    /// Something happened to `key` at `at`.
    pub(crate) fn note(&mut self, key: K, at: u64) {
        let last = self.last.entry(key.clone()).or_insert(at);
        *last = at.max(*last);
        self.order.push_back((key, at));
        while self.order.len() > self.room {
            let Some((old, at)) = self.order.pop_front() else { break };
            if self.last.get(&old) == Some(&at) {
                self.last.remove(&old);
                self.floor = self.floor.max(at);
            }
        }
    }

    /// The newest moment at which something may have happened to `key`; 0 if nothing ever did.
    pub(crate) fn last(&self, key: &K) -> u64 {
        self.last.get(key).copied().unwrap_or(0).max(self.floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_counts_as_recent() {
        let mut r = Recent::new(2);
        r.note("a", 5);
        r.note("b", 6);
        assert_eq!((r.last(&"a"), r.last(&"b"), r.last(&"c")), (5, 6, 0));
        r.note("b", 7);
        assert_eq!((r.last(&"a"), r.last(&"b"), r.last(&"c")), (5, 7, 5));
    }

    #[test]
    fn a_late_older_event_does_not_hide_a_newer_one() {
        let mut r = Recent::new(8);
        r.note("a", 9);
        r.note("a", 4);
        assert_eq!(r.last(&"a"), 9);
    }
}
