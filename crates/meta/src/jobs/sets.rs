//! Sets of numbers that are dense in places: slices of a session, inodes of a file system.
//!
//! 65,536 neighbours share a chunk: a sorted list while few are in, a bitmap of 8 KiB from 4,096 on. So a million slices
//! cost 128 KB, and a number far away costs a few bytes.

use carafe_types::{SessionNo, SliceId};
use std::collections::{BTreeMap, HashMap};

const FEW: usize = 4096;
const WORDS: usize = 1024;

#[derive(Debug)]
enum Chunk {
    Few(Vec<u16>),
    Many(Box<[u64; WORDS]>),
}

impl Chunk {
    /// Whether it is new.
    fn insert(&mut self, n: u16) -> bool {
        match self {
            Chunk::Few(list) => {
                let Err(at) = list.binary_search(&n) else { return false };
                if list.len() < FEW {
                    list.insert(at, n);
                    return true;
                }
                let mut words = Box::new([0; WORDS]);
                list.iter().for_each(|n| words[usize::from(n >> 6)] |= 1 << (n & 63));
                *self = Chunk::Many(words);
                self.insert(n)
            }
            Chunk::Many(words) => {
                let word = &mut words[usize::from(n >> 6)];
                let new = *word >> (n & 63) & 1 == 0;
                *word |= 1 << (n & 63);
                new
            }
        }
    }

    fn contains(&self, n: u16) -> bool {
        match self {
            Chunk::Few(list) => list.binary_search(&n).is_ok(),
            Chunk::Many(words) => words[usize::from(n >> 6)] >> (n & 63) & 1 == 1,
        }
    }
}

/// A set of numbers.
#[derive(Debug, Default)]
pub(crate) struct NumberSet {
    chunks: BTreeMap<u64, Chunk>,
    len: u64,
}

impl NumberSet {
    /// Puts a number in. Returns whether it is new.
    pub(crate) fn insert(&mut self, n: u64) -> bool {
        let chunk = self.chunks.entry(n >> 16).or_insert_with(|| Chunk::Few(Vec::new()));
        let new = chunk.insert(n as u16);
        self.len += u64::from(new);
        new
    }

    pub(crate) fn contains(&self, n: u64) -> bool {
        self.chunks.get(&(n >> 16)).is_some_and(|chunk| chunk.contains(n as u16))
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

/// A set of slices.
#[derive(Debug, Default)]
pub(crate) struct SliceSet(HashMap<SessionNo, NumberSet>);

impl SliceSet {
    /// Puts a slice in. Returns whether it is new.
    pub(crate) fn insert(&mut self, slice: SliceId) -> bool {
        self.0.entry(slice.session).or_default().insert(slice.n)
    }

    pub(crate) fn contains(&self, slice: SliceId) -> bool {
        self.0.get(&slice.session).is_some_and(|set| set.contains(slice.n))
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.values().map(NumberSet::len).sum()
    }

    /// The sessions of the slices.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionNo> + '_ {
        self.0.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_set_knows_what_was_put_in(
            dense in prop::collection::vec(0u64..70_000, 0..200),
            sparse in prop::collection::vec(any::<u64>(), 0..50),
            runs in prop::collection::vec((0u64..200_000, 0u64..6000), 0..3),
        ) {
            let (mut set, mut model) = (NumberSet::default(), BTreeSet::new());
            let runs = runs.into_iter().flat_map(|(from, n)| from..from + n);
            for n in dense.iter().chain(&sparse).copied().chain(runs) {
                prop_assert_eq!(set.insert(n), model.insert(n));
            }
            prop_assert_eq!(set.len(), model.len() as u64);
            for n in (0..70_000).step_by(7).chain(sparse) {
                prop_assert_eq!(set.contains(n), model.contains(&n));
            }
        }
    }

    #[test]
    fn slices_of_sessions_are_kept_apart() {
        let slice = |session, n| SliceId { session: SessionNo(session), n };
        let mut set = SliceSet::default();
        assert!(set.insert(slice(1, 7)) && !set.insert(slice(1, 7)) && set.insert(slice(2, u64::MAX)));
        assert!(set.contains(slice(2, u64::MAX)) && !set.contains(slice(2, 7)));
        assert_eq!(set.len(), 2);
    }
}
