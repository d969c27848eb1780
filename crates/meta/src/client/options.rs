//! What a client is told at its start, and what it tells back.

use crate::store::WatchKey;
use async_trait::async_trait;
use carafe_types::{Attr, InodeNo, QuotaId, SessionUuid};
use std::time::Duration;

/// How a [`super::Client`] is to behave.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// What this process is, for people: `mount /mnt/x`, `controller`, `gc`.
    pub role: String,
    /// A session to resume, from the journal of a daemon that died. `None`: a new one.
    pub uuid: Option<SessionUuid>,
    /// About how many records and names of usual length are kept in memory; one costs about 250 bytes, longer ones weigh more.
    pub cache_records: usize,
    /// Every change fails with EROFS.
    pub read_only: bool,
    /// Accept a store that keeps nothing over a restart; the administrator said so.
    pub allow_volatile: bool,
    /// How long objects stay in the bucket after nothing refers to them: at least two backup intervals, so that a
    /// restored backup is whole.
    pub delete_after: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            role: "client".to_owned(),
            uuid: None,
            cache_records: 250_000,
            read_only: false,
            allow_volatile: false,
            delete_after: Duration::from_secs(3600),
        }
    }
}

/// Who calls, for ownership and the sticky rule. Permissions were checked by the kernel (`default_permissions`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ctx {
    /// User; 0 may do everything.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Process, for locks.
    pub pid: u32,
}

impl Ctx {
    /// The superuser, for jobs.
    pub const ROOT: Ctx = Ctx { uid: 0, gid: 0, pid: 0 };
}

/// Attributes and how long they may be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What `stat` tells.
    pub attr: Attr,
    /// How long the kernel may keep `attr`; 0 when the inode is shared.
    pub ttl: Duration,
    /// How long the kernel may keep the name that was looked up or made; 0 when there was none.
    pub entry_ttl: Duration,
    /// This session holds the inode's bucket alone: closes need not wait.
    pub sole: bool,
}

/// How coherence reaches the layers above; implemented by vfs.
#[async_trait]
pub trait Hooks: Send + Sync {
    /// Another session wants `key`, or this one no longer keeps it. Flush the closed dirty files of a bucket, then make the
    /// kernel drop what it keeps of the key *and of replies that it has yet to apply*. From the call on, `sole` is false and
    /// closes below must flush.
    async fn share(&self, key: WatchKey);
    /// Flush everything below `dir`, open files too. From the call on, closes below must flush.
    async fn flush_below(&self, dir: InodeNo);
    /// The session was taken for dead: data that was not flushed is lost, locks are void. A new session follows.
    async fn fenced(&self);
    /// Another session is short of this quota: give back what is not used, with [`super::Client::unreserve`].
    fn return_reserve(&self, quota: QuotaId);
    /// A lock on this inode was released or narrowed; whoever waits should try again.
    fn unlocked(&self, ino: InodeNo);
}
