//! Quotas as this session knows them: `statfs` from memory, chains, and what is reserved.
//!
//! A charge is `st_size` and one inode, and is taken from a quota and every quota above it. The store counts what is
//! *left*. This table holds the counters of the last renewal and adds own changes to them, so `statfs` costs nothing and
//! answers while the store is down; it is never what refuses a write: the store's counters are.

mod reserve;

pub(crate) use reserve::Pools;

use crate::figures::QuotaStats;
use crate::format::UNLIMITED;
use crate::store::{Commit, Key, QuotaState, Write};
use crate::tx::{Op, Stop};
use carafe_types::record::QuotaRecord;
use carafe_types::{FsError, QuotaId};
use std::collections::HashMap;

/// What `statfs` shows as free where nothing bounds: 1 PiB.
const UNBOUNDED_BYTES: u64 = 1 << 50;
/// And inodes.
const UNBOUNDED_INODES: u64 = 1 << 40;

/// What `statfs` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// The limit, or what is used and 1 PiB more.
    pub total_bytes: u64,
    /// Bytes that can be written before a quota refuses.
    pub free_bytes: u64,
    /// The limit, or what is used and 2^40 more.
    pub total_inodes: u64,
    /// Inodes that can be made before a quota refuses.
    pub free_inodes: u64,
}

#[derive(Clone, Debug)]
struct Quota {
    record: QuotaRecord,
    left_bytes: i64,
    left_inodes: i64,
    reserved: i64,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    seq: u64,
    quota: QuotaId,
    bytes: i64,
    inodes: i64,
    reserved: i64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct QuotaTable {
    quotas: HashMap<QuotaId, Quota>,
    since: Vec<Change>,
    /// What this session has reserved and not yet used.
    own: HashMap<QuotaId, i64>,
    /// Bytes left of the budget for inline data.
    pub(crate) inline_left: i64,
}

/// The quota above `q`, from its record.
pub(crate) fn parent_of(q: QuotaId, state: &QuotaState) -> Op<Option<QuotaId>> {
    let record = QuotaRecord::decode(&state.record);
    record.map(|r| r.parent).map_err(|e| Stop::Fail(FsError::Io(format!("quota {} is damaged: {e}", q.0))))
}

impl QuotaTable {
    /// A renewal at `seq` told the counters of all quotas.
    pub(crate) fn renewed(&mut self, seq: u64, quotas: &[(QuotaId, QuotaState)], inline_left: i64) {
        self.inline_left = inline_left;
        self.quotas.clear();
        for (id, state) in quotas {
            self.learn(*id, state);
        }
        self.since.retain(|c| c.seq > seq);
        for change in self.since.clone() {
            self.count(&change);
        }
    }

    /// A quota as just read; one that does not parse is left to `fsck`.
    pub(crate) fn learn(&mut self, id: QuotaId, state: &QuotaState) {
        if let Ok(record) = QuotaRecord::decode(&state.record) {
            let QuotaState { left_bytes, left_inodes, reserved, .. } = *state;
            self.quotas.insert(id, Quota { record, left_bytes, left_inodes, reserved });
        }
    }

    /// An own commit happened at `seq`.
    pub(crate) fn committed(&mut self, commit: &Commit, seq: u64) {
        commit.writes.iter().for_each(|w| self.made(w, &commit.writes));
        let takes = commit.takes.iter().map(|t| (t.quota, t.bytes, t.inodes, 0));
        let reserves = commit.writes.iter().filter_map(|w| match w {
            Write::Reserve(q, by) => Some((*q, 0, 0, *by)),
            _ => None,
        });
        let changes: Vec<Change> = takes
            .chain(reserves)
            .map(|(quota, bytes, inodes, reserved)| Change { seq, quota, bytes, inodes, reserved })
            .collect();
        for change in changes {
            *self.own.entry(change.quota).or_default() += change.reserved;
            self.count(&change);
            self.since.push(change);
        }
        self.inline_left -= commit.take_inline;
    }

    /// A quota that this session has just made is known before the next renewal.
    fn made(&mut self, write: &Write, all: &[Write]) {
        let Write::InitQuota(id, Some((left_bytes, left_inodes))) = write else { return };
        let record = all.iter().find_map(|w| match w {
            Write::Put(Key::Quota(q), record) if q == id => Some(record.clone()),
            _ => None,
        });
        if let Some(record) = record {
            let (left_bytes, left_inodes) = (*left_bytes, *left_inodes);
            self.learn(*id, &QuotaState { record, left_bytes, left_inodes, reserved: 0 });
        }
    }

    fn count(&mut self, change: &Change) {
        if let Some(q) = self.quotas.get_mut(&change.quota) {
            q.left_bytes -= change.bytes;
            q.left_inodes -= change.inodes;
            q.reserved += change.reserved;
        }
    }

    /// Bytes that this session has reserved and not yet used.
    pub(crate) fn own_reserve(&self, q: QuotaId) -> i64 {
        self.own.get(&q).copied().unwrap_or(0)
    }

    /// The session is another one: what the old one had reserved has gone back.
    pub(crate) fn forget_own_reserves(&mut self) {
        self.own.clear();
    }

    /// `None`: the quota is not known here yet. `Some(None)`: nothing is above it.
    pub(crate) fn parent(&self, q: QuotaId) -> Option<Option<QuotaId>> {
        self.quotas.get(&q).map(|quota| quota.record.parent)
    }

    /// A quota and all above it, as far as known.
    fn chain(&self, q: QuotaId) -> impl Iterator<Item = &Quota> {
        let next = |quota: &&Quota| quota.record.parent.and_then(|p| self.quotas.get(&p));
        std::iter::successors(self.quotas.get(&q), next).take(16)
    }

    /// A setting of the volume whose quota this is.
    pub(crate) fn setting(&self, q: QuotaId, name: &str) -> Option<&str> {
        self.quotas.get(&q)?.record.settings.get(name).map(String::as_str)
    }

    /// Bytes left in the tightest quota of the chain.
    pub(crate) fn left_bytes(&self, q: QuotaId) -> i64 {
        self.chain(q).map(|quota| quota.left_bytes).min().unwrap_or(i64::MAX)
    }

    /// Whether `q` lies inside a volume, so that its users expect EDQUOT instead of ENOSPC.
    pub(crate) fn is_nested(&self, q: QuotaId) -> bool {
        self.chain(q).count() > 2
    }

    /// All quotas that are known, for metrics. The store counts what is left, also where there is no limit.
    pub(crate) fn figures(&self) -> Vec<QuotaStats> {
        let used = |limit: Option<u64>, left: i64| {
            let limit = limit.map_or(UNLIMITED, |l| i64::try_from(l).unwrap_or(i64::MAX));
            limit.saturating_sub(left).max(0).unsigned_abs()
        };
        let figures = |(id, q): (&QuotaId, &Quota)| {
            let limits = q.record.limits;
            QuotaStats {
                id: *id,
                root: q.record.root,
                used_bytes: used(limits.bytes, q.left_bytes.saturating_add(q.reserved)),
                limit_bytes: limits.bytes,
                used_inodes: used(limits.inodes, q.left_inodes),
                limit_inodes: limits.inodes,
            }
        };
        self.quotas.iter().map(figures).collect()
    }

    /// What `statfs` tells below `q`.
    pub(crate) fn statfs(&self, q: QuotaId) -> StatFs {
        let bytes = self.chain(q).map(|quota| {
            let free = quota.left_bytes.saturating_add(quota.reserved);
            (quota.record.limits.bytes, free)
        });
        let inodes = self.chain(q).map(|quota| (quota.record.limits.inodes, quota.left_inodes));
        let (total_bytes, free_bytes) = bound(bytes, UNBOUNDED_BYTES);
        let (total_inodes, free_inodes) = bound(inodes, UNBOUNDED_INODES);
        StatFs { total_bytes, free_bytes, total_inodes, free_inodes }
    }
}

/// Total and free from (limit, free) along a chain: the nearest limit is the total, the tightest one says what is free.
fn bound(chain: impl Iterator<Item = (Option<u64>, i64)>, unbounded: u64) -> (u64, u64) {
    let limited: Vec<(u64, u64)> =
        chain.filter_map(|(limit, free)| Some((limit?, u64::try_from(free).unwrap_or(0)))).collect();
    match (limited.first(), limited.iter().map(|(_, free)| *free).min()) {
        (Some((total, _)), Some(free)) => (*total, free.min(*total)),
        _ => (unbounded, unbounded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Take;
    use carafe_types::InodeNo;
    use carafe_types::record::Limits;

    fn state(parent: Option<u32>, bytes: Option<u64>, left: i64) -> QuotaState {
        let limits = Limits { bytes, inodes: None };
        let settings = [("a".to_owned(), "1".to_owned())].into();
        let record =
            QuotaRecord { version: 1, parent: parent.map(QuotaId), root: InodeNo::ROOT, limits, settings };
        QuotaState { record: record.encode().into(), left_bytes: left, left_inodes: 1 << 62, reserved: 0 }
    }

    fn table() -> QuotaTable {
        let mut t = QuotaTable::default();
        let (root, volume) = (state(None, None, 1 << 62), state(Some(0), Some(1000), 600));
        t.renewed(10, &[(QuotaId(0), root), (QuotaId(1), volume)], 0);
        t
    }

    #[test]
    fn statfs_tells_the_quota_and_own_changes_at_once() {
        let mut t = table();
        assert_eq!((t.statfs(QuotaId(1)).total_bytes, t.statfs(QuotaId(1)).free_bytes), (1000, 600));
        let take = Take { quota: QuotaId(1), bytes: 100, inodes: 1 };
        t.committed(&Commit { takes: vec![take], ..Commit::default() }, 12);
        assert_eq!(t.statfs(QuotaId(1)).free_bytes, 500);
    }

    #[test]
    fn a_renewal_older_than_an_own_change_does_not_hide_it() {
        let mut t = table();
        let take = Take { quota: QuotaId(1), bytes: 100, inodes: 0 };
        t.committed(&Commit { takes: vec![take], ..Commit::default() }, 12);
        t.renewed(11, &[(QuotaId(1), state(Some(0), Some(1000), 600))], 0);
        assert_eq!(t.statfs(QuotaId(1)).free_bytes, 500);
        t.renewed(12, &[(QuotaId(1), state(Some(0), Some(1000), 500))], 0);
        assert_eq!(t.statfs(QuotaId(1)).free_bytes, 500);
    }

    #[test]
    fn settings_of_a_volume_come_with_its_quota() {
        let t = table();
        assert_eq!(
            (t.setting(QuotaId(1), "a"), t.setting(QuotaId(1), "b"), t.setting(QuotaId(9), "a")),
            (Some("1"), None, None)
        );
    }

    #[test]
    fn what_nothing_bounds_shows_a_pebibyte() {
        assert_eq!(table().statfs(QuotaId(0)).free_bytes, 1 << 50);
    }
}
