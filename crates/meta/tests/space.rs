//! Quotas, to the byte.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use carafe_meta::{Client, FileWrite, SetAttr};
use carafe_types::record::Limits;
use carafe_types::{FileKind, FsError, QuotaId};
use common::tree::Tree;
use common::*;
use std::sync::Arc;

fn limits(bytes: u64, inodes: u64) -> Limits {
    Limits { bytes: Some(bytes), inodes: Some(inodes) }
}

#[tokio::test]
async fn statfs_follows_every_change_at_once() {
    let w = World::with_limits(limits(1000, 10)).await;
    let c = w.client().await;
    let f = file(&c, ROOT, "f").await;
    c.setattr(&ME, f, &SetAttr { size: Some(400), ..SetAttr::default() }).await.unwrap();
    let s = c.statfs(QuotaId::ROOT);
    assert_eq!((s.total_bytes, s.free_bytes, s.total_inodes, s.free_inodes), (1000, 600, 10, 9));
    let too_much = c.setattr(&ME, f, &SetAttr { size: Some(1001), ..SetAttr::default() }).await;
    assert!(matches!(too_much, Err(FsError::NoSpace(_))), "{too_much:?}");
    c.unlink(&ME, ROOT, &name("f")).await.unwrap();
    assert_eq!(c.statfs(QuotaId::ROOT).free_bytes, 1000);
    for n in 0..10 {
        file(&c, ROOT, &format!("f{n}")).await;
    }
    assert!(matches!(make(&c, ROOT, "x", FileKind::Directory).await, Err(FsError::NoSpace(_))));
    Tree::check(&*w.memory).await;
}

/// Appends pieces of `piece` bytes until the quota refuses; returns how many bytes were accepted.
async fn fill(c: Arc<Client>, n: usize, piece: u64) -> u64 {
    let f = file(&c, ROOT, &format!("f{n}")).await;
    let mut size = 0;
    loop {
        match c.reserve(QuotaId::ROOT, piece).await {
            Ok(()) => {}
            Err(FsError::NoSpace(_)) => return size,
            Err(e) => panic!("{e}"),
        }
        let w = FileWrite { charged: piece as i64, ..write(&c, f, size, piece) };
        c.commit_writes(&[w]).await.unwrap();
        size += piece;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_writers_on_two_mounts_fill_a_quota_to_the_last_byte() {
    const LIMIT: u64 = 5_003;
    let w = World::with_limits(limits(LIMIT, 100)).await;
    let mounts = [w.client().await, w.client().await];
    let tasks: Vec<_> =
        (0..8).map(|n| tokio::spawn(fill(mounts[n % 2].clone(), n, if n < 4 { 1 } else { 7 }))).collect();
    let mut sum = 0;
    for t in tasks {
        sum += t.await.unwrap();
    }
    assert_eq!(sum, LIMIT);
    for m in &mounts {
        m.close().await;
    }
    Tree::check(&*w.memory).await;
}

#[tokio::test]
async fn what_another_mount_has_reserved_and_does_not_use_comes_back() {
    let w = World::with_limits(limits(1 << 30, 100)).await;
    let (a, b) = (w.client().await, w.client().await);
    a.reserve(QuotaId::ROOT, 1000).await.unwrap();
    a.unreserve(QuotaId::ROOT, 1000);
    b.reserve(QuotaId::ROOT, 1 << 30).await.unwrap();
    assert!(matches!(a.reserve(QuotaId::ROOT, 1).await, Err(FsError::NoSpace(_))));
    b.unreserve(QuotaId::ROOT, 1 << 30);
    a.reserve(QuotaId::ROOT, 1).await.unwrap();
    a.unreserve(QuotaId::ROOT, 1);
    a.close().await;
    b.close().await;
    Tree::check(&*w.memory).await;
}

#[tokio::test]
async fn the_reserve_of_a_dead_session_goes_back() {
    use carafe_meta::store::MetaStore;
    let w = World::with_limits(limits(1000, 100)).await;
    let (a, b) = (w.client().await, w.client().await);
    a.reserve(QuotaId::ROOT, 1000).await.unwrap();
    a.crash();
    assert!(matches!(b.reserve(QuotaId::ROOT, 1).await, Err(FsError::NoSpace(_))));
    w.memory.expire_lease(a.session().no);
    assert!(w.memory.reap(&b.session(), a.session().no).await.unwrap());
    b.reserve(QuotaId::ROOT, 1000).await.unwrap();
}

#[tokio::test]
async fn a_file_takes_its_charge_along_and_what_cannot_stays() {
    use carafe_meta::volumes::NewVolume;
    let w = World::new().await;
    let c = w.client().await;
    let volume = |id: &str, capacity| NewVolume { capacity: Some(capacity), ..common::furnish::volume(id) };
    let a = c.create_volume(&volume("a", 10_000)).await.unwrap();
    let b = c.create_volume(&volume("b", 1_000)).await.unwrap();
    let free = |q| c.statfs(q).free_bytes;
    let f = file(&c, a.root, "f").await;
    c.commit_writes(&[write(&c, f, 0, 600)]).await.unwrap();
    assert_eq!((free(a.quota), free(b.quota)), (9_400, 1_000));
    mv(&c, (a.root, "f"), (b.root, "f")).await.unwrap();
    assert_eq!((free(a.quota), free(b.quota)), (10_000, 400));
    let over = c.commit_writes(&[write(&c, f, 600, 500)]).await;
    assert!(matches!(over, Err(FsError::NoSpace(_))), "{over:?}");
    c.commit_writes(&[write(&c, f, 600, 400)]).await.unwrap();

    let cross = Err(FsError::CrossQuota);
    assert_eq!(c.link(&ME, f, a.root, &name("g")).await.map(drop), cross);
    c.link(&ME, f, b.root, &name("g")).await.unwrap();
    assert_eq!(mv(&c, (b.root, "f"), (a.root, "f")).await.map(drop), cross, "its other name stays");
    mkdir(&c, b.root, "d").await;
    assert_eq!(mv(&c, (b.root, "d"), (a.root, "d")).await.map(drop), cross);

    let big = file(&c, a.root, "big").await;
    c.commit_writes(&[write(&c, big, 0, 2_000)]).await.unwrap();
    let refused = mv(&c, (a.root, "big"), (b.root, "big")).await;
    assert!(matches!(refused, Err(FsError::NoSpace(_))), "{refused:?}");
    c.close().await;
    Tree::check(&*w.memory).await;
}
