//! How long the calls take that a database makes most, over a store and a bucket in memory: what the vfs itself costs.
//!
//! `cargo run --example hot_paths [cache directory]`

use bytes::Bytes;
use carafe_cache::{Cache, CacheConfig, read_boot_id};
use carafe_meta::format::{FormatOptions, format};
use carafe_meta::memory::MemoryStore;
use carafe_meta::{Client, ClientOptions};
use carafe_object::Bucket;
use carafe_types::{EntryName, FileKind, InodeNo};
use carafe_vfs::{Ctx, NewNode, RenameMode, Vfs, VfsOptions};
use std::sync::Arc;
use std::time::Instant;

const CTX: Ctx = Ctx { uid: 0, gid: 0, pid: 1 };

fn name(n: String) -> EntryName {
    EntryName::new(n.as_bytes()).expect("short names without slashes")
}

fn node(kind: FileKind) -> NewNode {
    NewNode { kind, mode: 0o755, uid: 0, gid: 0, rdev: 0, target: None }
}

#[expect(clippy::print_stdout, reason = "it is what this program is for")]
fn report(what: &str, count: u64, began: Instant) {
    let took = began.elapsed();
    println!(
        "{what:40} {:8.2} us each, {:9.0} per s",
        took.as_secs_f64() * 1e6 / count as f64,
        count as f64 / took.as_secs_f64()
    );
}

async fn start(dir: &str) -> Arc<Vfs> {
    let store = Arc::new(MemoryStore::new());
    let superblock = format(&*store, FormatOptions::new("hot", "memory:")).await.expect("an empty store");
    let boot = read_boot_id().expect("linux");
    let config = CacheConfig::new(dir, 4 << 30, *superblock.uuid.as_bytes(), boot);
    let cache = Cache::open(config).expect("a cache directory");
    let client = Client::open(store, ClientOptions::default()).await.expect("formatted above");
    Vfs::new(client, VfsOptions::new(cache, Bucket::memory(), boot)).await.expect("nothing to recover")
}

#[tokio::main]
async fn main() {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "/dev/shm/carafe-hot-paths".into());
    let vfs = start(&dir).await;
    small_files(&vfs).await;
    parts(&vfs).await;
    large_file(&vfs).await;
    vfs.shutdown().await.expect("a bucket in memory works");
    std::fs::remove_dir_all(&dir).expect("made above");
}

async fn create(vfs: &Vfs, dir: InodeNo, n: String) -> u64 {
    let made = vfs.create(&CTX, dir, &name(n), node(FileKind::Regular), libc::O_RDWR).await;
    made.expect("a new name").1.fh
}

async fn close(vfs: &Vfs, fh: u64) {
    vfs.flush(fh, 1).await.expect("alone");
    vfs.release(fh, None).await.expect("never fails");
}

async fn small_files(vfs: &Arc<Vfs>) {
    let n = 20_000u64;
    let data = Bytes::from(vec![7u8; 4096]);
    let began = Instant::now();
    for i in 0..n {
        let fh = create(vfs, InodeNo::ROOT, format!("f{i}")).await;
        vfs.write(fh, 0, data.clone(), false).await.expect("room");
        close(vfs, fh).await;
    }
    report("create, write 4 KiB, close", n, began);
    let began = Instant::now();
    for i in 0..n {
        vfs.lookup(InodeNo::ROOT, &name(format!("f{i}"))).await.expect("there");
    }
    report("lookup", n, began);
    let began = Instant::now();
    for _ in 0..n {
        vfs.getattr(InodeNo::ROOT, None).await.expect("there");
    }
    report("getattr", n, began);
    vfs.sync().await.expect("works");
    report("and until all is durable", n, began);
}

async fn parts(vfs: &Arc<Vfs>) {
    let n = 200u64;
    let began = Instant::now();
    for p in 0..n {
        let tmp = name(format!("tmp{p}"));
        let dir = vfs.make(&CTX, InodeNo::ROOT, &tmp, node(FileKind::Directory)).await.expect("new").attr.ino;
        for i in 0..60usize {
            let data = Bytes::from(vec![i as u8; 100 + i * 1000]);
            let fh = create(vfs, dir, format!("c{i}")).await;
            vfs.write(fh, 0, data, false).await.expect("room");
            close(vfs, fh).await;
        }
        let part = name(format!("part{p}"));
        vfs.rename(&CTX, (InodeNo::ROOT, &tmp), (InodeNo::ROOT, &part), RenameMode::Replace)
            .await
            .expect("there");
    }
    report("part of 60 files, published", n, began);
}

async fn large_file(vfs: &Arc<Vfs>) {
    let fh = create(vfs, InodeNo::ROOT, "large".into()).await;
    let data = Bytes::from(vec![9u8; 1 << 20]);
    let n = 512u64;
    let began = Instant::now();
    for i in 0..n {
        vfs.write(fh, i << 20, data.clone(), false).await.expect("room");
    }
    vfs.fsync(fh, false).await.expect("works");
    report("write 1 MiB, fsync at the end", n, began);
    for what in ["read 128 KiB, cached", "read 128 KiB, cold"] {
        let began = Instant::now();
        for i in 0..n * 8 {
            vfs.read(fh, i << 17, 128 << 10).await.expect("there");
        }
        report(what, n * 8, began);
        vfs.drop_clean_cache();
    }
    let began = Instant::now();
    let random = |i: u64| (i * 7_919_911 + 4096) % (n << 20) / 4096 * 4096;
    for i in 0..50_000 {
        vfs.read(fh, random(i), 4096).await.expect("there");
    }
    report("random 4 KiB (cold at first)", 50_000, began);
    let began = Instant::now();
    for i in 0..100_000 {
        vfs.read(fh, random(i), 4096).await.expect("there");
    }
    report("random 4 KiB", 100_000, began);
    let began = Instant::now();
    let small = Bytes::from(vec![1u8; 4096]);
    for i in 0..20_000u64 {
        vfs.write(fh, random(i), small.clone(), false).await.expect("room");
    }
    report("random 4 KiB write", 20_000, began);
    vfs.release(fh, None).await.expect("never fails");
}
