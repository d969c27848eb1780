//! The view that an operation runs over.
//!
//! An operation is a plain function: it asks the [`Tx`] for records and names, decides, and puts checks, takes and writes
//! into it. It never waits. What the view does not know, the operation *needs*: the run ends with [`Stop::Need`], one load
//! brings everything that was asked for so far, and the operation runs again from the start. So an operation is written
//! once, as if all were in memory, and costs no round trip when it is.
//!
//! Order in which a question is answered: what this run has written; what a lost race told; the cache, if it may be
//! believed; the last snapshot.

mod change;
mod gates;
mod nodes;
mod view;

pub(crate) use nodes::Node;
pub(crate) use view::{Snapshot, View, Want};

use crate::cache::{Cache, Target};
use crate::quota::QuotaTable;
use crate::store::{Commit, DirEntry, Key, Take, WatchKey, Write};
use bytes::Bytes;
use carafe_types::{EntryName, FsError, InodeNo, QuotaId, SessionNo, Timestamp};
use std::collections::BTreeMap;

/// Why an operation ended without a result.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Something must be loaded first.
    Need,
    /// It fails.
    Fail(FsError),
}

impl From<FsError> for Stop {
    fn from(e: FsError) -> Self {
        Stop::Fail(e)
    }
}

/// The result of a run.
pub(crate) type Op<T> = Result<T, Stop>;

/// What an operation knows of the world outside the records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World<'a> {
    /// The store's clock, estimated.
    pub(crate) now: Timestamp,
    pub(crate) session: SessionNo,
    /// The lease runs: the cache may be believed.
    pub(crate) trust: bool,
    pub(crate) quotas: &'a QuotaTable,
    /// Milliseconds from the release of a slice to the deletion of its objects.
    pub(crate) delete_after_ms: u64,
    pub(crate) inline_max: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Tx<'a> {
    pub(crate) world: World<'a>,
    cache: &'a Cache,
    view: &'a View,
    asked: Vec<Want>,
    needs: bool,
    from_cache: Vec<WatchKey>,
    from_snapshot: bool,
    from_conflict: bool,
    records: BTreeMap<Key, Option<Bytes>>,
    names: BTreeMap<(InodeNo, EntryName), Option<Target>>,
    takes: BTreeMap<QuotaId, (i64, i64)>,
    commit: Commit,
    /// Inodes whose last name this transaction removes: none of them may be opened until it is decided.
    pub(crate) removing: Vec<InodeNo>,
}

/// Where a record is known from.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// What a lost race told.
    Conflict,
    Cache,
    Snapshot,
}

/// What is left of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) asked: Vec<Want>,
    pub(crate) from_cache: Vec<WatchKey>,
    pub(crate) from_snapshot: bool,
    pub(crate) from_conflict: bool,
    pub(crate) commit: Commit,
    pub(crate) removing: Vec<InodeNo>,
}

impl Ran {
    /// Whether something was read that the commit does not check itself: it is right only together with what is checked.
    pub(crate) fn is_unchecked(&self) -> bool {
        let checks = &self.commit.checks;
        self.asked.iter().any(|want| !checks.iter().any(|check| want.is_checked_by(check)))
    }

    /// Whether there is anything to commit.
    pub(crate) fn changes(&self) -> bool {
        let c = &self.commit;
        !c.writes.is_empty() || !c.takes.is_empty() || c.take_inline != 0 || !c.notify.is_empty()
    }
}

impl<'a> Tx<'a> {
    pub(crate) fn new(world: World<'a>, cache: &'a Cache, view: &'a View) -> Self {
        Tx {
            world,
            cache,
            view,
            asked: Vec::new(),
            needs: false,
            from_cache: Vec::new(),
            from_snapshot: false,
            from_conflict: false,
            records: BTreeMap::new(),
            names: BTreeMap::new(),
            takes: BTreeMap::new(),
            commit: Commit::default(),
            removing: Vec::new(),
        }
    }

    /// Ends the run.
    pub(crate) fn finish(mut self) -> Ran {
        self.check_gates();
        for (key, value) in std::mem::take(&mut self.records) {
            self.commit.writes.push(match value {
                Some(bytes) => Write::Put(key, bytes),
                None => Write::Delete(key),
            });
        }
        let takes = self.takes.into_iter().filter(|(_, t)| *t != (0, 0));
        self.commit.takes = takes.map(|(quota, (bytes, inodes))| Take { quota, bytes, inodes }).collect();
        Ran {
            asked: self.asked,
            from_cache: self.from_cache,
            from_snapshot: self.from_snapshot,
            from_conflict: self.from_conflict,
            commit: self.commit,
            removing: self.removing,
        }
    }

    // ---- asking ----

    fn trusted(&self) -> Option<&'a Cache> {
        (self.world.trust && !self.view.alone).then_some(self.cache)
    }

    fn used_cache(&mut self, key: Option<WatchKey>) {
        // Twice does no harm; runs of the same key are the usual case.
        if let Some(key) = key.filter(|k| self.from_cache.last() != Some(k)) {
            self.from_cache.push(key);
        }
    }

    /// A record as this run knows it from the store, without resting an answer on it, and where it is known from.
    fn peek_record(&self, key: &Key) -> Option<(Option<Bytes>, Source)> {
        if let Some(value) = self.view.fresh_records.get(key) {
            return Some((value.clone(), Source::Conflict));
        }
        if let Some(value) = self.trusted().and_then(|c| c.record(key)) {
            return Some((value, Source::Cache));
        }
        Some((self.view.snapshot.as_ref()?.record(key)?, Source::Snapshot))
    }

    fn find_record(&mut self, key: &Key) -> Option<Option<Bytes>> {
        let (value, source) = self.peek_record(key)?;
        match source {
            Source::Conflict => self.from_conflict = true,
            Source::Cache => self.used_cache(key.watch_key()),
            Source::Snapshot => self.from_snapshot = true,
        }
        Some(value)
    }

    fn find_name(&mut self, dir: InodeNo, name: &EntryName) -> Option<Option<Target>> {
        if let Some(value) = self.view.fresh_names.get(&(dir, name.clone())) {
            self.from_conflict = true;
            return Some(*value);
        }
        if let Some(value) = self.trusted().and_then(|c| c.name(dir, name)) {
            self.used_cache(Some(WatchKey::Names(dir)));
            return Some(value);
        }
        let value = self.view.snapshot.as_ref().and_then(|s| s.name(dir, name))?;
        self.from_snapshot = true;
        Some(value)
    }

    /// Asks for something that will be needed later, so that one load brings it too. The run goes on.
    pub(crate) fn want(&mut self, want: Want) {
        let known = match &want {
            Want::Record(key) => self.records.contains_key(key) || self.find_record(key).is_some(),
            Want::Name(dir, name) => self.find_name(*dir, name).is_some(),
            Want::List(..) | Want::Quota(_) => true,
        };
        if !known {
            self.needs = true;
            self.asked.push(want);
        }
    }

    pub(crate) fn want_record(&mut self, key: Key) {
        self.want(Want::Record(key));
    }

    pub(crate) fn want_node(&mut self, ino: InodeNo) {
        self.want(Want::Record(Key::Inode(ino)));
    }

    pub(crate) fn want_name(&mut self, dir: InodeNo, name: &EntryName) {
        self.want(Want::Name(dir, name.clone()));
    }

    /// Stops here if anything wanted is missing, so that what follows is asked only when it must be.
    pub(crate) fn gather(&self) -> Op<()> {
        if self.needs { Err(Stop::Need) } else { Ok(()) }
    }

    fn need<T>(&mut self) -> Op<T> {
        self.needs = true;
        Err(Stop::Need)
    }

    /// A record as it is now, own writes of this run included.
    pub(crate) fn record(&mut self, key: &Key) -> Op<Option<Bytes>> {
        if let Some(value) = self.records.get(key) {
            return Ok(value.clone());
        }
        self.stored(key)
    }

    /// A record as it is in the store.
    fn stored(&mut self, key: &Key) -> Op<Option<Bytes>> {
        self.asked.push(Want::Record(key.clone()));
        match self.find_record(key) {
            Some(value) => Ok(value),
            None => self.need(),
        }
    }

    /// Where a name points, own changes of this run included.
    pub(crate) fn name(&mut self, dir: InodeNo, name: &EntryName) -> Op<Option<Target>> {
        if let Some(value) = self.names.get(&(dir, name.clone())) {
            return Ok(*value);
        }
        self.asked.push(Want::Name(dir, name.clone()));
        match self.find_name(dir, name) {
            Some(value) => Ok(value),
            None => self.need(),
        }
    }

    /// Whether a directory has no names.
    pub(crate) fn is_empty(&mut self, dir: InodeNo) -> Op<bool> {
        if let Some(empty) = self.view.fresh_empty.get(&dir) {
            self.from_conflict = true;
            return Ok(*empty);
        }
        let (names, end) = self.list(dir, None, 1)?;
        Ok(names.is_empty() && end)
    }

    /// At most `limit` names after `after`, and whether these are the last.
    pub(crate) fn list(
        &mut self,
        dir: InodeNo,
        after: Option<&EntryName>,
        limit: usize,
    ) -> Op<(Vec<DirEntry>, bool)> {
        self.asked.push(Want::List(dir, after.cloned(), limit));
        if let Some(all) = self.trusted().and_then(|c| c.names(dir)) {
            self.used_cache(Some(WatchKey::Names(dir)));
            let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
            let mut rest = all
                .range::<EntryName, _>((from, std::ops::Bound::Unbounded))
                .filter_map(|(name, known)| known.value.map(|target| (name, target)));
            let page = rest.by_ref().take(limit);
            let page = page.map(|(n, (kind, ino))| DirEntry { name: n.clone(), kind, ino }).collect();
            return Ok((page, rest.next().is_none()));
        }
        match self.view.snapshot.as_ref().and_then(|s| s.list(dir, after, limit)) {
            Some((found, end)) => {
                let found = found.to_vec();
                self.from_snapshot = true;
                Ok((found, end))
            }
            None => self.need(),
        }
    }

    /// Other sessions known to watch a key that this one hoped to hold alone; `None` if nothing is known.
    pub(crate) fn other_watchers(&self, key: &WatchKey) -> Option<&'a [SessionNo]> {
        self.view.watchers.get(key).map(Vec::as_slice).filter(|w| !w.is_empty())
    }

    /// Whether the cache says that this session holds the key alone.
    pub(crate) fn is_sole(&self, key: &WatchKey) -> bool {
        self.world.trust && self.cache.is_sole(key)
    }

    /// Whether this session has the inode open.
    pub(crate) fn is_open(&self, ino: InodeNo) -> bool {
        self.cache.opens.get(&ino).is_some_and(|o| o.count > 0)
    }
}
