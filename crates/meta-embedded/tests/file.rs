//! What is particular to a file: durability, locks, lives of processes.
#![expect(clippy::unwrap_used, reason = "a test")]

use bytes::Bytes;
use carafe_meta::store::*;
use carafe_meta_embedded::{EmbeddedStore, Sync, open};
use carafe_types::record::{FORMAT_VERSION, Superblock};
use carafe_types::{BucketNo, InodeNo, QuotaId, SessionUuid, Timestamp};
use std::path::Path;
use std::sync::Arc;

async fn made(path: &Path, sync: Sync) -> EmbeddedStore {
    let store = EmbeddedStore::open(path, sync).unwrap();
    let superblock = Superblock {
        version: FORMAT_VERSION,
        name: "demo".into(),
        uuid: uuid::Uuid::nil(),
        bucket: "file:///nowhere".into(),
        bucket_options: Default::default(),
        block_size: 4 << 20,
        inline_max: 4096,
        inline_budget: 1 << 20,
        created: Timestamp(1),
    };
    let quota = QuotaState { record: Bytes::new(), left_bytes: 1000, left_inodes: 1000, reserved: 0 };
    store.format(superblock.encode().into(), vec![], quota).await.unwrap();
    store
}

fn session(n: u8) -> NewSession {
    NewSession { uuid: SessionUuid([n; 16]), record: Bytes::from_static(b"{}") }
}

fn put(n: u64, value: &str) -> Commit {
    let writes = vec![Write::Put(Key::Inode(InodeNo(n)), Bytes::copy_from_slice(value.as_bytes()))];
    Commit { writes, ..Commit::default() }
}

async fn record(store: &dyn MetaStore, n: u64) -> Option<Bytes> {
    let page = store.scan(&ScanRequest::Records(vec![Key::Inode(InodeNo(n))])).await.unwrap();
    match page.found.into_iter().next() {
        Some(Scanned::Record(value)) => value,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_second_opener_is_told_that_the_file_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("meta.redb");
    let store = EmbeddedStore::open(&path, Sync::Always).unwrap();
    let url = format!("embedded://{}", path.display());
    let Err(e) = open(&url) else { panic!("opened twice") };
    assert!(e.to_string().contains("another process has this file open"), "{e}");
    drop(store);
    assert!(open(&url).is_ok(), "closing gives the lock back");
}

#[tokio::test]
async fn a_missing_directory_is_an_error_with_the_path() {
    let Err(e) = open("embedded:///no/such/directory/meta.redb") else { panic!("opened") };
    assert!(matches!(&e, StoreError::Unreachable { address, .. } if address.contains("/no/such")), "{e}");
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_opening_again() {
    for sync in [Sync::Always, Sync::EverySec] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("meta.redb");
        let store = made(&path, sync).await;
        assert_eq!(store.info().await.unwrap().durability, sync.to_string());
        let s = store.register(session(1)).await.unwrap();
        let Outcome::Done(done) = store.commit(&s, &put(70, "kept")).await.unwrap() else { panic!() };
        drop(store);
        let store = EmbeddedStore::open(&path, sync).unwrap();
        assert_eq!(record(&store, 70).await.as_deref(), Some(&b"kept"[..]));
        assert_eq!(store.info().await.unwrap().seq, done.seq);
    }
}

#[tokio::test]
async fn a_session_of_an_earlier_process_is_in_nobodys_way_and_can_be_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("meta.redb");
    let store = made(&path, Sync::Always).await;
    let old = store.register(session(1)).await.unwrap();
    let watch = LoadRequest { watch: vec![WatchKey::Bucket(BucketNo(1))], ..LoadRequest::default() };
    store.load(&old, &watch).await.unwrap();
    let reserve = vec![Write::Reserve(QuotaId::ROOT, 10)];
    store.commit(&old, &Commit { writes: reserve, ..Commit::default() }).await.unwrap();
    drop(store);

    let store = EmbeddedStore::open(&path, Sync::Always).unwrap();
    let new = store.register(session(2)).await.unwrap();
    assert_eq!(store.renew(&old).await.map(drop), Err(StoreError::Fenced), "until it is resumed");
    let loaded = store.load(&new, &watch).await.unwrap();
    assert_eq!((loaded.held, loaded.watched), (vec![], vec![Watched::Sole]));
    assert!(!store.reap(&new, old.no).await.unwrap(), "it has a lease to come back");
    let again = store.register(session(1)).await.unwrap();
    assert!(again.resumed && again.no == old.no);
    store.renew(&again).await.unwrap();
    assert_eq!(store.load(&again, &watch).await.unwrap().held, [WatchKey::Bucket(BucketNo(1))]);
    drop(store);

    let store = EmbeddedStore::open(&path, Sync::Always).unwrap();
    let third = store.register(session(3)).await.unwrap();
    store.expire_lease(old.no).await.unwrap();
    assert_eq!(store.renew(&third).await.unwrap().expired, [old.no]);
    assert!(store.reap(&third, old.no).await.unwrap());
    let quotas = store.renew(&third).await.unwrap().quotas;
    assert_eq!((quotas[0].1.left_bytes, quotas[0].1.reserved), (1010, 0));
    assert!(!store.register(session(1)).await.unwrap().resumed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_wait_together_share_a_sync() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(made(&dir.path().join("meta.redb"), Sync::Always).await);
    let s = store.register(session(1)).await.unwrap();
    let start = std::time::Instant::now();
    let tasks: Vec<_> = (0..500)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.commit(&s, &put(1000 + n, "x")).await.unwrap() })
        })
        .collect();
    let mut seqs = Vec::new();
    for task in tasks {
        let Outcome::Done(done) = task.await.unwrap() else { panic!() };
        seqs.push(done.seq);
    }
    seqs.sort();
    seqs.dedup();
    assert_eq!(seqs.len(), 500, "each has its place in the order");
    println!("500 commits by 500 tasks: {:?}", start.elapsed());
}
