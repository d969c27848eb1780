//! Snapshots and clones on the memory twin, and what happens when whoever makes them dies.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;
#[path = "common/snapshots.rs"]
mod snapshots;

use carafe_meta::decorate::Call;
use carafe_meta::failing::Failing;
use carafe_meta::jobs::{purge_trash, silently};
use carafe_meta::store::{Commit, Key, MetaStore, Outcome, ScanRequest, Scanned, Write};
use carafe_meta::volumes::VolumeError;
use carafe_meta::{Client, ClientOptions};
use carafe_types::record::VolumeState;
use carafe_types::{FileKind, FsError};
use common::furnish::{furnish, volume};
use common::tree::Tree;
use common::*;
use snapshots::*;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_in_memory_are_equal_and_independent() {
    copies_are_equal_and_independent(World::new().await.memory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn later_writes_in_memory_never_change_a_snapshot() {
    for seed in 0..6 {
        later_writes_stay_apart(World::new().await.memory, seed, 60).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_in_memory_under_load_is_one_moment() {
    a_snapshot_under_load_is_one_moment(World::new().await.memory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_copies_in_memory_leave_nothing_behind() {
    refusals_leave_nothing_behind(World::new().await.memory).await;
}

/// Ended at each of its commits, before it or without its answer, by a client that never comes back.
#[tokio::test]
async fn a_copier_that_dies_at_any_commit_is_followed_by_the_next_call() {
    for lose in [false, true] {
        for at in 0..4 {
            let w = World::new().await;
            let failing = Arc::new(Failing::new(w.memory.clone()));
            let first = w.client().await;
            let v = first.create_volume(&volume("v")).await.unwrap();
            furnish(&first, v.root).await;
            let cut = picture(&*w.memory, v.root).await;
            let dying = Client::open(failing.clone(), ClientOptions::default()).await.unwrap();
            failing.faults().end_after(Call::Commit, at, lose);
            let _ = dying.create_snapshot(&snapshot("s", "v")).await;
            failing.faults().heal();
            dying.crash();
            w.memory.expire_lease(dying.session().no);
            assert!(w.memory.reap(&first.session(), dying.session().no).await.unwrap());
            // The gate that it left standing is taken away by the first writer once it is over.
            w.memory.advance_clock(Duration::from_secs(40));
            let next = w.client().await;
            file(&next, v.root, "written behind an old gate").await;
            next.unlink(&ME, v.root, &name("written behind an old gate")).await.unwrap();
            let s = next.create_snapshot(&snapshot("s", "v")).await.unwrap();
            assert_eq!(s.state, VolumeState::Ready);
            let now = picture(&*w.memory, s.root).await;
            assert_eq!(now.keys().collect::<Vec<_>>(), cut.keys().collect::<Vec<_>>(), "at {at}, {lose}");
            Tree::check(&*w.memory).await;
            purge_trash(&next, Duration::ZERO, &silently).await.unwrap();
            Tree::check(&*w.memory).await;
        }
    }
}

#[tokio::test]
async fn a_snapshot_that_another_living_session_makes_is_not_taken_over() {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    a.create_volume(&volume("v")).await.unwrap();
    let ready = a.create_snapshot(&snapshot("s", "v")).await.unwrap();
    // As if `a` were in the middle of it.
    let mut record = ready.clone();
    record.state = VolumeState::Copying;
    let until = carafe_types::Timestamp(a.now().0 + 60_000_000_000);
    let session = a.session().no;
    record.copy = Some(carafe_types::record::CopyJob { session, until, copied: 1, total: 4 });
    let writes = vec![Write::Put(Key::Snapshot("s".into()), record.encode().into())];
    let outcome = w.memory.commit(&a.session(), &Commit { writes, ..Commit::default() }).await;
    assert!(matches!(outcome, Ok(Outcome::Done(_))));
    let busy = b.create_snapshot(&snapshot("s", "v")).await;
    assert_eq!(busy, Err(VolumeError::Copying { id: "s".into(), percent: 25 }));
    let not_yet = b.create_volume_from(&volume("w"), &of_snapshot("s")).await;
    assert_eq!(not_yet, Err(VolumeError::NotReady("s".into())));
    b.delete_snapshot("s").await.unwrap();
    assert_eq!(b.get_snapshot("s").await.unwrap(), None);
    Tree::check(&*w.memory).await;
}

#[tokio::test]
async fn regression_a_store_that_takes_milliseconds_is_not_asked_for_ever_for_a_free_name() {
    let w = World::new().await;
    let fast = w.client().await;
    let v = fast.create_volume(&volume("v")).await.unwrap();
    furnish(&fast, v.root).await;
    fast.create_snapshot(&snapshot("s", "v")).await.unwrap();
    // Two sessions look into the trash, so neither knows its names by heart.
    fast.create_volume(&volume("other")).await.unwrap();
    fast.delete_volume("other").await.unwrap();
    let far = Arc::new(Failing::new(w.store.clone()));
    far.faults().delay(Call::Load, Duration::from_millis(5));
    let slow = Client::open(far, ClientOptions::default()).await.unwrap();
    w.store.counts().reset();
    tokio::time::timeout(Duration::from_secs(20), slow.delete_snapshot("s")).await.unwrap().unwrap();
    let loads = w.store.counts().of(Call::Load);
    assert!(loads <= 10, "{loads} loads");
}

#[tokio::test]
async fn a_closed_gate_stops_every_change_of_its_volume_and_none_of_others() {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    let (v, o) = (a.create_volume(&volume("v")).await.unwrap(), a.create_volume(&volume("o")).await.unwrap());
    let f = file(&b, v.root, "f").await;
    let gate = format!("{} {}", a.session().no.0, a.now().0 + 60_000_000_000);
    let writes = vec![Write::Put(Key::Gate(v.quota), gate.into_bytes().into())];
    w.memory.commit(&a.session(), &Commit { writes, ..Commit::default() }).await.unwrap();
    file(&b, o.root, "others go on").await;
    let waits = async |what: &str, change: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        assert!(tokio::time::timeout(Duration::from_millis(60), change).await.is_err(), "{what}");
    };
    let c = b.clone();
    waits("create", Box::pin(async move { drop(make(&c, v.root, "g", FileKind::Regular).await) })).await;
    let c = b.clone();
    waits("write", Box::pin(async move { drop(c.commit_writes(&[write(&c, f, 0, 9)]).await) })).await;
    let c = b.clone();
    waits("unlink", Box::pin(async move { drop(c.unlink(&ME, v.root, &name("f")).await) })).await;
    let c = b.clone();
    waits("rename", Box::pin(async move { drop(mv(&c, (v.root, "f"), (v.root, "g")).await) })).await;
    let c = b.clone();
    let set = carafe_meta::SetAttr { mode: Some(0o600), ..Default::default() };
    waits("chmod", Box::pin(async move { drop(c.setattr(&ME, f, &set).await) })).await;
    let found = w.memory.scan(&ScanRequest::Records(vec![Key::Inode(f)])).await.unwrap().found;
    assert!(matches!(found[0], Scanned::Record(Some(_))), "nothing happened to it");
    assert!(find(&a, v.root, "g").await.is_none());
    let writes = vec![Write::Delete(Key::Gate(v.quota))];
    w.memory.commit(&a.session(), &Commit { writes, ..Commit::default() }).await.unwrap();
    file(&b, v.root, "h").await;
    Tree::check(&*w.memory).await;
}

#[tokio::test]
async fn a_retained_volume_is_adopted_with_its_content_under_another_id() {
    let w = World::new().await;
    let c = w.client().await;
    let old = c.create_volume(&volume("old")).await.unwrap();
    let f = file(&c, old.root, "kept").await;
    let new = carafe_meta::volumes::NewVolume {
        path: "volumes/old".into(),
        capacity: Some(1 << 41),
        ..volume("new")
    };
    let adopted = c.adopt_volume(&new).await.unwrap().unwrap();
    assert_eq!((adopted.root, adopted.quota, adopted.capacity), (old.root, old.quota, 1 << 41));
    assert_eq!(find(&c, adopted.root, "kept").await.unwrap().ino, f);
    assert_eq!(c.get_volume("old").await.unwrap(), None);
    assert_eq!(c.adopt_volume(&new).await.unwrap(), Some(adopted));
    let nothing = carafe_meta::volumes::NewVolume { path: "elsewhere".into(), ..volume("x") };
    assert_eq!(c.adopt_volume(&nothing).await.unwrap(), None);
    Tree::check(&*w.memory).await;
}

#[tokio::test]
async fn settings_are_merged_and_the_limit_of_inodes_counts_at_once() {
    let w = World::new().await;
    let c = w.client().await;
    let v = c.create_volume(&volume("v")).await.unwrap();
    let set = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    c.modify_volume("v", &set(&[("closeSync", "true"), ("readAhead", "1Mi")]), None).await.unwrap();
    let changed = c.modify_volume("v", &set(&[("readAhead", "2Mi")]), Some(2)).await.unwrap();
    assert_eq!(changed.settings, set(&[("closeSync", "true"), ("readAhead", "2Mi")]));
    file(&c, v.root, "one").await;
    let full = make(&c, v.root, "two", FileKind::Regular).await.map(drop);
    assert!(matches!(full, Err(FsError::NoSpace(_))), "{full:?}");
    c.modify_volume("v", &set(&[]), Some(3)).await.unwrap();
    file(&c, v.root, "two").await;
    let below = c.modify_volume("v", &set(&[]), Some(1)).await;
    assert!(matches!(below, Err(VolumeError::Fs(FsError::NoSpace(_)))), "{below:?}");
    assert_eq!(c.modify_volume("w", &set(&[]), None).await, Err(VolumeError::NotFound("w".into())));
    Tree::check(&*w.memory).await;
}
