//! Sessions whose kernels keep what they are allowed to keep: nobody ever sees an old answer.
//!
//! Each session has a kernel that answers names and attributes from its own memory for as long as it was told, drops what
//! its own changes touch, and what the hook tells it to drop. The sessions take turns, so every answer has exactly one
//! right value.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use async_trait::async_trait;
use carafe_meta::store::WatchKey;
use carafe_meta::{Client, Hooks, Lookup};
use carafe_types::{Attr, FileKind, InodeNo, QuotaId};
use common::*;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Memory {
    names: BTreeMap<(InodeNo, String), (Option<InodeNo>, Instant)>,
    attrs: BTreeMap<InodeNo, (Attr, Instant)>,
}

#[derive(Default)]
struct Kernel {
    memory: Mutex<Memory>,
    hits: AtomicU64,
    slow: bool,
}

#[async_trait]
impl Hooks for Kernel {
    async fn share(&self, key: WatchKey) {
        if self.slow {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        let mut m = self.memory.lock();
        match key {
            WatchKey::Names(dir) => m.names.retain(|(d, _), _| *d != dir),
            WatchKey::Bucket(b) => m.attrs.retain(|i, _| i.bucket() != b),
        }
    }
    async fn flush_below(&self, _dir: InodeNo) {}
    async fn fenced(&self) {}
    fn return_reserve(&self, _quota: QuotaId) {}
    fn unlocked(&self, _ino: InodeNo) {}
}

struct Mount {
    client: Arc<Client>,
    kernel: Arc<Kernel>,
}

impl Mount {
    async fn new(w: &World, slow: bool) -> Self {
        let kernel = Arc::new(Kernel { slow, ..Kernel::default() });
        let client = w.client().await;
        client.set_hooks(kernel.clone());
        Mount { client, kernel }
    }

    fn own_change(&self, dirs: &[InodeNo], inos: &[InodeNo], names: &[(InodeNo, &str)]) {
        let mut m = self.kernel.memory.lock();
        m.attrs.retain(|i, _| !dirs.contains(i) && !inos.contains(i));
        m.names.retain(|(d, n), _| !names.contains(&(*d, n.as_str())));
    }

    async fn lookup(&self, dir: InodeNo, n: &str) -> Option<InodeNo> {
        let key = (dir, n.to_owned());
        if let Some((ino, until)) = self.kernel.memory.lock().names.get(&key)
            && Instant::now() < *until
        {
            self.kernel.hits.fetch_add(1, Ordering::Relaxed);
            return *ino;
        }
        let (ino, ttl) = match self.client.lookup(dir, &name(n)).await.unwrap() {
            Lookup::Found(f) => {
                let mut m = self.kernel.memory.lock();
                m.attrs.insert(f.attr.ino, (f.attr.clone(), Instant::now() + f.ttl));
                (Some(f.attr.ino), f.entry_ttl)
            }
            Lookup::Absent { ttl } => (None, ttl),
        };
        self.kernel.memory.lock().names.insert(key, (ino, Instant::now() + ttl));
        ino
    }

    async fn stat(&self, ino: InodeNo) -> Attr {
        if let Some((attr, until)) = self.kernel.memory.lock().attrs.get(&ino)
            && Instant::now() < *until
        {
            self.kernel.hits.fetch_add(1, Ordering::Relaxed);
            return attr.clone();
        }
        let f = self.client.getattr(ino).await.unwrap();
        self.kernel.memory.lock().attrs.insert(ino, (f.attr.clone(), Instant::now() + f.ttl));
        f.attr
    }
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

async fn run(mounts: usize, seed: u64, steps: u64) -> u64 {
    let w = World::new().await;
    let mut all = Vec::new();
    for n in 0..mounts {
        all.push(Mount::new(&w, n % 2 == 1).await);
    }
    let mut rng = StdRng::seed_from_u64(seed);
    let mut dirs = Vec::new();
    for n in 0..3 {
        dirs.push(mkdir(&all[n % mounts].client, ROOT, &format!("dir{n}")).await);
    }
    all.iter().for_each(|m| m.own_change(&[ROOT], &[], &[]));
    let mut truth: BTreeMap<(InodeNo, &str), InodeNo> = BTreeMap::new();
    let mut sizes: BTreeMap<InodeNo, u64> = BTreeMap::new();
    let (mut favourite, mut hits) = (0, 0);
    for _ in 0..steps {
        // Mostly one mount at a time, so that keys are held alone for a while.
        if rng.random_range(0..8) == 0 {
            favourite = rng.random_range(0..mounts);
        }
        // A mount that goes leaves the other one alone on what both have seen.
        if rng.random_range(0..40) == 0 {
            let other = rng.random_range(0..mounts);
            all[other].client.close().await;
            hits += all[other].kernel.hits.load(Ordering::Relaxed);
            all[other] = Mount::new(&w, other % 2 == 1).await;
        }
        let m = &all[favourite];
        let d = dirs[rng.random_range(0..dirs.len())];
        let n = NAMES[rng.random_range(0..NAMES.len())];
        let at = truth.get(&(d, n)).copied();
        match (rng.random_range(0..10), at) {
            (0..=2, None) => {
                let ino = make(&m.client, d, n, FileKind::Regular).await.unwrap().attr.ino;
                m.own_change(&[d], &[ino], &[(d, n)]);
                truth.insert((d, n), ino);
                sizes.insert(ino, 0);
            }
            (0, Some(ino)) => {
                m.client.unlink(&ME, d, &name(n)).await.unwrap();
                m.own_change(&[d], &[ino], &[(d, n)]);
                truth.remove(&(d, n));
            }
            (1, Some(ino)) => {
                let (d2, n2) =
                    (dirs[rng.random_range(0..dirs.len())], NAMES[rng.random_range(0..NAMES.len())]);
                mv(&m.client, (d, n), (d2, n2)).await.unwrap();
                let over = truth.get(&(d2, n2)).copied().unwrap_or(ino);
                m.own_change(&[d, d2], &[ino, over], &[(d, n), (d2, n2)]);
                truth.remove(&(d, n));
                truth.insert((d2, n2), ino);
            }
            (2 | 3, Some(ino)) => {
                let size = sizes[&ino] + 10;
                m.client.commit_writes(&[write(&m.client, ino, size - 10, 10)]).await.unwrap();
                m.own_change(&[], &[ino], &[]);
                sizes.insert(ino, size);
            }
            _ => {
                assert_eq!(m.lookup(d, n).await, at, "{d}/{n}");
                if let Some(ino) = at {
                    assert_eq!(m.stat(ino).await.size, sizes[&ino], "size of {ino}");
                }
            }
        }
    }
    hits + all.iter().map(|m| m.kernel.hits.load(Ordering::Relaxed)).sum::<u64>()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_mounts_with_kernels_that_keep_things_never_show_anything_old() {
    let mut hits = 0;
    for seed in 0..6 {
        hits += run(2, seed, 1500).await;
    }
    assert!(hits > 300, "the kernels kept something: {hits}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_mounts_with_kernels_that_keep_things_never_show_anything_old() {
    run(3, 77, 1500).await;
}

/// Readers and a writer at the same time: what was seen once is never unseen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_size_that_was_seen_never_shrinks_for_anybody() {
    let w = World::new().await;
    let (a, b) = (Mount::new(&w, true).await, Mount::new(&w, true).await);
    let f = file(&a.client, ROOT, "f").await;
    let seen = Arc::new(AtomicU64::new(0));
    let writer = tokio::spawn({
        let (client, seen) = (a.client.clone(), seen.clone());
        async move {
            for n in 1..200u64 {
                client.commit_writes(&[write(&client, f, (n - 1) * 10, 10)]).await.unwrap();
                // close() has returned: from now on everybody sees it.
                seen.fetch_max(n * 10, Ordering::SeqCst);
                if n % 10 == 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
    });
    while !writer.is_finished() {
        for m in [&a, &b] {
            let before = seen.load(Ordering::SeqCst);
            // The writer's own kernel would drop its attributes at each write.
            let size = if std::ptr::eq(m, &a) {
                m.client.getattr(f).await.unwrap().attr.size
            } else {
                m.stat(f).await.size
            };
            assert!(size >= before, "{size} after {before} was seen");
            seen.fetch_max(size, Ordering::SeqCst);
        }
    }
    writer.await.unwrap();
}
