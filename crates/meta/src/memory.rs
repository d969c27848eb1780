//! A store in memory: the twin that tests and tools use, and what the other engines are compared with.

use crate::apply::{self, Applied, Context, Hub, MapKv, Result};
use crate::store::{
    Allocation, Commit, Key, LoadRequest, Loaded, Message, MetaStore, NewSession, Outcome, QuotaState,
    Renewal, ScanPage, ScanRequest, SessionInfo, SessionRef, StoreInfo, WatchChange, WatchKey,
};
use async_trait::async_trait;
use bytes::Bytes;
use carafe_types::{SessionNo, Timestamp};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// A store that ends with the process. Several sessions may share it.
#[derive(Debug, Default)]
pub struct MemoryStore {
    kv: Mutex<MapKv>,
    hub: Hub,
    ahead_ns: AtomicI64,
}

impl MemoryStore {
    /// An empty store: `format` comes next.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the store's clock forward, so that tests need not wait for leases and due times.
    pub fn advance_clock(&self, by: Duration) {
        self.ahead_ns.fetch_add(by.as_nanos() as i64, Ordering::Relaxed);
    }

    /// Lets the lease of a session end long ago: the next `reap` of it succeeds.
    pub fn expire_lease(&self, sid: SessionNo) {
        apply::expire_lease(&mut *self.kv.lock(), sid).expect("a map in memory does not fail");
    }

    fn at(&self) -> Context {
        let at = Context::at_system_time(0);
        let ahead = self.ahead_ns.load(Ordering::Relaxed) / 1000 * 1000;
        Context { now: Timestamp(at.now.0 + ahead), ..at }
    }

    /// One atomic step. Messages leave under the lock, so that they keep the order of the steps.
    fn step<T>(&self, f: impl FnOnce(&mut MapKv, &Context) -> Result<Applied<T>>) -> Result<T> {
        let mut kv = self.kv.lock();
        let done = f(&mut kv, &self.at())?;
        self.hub.deliver(done.messages);
        Ok(done.answer)
    }

    fn quiet<T>(&self, f: impl FnOnce(&mut MapKv, &Context) -> Result<T>) -> Result<T> {
        f(&mut self.kv.lock(), &self.at())
    }
}

#[async_trait]
impl MetaStore for MemoryStore {
    async fn info(&self) -> Result<StoreInfo> {
        let info = self.quiet(|kv, at| apply::info(kv, at))?;
        Ok(StoreInfo { server: "memory".to_owned(), ..info })
    }

    async fn format(
        &self,
        superblock: Bytes,
        records: Vec<(Key, Bytes)>,
        root_quota: QuotaState,
    ) -> Result<()> {
        let random = rand::random::<u64>() >> 1;
        self.quiet(|kv, _| apply::format(kv, random, &superblock, &records, &root_quota))
    }

    async fn destroy(&self) -> Result<()> {
        self.quiet(|kv, _| apply::destroy(kv))
    }

    async fn register(&self, session: NewSession) -> Result<SessionRef> {
        let made = self.quiet(|kv, at| apply::register(kv, at, &session))?;
        self.hub.open(made.no);
        Ok(made)
    }

    async fn messages(&self, session: &SessionRef) -> Result<UnboundedReceiver<Message>> {
        self.hub.take(session.no)
    }

    async fn renew(&self, session: &SessionRef) -> Result<Renewal> {
        self.quiet(|kv, at| apply::renew(kv, at, session))
    }

    async fn reap(&self, session: &SessionRef, victim: SessionNo) -> Result<bool> {
        self.quiet(|kv, at| apply::reap(kv, at, session, victim))
    }

    async fn unregister(&self, session: &SessionRef) -> Result<()> {
        self.quiet(|kv, at| apply::unregister(kv, at, session))?;
        self.hub.close(session.no);
        Ok(())
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>> {
        self.quiet(|kv, at| apply::sessions(kv, at))
    }

    async fn load(&self, session: &SessionRef, request: &LoadRequest) -> Result<Loaded> {
        self.step(|kv, at| apply::load(kv, at, session, request))
    }

    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage> {
        self.quiet(|kv, at| apply::scan(kv, at, request))
    }

    async fn commit(&self, session: &SessionRef, commit: &Commit) -> Result<Outcome> {
        self.step(|kv, at| apply::commit(kv, at, session, commit))
    }

    async fn watch(&self, session: &SessionRef, changes: &[(WatchKey, WatchChange)]) -> Result<()> {
        self.step(|kv, at| apply::watch(kv, at, session, changes))
    }

    async fn send(&self, session: &SessionRef, to: SessionNo, message: Message) -> Result<()> {
        self.step(|kv, at| apply::send(kv, at, session, to, message))
    }

    async fn allocate(&self, session: &SessionRef, what: Allocation) -> Result<u64> {
        self.quiet(|kv, at| apply::allocate(kv, at, session, what))
    }

    async fn barrier(&self) -> Result<()> {
        Ok(())
    }

    fn single_process(&self) -> bool {
        // The twin stands in for a shared store.
        false
    }
}
