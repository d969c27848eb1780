//! Random histories, step by step beside the memory twin: what no case thought of.

use super::Subject;
use super::world::{Peer, format, inode, name, object};
use crate::memory::MemoryStore;
use crate::store::*;
use bytes::Bytes;
use carafe_types::{FileKind, InodeNo, QuotaId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

const DIRS: [InodeNo; 2] = [InodeNo(6400), InodeNo(6464)];
const QUOTA: QuotaId = QuotaId(1);

/// The same session on both stores.
struct Pair {
    tested: Peer,
    twin: Peer,
}

/// Two sessions, few keys, all kinds of checks, takes, writes and marks.
pub async fn random_histories_agree_with_the_memory_twin(subject: &dyn Subject) {
    let twin = Arc::new(MemoryStore::new());
    format(&*subject.open().await, "random").await.expect("an empty store can be formatted");
    format(&*twin, "random").await.expect("an empty store can be formatted");
    let mut pairs = Vec::new();
    for _ in 0..2 {
        pairs.push(Pair {
            tested: Peer::join(subject.open().await).await,
            twin: Peer::join(twin.clone()).await,
        });
    }
    let quota = vec![Write::InitQuota(QUOTA, Some((500, 50)))];
    both(&pairs[0], Commit { writes: quota, ..Commit::default() }).await;
    for seed in 0..8 {
        let mut random = StdRng::seed_from_u64(seed);
        for step in 0..60 {
            let pair = &pairs[random.random_range(0..2)];
            match random.random_range(0..10) {
                0..=5 => {
                    let commit = any_commit(&mut random, pair).await;
                    let agreed = both(pair, commit.clone()).await;
                    assert!(agreed.0 == agreed.1, "seed {seed}, step {step}: {agreed:#?} of {commit:#?}");
                }
                6..=8 => {
                    let request = any_load(&mut random);
                    let tested = told(pair.tested.load(request.clone()).await);
                    let expected = told(pair.twin.load(request.clone()).await);
                    assert!(
                        tested == expected,
                        "seed {seed}, step {step}: {tested}\n{expected}\n{request:#?}"
                    );
                }
                _ => {
                    let (key, change) = (any_watch(&mut random), any_change(&mut random));
                    pair.tested.mark(key, change).await;
                    pair.twin.mark(key, change).await;
                }
            }
        }
    }
}

/// What a load says, but for the clock and the order within a bucket.
fn told(mut loaded: Loaded) -> String {
    loaded.time = Default::default();
    loaded.buckets.iter_mut().for_each(|b| b.sort());
    loaded.held.sort();
    format!("{loaded:?}")
}

/// Both outcomes, but for the clock and the order of watchers.
async fn both(pair: &Pair, commit: Commit) -> (String, String) {
    let told = |mut outcome: Outcome| {
        match &mut outcome {
            Outcome::Done(done) => done.time = Default::default(),
            Outcome::Conflict(failed) => {
                for f in failed {
                    match &mut f.fresh {
                        Fresh::Watchers(sids) => sids.sort(),
                        // The clock of the commit is written here.
                        Fresh::Record(Some(value)) if value.len() > 12 => {
                            *value = Bytes::from_static(b"time")
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        format!("{outcome:?}")
    };
    (told(pair.tested.commit(commit.clone()).await), told(pair.twin.commit(commit).await))
}

fn any_dir(r: &mut StdRng) -> InodeNo {
    DIRS[r.random_range(0..2)]
}

fn any_record(r: &mut StdRng) -> Key {
    let ino = InodeNo(6400 + r.random_range(0..3));
    match r.random_range(0..4) {
        0 => Key::Xattr(ino),
        1 => Key::Extents { ino, g: 1, segment: r.random_range(0..2) },
        2 => Key::DirSubdirs(any_dir(r)),
        _ => Key::Inode(ino),
    }
}

fn any_watch(r: &mut StdRng) -> WatchKey {
    if r.random() { WatchKey::Names(any_dir(r)) } else { WatchKey::Bucket(any_dir(r).bucket()) }
}

fn any_change(r: &mut StdRng) -> WatchChange {
    use WatchChange::{ClearFlushing, Leave, SetFlushing, Share};
    [Share, Share, Leave, SetFlushing, ClearFlushing][r.random_range(0..5)]
}

fn any_value(r: &mut StdRng) -> Option<Bytes> {
    let values: [&[u8]; 3] = [b"", b"a", b"\r\n\0\xff"];
    r.random_bool(0.7).then(|| Bytes::from_static(values[r.random_range(0..3)]))
}

fn any_load(r: &mut StdRng) -> LoadRequest {
    let mut request = LoadRequest::default();
    for _ in 0..r.random_range(1..4) {
        match r.random_range(0..6) {
            0 => request.records.push(any_record(r)),
            // Not the buckets of the directories themselves, where times are.
            1 => request.buckets.push(InodeNo(64).bucket()),
            2 => request.names.push((any_dir(r), name([b'a' + r.random_range(0..3)]))),
            3 => {
                let after = r.random::<bool>().then(|| name("a"));
                request.lists.push(ListRequest { dir: any_dir(r), after, limit: r.random_range(1..4) });
            }
            4 => request.quotas.push(QUOTA),
            _ => request.watch.push(any_watch(r)),
        }
    }
    request
}

/// A transaction whose checks often hold, and which never adds or removes a name blindly.
async fn any_commit(r: &mut StdRng, pair: &Pair) -> Commit {
    let mut commit = Commit { frees: r.random(), ..Commit::default() };
    for _ in 0..r.random_range(0..3) {
        commit.checks.push(match r.random_range(0..5) {
            0 => Check::Empty(any_dir(r)),
            1 => Check::Alone(any_watch(r)),
            2 => Check::AloneOrFlushing(any_watch(r)),
            3 => Check::Same(any_record(r), any_value(r)),
            _ => {
                let key = any_record(r);
                let now = pair.twin.record(key.clone()).await;
                Check::Same(key, now)
            }
        });
    }
    for _ in 0..r.random_range(0..3) {
        let (bytes, inodes) = (r.random_range(-30..60), r.random_range(-2..4));
        commit.takes.push(Take { quota: QuotaId(r.random_range(1..3)), bytes, inodes });
    }
    commit.take_inline = if r.random_bool(0.2) { r.random_range(-50..200) } else { 0 };
    for _ in 0..r.random_range(0..4) {
        any_write(r, pair, &mut commit).await;
    }
    if r.random_bool(0.1) {
        commit.enlist.push(any_watch(r));
    }
    commit
}

async fn any_write(r: &mut StdRng, pair: &Pair, commit: &mut Commit) {
    let write = match r.random_range(0..12) {
        0 => Write::Put(inode(6400 + r.random_range(0..3)), any_value(r).unwrap_or_default()),
        1 => Write::Delete(inode(6400 + r.random_range(0..3))),
        2..=4 => return any_name(r, pair, commit).await,
        5 => Write::Touch(any_dir(r)),
        6 => Write::AddSubdirs(any_dir(r), r.random_range(-1..3)),
        7 => Write::Retain(object(1, false).slice),
        8 => Write::Release { object: object(1, false), after_ms: 0 },
        9 => Write::PackLive { object: object(2, true), by: r.random_range(-5..9), after_ms: 0 },
        10 => Write::Reserve(QuotaId(r.random_range(1..3)), r.random_range(-9..9)),
        _ => Write::HoldOpen(InodeNo(6401)),
    };
    commit.writes.push(write);
}

async fn any_name(r: &mut StdRng, pair: &Pair, commit: &mut Commit) {
    let (dir, n) = (any_dir(r), name([b'a' + r.random_range(0..3)]));
    let same = |w: &Write| matches!(w, Write::Link(d, p) | Write::Unlink(d, p) if *d == dir && p.0 == n);
    if commit.writes.iter().any(same) {
        return;
    }
    let there = pair.twin.names(dir).await.into_iter().find(|e| e.name == n);
    match there {
        Some(e) => {
            commit.checks.push(Check::HasName(dir, n.clone(), e.kind, e.ino));
            commit.writes.push(Write::Unlink(dir, (n, e.kind, e.ino)));
        }
        None => {
            commit.checks.push(Check::NoName(dir, n.clone()));
            commit.writes.push(Write::Link(dir, (n, FileKind::Regular, InodeNo(r.random_range(1..5)))));
        }
    }
}
