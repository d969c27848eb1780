//! Sums over all inodes.

use carafe_types::record::{Guard, Inode};
use carafe_types::{InodeNo, QuotaId};
use std::collections::HashMap;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) files: u64,
    pub(crate) directories: u64,
    pub(crate) bytes: u64,
    /// Bytes of the budget for inline data that inodes use.
    pub(crate) inline: i64,
    /// Bytes and inodes that are charged to each quota itself, without those below.
    pub(crate) charged: HashMap<QuotaId, (i64, i64)>,
    /// The directories where quotas begin.
    pub(crate) roots: HashMap<QuotaId, InodeNo>,
}

impl Counts {
    /// A file, symlink or special file. Unlinked ones are charged no more.
    pub(crate) fn file(&mut self, inode: &Inode) {
        self.files += 1;
        if inode.nlink > 0 {
            self.bytes = self.bytes.saturating_add(inode.size);
            self.charge(inode.quota, i64::try_from(inode.size).unwrap_or(i64::MAX));
        }
    }

    /// A directory. `free`: it was made by `format` and is charged to nobody.
    pub(crate) fn directory(&mut self, ino: InodeNo, guard: &Guard, free: bool) {
        self.directories += 1;
        if !free {
            self.charge(guard.quota, 0);
        }
        if guard.quota_root {
            self.roots.insert(guard.quota, ino);
        }
    }

    fn charge(&mut self, quota: QuotaId, bytes: i64) {
        let sum = self.charged.entry(quota).or_default();
        *sum = (sum.0.saturating_add(bytes), sum.1 + 1);
    }

    /// What each quota must have counted: its own charges and those of all quotas below.
    pub(crate) fn totals(&self, parents: &HashMap<QuotaId, Option<QuotaId>>) -> HashMap<QuotaId, (i64, i64)> {
        let mut totals: HashMap<QuotaId, (i64, i64)> = HashMap::new();
        for (quota, (bytes, inodes)) in &self.charged {
            let above = |q: &QuotaId| match parents.get(q) {
                Some(parent) => *parent,
                // As operations do with a quota that is gone.
                None => (*q != QuotaId::ROOT).then_some(QuotaId::ROOT),
            };
            for link in std::iter::successors(Some(*quota), above).take(16) {
                let sum = totals.entry(link).or_default();
                *sum = (sum.0.saturating_add(*bytes), sum.1.saturating_add(*inodes));
            }
        }
        totals
    }
}
