//! Several sessions on one store: sharing, flushing, open files, being taken for dead, lost answers.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use async_trait::async_trait;
use carafe_meta::decorate::Call;
use carafe_meta::failing::Failing;
use carafe_meta::store::{Message, MetaStore, WatchKey};
use carafe_meta::{Client, ClientOptions, Hooks};
use carafe_types::{FileKind, FsError, InodeNo, QuotaId};
use common::tree::Tree;
use common::*;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Notes what the layers above are told.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn add(&self, note: String) {
        self.0.lock().push(note);
    }

    fn has(&self, note: &str) -> bool {
        self.0.lock().iter().any(|n| n == note)
    }
}

#[async_trait]
impl Hooks for Notes {
    async fn share(&self, key: WatchKey) {
        self.add(format!("share {key:?}"));
    }
    async fn flush_below(&self, dir: InodeNo) {
        self.add(format!("flush {dir}"));
    }
    async fn fenced(&self) {
        self.add("fenced".into());
    }
    fn return_reserve(&self, quota: QuotaId) {
        self.add(format!("return {}", quota.0));
    }
    fn unlocked(&self, ino: InodeNo) {
        self.add(format!("unlocked {ino}"));
    }
}

async fn with_notes(w: &World) -> (Arc<Client>, Arc<Notes>) {
    let (c, notes) = (w.client().await, Arc::new(Notes::default()));
    c.set_hooks(notes.clone());
    (c, notes)
}

async fn soon(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !is().await {
        assert!(Instant::now() < end, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn what_is_held_alone_is_kept_until_somebody_looks() {
    let w = World::new().await;
    let (a, notes) = with_notes(&w).await;
    let d = mkdir(&a, ROOT, "d").await;
    let f = file(&a, d, "f").await;
    let mine = a.getattr(f).await.unwrap();
    assert!(mine.sole && mine.ttl > Duration::from_secs(5));
    let (b, _) = with_notes(&w).await;
    let theirs = b.getattr(f).await.unwrap();
    assert!(!theirs.sole && theirs.ttl.is_zero(), "{theirs:?}");
    assert!(notes.has(&format!("share {:?}", WatchKey::Bucket(f.bucket()))));
    let mine = a.getattr(f).await.unwrap();
    assert!(!mine.sole && mine.ttl.is_zero(), "shared for both");
    a.commit_writes(&[write(&a, f, 0, 10)]).await.unwrap();
    assert_eq!(b.getattr(f).await.unwrap().attr.size, 10);
    b.close().await;
    assert!(a.getattr(f).await.unwrap().sole, "alone again");
}

#[tokio::test]
async fn a_directory_moves_after_others_have_flushed_below_it() {
    let w = World::new().await;
    let (a, _) = with_notes(&w).await;
    let (b, notes) = with_notes(&w).await;
    let d = mkdir(&a, ROOT, "d").await;
    let sub = mkdir(&a, d, "sub").await;
    let f = file(&b, sub, "f").await;
    let watch = b.watch_above(f).await.unwrap();
    assert!(watch.close_may_be_async() && watch.is_below(d) && watch.is_below(ROOT));
    mv(&a, (ROOT, "d"), (ROOT, "e")).await.unwrap();
    assert!(notes.has(&format!("flush {d}")), "{:?}", notes.0.lock());
    assert!(!watch.close_may_be_async(), "marked as flushing");
    drop(watch);
    let early = b.watch_above(f).await.unwrap();
    assert!(!early.close_may_be_async());
    drop(early);
    tokio::time::sleep(Duration::from_millis(5500)).await;
    assert!(b.watch_above(f).await.unwrap().close_may_be_async(), "the mark is gone after 5 s");
    mv(&b, (ROOT, "e"), (ROOT, "g")).await.unwrap();
}

#[tokio::test]
async fn a_crash_of_a_session_below_does_not_block_a_rename_for_ever() {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    let d = mkdir(&a, ROOT, "d").await;
    let f = file(&b, d, "f").await;
    std::mem::forget(b.watch_above(f).await.unwrap());
    b.crash();
    let moving = tokio::spawn({
        let a = a.clone();
        async move { mv(&a, (ROOT, "d"), (ROOT, "e")).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!moving.is_finished());
    w.memory.expire_lease(b.session().no);
    assert!(w.memory.reap(&a.session(), b.session().no).await.unwrap());
    moving.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_open_file_outlives_its_last_name() {
    let w = World::new().await;
    let c = w.client().await;
    let f = file(&c, ROOT, "f").await;
    c.commit_writes(&[write(&c, f, 0, 10)]).await.unwrap();
    c.opened(f).await.unwrap();
    c.opened(f).await.unwrap();
    assert!(c.unlink(&ME, ROOT, &name("f")).await.unwrap().last);
    assert_eq!(c.getattr(f).await.unwrap().attr.nlink, 0);
    c.commit_writes(&[write(&c, f, 10, 10)]).await.unwrap();
    assert_eq!(c.content(f, 0..100).await.unwrap().extents.len(), 2);
    c.closed(f);
    assert!(c.getattr(f).await.is_ok());
    c.closed(f);
    soon("freed", async || c.getattr(f).await.is_err()).await;
    assert_eq!(common::tree::dead_slices(&*w.memory).await.len(), 2);
    Tree::check(&*w.memory).await;
}

#[tokio::test]
async fn a_file_open_elsewhere_outlives_its_last_name() {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    let f = file(&a, ROOT, "f").await;
    b.opened(f).await.unwrap();
    a.unlink(&ME, ROOT, &name("f")).await.unwrap();
    let held = async || {
        let key = carafe_meta::store::Key::OpenHolders(f);
        let page = w.memory.scan(&carafe_meta::store::ScanRequest::Records(vec![key])).await.unwrap();
        matches!(page.found[0], carafe_meta::store::Scanned::Record(Some(_)))
    };
    soon("the other session says that it holds it", held).await;
    assert!(!carafe_meta::jobs::purge_inode(&a, f).await.unwrap());
    assert_eq!(b.getattr(f).await.unwrap().attr.nlink, 0);
    b.closed(f);
    soon("let go", async || !held().await).await;
    w.memory.advance_clock(Duration::from_secs(700));
    carafe_meta::jobs::purge_inodes(&a, &carafe_meta::jobs::silently).await.unwrap();
    assert_eq!(b.getattr(f).await.unwrap_err(), FsError::NotFound);
}

#[tokio::test]
async fn who_was_taken_for_dead_begins_anew_and_commits_nothing_old() {
    let w = World::new().await;
    let (a, notes) = with_notes(&w).await;
    let b = w.client().await;
    let f = file(&a, ROOT, "f").await;
    let late = write(&a, f, 0, 10);
    let before = a.session();
    w.memory.expire_lease(before.no);
    assert!(w.memory.reap(&b.session(), before.no).await.unwrap());
    let refused = a.commit_writes(std::slice::from_ref(&late)).await;
    assert!(matches!(refused, Err(FsError::Fenced(_))), "{refused:?}");
    assert!(notes.has("fenced"));
    assert_ne!(a.session().no, before.no);
    let refused = a.commit_writes(&[late]).await;
    assert!(matches!(refused, Err(FsError::Fenced(_))), "also by the new session");
    file(&a, ROOT, "g").await;
    assert_eq!(names(&b, ROOT).await, ["f", "g"]);
    assert_eq!(a.next_slice().session, a.session().no);
}

#[tokio::test]
async fn names_go_on_without_an_error_when_the_session_is_replaced() {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    let d = mkdir(&a, ROOT, "d").await;
    w.memory.expire_lease(a.session().no);
    assert!(w.memory.reap(&b.session(), a.session().no).await.unwrap());
    let (x, y, z) = tokio::join!(
        make(&a, d, "x", FileKind::Regular),
        make(&a, d, "y", FileKind::Directory),
        mv(&a, (ROOT, "d"), (ROOT, "e"))
    );
    x.unwrap();
    y.unwrap();
    z.unwrap();
    assert_eq!(names(&b, d).await, ["x", "y"]);
    Tree::check(&*w.memory).await;
}

#[tokio::test]
async fn after_a_gap_nothing_kept_is_believed() {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    let d = mkdir(&a, ROOT, "d").await;
    w.store.counts().reset();
    a.getattr(d).await.unwrap();
    assert_eq!(w.store.counts().of(Call::Load), 0);
    w.memory.send(&b.session(), a.session().no, Message::Gap).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(a.getattr(d).await.unwrap().sole);
    assert!(w.store.counts().of(Call::Load) >= 1);
}

#[tokio::test]
async fn a_small_cache_leaves_what_is_not_used() {
    let w = World::new().await;
    let notes = Arc::new(Notes::default());
    let options = ClientOptions { cache_records: 100, ..ClientOptions::default() };
    let a = Client::open(w.store.clone(), options).await.unwrap();
    a.set_hooks(notes.clone());
    let mut dirs = Vec::new();
    for n in 0..20 {
        let d = mkdir(&a, ROOT, &format!("d{n}")).await;
        for m in 0..20 {
            file(&a, d, &format!("f{m}")).await;
        }
        dirs.push(d);
    }
    let kept = a.opened(find(&a, dirs[0], "f0").await.unwrap().ino).await.unwrap();
    soon("evicted", async || a.cache_sizes().0 < 200).await;
    assert!(!notes.has(&format!("share {:?}", WatchKey::Bucket(kept.attr.ino.bucket()))), "open: not left");
    assert!(a.getattr(kept.attr.ino).await.unwrap().sole);
    for d in &dirs {
        assert_eq!(names(&a, *d).await.len(), 20);
    }
    let b = w.client().await;
    assert_eq!(names(&b, dirs[5]).await.len(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_create_and_an_rmdir_one_loses() {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    let mut both = [0, 0];
    for n in 0..60 {
        let d = mkdir(&a, ROOT, &format!("d{n}")).await;
        let dir = name(&format!("d{n}"));
        let made = make(&b, d, "f", FileKind::Regular);
        let (made, removed) = tokio::join!(made, a.rmdir(&ME, ROOT, &dir));
        match (made, removed) {
            (Ok(_), Err(FsError::NotEmpty)) => both[0] += 1,
            (Err(FsError::NotFound), Ok(())) => both[1] += 1,
            other => panic!("{other:?}"),
        }
    }
    Tree::check(&*w.memory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crossed_renames_never_close_a_circle() {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    for n in 0..40 {
        let top = mkdir(&a, ROOT, &format!("t{n}")).await;
        let (x, y) = (mkdir(&a, top, "x").await, mkdir(&a, top, "y").await);
        let (r1, r2) = tokio::join!(mv(&a, (top, "x"), (y, "x")), mv(&b, (top, "y"), (x, "y")));
        assert!(r1.is_ok() != r2.is_ok(), "{r1:?} {r2:?}");
        for r in [r1, r2].into_iter().filter_map(Result::err) {
            assert!(matches!(r, FsError::Invalid(_) | FsError::NotFound), "{r}");
        }
    }
    Tree::check(&*w.memory).await;
}

#[tokio::test]
async fn a_lost_answer_is_neither_an_error_nor_a_second_change() {
    let w = World::new().await;
    let store = Arc::new(Failing::new(w.memory.clone()));
    let c = Client::open(store.clone(), ClientOptions::default()).await.unwrap();
    let lose = || store.faults().lose_answers(Call::Commit, 1);
    lose();
    let d = mkdir(&c, ROOT, "d").await;
    lose();
    let f = file(&c, d, "f").await;
    lose();
    c.commit_writes(&[write(&c, f, 0, 100)]).await.unwrap();
    lose();
    c.link(&ME, f, d, &name("g")).await.unwrap();
    assert_eq!(c.getattr(f).await.unwrap().attr.nlink, 2);
    lose();
    mv(&c, (d, "g"), (ROOT, "h")).await.unwrap();
    lose();
    c.unlink(&ME, ROOT, &name("h")).await.unwrap();
    lose();
    c.unlink(&ME, d, &name("f")).await.unwrap();
    lose();
    c.rmdir(&ME, ROOT, &name("d")).await.unwrap();
    assert!(names(&c, ROOT).await.is_empty());
    store.faults().heal();
    c.close().await;
    Tree::check(&*w.memory).await;
}
