//! The gates that a transaction must find open.
//!
//! Whatever changes an inode, a name or what belongs to an inode is charged to that inode's quota, and the quota's gate is
//! compared. Quotas come from the records that the run has read or writes, so no operation can forget it and no load is
//! added. The root quota has no gate: only volumes are copied.

use super::{Node, Tx};
use crate::store::{Check, Key, Write};
use bytes::Bytes;
use carafe_types::{InodeNo, QuotaId};
use std::collections::BTreeSet;

impl Tx<'_> {
    pub(super) fn check_gates(&mut self) {
        let mut changed: BTreeSet<InodeNo> = self.records.keys().filter_map(inode_of).collect();
        changed.extend(self.commit.writes.iter().filter_map(|write| match write {
            Write::Link(dir, _) | Write::Unlink(dir, _) | Write::Touch(dir) | Write::AddSubdirs(dir, _) => {
                Some(*dir)
            }
            _ => None,
        }));
        let quotas: BTreeSet<QuotaId> = changed.into_iter().filter_map(|ino| self.quota_of(ino)).collect();
        for quota in quotas.into_iter().filter(|quota| *quota != QuotaId::ROOT) {
            self.check(Check::Same(Key::Gate(quota), None));
        }
    }

    /// The quota of an inode as it is before, or of a new one as it will be.
    fn quota_of(&self, ino: InodeNo) -> Option<QuotaId> {
        let key = Key::Inode(ino);
        let before = self.peek(&key).flatten();
        let bytes = before.or_else(|| self.records.get(&key).cloned().flatten())?;
        match Node::decode(&bytes).ok()? {
            Node::File(inode) => Some(inode.quota),
            Node::Dir(guard) => Some(guard.quota),
        }
    }

    /// A record as this run knows it from the store, without resting an answer on it.
    fn peek(&self, key: &Key) -> Option<Option<Bytes>> {
        let fresh = self.view.fresh_records.get(key).cloned();
        fresh
            .or_else(|| self.trusted().and_then(|cache| cache.record(key)))
            .or_else(|| self.view.snapshot.as_ref().and_then(|snapshot| snapshot.record(key)))
    }
}

/// The inode whose state a record is part of.
fn inode_of(key: &Key) -> Option<InodeNo> {
    match key {
        Key::Inode(ino)
        | Key::DirTimes(ino)
        | Key::DirAtime(ino)
        | Key::DirSubdirs(ino)
        | Key::Content(ino)
        | Key::Xattr(ino)
        | Key::Extents { ino, .. } => Some(*ino),
        Key::Locks(_)
        | Key::OpenHolders(_)
        | Key::SliceOwners(_)
        | Key::PackLive(_)
        | Key::Quota(_)
        | Key::Volume(_)
        | Key::Snapshot(_)
        | Key::Gate(_)
        | Key::Single(_) => None,
    }
}
