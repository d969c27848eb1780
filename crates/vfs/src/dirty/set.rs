//! Which inodes are dirty.

use carafe_types::InodeNo;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::*};

/// The numbers of dirty inodes.
#[derive(Debug, Default)]
pub(crate) struct DirtySet {
    inos: Mutex<HashSet<InodeNo>>,
    count: AtomicUsize,
}

impl DirtySet {
    /// `ino` became dirty.
    pub(crate) fn add(&self, ino: InodeNo) {
        if self.inos.lock().insert(ino) {
            self.count.fetch_add(1, SeqCst);
        }
    }

    /// `ino` is clean.
    pub(crate) fn remove(&self, ino: InodeNo) {
        if self.inos.lock().remove(&ino) {
            self.count.fetch_sub(1, SeqCst);
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count.load(SeqCst)
    }

    /// All of them, in no particular order.
    pub(crate) fn all(&self) -> Vec<InodeNo> {
        if self.len() == 0 {
            return Vec::new();
        }
        self.inos.lock().iter().copied().collect()
    }
}
