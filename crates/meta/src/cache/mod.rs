//! What this session knows of the store, and when it may believe it.
//!
//! A record is believed only while this session stands *alone* in the watcher list of its key and its lease runs. Then
//! nobody else can have changed it, and own changes are put in as their answers come. The subtleties:
//!
//! 1. Answers overtake each other: every value has its place in the order of commits ([`entry`]).
//! 2. A `share` overtakes the reply that says "alone": a moment counter is noted when a request leaves, and a reply is
//!    believed only if no share of its key was asked for or being answered since ([`Cache::quiet_since`]).
//! 3. An own commit overtakes an older load: what a commit touched is remembered ([`recent`]), and a reply that is older
//!    is neither kept nor answered.
//! 4. A key that another session watches too is never kept. Only the fact that this session stands in its list is.
//!
//! The cache is plain data behind one lock. It asks nothing and knows no clock; `client` does.

mod absorb;
mod apply;
mod entry;
mod recent;

pub(crate) use apply::keys_of;
pub(crate) use entry::{Complete, Entry, Target, decimal, is_listed};

use crate::store::{Key, WatchKey};
use crate::tx::Want;
use bytes::Bytes;
use carafe_types::{EntryName, InodeNo};
pub(crate) use recent::Recent;
use std::collections::{HashMap, HashSet};

/// Directories with at most this many names are loaded whole, so that absent names are answered from memory.
pub(crate) const SMALL_DIRECTORY: usize = 1000;

/// How many own changes are remembered one by one.
const RECENT_CHANGES: usize = 16_384;

/// What an own commit touched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Touched {
    Record(Key),
    Name(InodeNo, EntryName),
    Any(WatchKey),
}

/// A request that has left: what its reply may be believed against.
#[derive(Debug)]
pub(crate) struct Sent {
    moment: u64,
    keys: Vec<WatchKey>,
}

impl Sent {
    /// What it reads or writes.
    pub(crate) fn keys(&self) -> &[WatchKey] {
        &self.keys
    }
}

/// How many handles of an inode are open here, and whether the store knows that this session holds it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Open {
    pub(crate) count: u64,
    pub(crate) held: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Cache {
    entries: HashMap<WatchKey, Entry>,
    own: Recent<Touched>,
    shares: Recent<WatchKey>,
    moment: u64,
    distrusted: u64,
    answering: HashSet<WatchKey>,
    underway: HashMap<WatchKey, u32>,
    pins: HashMap<WatchKey, u32>,
    /// Open handles of this session.
    pub(crate) opens: HashMap<InodeNo, Open>,
    /// Inodes whose last name is being removed: an open must wait for the outcome.
    pub(crate) removing: HashMap<InodeNo, u32>,
    /// Keys of removed directories: left at the next occasion.
    gone: Vec<WatchKey>,
    tick: u64,
}

impl Cache {
    pub(crate) fn new() -> Self {
        Cache {
            entries: HashMap::new(),
            own: Recent::new(RECENT_CHANGES),
            shares: Recent::new(RECENT_CHANGES),
            moment: 1,
            distrusted: 0,
            answering: HashSet::new(),
            underway: HashMap::new(),
            pins: HashMap::new(),
            opens: HashMap::new(),
            removing: HashMap::new(),
            gone: Vec::new(),
            tick: 0,
        }
    }

    fn sole(&self, key: &WatchKey) -> Option<&Entry> {
        self.entries.get(key).filter(|e| e.sole)
    }

    /// What is known of a record; `None` when nothing is.
    pub(crate) fn record(&self, key: &Key) -> Option<Option<Bytes>> {
        self.sole(&key.watch_key()?)?.record(key)
    }

    /// What is known of a name.
    pub(crate) fn name(&self, dir: InodeNo, name: &EntryName) -> Option<Option<Target>> {
        self.sole(&WatchKey::Names(dir))?.name(name)
    }

    /// Whether the question is answered from memory.
    pub(crate) fn knows(&self, want: &Want) -> bool {
        match want {
            Want::Record(key) => self.record(key).is_some(),
            Want::Name(dir, name) => self.name(*dir, name).is_some(),
            Want::List(dir, ..) => self.names(*dir).is_some(),
            Want::Quota(_) => false,
        }
    }

    /// The whole directory if it is known.
    pub(crate) fn names(
        &self,
        dir: InodeNo,
    ) -> Option<&std::collections::BTreeMap<EntryName, entry::Known<Target>>> {
        self.sole(&WatchKey::Names(dir))?.names()
    }

    /// Whether the key is held alone and nobody has asked to share it: kernel lifetimes and asynchronous closes may be given.
    pub(crate) fn grants(&self, key: &WatchKey) -> bool {
        self.is_sole(key) && !self.answering.contains(key)
    }

    pub(crate) fn is_sole(&self, key: &WatchKey) -> bool {
        self.sole(key).is_some()
    }

    /// Whether this session surely stands in the watcher list.
    pub(crate) fn is_enlisted(&self, key: &WatchKey) -> bool {
        self.entries.contains_key(key) && !self.answering.contains(key)
    }

    pub(crate) fn entry(&self, key: &WatchKey) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// How many names to load behind one that is not known, of a directory too big to be loaded whole.
    pub(crate) fn names_ahead(&mut self, dir: InodeNo, name: &EntryName) -> usize {
        let entry = self.entries.get_mut(&WatchKey::Names(dir)).filter(|e| e.sole && e.too_big);
        entry.map_or(0, |e| e.names_ahead(name))
    }

    /// Marks keys as used just now, for eviction.
    pub(crate) fn touch(&mut self, keys: &[WatchKey]) {
        let tick = self.tick;
        for key in keys {
            if let Some(e) = self.entries.get_mut(key) {
                e.used = tick;
            }
        }
    }

    /// The newest own commit that touched anything of the key.
    pub(crate) fn own_change_of(&self, key: &WatchKey) -> u64 {
        self.own.last(&Touched::Any(*key))
    }

    // ---- requests under way ----

    /// A request that reads or writes `keys` leaves now.
    pub(crate) fn send(&mut self, keys: Vec<WatchKey>) -> Sent {
        for key in &keys {
            *self.underway.entry(*key).or_default() += 1;
        }
        Sent { moment: self.moment, keys }
    }

    /// Its reply was dealt with, or it failed.
    pub(crate) fn settle(&mut self, sent: &Sent) {
        for key in &sent.keys {
            let Some(n) = self.underway.get_mut(key) else { continue };
            *n -= 1;
            if *n == 0 {
                self.underway.remove(key);
                if let Some(e) = self.entries.get_mut(key).filter(|e| e.has_tombs()) {
                    e.forget_tombs();
                }
            }
        }
    }

    /// No share of the key was asked for or answered, and no message lost, since the request left.
    fn quiet_since(&self, key: &WatchKey, sent: &Sent) -> bool {
        self.shares.last(key) <= sent.moment && self.distrusted <= sent.moment
    }

    /// Whether a reply at `seq` is too old to answer `want` with.
    fn outdated(&self, want: &Want, sent: &Sent, seq: u64) -> bool {
        if want.watch_key().is_some_and(|key| !self.quiet_since(&key, sent)) {
            return true;
        }
        let touched = match want {
            Want::Record(key) => Touched::Record(key.clone()),
            Want::Name(dir, name) => Touched::Name(*dir, name.clone()),
            Want::List(..) | Want::Quota(_) => return self.distrusted > sent.moment,
        };
        self.own.last(&touched) > seq
    }

    fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    // ---- sharing, leaving, doubting ----

    /// Somebody asks to share the key, or this session wants to leave it. `false`: that is being done already.
    pub(crate) fn begin_giving_up(&mut self, key: WatchKey) -> bool {
        let now = self.next_moment();
        self.shares.note(key, now);
        self.answering.insert(key)
    }

    /// The kernel keeps nothing of the key any more: from now on neither does this session. The mark in the store is
    /// changed only after this.
    pub(crate) fn think_shared(&mut self, key: WatchKey) {
        if let Some(e) = self.entries.get_mut(&key) {
            *e = Entry::new(&key, false, 0, Complete::Nothing).used_at(e.used);
        }
    }

    /// The store knows. `left`: this session is no longer in the list at all.
    pub(crate) fn end_giving_up(&mut self, key: WatchKey, left: bool) {
        let now = self.next_moment();
        self.shares.note(key, now);
        self.answering.remove(&key);
        if left {
            self.entries.remove(&key);
        }
    }

    /// Messages may have been lost, or the session is another: nothing that is kept or under way is believed.
    pub(crate) fn distrust_all(&mut self) {
        self.distrusted = self.next_moment();
        self.entries.clear();
    }

    /// Something here contradicts the store: load the key again.
    pub(crate) fn distrust(&mut self, key: &WatchKey) {
        self.entries.remove(key);
        let now = self.next_moment();
        self.shares.note(*key, now);
    }

    /// One of the transactions that remove the inode's last name is decided.
    pub(crate) fn removal_decided(&mut self, ino: InodeNo) {
        if let Some(n) = self.removing.get_mut(&ino) {
            *n -= 1;
            if *n == 0 {
                self.removing.remove(&ino);
            }
        }
    }

    // ---- pins and eviction ----

    /// The directory was removed: nobody will ask for its names again.
    pub(crate) fn forget_directory(&mut self, dir: InodeNo) {
        self.gone.extend([WatchKey::Names(dir), WatchKey::Bucket(dir.bucket())]);
    }

    /// Keeps this session in the watcher list of `key` until as many [`Cache::unpin`].
    pub(crate) fn pin(&mut self, key: WatchKey) {
        *self.pins.entry(key).or_default() += 1;
    }

    /// All pinned keys.
    pub(crate) fn pinned(&self) -> Vec<WatchKey> {
        self.pins.keys().copied().collect()
    }

    pub(crate) fn unpin(&mut self, key: &WatchKey) {
        if let Some(n) = self.pins.get_mut(key) {
            *n -= 1;
            if *n == 0 {
                self.pins.remove(key);
            }
        }
    }

    /// One step of the eviction clock. Returns keys to leave: those least recently used beyond `room` values, and
    /// shared ones unused for `idle` steps, whose other watchers could hold them alone.
    pub(crate) fn due_to_leave(&mut self, room: usize, idle: u64) -> Vec<WatchKey> {
        self.tick += 1;
        let tick = self.tick;
        let free = |k: &WatchKey| {
            !self.pins.contains_key(k) && !self.answering.contains(k) && !self.underway.contains_key(k)
        };
        let mut leave: Vec<WatchKey> = std::mem::take(&mut self.gone);
        // Files that were moved away stay in the bucket of the directory in which they were made.
        leave.retain(|k| free(k) && self.entries.get(k).is_some_and(|e| e.is_void()));
        let dead: HashSet<WatchKey> = leave.iter().copied().collect();
        let mut candidates: Vec<(u64, usize, WatchKey)> = Vec::new();
        let mut total = 0;
        for (key, e) in &self.entries {
            let weight = e.weight();
            total += weight;
            if !free(key) || dead.contains(key) {
                continue;
            }
            if !e.sole && e.used + idle < tick {
                leave.push(*key);
                total -= weight;
            } else {
                candidates.push((e.used, weight, *key));
            }
        }
        if total > room {
            candidates.sort_unstable_by_key(|(used, weight, _)| (*used, std::cmp::Reverse(*weight)));
            for (_, weight, key) in candidates {
                if total <= room - room / 8 {
                    break;
                }
                total -= weight;
                leave.push(key);
            }
        }
        leave
    }

    /// Keys held alone, keys shared, values kept: for metrics.
    pub(crate) fn figures(&self) -> (u64, u64, u64) {
        let alone = self.entries.values().filter(|e| e.sole).count() as u64;
        (alone, self.entries.len() as u64 - alone, self.sizes().0 as u64)
    }

    /// Values kept and keys watched, for statistics.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.entries.values().map(Entry::len).sum(), self.entries.len())
    }
}
