//! What an operation costs: one commit and no load once its records are known.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use carafe_meta::decorate::Call;
use carafe_meta::{RenameMode, SetAttr};
use carafe_types::FileKind;
use common::*;

macro_rules! one_commit {
    ($world:expr, $call:expr) => {{
        $world.store.counts().reset();
        let value = $call.unwrap();
        let counts = $world.store.counts();
        assert_eq!((counts.of(Call::Commit), counts.of(Call::Load)), (1, 0), "{}", stringify!($call));
        value
    }};
}

#[tokio::test]
async fn a_change_in_a_known_directory_is_one_round_trip() {
    let w = World::new().await;
    let c = w.client().await;
    let dir = mkdir(&c, ROOT, "dir").await;
    let first = file(&c, dir, "first").await;
    let f = one_commit!(w, make(&c, dir, "f", FileKind::Regular).await).attr.ino;
    one_commit!(w, c.commit_writes(&[write(&c, f, 0, 100)]).await);
    one_commit!(w, c.commit_writes(&[write(&c, f, 200, 100)]).await);
    one_commit!(w, c.setattr(&ME, f, &SetAttr { mode: Some(0o600), ..SetAttr::default() }).await);
    one_commit!(w, c.setattr(&ME, f, &SetAttr { size: Some(10), ..SetAttr::default() }).await);
    one_commit!(w, c.link(&ME, f, dir, &name("g")).await);
    one_commit!(w, mv(&c, (dir, "g"), (dir, "h")).await);
    one_commit!(w, mv(&c, (dir, "f"), (dir, "h2")).await);
    one_commit!(w, c.unlink(&ME, dir, &name("h2")).await);
    one_commit!(w, c.unlink(&ME, dir, &name("h")).await);
    let sub = one_commit!(w, make(&c, dir, "sub", FileKind::Directory).await).attr.ino;
    one_commit!(w, make(&c, sub, "x", FileKind::Regular).await);
    one_commit!(w, mv(&c, (dir, "sub"), (ROOT, "sub")).await);
    one_commit!(w, mv(&c, (sub, "x"), (dir, "x")).await);
    one_commit!(w, c.rmdir(&ME, ROOT, &name("sub")).await);
    let (x, y) = (name("x"), name("first"));
    one_commit!(w, c.rename(&ME, (dir, &x), (dir, &y), RenameMode::Exchange, &[]).await);
    assert_eq!(find(&c, dir, "x").await.unwrap().ino, first);
}

#[tokio::test]
async fn questions_about_what_is_held_alone_cost_nothing() {
    let w = World::new().await;
    let c = w.client().await;
    let dir = mkdir(&c, ROOT, "dir").await;
    let f = file(&c, dir, "f").await;
    w.store.counts().reset();
    assert!(find(&c, dir, "f").await.is_some());
    assert!(find(&c, dir, "absent").await.is_none());
    assert!(find(&c, ROOT, "absent").await.is_none());
    assert_eq!(names(&c, dir).await, ["f"]);
    c.getattr(f).await.unwrap();
    c.opened(f).await.unwrap();
    c.content(f, 0..100).await.unwrap();
    c.watch_above(f).await.unwrap();
    assert_eq!(w.store.counts().round_trips(), 0);
}

#[tokio::test]
async fn a_cold_session_needs_one_load_a_directory() {
    let w = World::new().await;
    let a = w.client().await;
    let dir = mkdir(&a, ROOT, "dir").await;
    for n in 0..40 {
        file(&a, dir, &format!("f{n}")).await;
    }
    a.close().await;
    let b = w.client().await;
    let dir = find(&b, ROOT, "dir").await.unwrap().ino;
    w.store.counts().reset();
    assert!(find(&b, dir, "f1").await.is_some());
    assert_eq!(w.store.counts().of(Call::Load), 1);
    for n in 0..40 {
        assert!(find(&b, dir, &format!("f{n}")).await.is_some());
    }
    assert_eq!(names(&b, dir).await.len(), 40);
    assert!(find(&b, dir, "absent").await.is_none());
    assert_eq!(w.store.counts().of(Call::Load), 1, "the directory and its bucket came at once");
}

#[tokio::test]
async fn going_through_a_large_directory_in_order_needs_few_loads() {
    let w = World::new().await;
    let a = w.client().await;
    let dir = mkdir(&a, ROOT, "dir").await;
    let all: Vec<String> = (0..3000).map(|n| format!("f{n:05}")).collect();
    for f in &all {
        file(&a, dir, f).await;
    }
    a.close().await;
    let b = w.client().await;
    let dir = find(&b, ROOT, "dir").await.unwrap().ino;
    w.store.counts().reset();
    for f in &all {
        assert!(find(&b, dir, f).await.is_some(), "{f}");
    }
    // 47 buckets of inodes, the first names with the directory, then pages that grow to 256 names.
    let loads = w.store.counts().of(Call::Load);
    assert!(loads < 70, "{loads} loads");
    // What came along unasked follows own changes.
    b.unlink(&ME, dir, &name("f02999")).await.unwrap();
    mv(&b, (dir, "f02998"), (dir, "g")).await.unwrap();
    assert!(find(&b, dir, "f02999").await.is_none() && find(&b, dir, "f02998").await.is_none());
    assert!(find(&b, dir, "f02997").await.is_some() && find(&b, dir, "g").await.is_some());
    // What lies between names that came along is known to be absent: who renames in order asks seldom.
    w.store.counts().reset();
    for f in &all[..2000] {
        let to = f.replace('f', "h");
        assert!(find(&b, dir, &to).await.is_none());
        mv(&b, (dir, f), (dir, &to)).await.unwrap();
        assert!(find(&b, dir, f).await.is_none() && find(&b, dir, &to).await.is_some());
    }
    let loads = w.store.counts().of(Call::Load);
    assert!(loads < 100, "{loads} loads");
    assert_eq!(w.store.counts().of(Call::Commit), 2000);
}
