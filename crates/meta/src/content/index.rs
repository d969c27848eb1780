//! Which segments of a file exist.
//!
//! A file with extents in segments keeps the numbers of these segments in one more record, at the segment number that no
//! file can have. It changes once in 256 MiB, and lets truncation and collection visit what is there instead of asking
//! for all the 2^34 segments that a sparse file may have. As text, a person can read it: `0+12,40+1` means the twelve
//! segments from 0 on and segment 40.

use crate::store::Key;
use carafe_types::InodeNo;

/// The segment number under which the index is kept.
pub(crate) const INDEX_SEGMENT: u64 = u64::MAX;

/// Runs of segment numbers: first and how many, ascending, never touching.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index(Vec<(u64, u64)>);

impl Index {
    /// The record of a file's index.
    pub(crate) fn key(ino: InodeNo, g: u32) -> Key {
        Key::Extents { ino, g, segment: INDEX_SEGMENT }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let runs: Vec<String> = self.0.iter().map(|(first, n)| format!("{first}+{n}")).collect();
        runs.join(",").into_bytes()
    }

    /// `None` when the text is no index.
    pub(crate) fn decode(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for run in text.split(',').filter(|r| !r.is_empty()) {
            let (first, n) = run.split_once('+')?;
            let (first, n): (u64, u64) = (first.parse().ok()?, n.parse().ok()?);
            let end = first.checked_add(n).filter(|_| n > 0)?;
            let above = runs.last().is_none_or(|(f, n)| f + n < first);
            // An end of 2^64 would be the index itself.
            if !above || end == INDEX_SEGMENT {
                return None;
            }
            runs.push((first, n));
        }
        Some(Index(runs))
    }

    pub(crate) fn contains(&self, segment: u64) -> bool {
        self.run_of(segment).is_some()
    }

    fn run_of(&self, segment: u64) -> Option<usize> {
        let after = self.0.partition_point(|(first, _)| *first <= segment);
        let i = after.checked_sub(1)?;
        let (first, n) = self.0[i];
        (segment < first + n).then_some(i)
    }

    pub(crate) fn insert(&mut self, segment: u64) {
        if self.contains(segment) {
            return;
        }
        let at = self.0.partition_point(|(first, _)| *first <= segment);
        self.0.insert(at, (segment, 1));
        if at + 1 < self.0.len() && self.0[at + 1].0 == segment + 1 {
            self.0[at].1 += self.0.remove(at + 1).1;
        }
        if at > 0 && self.0[at - 1].0 + self.0[at - 1].1 == segment {
            self.0[at - 1].1 += self.0.remove(at).1;
        }
    }

    pub(crate) fn remove(&mut self, segment: u64) {
        let Some(i) = self.run_of(segment) else { return };
        let (first, n) = self.0.remove(i);
        if first + n > segment + 1 {
            self.0.insert(i, (segment + 1, first + n - segment - 1));
        }
        if segment > first {
            self.0.insert(i, (first, segment - first));
        }
    }

    /// How many segments there are.
    pub(crate) fn len(&self) -> u64 {
        self.0.iter().map(|(_, n)| n).sum()
    }

    /// The segments in `from..=to`, ascending.
    pub(crate) fn within(&self, from: u64, to: u64) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.0.iter().flat_map(move |(first, n)| {
            let (start, end) = ((*first).max(from), (first + n).min(to.saturating_add(1)));
            start..end.max(start)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn an_index_is_a_set_and_reads_back(steps in prop::collection::vec((any::<bool>(), 0u64..40), 0..120)) {
            let (mut index, mut set) = (Index::default(), BTreeSet::new());
            for (add, n) in steps {
                if add {
                    index.insert(n);
                    set.insert(n);
                } else {
                    index.remove(n);
                    set.remove(&n);
                }
            }
            prop_assert_eq!(index.within(0, 1000).collect::<Vec<_>>(), set.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(index.len(), set.len() as u64);
            prop_assert_eq!(index.within(10, 20).count(), set.range(10..=20).count());
            prop_assert_eq!(Index::decode(&index.encode()), Some(index));
        }

        #[test]
        fn no_text_makes_the_decoder_panic(text in "[0-9+,]{0,30}") {
            let _ = Index::decode(text.as_bytes());
        }
    }
}
