//! The journal: what lets the next daemon finish what this one accepted.
//!
//! Each layer keeps the tokens of its first record, which pins everything written since; when the layer is done the
//! token goes, and with the last token of a segment its file. A journal that cannot be written costs crash safety of
//! the daemon, nothing else: it is said once, and the mount goes on.

mod entry;
mod replay;

pub(crate) use entry::{Entry, decode};
pub(crate) use replay::{Rebuilt, RebuiltLayer, replay};

use carafe_cache::{Journal, JournalToken};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// The only kind of record (the kinds of entries are inside).
pub(crate) const KIND: u8 = 1;

thread_local! {
    static RECORD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The journal of this session, or nothing where there is no disk.
pub(crate) struct Log {
    journal: Option<Journal>,
    next_layer: AtomicU64,
    /// What keeps the records of a layer.
    tokens: Mutex<HashMap<u64, JournalToken>>,
    complained: AtomicBool,
}

impl Log {
    pub(crate) fn new(journal: Option<Journal>, next_layer: u64) -> Self {
        Log {
            journal,
            next_layer: AtomicU64::new(next_layer),
            tokens: Mutex::default(),
            complained: AtomicBool::new(false),
        }
    }

    /// Bytes of the journal on disk; 0 without a disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.journal.as_ref().map_or(0, |journal| journal.stats().bytes)
    }

    /// A number for a new layer.
    pub(crate) fn new_layer(&self) -> u64 {
        self.next_layer.fetch_add(1, Relaxed)
    }

    /// Appends entries of one layer as one record.
    pub(crate) fn append(&self, layer: u64, entries: &[Entry<'_>]) {
        let Some(token) = self.write(entries) else { return };
        self.tokens.lock().entry(layer).or_insert(token);
    }

    /// The layers are committed or dropped: their records may go.
    pub(crate) fn done(&self, layers: &[u64]) {
        if self.journal.is_none() {
            return;
        }
        let entries: Vec<_> = layers.iter().map(|&layer| Entry::Done { layer }).collect();
        let _written = self.write(&entries);
        let mut tokens = self.tokens.lock();
        layers.iter().for_each(|layer| drop(tokens.remove(layer)));
    }

    /// Nothing is dirty: lets go of what the open segment holds.
    pub(crate) fn idle(&self) {
        if let Some(journal) = &self.journal
            && journal.stats().bytes > 1 << 20
            && self.tokens.lock().is_empty()
        {
            // Fails only where the next append fails, too, and says so.
            let _closed = journal.checkpoint();
        }
    }

    fn write(&self, entries: &[Entry<'_>]) -> Option<JournalToken> {
        // A record without entries would say nothing, and read as a truncated one.
        let journal = self.journal.as_ref().filter(|_| !entries.is_empty())?;
        let written = RECORD.with_borrow_mut(|record| {
            record.clear();
            entries.iter().for_each(|e| e.put(record));
            journal.append(KIND, &[record])
        });
        match written {
            Ok(token) => Some(token),
            Err(e) => {
                if !self.complained.swap(true, Relaxed) {
                    tracing::error!(error = %e, "the journal cannot be written; unflushed data will not survive a crash of this daemon");
                }
                None
            }
        }
    }
}
