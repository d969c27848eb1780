//! The collector finds what dead sessions left behind, and nothing else.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use carafe_meta::Client;
use carafe_meta::jobs::gc::{Collector, Verdict};
use carafe_meta::jobs::silently;
use carafe_meta::store::{Commit, Key, MetaStore, NewSession, Outcome, Write};
use carafe_types::{FsError, SessionUuid};
use common::furnish::furnish;
use common::*;
use std::time::Duration;

const GRACE: Duration = Duration::from_millis(30);

/// Everything that a session of this client may have put into the bucket.
fn listing(uuid: SessionUuid) -> Vec<(SessionUuid, u64)> {
    (1..=30).map(|n| (uuid, n)).collect()
}

async fn verdicts(c: &Client, collector: &Collector, uuid: SessionUuid) -> Vec<Verdict> {
    collector.judge(c, &listing(uuid)).await.unwrap()
}

fn count(verdicts: &[Verdict], which: Verdict) -> usize {
    verdicts.iter().filter(|v| **v == which).count()
}

#[tokio::test]
async fn orphans_of_a_dead_session_are_garbage_after_two_readings() {
    let w = World::new().await;
    let (a, c) = (w.client().await, w.client().await);
    furnish(&a, ROOT).await;
    // A plain file, which has a clone, four parts and a pack.
    let used = 6;
    a.unlink(&ME, ROOT, &name("packed a")).await.unwrap();
    a.unlink(&ME, ROOT, &name("clone")).await.unwrap();
    let gone = file(&a, ROOT, "gone").await;
    a.commit_writes(&[write(&a, gone, 0, 10)]).await.unwrap();
    a.unlink(&ME, ROOT, &name("gone")).await.unwrap();
    let uuid = a.session().uuid;
    a.close().await;
    let mut collector = Collector::begin(&c, GRACE, &silently).await.unwrap();
    let first = verdicts(&c, &collector, uuid).await;
    assert_eq!((count(&first, Verdict::Garbage), count(&first, Verdict::Queued)), (0, 1));
    collector.confirm(&c, &silently).await.unwrap();
    let second = verdicts(&c, &collector, uuid).await;
    assert_eq!(count(&second, Verdict::InUse), used, "{second:?}");
    assert_eq!((count(&second, Verdict::Queued), count(&second, Verdict::Garbage)), (1, 29 - used));
    assert_eq!(collector.referenced(), used as u64);
}

#[tokio::test]
async fn objects_of_a_living_session_are_never_garbage() {
    let w = World::new().await;
    let (a, c) = (w.client().await, w.client().await);
    let mut collector = Collector::begin(&c, GRACE, &silently).await.unwrap();
    let late = w.client().await;
    collector.confirm(&c, &silently).await.unwrap();
    let later = w.client().await;
    for client in [&a, &late, &later] {
        let all = verdicts(&c, &collector, client.session().uuid).await;
        assert_eq!(count(&all, Verdict::Young), 30);
    }
    // Who dies between the readings has been dead for too short a time.
    a.close().await;
    let all = verdicts(&c, &collector, a.session().uuid).await;
    assert_eq!(count(&all, Verdict::Young), 30);
}

#[tokio::test]
async fn objects_of_a_session_that_the_store_never_knew_are_garbage() {
    let w = World::new().await;
    let c = w.client().await;
    let mut collector = Collector::begin(&c, GRACE, &silently).await.unwrap();
    let stranger = SessionUuid([7; 16]);
    assert_eq!(count(&verdicts(&c, &collector, stranger).await, Verdict::Suspect), 30);
    collector.confirm(&c, &silently).await.unwrap();
    assert_eq!(count(&verdicts(&c, &collector, stranger).await, Verdict::Garbage), 30);
}

#[tokio::test]
async fn a_reference_that_both_readings_missed_is_saved_by_its_count() {
    let w = World::new().await;
    let (a, c) = (w.client().await, w.client().await);
    a.close().await;
    let mut collector = Collector::begin(&c, GRACE, &silently).await.unwrap();
    collector.confirm(&c, &silently).await.unwrap();
    let slice = carafe_types::SliceId { session: a.session().no, n: 3 };
    raw(&w, vec![Write::Retain(slice)]).await;
    let all = verdicts(&c, &collector, a.session().uuid).await;
    assert_eq!((count(&all, Verdict::InUse), count(&all, Verdict::Garbage)), (1, 29));
}

#[tokio::test]
async fn nothing_is_garbage_while_something_cannot_be_read() {
    let w = World::new().await;
    let a = w.client().await;
    let f = file(&a, ROOT, "f").await;
    a.close().await;
    raw(&w, vec![Write::Put(Key::Inode(f), "nonsense".into())]).await;
    let c = w.client().await;
    let refused = Collector::begin(&c, GRACE, &silently).await;
    assert!(matches!(&refused, Err(FsError::Io(reason)) if reason.contains("fsck")), "{refused:?}");
}

/// A commit that no operation would make.
async fn raw(w: &World, writes: Vec<Write>) {
    let new = NewSession { uuid: SessionUuid(rand::random()), record: "{}".into() };
    let session = w.memory.register(new).await.unwrap();
    let done = w.memory.commit(&session, &Commit { writes, ..Commit::default() }).await.unwrap();
    assert!(matches!(done, Outcome::Done(_)), "{done:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn references_that_move_while_they_are_read_are_not_lost() {
    let w = World::new().await;
    let (a, b, c) = (w.client().await, w.client().await, w.client().await);
    // Files in many buckets; two slices wander between them while everything is read.
    let mut files = Vec::new();
    for n in 0..40 {
        let dir = mkdir(&b, ROOT, &format!("d{n}")).await;
        files.push(file(&b, dir, "f").await);
    }
    for f in &files[..2] {
        a.commit_writes(&[write(&a, *f, 0, 100_000)]).await.unwrap();
    }
    let uuid = a.session().uuid;
    a.close().await;
    let wander = tokio::spawn(async move {
        for step in 0..2000usize {
            let (from, to) = (files[step % 40], files[(step + 2) % 40]);
            b.copy_range(from, 0, to, 0, 100_000).await.unwrap();
            let cut = carafe_meta::SetAttr { size: Some(0), ..Default::default() };
            b.setattr(&ME, from, &cut).await.unwrap();
        }
    });
    let mut rounds = 0;
    while !wander.is_finished() {
        let mut collector = Collector::begin(&c, Duration::from_millis(5), &silently).await.unwrap();
        collector.confirm(&c, &silently).await.unwrap();
        let all = collector.judge(&c, &[(uuid, 1), (uuid, 2)]).await.unwrap();
        assert!(!all.contains(&Verdict::Garbage), "round {rounds}: {all:?}");
        rounds += 1;
    }
    wander.await.unwrap();
    assert!(rounds > 3, "{rounds} collections ran");
}
