//! The gates that a transaction must find open.
//!
//! Whatever changes an inode, a name or what belongs to an inode is charged to that inode's quota, and the quota's gate is
//! compared. Quotas come from the records that the run has read or writes, so no operation can forget it and no load is
//! added. The root quota has no gate: only volumes are copied.

use super::{Node, Tx};
use crate::store::{Check, Key, Write};
use carafe_types::{InodeNo, QuotaId};
use std::collections::BTreeSet;

impl Tx<'_> {
    pub(super) fn check_gates(&mut self) {
        let mut changed: BTreeSet<InodeNo> = self.records.keys().filter_map(Key::inode).collect();
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
        let before = self.peek_record(&key).and_then(|(bytes, _)| bytes);
        let bytes = before.or_else(|| self.records.get(&key).cloned().flatten())?;
        match Node::decode(&bytes).ok()? {
            Node::File(inode) => Some(inode.quota),
            Node::Dir(guard) => Some(guard.quota),
        }
    }
}
