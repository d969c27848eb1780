//! A client with short words for what tests do.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub, missing_docs)]

use bytes::Bytes;
use carafe_meta::store::*;
use carafe_meta_redis::{Options, RedisStore};
use carafe_types::record::{FORMAT_VERSION, Superblock};
use carafe_types::{EntryName, FileKind, InodeNo, QuotaId, SessionUuid, Timestamp};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

pub const DIR: InodeNo = InodeNo(6400);
pub const LEFT: i64 = 1 << 60;

pub struct Peer {
    pub store: Arc<RedisStore>,
    pub session: SessionRef,
    messages: Option<UnboundedReceiver<Message>>,
}

impl Peer {
    /// Formats, and joins as session 1.
    pub async fn first(url: &str, options: &Options) -> Self {
        format(&RedisStore::new(url, options).unwrap()).await.unwrap();
        Self::join(url, 1, options).await
    }

    pub async fn join(url: &str, uuid: u8, options: &Options) -> Self {
        let store = Arc::new(RedisStore::new(url, options).unwrap());
        let session = store.register(new_session(uuid)).await.unwrap();
        let messages = store.messages(&session).await.unwrap();
        Peer { store, session, messages: Some(messages) }
    }

    /// No more messages: the connection for them closes.
    pub fn silence(&mut self) {
        self.messages = None;
    }

    pub async fn commit(&self, commit: Commit) -> Result<Outcome, StoreError> {
        self.store.commit(&self.session, &commit).await
    }

    pub async fn load(&self, request: &LoadRequest) -> Result<Loaded, StoreError> {
        self.store.load(&self.session, request).await
    }

    pub async fn seq(&self) -> u64 {
        self.load(&LoadRequest::default()).await.unwrap().seq
    }

    pub async fn quota(&self) -> QuotaState {
        let request = LoadRequest { quotas: vec![QuotaId::ROOT], ..LoadRequest::default() };
        self.load(&request).await.unwrap().quotas.remove(0).unwrap()
    }

    pub async fn record(&self, key: Key) -> Option<Bytes> {
        match self.store.scan(&ScanRequest::Records(vec![key])).await.unwrap().found.remove(0) {
            Scanned::Record(value) => value,
            other => panic!("{other:?}"),
        }
    }

    pub async fn message(&mut self) -> Message {
        let messages = self.messages.as_mut().unwrap();
        tokio::time::timeout(Duration::from_secs(10), messages.recv()).await.unwrap().unwrap()
    }

    pub async fn hears_nothing(&mut self) {
        let messages = self.messages.as_mut().unwrap();
        let heard = tokio::time::timeout(Duration::from_millis(50), messages.recv()).await;
        assert!(heard.is_err(), "{heard:?}");
    }
}

/// Makes a file system.
pub async fn format(store: &RedisStore) -> Result<(), StoreError> {
    let superblock = Superblock {
        version: FORMAT_VERSION,
        name: "demo".into(),
        uuid: uuid::Uuid::new_v4(),
        bucket: "file:///nowhere".into(),
        bucket_options: Default::default(),
        block_size: 4 << 20,
        inline_max: 4096,
        inline_budget: 1 << 20,
        created: Timestamp(1),
    };
    let records = vec![(Key::Inode(InodeNo::ROOT), Bytes::from_static(b"root"))];
    let quota = QuotaState { record: Bytes::new(), left_bytes: LEFT, left_inodes: LEFT, reserved: 0 };
    store.format(superblock.encode().into(), records, quota).await
}

pub fn new_session(uuid: u8) -> NewSession {
    NewSession { uuid: SessionUuid([uuid; 16]), record: Bytes::from_static(b"{}") }
}

pub fn put(ino: u64, value: &str) -> Write {
    Write::Put(Key::Inode(InodeNo(ino)), Bytes::copy_from_slice(value.as_bytes()))
}

pub fn one(ino: u64, value: &str) -> Commit {
    Commit { writes: vec![put(ino, value)], ..Commit::default() }
}

/// A directory with files of 20-byte names and 44-byte records, as a table part has them.
pub fn directory(dir: InodeNo, files: u64) -> Commit {
    let record = |n: u64| Bytes::from((0..44).map(|b| (n * 31 + b) as u8).collect::<Vec<u8>>());
    let mut commit = Commit::default();
    commit.writes.push(Write::Put(Key::Inode(dir), record(dir.0)));
    commit.writes.push(Write::Touch(dir));
    for n in 1..=files {
        let ino = InodeNo(dir.0 + n);
        let name = EntryName::new(format!("column_{n:06}.cmrk2.bi").as_bytes()).unwrap();
        assert!(name.as_bytes().len() >= 20);
        commit.writes.push(Write::Put(Key::Inode(ino), record(ino.0)));
        commit.writes.push(Write::Link(dir, (name, FileKind::Regular, ino)));
    }
    commit.enlist = vec![WatchKey::Names(dir), WatchKey::Bucket(dir.bucket())];
    commit
}

/// A server that speaks TLS only.
pub struct Tls {
    pub port: u16,
    pub ca: Vec<u8>,
    child: Child,
    _dir: tempfile::TempDir,
}

impl Tls {
    pub fn start() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let openssl = |args: &[&str]| Command::new("openssl").args(args).stderr(Stdio::null()).status();
        let (ca_key, ca, key, csr, cert, ext) =
            (path("ca.key"), path("ca.pem"), path("key"), path("csr"), path("cert"), path("ext"));
        std::fs::write(&ext, "subjectAltName=DNS:localhost\n").unwrap();
        let ca_args =
            ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test authority"];
        openssl(&[&ca_args[..], &["-keyout", &ca_key, "-out", &ca]].concat()).ok()?;
        let args =
            ["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", &key, "-out", &csr];
        openssl(&args).ok()?;
        let sign =
            ["x509", "-req", "-in", &csr, "-CA", &ca, "-CAkey", &ca_key, "-CAcreateserial", "-days", "2"];
        openssl(&[&sign[..], &["-extfile", &ext, "-out", &cert]].concat()).ok()?;
        let port = carafe_testkit::free_port();
        let port_text = port.to_string();
        let args =
            ["--port", "0", "--bind", "127.0.0.1", "--tls-port", &port_text, "--tls-auth-clients", "no"];
        let files =
            ["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca, "--save", ""];
        let mut redis = Command::new("redis-server");
        redis.args(args).args(files).current_dir(dir.path()).stdout(Stdio::null());
        let mut child = redis.spawn().ok()?;
        let ca = std::fs::read(&ca).ok()?;
        std::thread::sleep(Duration::from_millis(500));
        if child.try_wait().ok()?.is_some() {
            return None;
        }
        Some(Tls { port, ca, child, _dir: dir })
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
