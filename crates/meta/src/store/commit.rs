//! Changing: one transaction, checked and applied in one step.
//!
//! An engine goes in this order, so that every refusal comes before the first write:
//! 1. generation equal, session alive with this uuid, else an error;
//! 2. each key to be written that *another* session holds alone: [`Outcome::Held`];
//! 3. all checks; if any fails, [`Outcome::Conflict`] with the fresh value of *every* check, so that a retry needs no read;
//! 4. all takes; if a counter would fall below 0 (and the take is positive), [`Outcome::NoSpace`];
//! 5. `seq` + 1, then the writes in the order given, then the enlistments, then the messages.

use super::{DeadObject, Key, Message, WatchKey};
use bytes::Bytes;
use carafe_types::{EntryName, FileKind, InodeNo, QuotaId, SessionNo, SliceId, Timestamp};

/// A transaction. At most 500 records or 1 MiB: bigger work is cut into pieces that each leave a sound tree.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// All must hold.
    pub checks: Vec<Check>,
    /// Taken from (or given back to, when negative) quotas; every link of a chain is named. Takes of one quota are added
    /// up first. A quota that does not exist has nothing left; what is given back to it is forgotten.
    pub takes: Vec<Take>,
    /// Bytes taken from the budget for inline data, negative to give back. Short: [`Outcome::NoInlineSpace`].
    pub take_inline: i64,
    /// Applied in this order.
    pub writes: Vec<Write>,
    /// New keys (of a directory just made, of a bucket just begun) whose only watcher is this session from now on. If
    /// another session stands there already, the outcome is [`Outcome::Held`]: load the key with `watch`, leave it out.
    pub enlist: Vec<WatchKey>,
    /// Sent when the transaction is done.
    pub notify: Vec<(SessionNo, Message)>,
    /// It frees memory, so a full store must let it pass (unlink, truncate, purge).
    pub frees: bool,
}

/// A condition on the state before the transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The record equals these bytes; `None`: it is absent.
    Same(Key, Option<Bytes>),
    /// The directory has this name for this inode.
    HasName(InodeNo, EntryName, FileKind, InodeNo),
    /// The directory has no such name.
    NoName(InodeNo, EntryName),
    /// The directory has no names at all.
    Empty(InodeNo),
    /// No other session watches the key.
    Alone(WatchKey),
    /// Every other session that watches the key is marked as flushing (closes below it wait for their data).
    AloneOrFlushing(WatchKey),
}

/// A change of a quota's counters. The counters say what is *left*; a limit of "none" starts at 2^62.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Take {
    /// Which quota.
    pub quota: QuotaId,
    /// Bytes to take; negative gives back.
    pub bytes: i64,
    /// Inodes to take; negative gives back.
    pub inodes: i64,
}

/// A write. Merges (all but the first two) need no check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets a record.
    Put(Key, Bytes),
    /// Removes a record.
    Delete(Key),
    /// Adds a name. The caller has checked that it is absent.
    Link(InodeNo, DirEntryParts),
    /// Removes a name.
    Unlink(InodeNo, DirEntryParts),
    /// Sets the times of a directory to the store's clock (`DirTimes::Touched`).
    Touch(InodeNo),
    /// Adds to a directory's count of subdirectories.
    AddSubdirs(InodeNo, i64),
    /// One more owner of a slice of blocks. Within a commit it comes before any `Release` of that slice.
    Retain(SliceId),
    /// One owner less; the last one queues the objects for deletion after `after_ms`.
    Release {
        /// What to delete then.
        object: DeadObject,
        /// Milliseconds from the store's now.
        after_ms: u64,
    },
    /// Adds to a pack's live bytes (a new pack begins at 0); at 0 or below the pack is queued for deletion.
    PackLive {
        /// The pack.
        object: DeadObject,
        /// Bytes, negative when references go.
        by: i64,
        /// Milliseconds from the store's now until deletion, once dead.
        after_ms: u64,
    },
    /// Queues an unlinked inode for purging.
    QueueDead(InodeNo, u64),
    /// Takes an inode out of that queue.
    UnqueueDead(InodeNo),
    /// Queues objects for deletion after so many milliseconds.
    QueueObject(DeadObject, u64),
    /// Takes objects out of that queue: they are deleted.
    UnqueueObject(DeadObject),
    /// This session holds the unlinked inode open. Sessions that end are not taken out: readers leave dead ones out.
    HoldOpen(InodeNo),
    /// It does so no longer.
    DropOpen(InodeNo),
    /// Adds to this session's reserve of a quota, which goes back should the session be reaped.
    Reserve(QuotaId, i64),
    /// Makes a quota with these counters, or removes it.
    InitQuota(QuotaId, Option<(i64, i64)>),
}

impl Write {
    /// The watched key that this write changes; while another session holds it alone, the commit is [`Outcome::Held`].
    pub fn watch_key(&self) -> Option<WatchKey> {
        match self {
            Write::Put(key, _) | Write::Delete(key) => key.watch_key(),
            Write::Link(dir, _) | Write::Unlink(dir, _) => Some(WatchKey::Names(*dir)),
            Write::Touch(dir) | Write::AddSubdirs(dir, _) => Some(WatchKey::Bucket(dir.bucket())),
            Write::Retain(_)
            | Write::Release { .. }
            | Write::PackLive { .. }
            | Write::QueueDead(..)
            | Write::UnqueueDead(_)
            | Write::QueueObject(..)
            | Write::UnqueueObject(_)
            | Write::HoldOpen(_)
            | Write::DropOpen(_)
            | Write::Reserve(..)
            | Write::InitQuota(..) => None,
        }
    }
}

/// Name, type and inode of an entry.
pub type DirEntryParts = (EntryName, FileKind, InodeNo);

/// How a commit ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It happened.
    Done(Done),
    /// A check failed: nothing happened; for each check, whether it failed and what is there.
    Conflict(Vec<Failed>),
    /// Another session holds these keys alone: load them with `watch`, then again.
    Held(Vec<WatchKey>),
    /// A quota has not enough left: nothing happened.
    NoSpace(QuotaId),
    /// The budget for inline data is used up: nothing happened.
    NoInlineSpace,
}

/// A commit that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Its place in the order of all commits.
    pub seq: u64,
    /// The store's clock: what `Touch` wrote.
    pub time: Timestamp,
}

/// One check of a commit that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Whether this check failed (others are told for their fresh value).
    pub failed: bool,
    /// What is there.
    pub fresh: Fresh,
}

/// What is there in place of what a check wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fresh {
    /// For `Same`.
    Record(Option<Bytes>),
    /// For `HasName`, `NoName`.
    Name(Option<(FileKind, InodeNo)>),
    /// For `Empty`: is it?
    Empty(bool),
    /// For `Alone`, `AloneOrFlushing`: the sessions in the way.
    Watchers(Vec<SessionNo>),
}
