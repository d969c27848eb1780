//! Freeing: what is due goes, what is in use stays, and a job that is cut off anywhere is finished by the next one.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use async_trait::async_trait;
use carafe_meta::decorate::Call;
use carafe_meta::failing::Failing;
use carafe_meta::jobs::{
    DeadSlice, JanitorOptions, ObjectDeleter, delete_objects, fsck, janitor, purge_inodes, purge_trash,
    run_janitor, silently,
};
use carafe_meta::store::{MetaStore, ScanRequest};
use carafe_meta::{Client, ClientOptions};
use carafe_types::record::SEGMENT_BYTES;
use carafe_types::{FsError, SessionNo, Timestamp};
use common::furnish::{furnish, volume};
use common::tree::{Tree, dead_slices};
use common::*;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const REST: Duration = Duration::from_secs(601);

#[derive(Default)]
struct Bucket {
    deleted: Mutex<Vec<DeadSlice>>,
    away: AtomicBool,
}

#[async_trait]
impl ObjectDeleter for Bucket {
    async fn delete(&self, slices: &[DeadSlice]) -> Result<(), String> {
        if self.away.load(Ordering::Relaxed) {
            return Err("the bucket is away".to_owned());
        }
        self.deleted.lock().extend(slices);
        Ok(())
    }
}

async fn all_dead(w: &World) -> usize {
    w.memory
        .scan(&ScanRequest::DeadInodes { limit: 1000, from: Some(Timestamp(0)) })
        .await
        .unwrap()
        .found
        .len()
}

async fn sound(w: &World, c: &Client) {
    Tree::check(&*w.memory).await;
    let report = fsck::fsck(c, &silently).await.unwrap();
    assert_eq!(report.findings, [], "{:#?}", report.findings);
}

/// A session that says no farewell, and that the others have taken for dead.
async fn bury(w: &World, dead: &Client, by: &Client) {
    dead.crash();
    w.memory.expire_lease(dead.session().no);
    assert!(w.memory.reap(&by.session(), dead.session().no).await.unwrap());
}

#[tokio::test]
async fn an_unlinked_file_that_is_open_elsewhere_is_freed_after_the_last_close() {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    let f = file(&a, ROOT, "f").await;
    a.commit_writes(&[write(&a, f, 0, 1000)]).await.unwrap();
    b.opened(f).await.unwrap();
    a.unlink(&ME, ROOT, &name("f")).await.unwrap();
    // The holder hears of it and says so.
    tokio::time::sleep(Duration::from_millis(100)).await;
    w.memory.advance_clock(REST);
    let report = purge_inodes(&a, &silently).await.unwrap();
    assert_eq!((report.purged, report.open), (0, 1));
    assert_eq!(b.content(f, 0..10).await.unwrap().attr.size, 1000);
    b.closed(f);
    tokio::time::sleep(Duration::from_millis(100)).await;
    w.memory.advance_clock(REST);
    purge_inodes(&a, &silently).await.unwrap();
    assert!(matches!(b.getattr(f).await, Err(FsError::NotFound)));
    assert_eq!((all_dead(&w).await, dead_slices(&*w.memory).await.len()), (0, 1));
    sound(&w, &a).await;
}

#[tokio::test]
async fn what_a_dead_session_held_open_is_freed() {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    let f = file(&a, ROOT, "f").await;
    b.opened(f).await.unwrap();
    a.unlink(&ME, ROOT, &name("f")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    w.memory.advance_clock(REST);
    assert_eq!(purge_inodes(&a, &silently).await.unwrap().purged, 0);
    bury(&w, &b, &a).await;
    w.memory.advance_clock(REST);
    assert_eq!(purge_inodes(&a, &silently).await.unwrap().purged, 1);
    sound(&w, &a).await;
}

#[tokio::test]
async fn a_file_of_many_segments_is_freed_piece_by_piece() {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    let f = file(&a, ROOT, "f").await;
    for n in 0..60 {
        a.commit_writes(&[write(&a, f, n * SEGMENT_BYTES, 1000)]).await.unwrap();
    }
    b.opened(f).await.unwrap();
    a.unlink(&ME, ROOT, &name("f")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    bury(&w, &b, &a).await;
    w.memory.advance_clock(REST);
    assert_eq!(purge_inodes(&a, &silently).await.unwrap().purged, 1);
    assert_eq!(dead_slices(&*w.memory).await.len(), 60);
    sound(&w, &a).await;
}

#[tokio::test]
async fn objects_leave_the_bucket_when_due_and_stay_queued_while_it_is_away() {
    let w = World::new().await;
    let c = w.client().await;
    let f = file(&c, ROOT, "f").await;
    c.commit_writes(&[write(&c, f, 0, 1000)]).await.unwrap();
    c.unlink(&ME, ROOT, &name("f")).await.unwrap();
    let bucket = Bucket::default();
    assert_eq!(delete_objects(&c, &bucket, &silently).await, Ok(0), "a backup may need it for an hour");
    w.memory.advance_clock(Duration::from_secs(3601));
    bucket.away.store(true, Ordering::Relaxed);
    let away = delete_objects(&c, &bucket, &silently).await;
    assert!(matches!(away, Err(FsError::Unavailable(_))), "{away:?}");
    bucket.away.store(false, Ordering::Relaxed);
    assert_eq!(delete_objects(&c, &bucket, &silently).await, Ok(1));
    let session = c.session().uuid;
    assert_eq!(*bucket.deleted.lock(), [DeadSlice { session, n: 1, pack: false, len: 1000 }]);
    assert!(dead_slices(&*w.memory).await.is_empty());
}

/// A volume with something of everything is deleted and purged, and the process dies behind each commit in turn, with its
/// last answer and without.
#[tokio::test]
async fn jobs_that_are_cut_off_anywhere_are_finished_by_the_next() {
    for lose in [false, true] {
        let mut at = 0;
        loop {
            let w = World::new().await;
            let failing = Arc::new(Failing::new(w.memory.clone()));
            let first = w.client().await;
            let record = first.create_volume(&volume("v")).await.unwrap();
            furnish(&first, record.root).await;
            first.delete_volume("v").await.unwrap();
            first.close().await;
            w.memory.advance_clock(REST);

            let dying = Client::open(failing.clone(), ClientOptions::default()).await.unwrap();
            failing.faults().end_after(Call::Commit, at, lose);
            let ended = free_all(&w, &dying).await;
            failing.faults().heal();
            let next = w.client().await;
            bury(&w, &dying, &next).await;
            sound(&w, &next).await;
            free_all(&w, &next).await.unwrap();
            sound(&w, &next).await;
            let tree = Tree::read(&*w.memory).await;
            assert_eq!((tree.files.len(), tree.dirs.len()), (0, 3), "root, trash and the folder of volumes");
            assert_eq!((all_dead(&w).await, dead_slices(&*w.memory).await.len()), (0, 0));
            next.close().await;
            if ended.is_ok() {
                assert!(at > 5, "{at} commits freed everything");
                break;
            }
            at += 1;
        }
    }
}

async fn free_all(w: &World, c: &Client) -> Result<(), FsError> {
    purge_trash(c, Duration::ZERO, &silently).await?;
    w.memory.advance_clock(REST);
    purge_inodes(c, &silently).await?;
    w.memory.advance_clock(Duration::from_secs(3601));
    delete_objects(c, &Bucket::default(), &silently).await.map(drop)
}

fn quick() -> JanitorOptions {
    JanitorOptions {
        keep_trash: Duration::ZERO,
        busy_pause: Duration::from_millis(10),
        idle_pause: Duration::from_millis(40),
        lease: Duration::from_millis(400),
    }
}

/// Waits until a session is janitor, not being `not`.
async fn elected(c: &Client, not: Option<SessionNo>) -> SessionNo {
    for _ in 0..500 {
        match janitor(c).await.unwrap() {
            Some(session) if Some(session) != not => return session,
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    panic!("nobody became janitor");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_janitor_of_several_works_and_another_follows_when_it_dies() {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    let bucket = Arc::new(Bucket::default());
    let ends: Vec<_> = [&a, &b]
        .into_iter()
        .map(|c| {
            let (end, ended) = tokio::sync::oneshot::channel::<()>();
            let work = run_janitor(c.clone(), bucket.clone(), quick(), async { drop(ended.await) });
            (end, tokio::spawn(work))
        })
        .collect();
    let first = elected(&a, None).await;
    let record = a.create_volume(&volume("v")).await.unwrap();
    furnish(&a, record.root).await;
    b.delete_volume("v").await.unwrap();
    let mut ends = if first == a.session().no { ends } else { ends.into_iter().rev().collect() };
    // The first one dies without a word.
    let (_end, task) = ends.remove(0);
    task.abort();
    let second = elected(&a, Some(first)).await;
    assert_ne!(first, second);
    for _ in 0..500 {
        if Tree::read(&*w.memory).await.dirs.len() == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(Tree::read(&*w.memory).await.dirs.len(), 3);
    // In good order it leaves its post.
    let (end, task) = ends.remove(0);
    end.send(()).unwrap();
    task.await.unwrap();
    assert_eq!(janitor(&a).await.unwrap(), None);
    sound(&w, &a).await;
}

#[tokio::test]
async fn an_idle_janitor_asks_little() {
    let w = World::new().await;
    let c = w.client().await;
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let options = JanitorOptions { lease: Duration::from_millis(300), ..quick() };
    let work = run_janitor(c.clone(), Arc::new(Bucket::default()), options, async { drop(ended.await) });
    let task = tokio::spawn(work);
    tokio::time::sleep(Duration::from_millis(300)).await;
    w.store.counts().reset();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let counts = w.store.counts();
    let calls = counts.of(Call::Scan) + counts.of(Call::Load) + counts.of(Call::Commit);
    assert!(calls <= 30 * 5, "{calls} calls in at most 30 looks");
    end.send(()).unwrap();
    task.await.unwrap();
}
