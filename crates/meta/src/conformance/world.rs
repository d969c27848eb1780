//! Two clients of a file system that was just made.

use super::Subject;
use crate::store::*;
use bytes::Bytes;
use carafe_types::record::{FORMAT_VERSION, Superblock};
use carafe_types::{EntryName, FileKind, InodeNo, QuotaId, SessionUuid, SliceId, Timestamp};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// A directory that cases use.
pub(super) const DIR: InodeNo = InodeNo(6400);
/// The budget for inline data of the file system.
pub(super) const INLINE: i64 = 1000;
/// What the root quota has left.
pub(super) const ROOT_LEFT: (i64, i64) = (1 << 62, 1 << 40);

pub(super) struct World<'a> {
    pub(super) subject: &'a dyn Subject,
    pub(super) a: Peer,
    pub(super) b: Peer,
}

impl<'a> World<'a> {
    /// Formats, and registers two sessions on handles of their own.
    pub(super) async fn new(subject: &'a dyn Subject) -> Self {
        let store = subject.open().await;
        format(&*store, "demo").await.expect("an empty store can be formatted");
        let a = Peer::join(store).await;
        let b = Peer::join(subject.open().await).await;
        World { subject, a, b }
    }
}

pub(super) async fn format(store: &dyn MetaStore, name: &str) -> Result<(), StoreError> {
    let superblock = Superblock {
        version: FORMAT_VERSION,
        name: name.to_owned(),
        uuid: rand_uuid(),
        bucket: "file:///nowhere".to_owned(),
        bucket_options: Default::default(),
        block_size: 4 << 20,
        inline_max: 4096,
        inline_budget: INLINE as u64,
        created: Timestamp(1),
    };
    let records = vec![(Key::Inode(InodeNo::ROOT), Bytes::from_static(b"root"))];
    let quota = QuotaState {
        record: Bytes::from_static(b"root quota"),
        left_bytes: ROOT_LEFT.0,
        left_inodes: ROOT_LEFT.1,
        reserved: 0,
    };
    store.format(superblock.encode().into(), records, quota).await
}

fn rand_uuid() -> uuid::Uuid {
    uuid::Uuid::new_v4()
}

pub(super) fn new_session() -> NewSession {
    NewSession {
        uuid: SessionUuid(*rand_uuid().as_bytes()),
        record: Bytes::from_static(b"{\"a session\":1}"),
    }
}

/// A client.
pub(super) struct Peer {
    pub(super) store: Arc<dyn MetaStore>,
    pub(super) session: SessionRef,
    messages: UnboundedReceiver<Message>,
}

impl Peer {
    pub(super) async fn join(store: Arc<dyn MetaStore>) -> Self {
        Self::join_as(store, new_session()).await
    }

    pub(super) async fn join_as(store: Arc<dyn MetaStore>, new: NewSession) -> Self {
        let session = store.register(new).await.expect("a formatted store takes sessions");
        let messages = store.messages(&session).await.expect("a new session hears messages");
        Peer { store, session, messages }
    }

    pub(super) async fn commit(&self, commit: Commit) -> Outcome {
        self.store.commit(&self.session, &commit).await.expect("a living session may commit")
    }

    pub(super) async fn done(&self, commit: Commit) -> Done {
        match self.commit(commit).await {
            Outcome::Done(done) => done,
            other => panic!("refused: {other:?}"),
        }
    }

    pub(super) async fn write(&self, writes: Vec<Write>) -> Done {
        self.done(Commit { writes, ..Commit::default() }).await
    }

    pub(super) async fn load(&self, request: LoadRequest) -> Loaded {
        self.store.load(&self.session, &request).await.expect("a living session may load")
    }

    pub(super) async fn watch_one(&self, key: WatchKey) -> Loaded {
        self.load(LoadRequest { watch: vec![key], ..LoadRequest::default() }).await
    }

    pub(super) async fn mark(&self, key: WatchKey, change: WatchChange) {
        self.store
            .watch(&self.session, &[(key, change)])
            .await
            .expect("a living session may change its marks");
    }

    pub(super) async fn scan(&self, request: ScanRequest) -> ScanPage {
        self.store.scan(&request).await.expect("anybody may scan")
    }

    /// A record, without a watch or a question to anybody.
    pub(super) async fn record(&self, key: Key) -> Option<Bytes> {
        match self.scan(ScanRequest::Records(vec![key])).await.found.as_slice() {
            [Scanned::Record(value)] => value.clone(),
            other => panic!("one record was asked for: {other:?}"),
        }
    }

    pub(super) async fn names(&self, dir: InodeNo) -> Vec<DirEntry> {
        let request = ListRequest { dir, after: None, limit: 10_000 };
        let found = self.scan(ScanRequest::Names(request)).await.found;
        found
            .into_iter()
            .map(|s| if let Scanned::Name(e) = s { e } else { panic!("no name: {s:?}") })
            .collect()
    }

    pub(super) async fn quota(&self, id: QuotaId) -> Option<QuotaState> {
        let loaded = self.load(LoadRequest { quotas: vec![id], ..LoadRequest::default() }).await;
        loaded.quotas.into_iter().next().flatten()
    }

    pub(super) async fn message(&mut self) -> Message {
        let wait = tokio::time::timeout(Duration::from_secs(5), self.messages.recv()).await;
        wait.expect("the message comes soon").expect("the queue is open")
    }

    /// Asserts that there is no message under way.
    pub(super) async fn hears_nothing(&mut self) {
        let wait = tokio::time::timeout(Duration::from_millis(100), self.messages.recv()).await;
        assert!(wait.is_err(), "unexpected: {wait:?}");
    }
}

pub(super) fn name(bytes: impl AsRef<[u8]>) -> EntryName {
    EntryName::new(bytes.as_ref()).expect("a valid name")
}

pub(super) fn parts(bytes: impl AsRef<[u8]>, ino: u64) -> DirEntryParts {
    (name(bytes), FileKind::Regular, InodeNo(ino))
}

pub(super) fn put(key: Key, value: impl AsRef<[u8]>) -> Write {
    Write::Put(key, Bytes::copy_from_slice(value.as_ref()))
}

pub(super) fn inode(n: u64) -> Key {
    Key::Inode(InodeNo(n))
}

pub(super) fn object(n: u64, pack: bool) -> DeadObject {
    let slice = SliceId { session: carafe_types::SessionNo(3), n };
    DeadObject { slice, pack, len: 70_000 + n }
}

pub(super) fn text(value: &'static str) -> Option<Bytes> {
    Some(Bytes::from_static(value.as_bytes()))
}
