//! Slices and packs: how often they are referred to, and what the store counts.

use super::repair::Repair;
use super::{Check, Kind};
use crate::cache::decimal;
use crate::store::{DeadObject, Key};
use carafe_types::record::{Extent, ExtentKind};
use carafe_types::{FsResult, SessionUuid, SliceId};
use std::collections::{HashMap, HashSet};

/// Slices whose records are read at once.
const PAGE: usize = 2000;

/// A slice that is in use, as the bucket calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UsedSlice {
    /// Who wrote it.
    pub session: SessionUuid,
    /// Its number there.
    pub n: u64,
    /// A pack (one object), or blocks.
    pub pack: bool,
    /// Payload bytes of the whole slice.
    pub len: u64,
}

#[derive(Clone, Copy, Debug)]
struct Use {
    pack: bool,
    len: u64,
    owners: i64,
    live: i64,
}

/// All slices that files refer to.
#[derive(Debug, Default)]
pub(crate) struct Uses(HashMap<SliceId, Use>);

impl Uses {
    /// One owner's extents. Returns what does not fit to other references of the same slices.
    pub(super) fn note(&mut self, extents: &[Extent]) -> Vec<String> {
        let mut problems = Vec::new();
        let mut seen: Vec<SliceId> = Vec::new();
        for e in extents {
            let pack = e.kind == ExtentKind::Pack;
            let entry = self.0.entry(e.slice).or_insert(Use { pack, len: e.slice_len, owners: 0, live: 0 });
            if (entry.pack, entry.len) != (pack, e.slice_len) {
                problems.push(format!(
                    "says that slice {} has {} bytes{}, another reference says {}{}",
                    e.slice,
                    e.slice_len,
                    if pack { " in a pack" } else { "" },
                    entry.len,
                    if entry.pack { " in a pack" } else { "" },
                ));
            }
            entry.live += e.len as i64;
            // The extents of a slice usually lie together.
            if seen.last() != Some(&e.slice) && !seen.contains(&e.slice) {
                entry.owners += 1;
                seen.push(e.slice);
            }
        }
        problems
    }
}

impl Check<'_> {
    /// Compares with the records that count owners and live bytes, and with the queue of dead objects.
    pub(super) async fn compare_slices(&mut self) -> FsResult<()> {
        let mut dead: HashSet<SliceId> = HashSet::new();
        let uses = &self.uses.0;
        self.scan
            .dead_objects(&mut |object| {
                if uses.contains_key(&object.slice) {
                    dead.insert(object.slice);
                }
            })
            .await?;
        let uses: Vec<(SliceId, Use)> = self.uses.0.iter().map(|(slice, one)| (*slice, *one)).collect();
        let mut done = 0;
        for some in uses.chunks(PAGE) {
            let key = |(slice, one): &(SliceId, Use)| match one.pack {
                true => Key::PackLive(*slice),
                false => Key::SliceOwners(*slice),
            };
            let keys: Vec<Key> = some.iter().map(key).collect();
            let records = self.scan.records(&keys).await?;
            for ((slice, one), record) in some.iter().zip(records) {
                self.compare_slice(*slice, one, decimal(record.as_ref()));
                if dead.contains(slice) {
                    let detail = "is in use, and waits for deletion".to_owned();
                    let repair = Repair::Undelete(one.object(*slice));
                    self.findings.other(Kind::DeadSlice, format!("slice {slice}"), detail, repair);
                }
            }
            done += some.len() as u64;
            (self.progress)("slices compared", done);
        }
        Ok(())
    }

    fn compare_slice(&mut self, slice: SliceId, one: &Use, counted: i64) {
        let what = format!("slice {slice}");
        if one.pack && counted != one.live {
            let detail = format!("counts {counted} live bytes, has {}", one.live);
            let repair = Repair::Live { object: one.object(slice), counted, is: one.live };
            self.findings.other(Kind::WrongLiveBytes, what, detail, repair);
        } else if !one.pack && counted != one.owners - 1 {
            let detail = format!("counts {} owners, has {}", counted + 1, one.owners);
            let repair = Repair::Owners { slice, counted, is: one.owners - 1 };
            self.findings.other(Kind::WrongOwners, what, detail, repair);
        }
    }

    /// All slices with their names in the bucket.
    pub(super) async fn used_slices(&mut self) -> FsResult<Vec<UsedSlice>> {
        let store = self.client.store();
        let all = self.client.patiently(|_| store.sessions()).await?;
        let uuids: HashMap<_, _> = all.into_iter().map(|s| (s.no, s.uuid)).collect();
        let mut slices = Vec::with_capacity(self.uses.0.len());
        for (slice, one) in &self.uses.0 {
            match uuids.get(&slice.session) {
                Some(session) => {
                    slices.push(UsedSlice { session: *session, n: slice.n, pack: one.pack, len: one.len });
                }
                None => {
                    let detail =
                        format!("session {} is not known, so its objects cannot be found", slice.session.0);
                    self.findings.other(Kind::NamelessSlice, format!("slice {slice}"), detail, None);
                }
            }
        }
        slices.sort_unstable();
        Ok(slices)
    }
}

impl Use {
    fn object(&self, slice: SliceId) -> DeadObject {
        DeadObject { slice, pack: self.pack, len: self.len }
    }
}
