//! The store trait: what an engine must do, and nothing about files.
//!
//! A store keeps records under [`Key`]s and names in directories. It knows four verbs: *load* (read and enlist as a
//! watcher, one snapshot), *commit* (checks, takes, writes, all or nothing, in one step), *watch* (change one's marks)
//! and *message* (tell another session something). All subtleties of the file system are above, all subtleties of a
//! server (lost answers, scripts, reconnects) below.
//!
//! What an engine promises:
//! 1. `load` and `commit` are each one atomic step, and all steps are totally ordered by `seq`.
//! 2. A commit that answered [`Outcome::Done`] happened exactly once, whatever the network did; one that answered
//!    anything else left nothing behind.
//! 3. A session that was reaped never commits again ([`StoreError::Fenced`]).
//! 4. Messages to a session come in order; a lost one is noticed and shows as [`Message::Gap`].

mod commit;
mod error;
mod key;
mod load;
mod message;
mod session;

pub use commit::{Check, Commit, DirEntryParts, Done, Failed, Fresh, Outcome, Take, Write};
pub use error::StoreError;
pub use key::{Key, WatchKey};
pub use load::{
    DeadInode, DeadObject, DirEntry, ListRequest, LoadRequest, Loaded, ScanPage, ScanRequest, Scanned,
    Watched,
};
pub use message::Message;
pub use session::{
    Allocation, LEASE, NewSession, QuotaState, Renewal, SessionInfo, SessionRef, StoreInfo, WatchChange,
};

use async_trait::async_trait;
use bytes::Bytes;
use carafe_types::{InodeNo, SessionNo};
use tokio::sync::mpsc;

/// A metadata store. See the module for what an engine promises.
#[async_trait]
pub trait MetaStore: Send + Sync + 'static {
    /// What is known before there is a session: the superblock if there is one, the store's clock and durability.
    /// Must answer or fail within 5 seconds.
    async fn info(&self) -> Result<StoreInfo, StoreError>;

    /// Writes the superblock, the root directory's records and the root quota, if there is no file system yet.
    ///
    /// # Errors
    /// [`StoreError::AlreadyFormatted`] when there is one; nothing is changed then.
    async fn format(
        &self,
        superblock: Bytes,
        records: Vec<(Key, Bytes)>,
        root_quota: QuotaState,
    ) -> Result<(), StoreError>;

    /// Removes every key of the file system.
    async fn destroy(&self) -> Result<(), StoreError>;

    /// Registers a session with a lease of 10 s, or resumes the one with the same uuid if that is still alive.
    async fn register(&self, session: NewSession) -> Result<SessionRef, StoreError>;

    /// The messages for this session, in order. Called once, directly after `register`.
    async fn messages(&self, session: &SessionRef) -> Result<mpsc::UnboundedReceiver<Message>, StoreError>;

    /// Lengthens the lease to 10 s from now, fetches what a session must know regularly.
    async fn renew(&self, session: &SessionRef) -> Result<Renewal, StoreError>;

    /// Makes `victim` dead: its locks, watches and open-holds are void, its reserves go back. Refused (`false`) while
    /// its lease runs, counted by the store's clock with 2 s of grace.
    async fn reap(&self, session: &SessionRef, victim: SessionNo) -> Result<bool, StoreError>;

    /// Ends a session in good order; its watches, reserves and locks go.
    async fn unregister(&self, session: &SessionRef) -> Result<(), StoreError>;

    /// All sessions, alive and dead (`carafe status`).
    async fn sessions(&self) -> Result<Vec<SessionInfo>, StoreError>;

    /// Reads a snapshot and enlists. If another session holds one of the keys alone, that one is asked to share and the
    /// key is named in [`Loaded::held`]: what was read of it must not be used, load again later.
    async fn load(&self, session: &SessionRef, request: &LoadRequest) -> Result<Loaded, StoreError>;

    /// Reads on without enlisting or asking anybody: what jobs (GC, fsck, status, readdir of huge directories) use.
    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage, StoreError>;

    /// Applies a transaction: all or nothing, exactly once.
    async fn commit(&self, session: &SessionRef, commit: &Commit) -> Result<Outcome, StoreError>;

    /// Changes this session's marks in watcher lists.
    async fn watch(
        &self,
        session: &SessionRef,
        changes: &[(WatchKey, WatchChange)],
    ) -> Result<(), StoreError>;

    /// Sends `message` to another session. Silently nothing if that session is dead.
    async fn send(&self, session: &SessionRef, to: SessionNo, message: Message) -> Result<(), StoreError>;

    /// Numbers that are never given twice.
    async fn allocate(&self, session: &SessionRef, what: Allocation) -> Result<u64, StoreError>;

    /// The number range that an inode allocation covers: 2^20 from the returned [`InodeNo`] on, a multiple of 64.
    async fn allocate_inodes(&self, session: &SessionRef) -> Result<InodeNo, StoreError> {
        self.allocate(session, Allocation::Inodes).await.map(InodeNo)
    }

    /// Returns when everything acknowledged so far is as durable as the store's class says (`wait:n`).
    async fn barrier(&self) -> Result<(), StoreError>;

    /// True when only one process can have this store open at a time. It may have several sessions in it (a mount, a
    /// controller), so watches and messages mean what they mean elsewhere.
    fn single_process(&self) -> bool;
}
