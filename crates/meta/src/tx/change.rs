//! What an operation changes: checks, writes, takes.

use super::{Op, Tx, Want};
use crate::store::{Check, Key, Message, WatchKey, Write};
use bytes::Bytes;
use carafe_types::{EntryName, FileKind, FsError, InodeNo, QuotaId, SessionNo};

impl Tx<'_> {
    pub(crate) fn check(&mut self, check: Check) {
        if !self.commit.checks.contains(&check) {
            self.commit.checks.push(check);
        }
    }

    /// The record must still be in the store what this run has seen there.
    pub(crate) fn same(&mut self, key: &Key) -> Op<()> {
        let seen = self.stored(key)?;
        self.check(Check::Same(key.clone(), seen));
        Ok(())
    }

    pub(crate) fn put(&mut self, key: Key, value: Vec<u8>) {
        self.records.insert(key, Some(Bytes::from(value)));
    }

    pub(crate) fn delete(&mut self, key: Key) {
        self.records.insert(key, None);
    }

    pub(crate) fn push(&mut self, write: Write) {
        self.commit.writes.push(write);
    }

    /// Adds a name that is absent.
    pub(crate) fn link(&mut self, dir: InodeNo, name: &EntryName, kind: FileKind, ino: InodeNo) {
        self.names.insert((dir, name.clone()), Some((kind, ino)));
        self.push(Write::Link(dir, (name.clone(), kind, ino)));
    }

    /// Removes a name that is there.
    pub(crate) fn unlink(&mut self, dir: InodeNo, name: &EntryName, kind: FileKind, ino: InodeNo) {
        self.names.insert((dir, name.clone()), None);
        self.push(Write::Unlink(dir, (name.clone(), kind, ino)));
    }

    /// The key is new: this session is its only watcher from the commit on.
    pub(crate) fn enlist(&mut self, key: WatchKey) {
        if !self.view.no_enlist {
            self.commit.enlist.push(key);
        }
    }

    /// The transaction frees memory: a full store must let it pass.
    pub(crate) fn frees(&mut self) {
        self.commit.frees = true;
    }

    /// Takes from the budget for inline data; negative gives back.
    pub(crate) fn take_inline(&mut self, bytes: i64) {
        self.commit.take_inline += bytes;
    }

    /// Tells another session when the transaction is done.
    pub(crate) fn notify(&mut self, to: SessionNo, message: Message) {
        self.commit.notify.push((to, message));
    }

    /// Takes from a quota and all above it; negative gives back.
    pub(crate) fn take(&mut self, quota: QuotaId, bytes: i64, inodes: i64) -> Op<()> {
        for link in self.chain(quota)? {
            let sum = self.takes.entry(link).or_default();
            sum.0 += bytes;
            sum.1 += inodes;
        }
        Ok(())
    }

    /// Takes from one quota alone, as when its limit changes; negative gives.
    pub(crate) fn take_here(&mut self, quota: QuotaId, bytes: i64, inodes: i64) {
        let sum = self.takes.entry(quota).or_default();
        sum.0 += bytes;
        sum.1 += inodes;
    }

    /// Uses bytes that this session has reserved, in the quota and all above it.
    pub(crate) fn use_reserve(&mut self, quota: QuotaId, bytes: i64) -> Op<()> {
        if bytes != 0 {
            for link in self.chain(quota)? {
                self.push(Write::Reserve(link, -bytes));
            }
        }
        Ok(())
    }

    /// A quota and all above it.
    pub(crate) fn chain(&mut self, quota: QuotaId) -> Op<Vec<QuotaId>> {
        let mut chain = Vec::with_capacity(2);
        let mut next = Some(quota);
        while let Some(q) = next {
            if chain.contains(&q) || chain.len() > 16 {
                return Err(FsError::Io(format!("the quotas above {} form a circle", quota.0)).into());
            }
            chain.push(q);
            next = match self.world.quotas.parent(q) {
                Some(parent) => parent,
                None => match self.view.snapshot.as_ref().and_then(|s| s.quota(q)) {
                    Some(Some(state)) => crate::quota::parent_of(q, state)?,
                    // The quota is gone: its volume is being purged. What is above goes on.
                    Some(None) => (q != QuotaId::ROOT).then_some(QuotaId::ROOT),
                    None => {
                        self.asked.push(Want::Quota(q));
                        return self.need();
                    }
                },
            };
        }
        Ok(chain)
    }
}
