//! Locks across sessions.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use carafe_meta::store::MetaStore;
use carafe_meta::{Client, ClientOptions, LockRequest};
use carafe_types::record::{LockKind, LockType};
use carafe_types::{FsError, InodeNo};
use common::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn flock(ino: InodeNo, owner: u64, typ: Option<LockType>) -> LockRequest {
    LockRequest { ino, kind: LockKind::Flock, owner, start: 0, end: u64::MAX, typ }
}

fn posix(ino: InodeNo, owner: u64, range: (u64, u64), typ: Option<LockType>) -> LockRequest {
    LockRequest { ino, kind: LockKind::Posix, owner, start: range.0, end: range.1, typ }
}

const EX: Option<LockType> = Some(LockType::Exclusive);
const SH: Option<LockType> = Some(LockType::Shared);

async fn two() -> (World, Arc<Client>, Arc<Client>, InodeNo) {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    let f = file(&a, ROOT, "f").await;
    (w, a, b, f)
}

#[tokio::test]
async fn a_lock_excludes_other_mounts_and_costs_one_commit() {
    use carafe_meta::decorate::Call;
    let (w, a, b, f) = two().await;
    w.store.counts().reset();
    a.lock(&ME, &flock(f, 1, EX)).await.unwrap();
    let counts = w.store.counts();
    assert_eq!((counts.of(Call::Commit), counts.of(Call::Load)), (1, 0));
    assert_eq!(
        b.lock(&ME, &flock(f, 1, SH)).await,
        Err(FsError::WouldBlock),
        "the same number, another mount"
    );
    a.lock(&ME, &flock(f, 1, SH)).await.unwrap();
    b.lock(&ME, &flock(f, 1, SH)).await.unwrap();
    assert_eq!(a.lock(&ME, &flock(f, 1, EX)).await, Err(FsError::WouldBlock));
    b.lock(&ME, &posix(f, 1, (0, 9), EX)).await.unwrap();
    let held = a.lock_test(&posix(f, 1, (5, 5), SH)).await.unwrap().unwrap();
    assert_eq!((held.pid, held.end), (ME.pid, 9));
    assert!(a.lock_test(&posix(f, 1, (10, 20), EX)).await.unwrap().is_none());
    b.release_owner(f, LockKind::Posix, 1).await.unwrap();
    assert!(a.lock_test(&posix(f, 1, (5, 5), SH)).await.unwrap().is_none());
}

#[tokio::test]
async fn who_waits_is_woken_at_once() {
    let (_w, a, b, f) = two().await;
    a.lock(&ME, &flock(f, 1, EX)).await.unwrap();
    let waiting = tokio::spawn({
        let b = b.clone();
        async move { b.lock_wait(&ME, &flock(f, 2, EX)).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    let since = Instant::now();
    a.release_owner(f, LockKind::Flock, 1).await.unwrap();
    waiting.await.unwrap().unwrap();
    assert!(since.elapsed() < Duration::from_millis(500), "not by trying again after a second");
}

#[tokio::test]
async fn locks_of_a_dead_session_do_not_count() {
    let (w, a, b, f) = two().await;
    a.lock(&ME, &flock(f, 1, EX)).await.unwrap();
    a.crash();
    assert_eq!(b.lock(&ME, &flock(f, 1, EX)).await, Err(FsError::WouldBlock));
    w.memory.expire_lease(a.session().no);
    w.memory.reap(&b.session(), a.session().no).await.unwrap();
    b.lock_wait(&ME, &flock(f, 1, EX)).await.unwrap();
}

#[tokio::test]
async fn two_owners_of_one_mount_that_wait_for_each_other_are_told() {
    let (_w, a, _b, f) = two().await;
    a.lock(&ME, &posix(f, 1, (0, 0), EX)).await.unwrap();
    a.lock(&ME, &posix(f, 2, (1, 1), EX)).await.unwrap();
    let first = tokio::spawn({
        let a = a.clone();
        async move { a.lock_wait(&ME, &posix(f, 1, (1, 1), EX)).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(a.lock_wait(&ME, &posix(f, 2, (0, 0), EX)).await, Err(FsError::Deadlock));
    a.lock(&ME, &posix(f, 2, (1, 1), None)).await.unwrap();
    first.await.unwrap().unwrap();
}

#[tokio::test]
async fn regression_a_resumed_session_does_not_hold_the_locks_of_the_daemon_before() {
    let (w, a, b, f) = two().await;
    a.lock(&ME, &flock(f, 1, EX)).await.unwrap();
    a.lock(&ME, &posix(f, 1, (0, 9), EX)).await.unwrap();
    let options = ClientOptions { uuid: Some(a.session().uuid), ..ClientOptions::default() };
    a.crash();
    let again = Client::open(w.store.clone(), options).await.unwrap();
    assert!(again.session().resumed);
    assert!(again.lock_test(&posix(f, 2, (5, 5), EX)).await.unwrap().is_none());
    again.lock(&ME, &flock(f, 2, EX)).await.unwrap();
    again.lock(&ME, &posix(f, 2, (0, 9), EX)).await.unwrap();
    assert_eq!(again.lock(&ME, &flock(f, 3, EX)).await, Err(FsError::WouldBlock), "its own locks count");
    assert_eq!(b.lock(&ME, &flock(f, 1, EX)).await, Err(FsError::WouldBlock));
    again.release_owner(f, LockKind::Flock, 2).await.unwrap();
    b.lock(&ME, &flock(f, 1, EX)).await.unwrap();
}
