//! Measures what a file costs: bytes of server memory and commits a second.
//!
//! `cargo run --example layout -- redis://127.0.0.1:6379/9 [files]`: the database must hold no file system; it is destroyed
//! at the end.

use bytes::Bytes;
use carafe_meta::store::*;
use carafe_meta_redis::{Options, RedisStore};
use carafe_types::record::{Content, Extent, ExtentKind, FORMAT_VERSION, Guard, Inode, Superblock};
use carafe_types::{EntryName, FileKind, InodeNo, QuotaId, SessionNo, SessionUuid, SliceId, Timestamp};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A wide part of a table has about so many.
const FILES_PER_DIRECTORY: u64 = 60;
const NOW: i64 = 1_764_500_000_123_456_789;

fn file(n: u64) -> Bytes {
    let extent = Extent {
        offset: 0,
        len: 3_000 + n % 70_000,
        kind: ExtentKind::Pack,
        slice: SliceId { session: SessionNo(40), n: n / 60 + 1 },
        slice_off: n % 60 * 70_000,
        slice_len: 5_000_000,
    };
    let inode = Inode {
        kind: FileKind::Regular,
        mode: 0o640,
        uid: 101,
        gid: 101,
        nlink: 1,
        size: extent.len,
        rdev: 0,
        mtime: Timestamp(NOW + n as i64),
        ctime: Timestamp(NOW + n as i64 + 500_000),
        atime: Timestamp(NOW),
        quota: QuotaId(3),
        parent: None,
        dataver: 1,
        has_xattr: false,
        content: Content::One(extent),
    };
    inode.encode().into()
}

fn guard(parent: InodeNo) -> Bytes {
    let guard = Guard {
        mode: 0o750,
        uid: 101,
        gid: 101,
        quota: QuotaId(3),
        parent,
        btime: Timestamp(NOW),
        ctime: Timestamp(NOW),
        has_xattr: false,
        quota_root: false,
    };
    guard.encode().into()
}

fn entry(n: u64) -> EntryName {
    EntryName::new(
        format!("column_{n:07}.cmrk").get(..19).map(|s| format!("{s}2")).unwrap_or_default().as_bytes(),
    )
    .expect("a valid name")
}

/// One file, as create makes it.
fn create(dir: InodeNo, n: u64, dir_guard: &Bytes) -> Commit {
    let (ino, name) = (InodeNo(dir.0 + n), entry(n));
    Commit {
        checks: vec![
            Check::Same(Key::Inode(dir), Some(dir_guard.clone())),
            Check::NoName(dir, name.clone()),
            Check::Same(Key::Inode(ino), None),
        ],
        takes: vec![Take { quota: QuotaId::ROOT, bytes: 0, inodes: 1 }],
        writes: vec![
            Write::Put(Key::Inode(ino), file(ino.0)),
            Write::Link(dir, (name, FileKind::Regular, ino)),
            Write::Touch(dir),
        ],
        ..Commit::default()
    }
}

/// One directory, as mkdir makes it, with all its files, as publishing a part does.
fn part(dir: InodeNo) -> Commit {
    let dir_guard = guard(InodeNo::ROOT);
    let mut commit = Commit {
        writes: vec![Write::Put(Key::Inode(dir), dir_guard.clone()), Write::Touch(dir)],
        enlist: vec![WatchKey::Names(dir), WatchKey::Bucket(dir.bucket())],
        ..Commit::default()
    };
    let name = EntryName::new(format!("all_{}_{}_0", dir.0, dir.0).as_bytes()).expect("a valid name");
    commit.writes.push(Write::Link(InodeNo::ROOT, (name, FileKind::Directory, dir)));
    for n in 1..=FILES_PER_DIRECTORY {
        let ino = InodeNo(dir.0 + n);
        commit.writes.push(Write::Put(Key::Inode(ino), file(ino.0)));
        commit.writes.push(Write::Link(dir, (entry(n), FileKind::Regular, ino)));
    }
    commit
}

struct Bench {
    store: Arc<RedisStore>,
    session: SessionRef,
    url: String,
}

impl Bench {
    async fn start(url: &str) -> Result<Self, StoreError> {
        let store = Arc::new(RedisStore::new(url, &Options::default())?);
        let superblock = Superblock {
            version: FORMAT_VERSION,
            name: "layout".into(),
            uuid: uuid::Uuid::new_v4(),
            bucket: "file:///nowhere".into(),
            bucket_options: Default::default(),
            block_size: 4 << 20,
            inline_max: 4096,
            inline_budget: 1 << 20,
            created: Timestamp(NOW),
        };
        let root = vec![(Key::Inode(InodeNo::ROOT), guard(InodeNo::ROOT))];
        let quota =
            QuotaState { record: Bytes::new(), left_bytes: 1 << 62, left_inodes: 1 << 62, reserved: 0 };
        store.format(superblock.encode().into(), root, quota).await?;
        let new = NewSession { uuid: SessionUuid([7; 16]), record: Bytes::from_static(b"{}") };
        let session = store.register(new).await?;
        Ok(Bench { store, session, url: url.to_owned() })
    }

    fn used_memory(&self) -> u64 {
        let client = redis::Client::open(self.url.as_str()).expect("the URL was good before");
        let mut connection = client.get_connection().expect("the server runs");
        let info: String = redis::cmd("INFO").arg("memory").query(&mut connection).expect("INFO is allowed");
        let value = info.lines().find_map(|l| l.strip_prefix("used_memory:"));
        value.and_then(|v| v.trim().parse().ok()).expect("INFO tells used_memory")
    }

    async fn commit(&self, commit: &Commit) {
        match self.store.commit(&self.session, commit).await {
            Ok(Outcome::Done(_)) => {}
            other => panic!("refused: {other:?}"),
        }
    }
}

/// Single creates by so many tasks: commits a second, median and 99th percentile.
async fn rate(bench: &Arc<Bench>, clients: u64, first: u64) -> (f64, Duration, Duration) {
    let each = 12_000 / clients;
    let start = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|c| {
            let bench = Arc::clone(bench);
            tokio::spawn(async move {
                let mut took = Vec::new();
                for n in 0..each {
                    let dir = InodeNo((first + c * 1000 + n / 60) << 6);
                    let dir_guard = guard(InodeNo::ROOT);
                    if n % 60 == 0 {
                        let make = vec![Write::Put(Key::Inode(dir), dir_guard.clone())];
                        bench.commit(&Commit { writes: make, ..Commit::default() }).await;
                    }
                    let begin = Instant::now();
                    bench.commit(&create(dir, n % 60 + 1, &dir_guard)).await;
                    took.push(begin.elapsed());
                }
                took
            })
        })
        .collect();
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await.expect("no panic"));
    }
    let rate = took.len() as f64 / start.elapsed().as_secs_f64();
    took.sort();
    (rate, took[took.len() / 2], took[took.len() * 99 / 100])
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a program for people")]
async fn main() -> Result<(), StoreError> {
    let mut args = std::env::args().skip(1);
    let url = args.next().expect("a URL: redis://127.0.0.1:6379/9");
    let files: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(200_000);
    let bench = Arc::new(Bench::start(&url).await?);
    println!("record: {} B, name: {} B", file(1 << 21).len(), entry(1).as_bytes().len());

    let parts = files / FILES_PER_DIRECTORY;
    let (before, start) = (bench.used_memory(), Instant::now());
    for p in 0..parts {
        bench.commit(&part(InodeNo((1 << 20) + (p << 6)))).await;
    }
    let (took, used) = (start.elapsed().as_secs_f64(), bench.used_memory() - before);
    let made = parts * FILES_PER_DIRECTORY;
    println!("{made} files in {parts} directories: {} B a file, directories included", used / made);
    println!(
        "one commit a directory: {:.0} commits/s, {:.0} files/s",
        parts as f64 / took,
        made as f64 / took
    );

    let mut first = 1 << 24;
    for clients in [1, 4, 16, 64] {
        let (rate, median, p99) = rate(&bench, clients, first).await;
        first += 100_000;
        println!("create, {clients} clients: {rate:.0} commits/s, p50 {median:?}, p99 {p99:?}");
    }
    let start = Instant::now();
    for p in 0..2000 {
        let dir = InodeNo((1 << 20) + ((p % parts) << 6));
        let list = ListRequest { dir, after: None, limit: 1000 };
        let request =
            LoadRequest { buckets: vec![dir.bucket()], lists: vec![list], ..LoadRequest::default() };
        bench.store.load(&bench.session, &request).await?;
    }
    println!("load of a whole directory: {:.0}/s", 2000.0 / start.elapsed().as_secs_f64());
    bench.store.destroy().await
}
