//! What stands between a client and its store: one place that hands every call on, and a [`Layer`] that is asked before
//! and after. [`crate::counting`] counts, [`crate::measured`] measures, [`crate::failing`] breaks things.

use crate::store::{
    Allocation, Commit, Key, LoadRequest, Loaded, Message, MetaStore, NewSession, Outcome, QuotaState,
    Renewal, ScanPage, ScanRequest, SessionInfo, SessionRef, StoreError, StoreInfo, WatchChange, WatchKey,
};
use async_trait::async_trait;
use bytes::Bytes;
use carafe_types::SessionNo;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;

/// The calls of [`MetaStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named like the methods of MetaStore")]
pub enum Call {
    Info,
    Format,
    Destroy,
    Register,
    Messages,
    Renew,
    Reap,
    Unregister,
    Sessions,
    Load,
    Scan,
    Commit,
    Watch,
    Send,
    Allocate,
    Barrier,
}

impl Call {
    /// All of them, in the order of their numbers.
    pub const ALL: [Call; 16] = [
        Call::Info,
        Call::Format,
        Call::Destroy,
        Call::Register,
        Call::Messages,
        Call::Renew,
        Call::Reap,
        Call::Unregister,
        Call::Sessions,
        Call::Load,
        Call::Scan,
        Call::Commit,
        Call::Watch,
        Call::Send,
        Call::Allocate,
        Call::Barrier,
    ];

    /// The method's name.
    pub fn name(self) -> &'static str {
        match self {
            Call::Info => "info",
            Call::Format => "format",
            Call::Destroy => "destroy",
            Call::Register => "register",
            Call::Messages => "messages",
            Call::Renew => "renew",
            Call::Reap => "reap",
            Call::Unregister => "unregister",
            Call::Sessions => "sessions",
            Call::Load => "load",
            Call::Scan => "scan",
            Call::Commit => "commit",
            Call::Watch => "watch",
            Call::Send => "send",
            Call::Allocate => "allocate",
            Call::Barrier => "barrier",
        }
    }
}

/// What a decorator does around each call.
#[async_trait]
pub trait Layer: Send + Sync + 'static {
    /// Before the store is asked; an error is the caller's answer, and the store is not asked.
    async fn before(&self, call: Call) -> Result<(), StoreError>;

    /// After the store has answered well; an error takes the place of the answer.
    async fn after(&self, call: Call) -> Result<(), StoreError> {
        let _ = call;
        Ok(())
    }

    /// A call took so long, and failed if there is an error.
    fn ended(&self, call: Call, took: Duration, error: Option<&StoreError>) {
        let _ = (call, took, error);
    }

    /// The store decided a commit.
    fn decided(&self, outcome: &Outcome) {
        let _ = outcome;
    }
}

/// A store behind a layer.
pub struct Layered<L> {
    inner: Arc<dyn MetaStore>,
    layer: L,
}

impl<L: Layer> Layered<L> {
    /// Puts `layer` before `inner`.
    pub fn over(inner: Arc<dyn MetaStore>, layer: L) -> Self {
        Layered { inner, layer }
    }

    /// The layer, to steer it.
    pub fn layer(&self) -> &L {
        &self.layer
    }

    async fn around<T>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.layer.before(call).await?;
        let begun = Instant::now();
        let answer = answer.await;
        self.layer.ended(call, begun.elapsed(), answer.as_ref().err());
        let answer = answer?;
        self.layer.after(call).await?;
        Ok(answer)
    }
}

#[async_trait]
impl<L: Layer> MetaStore for Layered<L> {
    async fn info(&self) -> Result<StoreInfo, StoreError> {
        self.around(Call::Info, self.inner.info()).await
    }

    async fn format(
        &self,
        superblock: Bytes,
        records: Vec<(Key, Bytes)>,
        root_quota: QuotaState,
    ) -> Result<(), StoreError> {
        self.around(Call::Format, self.inner.format(superblock, records, root_quota)).await
    }

    async fn destroy(&self) -> Result<(), StoreError> {
        self.around(Call::Destroy, self.inner.destroy()).await
    }

    async fn register(&self, session: NewSession) -> Result<SessionRef, StoreError> {
        self.around(Call::Register, self.inner.register(session)).await
    }

    async fn messages(&self, session: &SessionRef) -> Result<UnboundedReceiver<Message>, StoreError> {
        self.around(Call::Messages, self.inner.messages(session)).await
    }

    async fn renew(&self, session: &SessionRef) -> Result<Renewal, StoreError> {
        self.around(Call::Renew, self.inner.renew(session)).await
    }

    async fn reap(&self, session: &SessionRef, victim: SessionNo) -> Result<bool, StoreError> {
        self.around(Call::Reap, self.inner.reap(session, victim)).await
    }

    async fn unregister(&self, session: &SessionRef) -> Result<(), StoreError> {
        self.around(Call::Unregister, self.inner.unregister(session)).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, StoreError> {
        self.around(Call::Sessions, self.inner.sessions()).await
    }

    async fn load(&self, session: &SessionRef, request: &LoadRequest) -> Result<Loaded, StoreError> {
        self.around(Call::Load, self.inner.load(session, request)).await
    }

    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage, StoreError> {
        self.around(Call::Scan, self.inner.scan(request)).await
    }

    async fn commit(&self, session: &SessionRef, commit: &Commit) -> Result<Outcome, StoreError> {
        let outcome = self.around(Call::Commit, self.inner.commit(session, commit)).await?;
        self.layer.decided(&outcome);
        Ok(outcome)
    }

    async fn watch(
        &self,
        session: &SessionRef,
        changes: &[(WatchKey, WatchChange)],
    ) -> Result<(), StoreError> {
        self.around(Call::Watch, self.inner.watch(session, changes)).await
    }

    async fn send(&self, session: &SessionRef, to: SessionNo, message: Message) -> Result<(), StoreError> {
        self.around(Call::Send, self.inner.send(session, to, message)).await
    }

    async fn allocate(&self, session: &SessionRef, what: Allocation) -> Result<u64, StoreError> {
        self.around(Call::Allocate, self.inner.allocate(session, what)).await
    }

    async fn barrier(&self) -> Result<(), StoreError> {
        self.around(Call::Barrier, self.inner.barrier()).await
    }

    fn single_process(&self) -> bool {
        self.inner.single_process()
    }
}
