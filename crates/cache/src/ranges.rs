//! A set of byte ranges: which bytes of a slice that is being written were written.
//!
//! Frames are too coarse for that: the first writer of a frame may leave a hole that a read must not take for zeros of the user.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint, never touching ranges, by start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    ends: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Adds a range; returns how many of its bytes were not in the set.
    pub(crate) fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let (mut start, mut end, mut known) = (range.start, range.end, 0);
        // Everything that overlaps or touches is swallowed; walking down from the end meets each such range once.
        while let Some((&s, &e)) = self.ends.range(..=end).next_back() {
            if e < start {
                break;
            }
            known += e.min(range.end).saturating_sub(s.max(range.start));
            (start, end) = (start.min(s), end.max(e));
            self.ends.remove(&s);
        }
        self.ends.insert(start, end);
        range.end - range.start - known
    }

    /// Takes a range out; returns how many bytes of it were in the set.
    pub(crate) fn remove(&mut self, range: Range<u64>) -> u64 {
        let mut removed = 0;
        while let Some((&s, &e)) = self.ends.range(..range.end).next_back() {
            if e <= range.start || range.is_empty() {
                break;
            }
            self.ends.remove(&s);
            removed += e.min(range.end) - s.max(range.start);
            if e > range.end {
                self.ends.insert(range.end, e);
            }
            if s < range.start {
                self.ends.insert(s, range.start);
            }
        }
        removed
    }

    /// The parts of `range` that are not in the set, ascending.
    pub(crate) fn gaps(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        let before = self.ends.range(..=at).next_back();
        for (&s, &e) in before.into_iter().chain(self.ends.range(at.saturating_add(1)..range.end.max(at + 1)))
        {
            if s > at {
                gaps.push(at..s.min(range.end));
            }
            at = at.max(e);
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }

    /// Whether any byte of `range` is in the set.
    pub(crate) fn touches(&self, range: &Range<u64>) -> bool {
        !range.is_empty() && self.ends.range(..range.end).next_back().is_some_and(|(_, &e)| e > range.start)
    }

    /// Bytes in the set.
    pub(crate) fn total(&self) -> u64 {
        self.ends.iter().map(|(s, e)| e - s).sum()
    }

    /// One past the last byte of the set.
    pub(crate) fn end(&self) -> u64 {
        self.ends.last_key_value().map_or(0, |(_, &e)| e)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_set_of_single_bytes(ops in proptest::collection::vec((any::<bool>(), 0u64..60, 0u64..30), 0..60)) {
            let mut set = RangeSet::default();
            let mut model = [false; 100];
            for (insert, start, len) in ops {
                let range = start..start + len;
                let cells = &mut model[start as usize..(start + len) as usize];
                let changed = cells.iter().filter(|&&c| c != insert).count() as u64;
                cells.fill(insert);
                prop_assert_eq!(if insert { set.insert(range) } else { set.remove(range) }, changed);
                prop_assert_eq!(set.total(), model.iter().filter(|&&c| c).count() as u64);
                for (a, b) in [(0u64, 100u64), (start, start + len), (30, 31)] {
                    let mut holes = model.map(|_| false);
                    set.gaps(&(a..b)).iter().for_each(|g| holes[g.start as usize..g.end as usize].fill(true));
                    let want: Vec<bool> =
                        (0..100).map(|i| !model[i] && (a..b).contains(&(i as u64))).collect();
                    prop_assert_eq!(&holes[..], &want[..]);
                    prop_assert_eq!(set.touches(&(a..b)), (a..b).any(|i| model[i as usize]));
                }
            }
        }
    }
}
