//! What one run of an operation sees beside the cache: the last snapshot, and what a lost race told.

use crate::cache::Target;
use crate::store::{Check, DirEntry, Failed, Fresh, Key, LoadRequest, Loaded, QuotaState, WatchKey};
use bytes::Bytes;
use carafe_types::{BucketNo, EntryName, InodeNo, QuotaId, SessionNo};
use std::collections::{HashMap, HashSet};

/// A question of an operation to the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Want {
    /// One record.
    Record(Key),
    /// Where one name points.
    Name(InodeNo, EntryName),
    /// At most so many names after one.
    List(InodeNo, Option<EntryName>, usize),
    /// A quota's record.
    Quota(QuotaId),
}

impl Want {
    /// The key that must be watched to keep the answer.
    pub(crate) fn watch_key(&self) -> Option<WatchKey> {
        match self {
            Want::Record(key) => key.watch_key(),
            Want::Name(dir, _) | Want::List(dir, ..) => Some(WatchKey::Names(*dir)),
            Want::Quota(_) => None,
        }
    }

    /// Whether a commit with this check fails when the answer is not right any more.
    pub(crate) fn is_checked_by(&self, check: &Check) -> bool {
        match (self, check) {
            (Want::Record(read), Check::Same(key, _)) => read == key,
            (Want::Name(d, n), Check::HasName(dir, name, ..) | Check::NoName(dir, name)) => {
                d == dir && n == name
            }
            (Want::Name(dir, _) | Want::List(dir, ..), Check::Empty(empty)) => dir == empty,
            _ => false,
        }
    }
}

/// One atomic reading.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) seq: u64,
    records: HashMap<Key, Option<Bytes>>,
    buckets: HashSet<BucketNo>,
    names: HashMap<(InodeNo, EntryName), Option<Target>>,
    lists: Vec<(InodeNo, Option<EntryName>, usize, Vec<DirEntry>)>,
    quotas: HashMap<QuotaId, Option<QuotaState>>,
}

impl Snapshot {
    pub(crate) fn new(request: LoadRequest, loaded: Loaded) -> Self {
        let mut records: HashMap<Key, Option<Bytes>> =
            request.records.into_iter().zip(loaded.records).collect();
        records.extend(loaded.buckets.into_iter().flatten().map(|(k, v)| (k, Some(v))));
        let lists = request.lists.into_iter().zip(loaded.lists);
        Snapshot {
            seq: loaded.seq,
            records,
            buckets: request.buckets.into_iter().collect(),
            names: request.names.into_iter().zip(loaded.names).collect(),
            lists: lists.map(|(r, found)| (r.dir, r.after, r.limit, found)).collect(),
            quotas: request.quotas.into_iter().zip(loaded.quotas).collect(),
        }
    }

    pub(crate) fn record(&self, key: &Key) -> Option<Option<Bytes>> {
        if let Some(found) = self.records.get(key) {
            return Some(found.clone());
        }
        let bucket = match key {
            Key::Inode(i) | Key::DirTimes(i) | Key::DirAtime(i) | Key::DirSubdirs(i) => i.bucket(),
            _ => return None,
        };
        self.buckets.contains(&bucket).then_some(None)
    }

    pub(crate) fn name(&self, dir: InodeNo, name: &EntryName) -> Option<Option<Target>> {
        self.names.get(&(dir, name.clone())).copied()
    }

    /// Names after `after`, at most `limit`, and whether they reach the end.
    pub(crate) fn list(
        &self,
        dir: InodeNo,
        after: Option<&EntryName>,
        limit: usize,
    ) -> Option<(&[DirEntry], bool)> {
        let (_, _, asked, found) =
            self.lists.iter().find(|(d, a, l, _)| *d == dir && a.as_ref() == after && *l >= limit)?;
        let end = found.len() < *asked && found.len() <= limit;
        Some((&found[..found.len().min(limit)], end))
    }

    pub(crate) fn quota(&self, q: QuotaId) -> Option<Option<&QuotaState>> {
        self.quotas.get(&q).map(Option::as_ref)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// Everything asked so far; each load asks for all of it again, so that an answer rests on *one* snapshot.
    pub(crate) wants: HashSet<Want>,
    pub(crate) snapshot: Option<Snapshot>,
    /// The cache is not asked: the answer shall rest on the snapshot alone.
    pub(crate) alone: bool,
    /// Others watch the bucket of the new inode already: it is not begun.
    pub(crate) no_enlist: bool,
    pub(crate) fresh_records: HashMap<Key, Option<Bytes>>,
    pub(crate) fresh_names: HashMap<(InodeNo, EntryName), Option<Target>>,
    pub(crate) fresh_empty: HashMap<InodeNo, bool>,
    /// Who stood beside us in a key that we hoped to hold alone.
    pub(crate) watchers: HashMap<WatchKey, Vec<SessionNo>>,
}

impl View {
    /// What a commit that lost a race was told: one atomic reading of everything it checked.
    pub(crate) fn merge_conflict(&mut self, checks: &[Check], failed: &[Failed]) {
        for (check, failed) in checks.iter().zip(failed) {
            match (check, &failed.fresh) {
                (Check::Same(key, _), Fresh::Record(value)) => {
                    self.fresh_records.insert(key.clone(), value.clone());
                }
                (Check::HasName(dir, name, ..) | Check::NoName(dir, name), Fresh::Name(value)) => {
                    self.fresh_names.insert((*dir, name.clone()), *value);
                }
                (Check::Empty(dir), Fresh::Empty(empty)) => {
                    self.fresh_empty.insert(*dir, *empty);
                }
                (Check::Alone(key), Fresh::Watchers(who)) => {
                    self.watchers.insert(*key, who.clone());
                }
                _ => {}
            }
        }
    }

    /// A new snapshot has all that was asked.
    pub(crate) fn set_snapshot(&mut self, snapshot: Option<Snapshot>) {
        self.snapshot = snapshot;
        self.fresh_records.clear();
        self.fresh_names.clear();
        self.fresh_empty.clear();
    }

    /// Begin again with nothing.
    pub(crate) fn reset(&mut self) {
        *self = View::default();
    }
}
