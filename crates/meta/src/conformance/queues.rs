//! Owners of slices, live bytes of packs, and what waits for its end.

use super::Subject;
use super::world::{Peer, World, object, text};
use crate::store::*;
use carafe_types::{InodeNo, SliceId, Timestamp};

const HOUR_MS: u64 = 3_600_000;

async fn dead_inodes(peer: &Peer, all: bool) -> Vec<u64> {
    let page = peer.scan(ScanRequest::DeadInodes { limit: 100, from: all.then_some(Timestamp(0)) }).await;
    let inode = |s: Scanned| match s {
        Scanned::DeadInode(d) => {
            assert!(all || d.due <= page.time, "{d:?} is not due at {:?}", page.time);
            d.ino.0
        }
        other => panic!("no dead inode: {other:?}"),
    };
    page.found.into_iter().map(inode).collect()
}

async fn dead_objects(peer: &Peer, all: bool) -> Vec<DeadObject> {
    let page = peer.scan(ScanRequest::DeadObjects { limit: 100, from: all.then_some(Timestamp(0)) }).await;
    let object = |s: Scanned| match s {
        Scanned::DeadObject(o, due) => {
            assert!(all || due <= page.time);
            o
        }
        other => panic!("no dead object: {other:?}"),
    };
    page.found.into_iter().map(object).collect()
}

/// In order of their time; put off and taken out again.
pub async fn dead_inodes_come_out_when_due(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let queue = |n, ms| Write::QueueDead(InodeNo(n), ms);
    w.a.write(vec![queue(1, 0)]).await;
    w.a.write(vec![queue(2, 0), queue(3, HOUR_MS)]).await;
    assert_eq!(dead_inodes(&w.b, false).await, [1, 2]);
    assert_eq!(dead_inodes(&w.b, true).await, [1, 2, 3]);
    w.b.write(vec![queue(1, HOUR_MS), Write::UnqueueDead(InodeNo(3)), Write::UnqueueDead(InodeNo(9))]).await;
    assert_eq!(dead_inodes(&w.b, false).await, [2]);
    w.b.write(vec![queue(1, 0), Write::UnqueueDead(InodeNo(2))]).await;
    assert_eq!(dead_inodes(&w.b, false).await, [1]);
}

/// `Retain` and `Release`, several of one slice in one commit too.
pub async fn the_last_owner_of_a_slice_queues_its_objects(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let o = object(7, false);
    let release = || Write::Release { object: o, after_ms: 0 };
    let owners = || Key::SliceOwners(o.slice);
    w.a.write(vec![Write::Retain(o.slice), Write::Retain(o.slice), release()]).await;
    assert_eq!(w.b.record(owners()).await, text("1"));
    w.b.write(vec![release()]).await;
    assert_eq!((w.b.record(owners()).await, dead_objects(&w.b, true).await), (None, vec![]));
    w.b.write(vec![release()]).await;
    assert_eq!((w.b.record(owners()).await, dead_objects(&w.b, false).await), (None, vec![o]));
    w.a.write(vec![Write::UnqueueObject(o)]).await;
    assert_eq!(dead_objects(&w.a, true).await, []);
}

/// Also one that falls to 0 and rises again in one commit stays.
pub async fn a_pack_without_live_bytes_is_queued(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let o = object(8, true);
    let live = |by| Write::PackLive { object: o, by, after_ms: 0 };
    w.a.write(vec![live(600), live(400)]).await;
    assert_eq!(w.b.record(Key::PackLive(o.slice)).await, text("1000"));
    w.b.write(vec![live(-999)]).await;
    assert_eq!(dead_objects(&w.b, true).await, []);
    w.b.write(vec![live(-1), live(50)]).await;
    assert_eq!(
        (w.b.record(Key::PackLive(o.slice)).await, dead_objects(&w.b, true).await),
        (text("50"), vec![])
    );
    w.b.write(vec![live(-50)]).await;
    assert_eq!((w.b.record(Key::PackLive(o.slice)).await, dead_objects(&w.b, false).await), (None, vec![o]));
}

/// `QueueObject`; what an object is survives the queue.
pub async fn queued_objects_come_out_when_due_or_when_all_are_asked_for(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let slice = SliceId { session: carafe_types::SessionNo(u32::MAX), n: u64::MAX };
    let big = DeadObject { slice, pack: false, len: u64::MAX };
    let (now, later) = (object(1, true), object(1, false));
    w.a.write(vec![Write::QueueObject(now, 0)]).await;
    w.a.write(vec![Write::QueueObject(later, HOUR_MS), Write::QueueObject(big, 2 * HOUR_MS)]).await;
    assert_eq!(dead_objects(&w.b, false).await, [now]);
    assert_eq!(dead_objects(&w.b, true).await, [now, later, big]);
    w.b.write(vec![Write::QueueObject(big, 0)]).await;
    assert_eq!(dead_objects(&w.b, false).await, [now, big]);
    // Page after page: each begins at the time of the last one.
    let mut seen = Vec::new();
    let mut from = Timestamp(0);
    for _ in 0..5 {
        let page = w.b.scan(ScanRequest::DeadObjects { limit: 2, from: Some(from) }).await.found;
        assert!(page.len() <= 2);
        for found in page {
            let Scanned::DeadObject(object, due) = found else { panic!("no dead object: {found:?}") };
            assert!(due >= from, "{due:?} is before {from:?}");
            from = due;
            if !seen.contains(&object) {
                seen.push(object);
            }
        }
    }
    assert_eq!(seen, [now, big, later]);
}

/// `HoldOpen` and `DropOpen`, each as often as it likes.
pub async fn holders_of_an_open_inode_are_listed(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let ino = InodeNo(77);
    let holders = || async {
        let text = w.a.record(Key::OpenHolders(ino)).await.unwrap_or_default();
        let text = String::from_utf8(text.to_vec()).expect("text");
        let mut sids: Vec<u32> =
            text.split(';').filter(|s| !s.is_empty()).map(|s| s.parse().expect("a number")).collect();
        sids.sort();
        sids
    };
    let (a, b) = (w.a.session.no.0, w.b.session.no.0);
    w.a.write(vec![Write::HoldOpen(ino), Write::HoldOpen(ino)]).await;
    w.b.write(vec![Write::HoldOpen(ino)]).await;
    assert_eq!(holders().await, [a, b]);
    w.a.write(vec![Write::DropOpen(ino)]).await;
    w.a.write(vec![Write::DropOpen(ino)]).await;
    assert_eq!(holders().await, [b]);
    w.b.write(vec![Write::DropOpen(ino)]).await;
    assert_eq!(w.a.record(Key::OpenHolders(ino)).await, None);
}
