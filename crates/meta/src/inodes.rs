//! Which number a new inode gets.
//!
//! A session takes ranges of 2^20 numbers from the store. A directory's number is a multiple of 64 and its first 63
//! children take the numbers after it, so that a small directory is one bucket and one read; later children, and those of
//! directories made by others, take whole runs of 64. A number that may have been used is never used again: it goes back
//! only when the store has said that nothing happened.
//!
//! The first commit in a new bucket enlists this session as its only watcher. It runs alone ([`Number::begins`]): a
//! second one answered first would make the cache believe that it knows the whole bucket.

use crate::store::WatchKey;
use carafe_types::{BucketNo, InodeNo};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

const RUN: u64 = 64;
const RANGE: u64 = 1 << 20;
/// Directories whose runs are remembered; what is left of a forgotten run is never used.
const REMEMBERED: usize = 16_384;

#[derive(Debug, Clone)]
struct Run {
    free: Vec<InodeNo>,
    begun: bool,
    beginning: Arc<AsyncMutex<()>>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    end: u64,
    runs: HashMap<InodeNo, Run>,
    /// Buckets that nobody has begun, with the directory whose run they are.
    unbegun: HashMap<BucketNo, InodeNo>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Inodes(Mutex<State>);

/// A number for a new inode.
#[derive(Debug)]
pub(crate) struct Number {
    pub(crate) ino: InodeNo,
    /// It is the first of its bucket: the commit must enlist, and nobody else may begin until it is decided.
    pub(crate) begins: Option<Arc<OwnedMutexGuard<()>>>,
}

/// What to do to get a number.
pub(crate) enum Next {
    Ready(Number),
    /// Wait for whoever begins the bucket, then ask again.
    Wait(Arc<AsyncMutex<()>>),
    /// Take a new range from the store, then ask again.
    Range,
}

impl Inodes {
    /// The store gave `RANGE` numbers from `first` on. What is left of the old range is dropped if another caller was
    /// quicker, since both have asked.
    pub(crate) fn add_range(&self, first: InodeNo) {
        let mut s = self.0.lock();
        if s.next >= s.end {
            s.next = first.0;
            s.end = first.0 + RANGE;
        }
    }

    /// A number for a directory.
    pub(crate) fn directory(&self) -> Next {
        match self.0.lock().new_run() {
            Some(first) => Next::Ready(Number { ino: InodeNo(first), begins: None }),
            None => Next::Range,
        }
    }

    /// A number for a child of `dir` that is no directory.
    pub(crate) fn child(&self, dir: InodeNo) -> Next {
        let mut s = self.0.lock();
        if s.runs.get(&dir).is_none_or(|run| run.free.is_empty()) {
            let Some(first) = s.new_run() else { return Next::Range };
            s.remember(dir, (first..first + RUN).rev().map(InodeNo).collect(), false);
        }
        let Some(run) = s.runs.get_mut(&dir) else { return Next::Range };
        let begins = if run.begun {
            None
        } else {
            match run.beginning.clone().try_lock_owned() {
                Ok(guard) => Some(Arc::new(guard)),
                Err(_) => return Next::Wait(run.beginning.clone()),
            }
        };
        match run.free.pop() {
            Some(ino) => Next::Ready(Number { ino, begins }),
            None => Next::Range,
        }
    }

    /// The store has said that nothing happened with this number.
    pub(crate) fn give_back(&self, dir: InodeNo, ino: InodeNo) {
        if let Some(run) = self.0.lock().runs.get_mut(&dir) {
            run.free.push(ino);
        }
    }

    /// A commit that enlisted these keys happened.
    pub(crate) fn begun(&self, keys: &[WatchKey]) {
        if keys.is_empty() {
            return;
        }
        let mut s = self.0.lock();
        for key in keys {
            match key {
                WatchKey::Names(dir) => {
                    s.remember(*dir, (dir.0 + 1..dir.0 + RUN).rev().map(InodeNo).collect(), true);
                }
                WatchKey::Bucket(b) => {
                    if let Some(dir) = s.unbegun.remove(b) {
                        s.mark_begun(dir);
                    }
                }
            }
        }
    }

    /// Somebody else watches the bucket of this number already: it need not and cannot be begun.
    pub(crate) fn not_to_begin(&self, dir: InodeNo, ino: InodeNo) {
        let mut s = self.0.lock();
        s.unbegun.remove(&ino.bucket());
        s.mark_begun(dir);
    }

    /// The directory is gone.
    pub(crate) fn forget(&self, dir: InodeNo) {
        self.0.lock().runs.remove(&dir);
    }
}

impl State {
    fn mark_begun(&mut self, dir: InodeNo) {
        if let Some(run) = self.runs.get_mut(&dir) {
            run.begun = true;
        }
    }

    fn new_run(&mut self) -> Option<u64> {
        let first = self.next;
        (first < self.end).then(|| {
            self.next += RUN;
            first
        })
    }

    fn remember(&mut self, dir: InodeNo, free: Vec<InodeNo>, begun: bool) {
        if self.runs.len() >= REMEMBERED {
            let some: Vec<InodeNo> = self.runs.keys().take(REMEMBERED / 2).copied().collect();
            some.iter().for_each(|d| drop(self.runs.remove(d)));
            self.unbegun.clear();
        }
        if let Some(last) = free.first().filter(|_| !begun) {
            self.unbegun.insert(last.bucket(), dir);
        }
        let beginning = Arc::new(AsyncMutex::new(()));
        self.runs.insert(dir, Run { free, begun, beginning });
    }
}
