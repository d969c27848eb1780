//! The metadata store in one file, for a single node: no server to run.
//!
//! What a commit means is written in [`carafe_meta::apply`]; this crate gives it a map on disk (`redb`) and makes its steps
//! atomic and durable.
//!
//! 1. One thread applies everything in order ([`engine`]). What has queued up while it synced the last time goes into one
//!    transaction with one sync: many writers do not wait for one another's disk.
//! 2. A load takes its place in that order, so what it saw and where it enlisted are one step. Without changes in the
//!    queue it reads from a snapshot and touches no disk. Scans never queue.
//! 3. Watcher lists and leases live in memory ([`disk`]): a watch costs no disk write, and a session of an earlier process
//!    cannot be in anybody's way. It may be resumed by its uuid for one lease after the file was opened.
//! 4. The file is locked by the process that has it open.

mod disk;
mod engine;
mod url;

pub use url::Sync;

use async_trait::async_trait;
use bytes::Bytes;
use carafe_meta::apply::{self, Applied, Context, Hub, Kv, Result};
use carafe_meta::store::{
    Allocation, Commit, Key, LoadRequest, Loaded, Message, MetaStore, NewSession, Outcome, QuotaState,
    Renewal, ScanPage, ScanRequest, SessionInfo, SessionRef, StoreError, StoreInfo, WatchChange, WatchKey,
};
use carafe_types::SessionNo;
use engine::{Engine, Kind};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;

/// Opens the store that `url` names: `embedded:///absolute/path`, with `?sync=everysec` if two seconds of acknowledged
/// changes may be lost when the machine (not only the process) dies. The file is made if it is not there; its directory is
/// not. Blocks while a file that was not closed well is checked.
///
/// # Errors
/// [`StoreError::BadUrl`]; [`StoreError::Unreachable`] when the file cannot be opened, or another process has it open.
pub fn open(url: &str) -> Result<Arc<dyn MetaStore>> {
    let (path, sync) = url::parse(url)?;
    Ok(Arc::new(EmbeddedStore::open(&path, sync)?))
}

/// For fuzzing: reads a URL and opens nothing.
#[doc(hidden)]
pub fn check_any_url(url: &str) {
    // Refusing is as good as reading; neither may panic.
    let _ = url::parse(url);
}

/// A metadata store in one file.
pub struct EmbeddedStore {
    engine: Engine,
    hub: Arc<Hub>,
    sync: Sync,
}

impl EmbeddedStore {
    /// Opens or makes the file at `path`.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open(path: &Path, sync: Sync) -> Result<Self> {
        Ok(EmbeddedStore { engine: Engine::start(path, sync)?, hub: Arc::default(), sync })
    }

    /// Lets the lease of a session end long ago: the next `reap` of it succeeds. For tests of fencing.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn expire_lease(&self, sid: SessionNo) -> Result<()> {
        self.quiet(Kind::Read, move |kv, _| apply::expire_lease(kv, sid)).await
    }

    /// One step; its messages leave when it is as durable as the store makes it.
    async fn step<T: Send + 'static>(
        &self,
        kind: Kind,
        step: impl FnOnce(&mut dyn Kv, &Context) -> Result<Applied<T>> + Send + 'static,
    ) -> Result<T> {
        let hub = Arc::clone(&self.hub);
        let deliver = move |done: Applied<T>| {
            hub.deliver(done.messages);
            done.answer
        };
        self.engine.run(kind, step, deliver).await
    }

    /// One step without messages.
    async fn quiet<T: Send + 'static>(
        &self,
        kind: Kind,
        step: impl FnOnce(&mut dyn Kv, &Context) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.engine.run(kind, step, |answer| answer).await
    }
}

#[async_trait]
impl MetaStore for EmbeddedStore {
    async fn info(&self) -> Result<StoreInfo> {
        let info = self.quiet(Kind::Read, |kv, at| apply::info(kv, at)).await?;
        let server = "embedded (redb)".to_owned();
        Ok(StoreInfo { durability: self.sync.to_string(), server, ..info })
    }

    async fn format(
        &self,
        superblock: Bytes,
        records: Vec<(Key, Bytes)>,
        root_quota: QuotaState,
    ) -> Result<()> {
        let random = engine::random() >> 1;
        let step =
            move |kv: &mut dyn Kv, _: &Context| apply::format(kv, random, &superblock, &records, &root_quota);
        self.quiet(Kind::Write, step).await
    }

    async fn destroy(&self) -> Result<()> {
        self.quiet(Kind::Write, |kv, _| apply::destroy(kv)).await
    }

    async fn register(&self, session: NewSession) -> Result<SessionRef> {
        let hub = Arc::clone(&self.hub);
        let step = move |kv: &mut dyn Kv, at: &Context| apply::register(kv, at, &session);
        let opened = move |made: SessionRef| {
            hub.open(made.no);
            made
        };
        self.engine.run(Kind::Write, step, opened).await
    }

    async fn messages(&self, session: &SessionRef) -> Result<UnboundedReceiver<Message>> {
        self.hub.take(session.no)
    }

    async fn renew(&self, session: &SessionRef) -> Result<Renewal> {
        let session = *session;
        self.quiet(Kind::Read, move |kv, at| apply::renew(kv, at, &session)).await
    }

    async fn reap(&self, session: &SessionRef, victim: SessionNo) -> Result<bool> {
        let session = *session;
        self.quiet(Kind::Write, move |kv, at| apply::reap(kv, at, &session, victim)).await
    }

    async fn unregister(&self, session: &SessionRef) -> Result<()> {
        let session = *session;
        self.quiet(Kind::Write, move |kv, at| apply::unregister(kv, at, &session)).await?;
        self.hub.close(session.no);
        Ok(())
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>> {
        self.quiet(Kind::Read, |kv, at| apply::sessions(kv, at)).await
    }

    async fn load(&self, session: &SessionRef, request: &LoadRequest) -> Result<Loaded> {
        let (session, request) = (*session, request.clone());
        self.step(Kind::Read, move |kv, at| apply::load(kv, at, &session, &request)).await
    }

    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage> {
        self.engine.scan(request.clone()).await
    }

    async fn commit(&self, session: &SessionRef, commit: &Commit) -> Result<Outcome> {
        let (session, commit) = (*session, commit.clone());
        self.step(Kind::Write, move |kv, at| apply::commit(kv, at, &session, &commit)).await
    }

    async fn watch(&self, session: &SessionRef, changes: &[(WatchKey, WatchChange)]) -> Result<()> {
        let (session, changes) = (*session, changes.to_vec());
        self.step(Kind::Read, move |kv, at| apply::watch(kv, at, &session, &changes)).await
    }

    async fn send(&self, session: &SessionRef, to: SessionNo, message: Message) -> Result<()> {
        let session = *session;
        self.step(Kind::Read, move |kv, at| apply::send(kv, at, &session, to, message)).await
    }

    async fn allocate(&self, session: &SessionRef, what: Allocation) -> Result<u64> {
        let session = *session;
        self.quiet(Kind::Write, move |kv, at| apply::allocate(kv, at, &session, what)).await
    }

    async fn barrier(&self) -> Result<()> {
        self.quiet(Kind::Sync, |_, _| Ok(())).await
    }

    fn single_process(&self) -> bool {
        true
    }
}

/// A failure of the disk or the file, in words.
fn failed(what: &str, error: impl std::fmt::Display) -> StoreError {
    StoreError::Engine(format!("{what}: {error}"))
}
