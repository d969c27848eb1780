//! Putting an own commit in once it has happened.

use super::{Cache, Complete, Entry, Sent, Touched};
use crate::store::{Commit, Done, Key, WatchKey, Write};
use bytes::Bytes;
use carafe_types::record::DirTimes;
use std::collections::BTreeSet;

/// Every watched key that a commit changes or begins.
pub(crate) fn keys_of(commit: &Commit) -> Vec<WatchKey> {
    let mut keys: BTreeSet<WatchKey> = commit.writes.iter().filter_map(Write::watch_key).collect();
    keys.extend(&commit.enlist);
    keys.into_iter().collect()
}

impl Cache {
    /// The commit, sent as `sent` says, has happened.
    pub(crate) fn apply(&mut self, commit: &Commit, sent: &Sent, done: &Done) {
        for key in &commit.enlist {
            self.begin(*key, sent, done.seq);
        }
        for write in &commit.writes {
            self.apply_write(write, done);
        }
        for key in &sent.keys {
            self.own.note(Touched::Any(*key), done.seq);
        }
    }

    /// A key that did not exist before: all of it is known, if nobody has looked in meanwhile.
    fn begin(&mut self, key: WatchKey, sent: &Sent, seq: u64) {
        if !self.quiet_since(&key, sent) || self.answering.contains(&key) || self.is_sole(&key) {
            return;
        }
        // The first commit in a bucket runs alone (`inodes`), so no other of this session can have been missed.
        let used = self.tick;
        self.entries.insert(key, Entry::new(&key, true, seq - 1, Complete::Everything).used_at(used));
    }

    fn apply_write(&mut self, write: &Write, done: &Done) {
        let seq = done.seq;
        match write {
            Write::Put(key, value) => self.apply_record(key, Some(value.clone()), seq),
            Write::Delete(key) => self.apply_record(key, None, seq),
            Write::Touch(dir) => {
                let times = Bytes::from(DirTimes::Touched(done.time).encode());
                self.apply_record(&Key::DirTimes(*dir), Some(times), seq);
            }
            Write::AddSubdirs(dir, by) => {
                let key = Key::DirSubdirs(*dir);
                if let Some(e) = self.sole_mut(&WatchKey::Bucket(dir.bucket())) {
                    e.add_record(&key, *by, seq);
                }
                self.own.note(Touched::Record(key), seq);
            }
            Write::Link(dir, (name, kind, ino)) => {
                if let Some(e) = self.sole_mut(&WatchKey::Names(*dir)) {
                    e.set_name(name, Some((*kind, *ino)), seq);
                }
                self.own.note(Touched::Name(*dir, name.clone()), seq);
            }
            Write::Unlink(dir, (name, ..)) => {
                if let Some(e) = self.sole_mut(&WatchKey::Names(*dir)) {
                    e.set_name(name, None, seq);
                }
                self.own.note(Touched::Name(*dir, name.clone()), seq);
            }
            Write::HoldOpen(ino) => self.opens.entry(*ino).or_default().held = true,
            Write::DropOpen(ino) => {
                if let Some(open) = self.opens.get_mut(ino) {
                    open.held = false;
                }
            }
            _ => {}
        }
    }

    fn apply_record(&mut self, key: &Key, value: Option<Bytes>, seq: u64) {
        if let Some(e) = key.watch_key().and_then(|w| self.sole_mut(&w)) {
            e.set_record(key, value, seq);
        }
        self.own.note(Touched::Record(key.clone()), seq);
    }

    fn sole_mut(&mut self, key: &WatchKey) -> Option<&mut Entry> {
        self.entries.get_mut(key).filter(|e| e.sole)
    }
}
