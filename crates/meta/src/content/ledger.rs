//! Who owned which slice before and after a change.
//!
//! An owner of a slice of blocks is one segment record, or one inode with a single extent. A slice that was just written
//! has one owner from the start, whoever that will be; further ones are counted, and the last one to go queues the
//! objects. Of a pack the live bytes are counted instead.

use crate::store::{DeadObject, Write};
use carafe_types::SliceId;
use carafe_types::record::{Extent, ExtentKind};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    len: u64,
    pack: bool,
    owners: i64,
    bytes: i64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    uses: BTreeMap<SliceId, Use>,
    fresh: BTreeSet<SliceId>,
}

impl Ledger {
    /// A record that held these extents will be replaced.
    pub(crate) fn before(&mut self, extents: &[Extent]) {
        self.replace(extents, &[]);
    }

    /// A record will hold these extents.
    pub(crate) fn after(&mut self, extents: &[Extent]) {
        self.replace(&[], extents);
    }

    /// A record's extents change from `old` to `new`. Only what differs is looked at closely: a segment may hold thousands
    /// of extents of which one write changes three.
    pub(crate) fn replace(&mut self, old: &[Extent], new: &[Extent]) {
        let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        let (old_rest, new_rest) = (&old[head..], &new[head..]);
        let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
        let (old_mid, new_mid) = (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);
        let kept =
            |slice: SliceId| old[..head].iter().chain(&old[old.len() - tail..]).any(|e| e.slice == slice);
        let mut slices: BTreeMap<SliceId, (bool, bool)> = BTreeMap::new();
        for (list, sign) in [(old_mid, -1), (new_mid, 1)] {
            for e in list {
                self.entry(e).bytes += sign * e.len as i64;
                let seen = slices.entry(e.slice).or_default();
                *seen = (seen.0 || sign < 0, seen.1 || sign > 0);
            }
        }
        for (slice, (was, is)) in slices {
            if was != is
                && !kept(slice)
                && let Some(entry) = self.uses.get_mut(&slice)
            {
                entry.owners += if is { 1 } else { -1 };
            }
        }
    }

    /// The slice was just written: it has its first owner, unless it turns out to have none.
    pub(crate) fn fresh(&mut self, extent: &Extent) {
        let new = self.fresh.insert(extent.slice);
        let entry = self.entry(extent);
        if new && !entry.pack {
            entry.owners -= 1;
        }
    }

    fn entry(&mut self, e: &Extent) -> &mut Use {
        let pack = e.kind == ExtentKind::Pack;
        self.uses.entry(e.slice).or_insert(Use { len: e.slice_len, pack, ..Use::default() })
    }

    /// What the store must count. Additions come before what they keep alive is released.
    pub(crate) fn writes(&self, delete_after_ms: u64) -> Vec<Write> {
        let mut adds = Vec::new();
        let mut drops = Vec::new();
        for (slice, change) in &self.uses {
            let object = DeadObject { slice: *slice, pack: change.pack, len: change.len };
            if change.pack {
                // A pack that nothing refers to in the end was never counted: queue it, or its object stays for ever.
                if change.bytes != 0 || self.fresh.contains(slice) {
                    let by = change.bytes;
                    adds.push(Write::PackLive { object, by, after_ms: delete_after_ms });
                }
                continue;
            }
            for _ in 0..change.owners.max(0) {
                adds.push(Write::Retain(*slice));
            }
            for _ in 0..(-change.owners).max(0) {
                drops.push(Write::Release { object, after_ms: delete_after_ms });
            }
        }
        adds.extend(drops);
        adds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carafe_types::SessionNo;

    fn extent(n: u64, offset: u64, len: u64, kind: ExtentKind) -> Extent {
        let slice = SliceId { session: SessionNo(1), n };
        Extent { offset, len, kind, slice, slice_off: 0, slice_len: 1000 }
    }

    #[test]
    fn the_usual_file_counts_nothing() {
        let mut l = Ledger::default();
        let e = extent(1, 0, 10, ExtentKind::Blocks);
        l.fresh(&e);
        l.after(&[e]);
        assert!(l.writes(0).is_empty());
    }

    #[test]
    fn a_slice_in_three_segments_has_two_more_owners_and_gives_them_back() {
        let e = extent(1, 0, 10, ExtentKind::Blocks);
        let mut l = Ledger::default();
        l.fresh(&e);
        (0..3).for_each(|_| l.after(&[e]));
        assert_eq!(l.writes(0), vec![Write::Retain(e.slice); 2]);
        let mut l = Ledger::default();
        (0..3).for_each(|_| l.before(&[e]));
        assert_eq!(l.writes(0).len(), 3);
    }

    #[test]
    fn a_fresh_slice_that_was_overwritten_in_the_same_commit_is_released() {
        let mut l = Ledger::default();
        let e = extent(1, 0, 10, ExtentKind::Blocks);
        l.fresh(&e);
        assert!(matches!(l.writes(0)[..], [Write::Release { .. }]));
    }

    #[test]
    fn a_pack_counts_bytes() {
        let mut l = Ledger::default();
        l.before(&[extent(1, 0, 10, ExtentKind::Pack)]);
        l.after(&[extent(1, 0, 4, ExtentKind::Pack), extent(1, 6, 1, ExtentKind::Pack)]);
        assert!(matches!(l.writes(0)[..], [Write::PackLive { by: -5, .. }]));
    }
}
