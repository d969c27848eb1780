//! What is kept of one watched key.
//!
//! Every value carries the place in the order of commits from which on it is known. Replies to own commits may arrive in
//! any order, so a value is replaced only by a newer one, and what was deleted stays as a *tombstone* while anything
//! older may still arrive.

use crate::store::{Key, WatchKey};
use bytes::Bytes;
use carafe_types::{EntryName, FileKind, InodeNo};
use std::collections::{BTreeMap, HashMap};

/// What an entry of a directory points to.
pub(crate) type Target = (FileKind, InodeNo);

/// How much of a key is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Complete {
    /// Only what is there.
    Nothing,
    /// All names; of a bucket all inodes, guards and tallies.
    Listed,
    /// Of a bucket also content, attributes and extents: it was begun by this session.
    Everything,
}

/// A value and from which commit on it is known.
#[derive(Clone, Debug)]
pub(crate) struct Known<T> {
    pub(crate) value: Option<T>,
    pub(crate) seq: u64,
}

#[derive(Debug)]
pub(crate) enum Body {
    Bucket(HashMap<Key, Known<Bytes>>),
    Names(BTreeMap<EntryName, Known<Target>>),
}

/// What a value and its place take in memory.
const USUAL_BYTES: usize = 256;

/// The most names that are kept of a directory that is not known as a whole, when more come along unasked.
const NAMES_KEPT: usize = 8192;

/// Stretches that are kept of a directory: who renames is at two places at once.
const STRETCHES: usize = 4;

/// The most names that come along with one.
const AHEAD_MAX: usize = 256;

/// Tells who goes through a directory in order of names from who jumps, as readahead does for a file.
#[derive(Debug, Default)]
struct NamesAhead {
    last: Option<EntryName>,
    window: usize,
}

impl NamesAhead {
    fn next(&mut self, name: &EntryName) -> usize {
        let forward = self.last.as_ref().is_some_and(|last| last < name);
        self.window = if forward { (self.window * 4).clamp(16, AHEAD_MAX) } else { 0 };
        self.last = Some(name.clone());
        self.window
    }
}

#[derive(Debug)]
enum Tomb {
    Record(Key),
    Name(EntryName),
}

/// One watched key.
#[derive(Debug)]
pub(crate) struct Entry {
    /// This session holds it alone: what is in `body` is true.
    pub(crate) sole: bool,
    /// Nothing older than this may be put in.
    pub(crate) base: u64,
    pub(crate) complete: Complete,
    /// A directory with more names than are worth loading at once.
    pub(crate) too_big: bool,
    /// Of such a directory, how many names come along with one that is asked for.
    ahead: NamesAhead,
    /// Stretches of such a directory of which all names are known: behind the first up to the second, which is the end if
    /// there is none.
    stretches: Vec<(Option<EntryName>, Option<EntryName>)>,
    /// A merge on a record that was not known happened at this place: a listing older than it is not complete.
    pub(crate) skipped: u64,
    /// The tick of the last use.
    pub(crate) used: u64,
    /// What its long values weigh beyond one each: inline content is twenty times as long as an inode.
    heavy: usize,
    pub(crate) body: Body,
    tombs: Vec<Tomb>,
}

impl Entry {
    pub(crate) fn new(key: &WatchKey, sole: bool, base: u64, complete: Complete) -> Self {
        let body = match key {
            WatchKey::Bucket(_) => Body::Bucket(HashMap::new()),
            WatchKey::Names(_) => Body::Names(BTreeMap::new()),
        };
        Entry {
            sole,
            base,
            complete,
            too_big: false,
            ahead: NamesAhead::default(),
            stretches: Vec::new(),
            skipped: 0,
            used: 0,
            heavy: 0,
            body,
            tombs: Vec::new(),
        }
    }

    /// The same, last used at `tick`.
    pub(crate) fn used_at(mut self, tick: u64) -> Self {
        self.used = tick;
        self
    }

    /// How many values are kept.
    pub(crate) fn len(&self) -> usize {
        match &self.body {
            Body::Bucket(m) => m.len(),
            Body::Names(m) => m.len(),
        }
    }

    /// What it takes of the memory for records, in values of usual length.
    pub(crate) fn weight(&self) -> usize {
        self.len() + self.heavy + 1
    }

    /// Whether what is not there is known to be absent.
    fn covers(&self, key: &Key) -> bool {
        match self.complete {
            Complete::Nothing => false,
            Complete::Listed => is_listed(key),
            Complete::Everything => true,
        }
    }

    /// `None`: not known. Not asked unless `sole`.
    pub(crate) fn record(&self, key: &Key) -> Option<Option<Bytes>> {
        let Body::Bucket(map) = &self.body else { return None };
        match map.get(key) {
            Some(known) => Some(known.value.clone()),
            None => self.covers(key).then_some(None),
        }
    }

    /// `None`: not known.
    pub(crate) fn name(&self, name: &EntryName) -> Option<Option<Target>> {
        let Body::Names(map) = &self.body else { return None };
        match map.get(name) {
            Some(known) => Some(known.value),
            None => (self.complete > Complete::Nothing || self.stretch_of(name).is_some()).then_some(None),
        }
    }

    fn stretch_of(&self, name: &EntryName) -> Option<usize> {
        self.stretches.iter().position(|(from, to)| {
            from.as_ref().is_none_or(|from| from < name) && to.as_ref().is_none_or(|to| name <= to)
        })
    }

    /// All names behind `after` up to `to` have been put in.
    pub(crate) fn knows_stretch(&mut self, after: Option<&EntryName>, to: Option<&EntryName>) {
        // One that reaches to where this one begins goes on in it.
        let from = match after.and_then(|after| self.stretch_of(after)) {
            Some(at) => self.stretches.remove(at).0,
            None => after.cloned(),
        };
        self.stretches.push((from, to.cloned()));
        if self.stretches.len() > STRETCHES {
            self.stretches.remove(0);
        }
    }

    /// All names in order, if they are known.
    pub(crate) fn names(&self) -> Option<&BTreeMap<EntryName, Known<Target>>> {
        match &self.body {
            Body::Names(map) if self.complete > Complete::Nothing => Some(map),
            _ => None,
        }
    }

    /// A name of a directory that is too big was asked for and is not known: how many names to load behind it.
    pub(crate) fn names_ahead(&mut self, name: &EntryName) -> usize {
        self.ahead.next(name)
    }

    /// Makes room for `more` names that come along unasked. What is forgotten is loaded again when it is asked for; what
    /// is known to be absent stays.
    pub(crate) fn bound_names(&mut self, more: usize) {
        if let Body::Names(map) = &mut self.body
            && self.complete == Complete::Nothing
            && map.len() + more > NAMES_KEPT
        {
            map.retain(|_, known| known.value.is_none());
            self.stretches.clear();
        }
    }

    /// Known to hold nothing at all.
    pub(crate) fn is_void(&self) -> bool {
        let empty = match &self.body {
            Body::Bucket(map) => map.values().all(|k| k.value.is_none()),
            Body::Names(map) => map.values().all(|k| k.value.is_none()),
        };
        empty && (self.complete > Complete::Nothing || !self.sole)
    }

    /// What an own commit at `seq` made of a record.
    pub(crate) fn set_record(&mut self, key: &Key, value: Option<Bytes>, seq: u64) {
        let Body::Bucket(map) = &mut self.body else { return };
        // Equal: an earlier write of the same commit.
        if seq <= self.base || map.get(key).is_some_and(|k| k.seq > seq) {
            return;
        }
        if value.is_none() {
            self.tombs.push(Tomb::Record(key.clone()));
        }
        self.heavy += beyond_one(value.as_ref());
        let old = map.insert(key.clone(), Known { value, seq });
        self.heavy -= beyond_one(old.and_then(|o| o.value).as_ref());
    }

    /// Adds to a number kept as text. Its place in the order stays that of the last full value, so that additions may
    /// come in any order and none is counted twice.
    pub(crate) fn add_record(&mut self, key: &Key, by: i64, seq: u64) {
        if seq <= self.base {
            return;
        }
        let covered = self.covers(key);
        let base = self.base;
        let Body::Bucket(map) = &mut self.body else { return };
        if !covered && !map.contains_key(key) {
            self.skipped = self.skipped.max(seq);
            return;
        }
        let known = map.entry(key.clone()).or_insert(Known { value: None, seq: base });
        if known.seq >= seq {
            return;
        }
        let sum = decimal(known.value.as_ref()).saturating_add(by);
        known.value = (sum != 0).then(|| Bytes::from(sum.to_string()));
    }

    /// What an own commit at `seq` made of a name.
    pub(crate) fn set_name(&mut self, name: &EntryName, value: Option<Target>, seq: u64) {
        let Body::Names(map) = &mut self.body else { return };
        if seq <= self.base || map.get(name).is_some_and(|k| k.seq > seq) {
            return;
        }
        if value.is_none() {
            self.tombs.push(Tomb::Name(name.clone()));
        }
        map.insert(name.clone(), Known { value, seq });
    }

    /// A record as read at `seq`, unless something is known already.
    pub(crate) fn learn_record(&mut self, key: &Key, value: Option<Bytes>, seq: u64) {
        if let Body::Bucket(map) = &mut self.body
            && let std::collections::hash_map::Entry::Vacant(place) = map.entry(key.clone())
        {
            self.heavy += beyond_one(value.as_ref());
            place.insert(Known { value, seq });
        }
    }

    /// A name as read at `seq`, unless something is known already.
    pub(crate) fn learn_name(&mut self, name: &EntryName, value: Option<Target>, seq: u64) {
        if let Body::Names(map) = &mut self.body {
            map.entry(name.clone()).or_insert(Known { value, seq });
        }
    }

    /// Nothing older is under way: what is absent from a complete entry need not be remembered.
    pub(crate) fn forget_tombs(&mut self) {
        for tomb in std::mem::take(&mut self.tombs) {
            match (&mut self.body, tomb) {
                (Body::Bucket(map), Tomb::Record(key)) if is_grave(map.get(&key)) => drop(map.remove(&key)),
                (Body::Names(map), Tomb::Name(name)) if is_grave(map.get(&name)) => drop(map.remove(&name)),
                _ => {}
            }
        }
    }

    pub(crate) fn has_tombs(&self) -> bool {
        !self.tombs.is_empty()
    }
}

/// What a value weighs more than one of usual length.
fn beyond_one(value: Option<&Bytes>) -> usize {
    value.map_or(0, Bytes::len) / USUAL_BYTES
}

fn is_grave<T>(known: Option<&Known<T>>) -> bool {
    known.is_some_and(|k| k.value.is_none())
}

/// Whether a record comes with its whole bucket.
pub(crate) fn is_listed(key: &Key) -> bool {
    matches!(key, Key::Inode(_) | Key::DirTimes(_) | Key::DirAtime(_) | Key::DirSubdirs(_))
}

/// A number kept as text; absent or unreadable is 0 (the engine refuses to write anything else).
pub(crate) fn decimal(text: Option<&Bytes>) -> i64 {
    text.and_then(|b| std::str::from_utf8(b).ok()?.parse().ok()).unwrap_or(0)
}
