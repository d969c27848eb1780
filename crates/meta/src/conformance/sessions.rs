//! Lives of sessions and of the store.

use super::Subject;
use super::world::{DIR, Peer, World, format, inode, new_session, put, text};
use crate::store::*;
use carafe_types::{InodeNo, QuotaId};
use std::collections::HashSet;
use std::time::Duration;

/// Before `format`.
pub async fn a_store_without_a_file_system_says_so(subject: &dyn Subject) {
    let store = subject.open().await;
    let info = store.info().await.expect("an empty store answers");
    assert_eq!(info.superblock, None);
    assert!(info.time.0 > 1_600_000_000_000_000_000, "{:?}", info.time);
    assert_eq!(store.register(new_session()).await, Err(StoreError::NotFormatted));
}

/// The second `format` names the first and changes nothing.
pub async fn a_file_system_is_made_once(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let before = w.a.store.info().await.expect("the store answers");
    assert!(before.superblock.is_some() && before.generation.0 != 0);
    let again = format(&*w.a.store, "second").await;
    assert_eq!(again, Err(StoreError::AlreadyFormatted { name: "demo".to_owned() }));
    assert_eq!(w.a.store.info().await.expect("the store answers").superblock, before.superblock);
    assert_eq!(w.a.record(inode(64)).await, text("root"));
    let quota = w.a.quota(QuotaId::ROOT).await.expect("the root quota is there");
    assert_eq!(Some(quota.record), text("root quota"));
}

/// Every call that names the session.
pub async fn a_reaped_session_is_fenced_from_everything(subject: &dyn Subject) {
    let w = World::new(subject).await;
    w.subject.expire(w.b.session.no).await;
    assert!(w.a.store.reap(&w.a.session, w.b.session.no).await.expect("alive"));
    let (store, dead) = (&w.b.store, &w.b.session);
    let late = Commit { writes: vec![put(inode(70), "late")], ..Commit::default() };
    let fenced = |e: Result<(), StoreError>| assert_eq!(e, Err(StoreError::Fenced));
    fenced(store.commit(dead, &late).await.map(drop));
    fenced(store.load(dead, &LoadRequest::default()).await.map(drop));
    fenced(store.renew(dead).await.map(drop));
    fenced(store.watch(dead, &[(WatchKey::Names(DIR), WatchChange::Leave)]).await);
    fenced(store.send(dead, w.a.session.no, Message::Unlocked(DIR)).await);
    fenced(store.allocate(dead, Allocation::Inodes).await.map(drop));
    fenced(store.reap(dead, w.a.session.no).await.map(drop));
    assert_eq!(w.a.record(inode(70)).await, None);
    let listed = w.a.store.sessions().await.expect("the store answers");
    let of = |p: &Peer| listed.iter().find(|s| s.no == p.session.no).cloned().expect("listed for ever");
    assert!(of(&w.a).alive && !of(&w.b).alive);
    assert_eq!((of(&w.b).uuid, Some(of(&w.b).record)), (w.b.session.uuid, text("{\"a session\":1}")));
}

/// Silence is counted by the store's clock.
pub async fn a_session_whose_lease_runs_is_not_reaped(subject: &dyn Subject) {
    let w = World::new(subject).await;
    assert!(!w.a.store.reap(&w.a.session, w.b.session.no).await.expect("alive"));
    w.b.write(vec![put(inode(70), "alive")]).await;
    let listed = w.a.store.sessions().await.expect("the store answers");
    let now = w.a.store.info().await.expect("the store answers").time;
    for s in listed {
        let left = Duration::from_nanos((s.lease_end.0 - now.0).max(0) as u64);
        assert!(s.alive && left > LEASE / 2 && left <= LEASE, "{left:?} of {s:?}");
    }
}

/// `Renewal::expired`, until somebody reaps it.
pub async fn an_expired_session_is_named_and_renewal_saves_it(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let expired = || async { w.a.store.renew(&w.a.session).await.expect("alive").expired };
    assert_eq!(expired().await, []);
    w.subject.expire(w.b.session.no).await;
    assert_eq!(expired().await, [w.b.session.no]);
    w.b.store.renew(&w.b.session).await.expect("nobody has reaped it");
    assert_eq!(expired().await, []);
    assert!(!w.a.store.reap(&w.a.session, w.b.session.no).await.expect("alive"));
    w.subject.expire(w.b.session.no).await;
    assert!(w.a.store.reap(&w.a.session, w.b.session.no).await.expect("alive"));
    assert_eq!(expired().await, []);
}

/// With its number, its marks and its reserves.
pub async fn a_session_is_resumed_by_its_uuid(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let key = WatchKey::Names(DIR);
    w.b.watch_one(key).await;
    w.b.write(vec![put(inode(70), "before"), Write::Reserve(QuotaId::ROOT, 10)]).await;
    let new = NewSession { uuid: w.b.session.uuid, record: new_session().record };
    let mut again = Peer::join_as(subject.open().await, new).await;
    assert!(again.session.resumed && !w.b.session.resumed);
    assert_eq!(again.session.no, w.b.session.no);
    for n in 0..600 {
        again.write(vec![put(inode(70), n.to_string())]).await;
    }
    assert_eq!(w.a.watch_one(key).await.held, [key]);
    assert_eq!(again.message().await, Message::Share(key));
    again.store.unregister(&again.session).await.expect("alive");
    assert_eq!(w.a.quota(QuotaId::ROOT).await.expect("there").reserved, 0);
}

/// Its number is not given again either.
pub async fn an_ended_session_is_not_resumed(subject: &dyn Subject) {
    let w = World::new(subject).await;
    w.b.store.unregister(&w.b.session).await.expect("alive");
    assert_eq!(w.b.store.renew(&w.b.session).await.map(drop), Err(StoreError::Fenced));
    let new = NewSession { uuid: w.b.session.uuid, record: new_session().record };
    let again = Peer::join_as(subject.open().await, new).await;
    assert!(!again.session.resumed);
    assert!(again.session.no > w.b.session.no);
    assert_eq!(
        w.b.store.renew(&w.b.session).await.map(drop),
        Err(StoreError::Fenced),
        "the old number stays dead"
    );
}

/// Destroyed, then made anew.
pub async fn another_life_of_the_store_refuses_old_sessions(subject: &dyn Subject) {
    let w = World::new(subject).await;
    w.a.write(vec![put(inode(70), "x"), put(Key::Volume("v".to_owned()), "x")]).await;
    w.a.store.destroy().await.expect("destroyed");
    assert_eq!(w.a.store.info().await.expect("the store answers").superblock, None);
    let e = w.a.store.load(&w.a.session, &LoadRequest::default()).await.map(drop);
    assert_eq!(e, Err(StoreError::NotFormatted));
    format(&*w.b.store, "second").await.expect("empty again");
    let e = w.a.store.commit(&w.a.session, &Commit::default()).await.map(drop);
    assert_eq!(e, Err(StoreError::Generation));
    let c = Peer::join(subject.open().await).await;
    assert_eq!((c.record(inode(70)).await, c.record(Key::Volume("v".to_owned())).await), (None, None));
}

/// Inode ranges, quotas, sessions.
pub async fn numbers_are_never_given_twice(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let mut seen = HashSet::new();
    for peer in [&w.a, &w.b, &w.a] {
        let first = peer.store.allocate_inodes(&peer.session).await.expect("alive");
        assert!(first.0 % 64 == 0 && first > InodeNo::ROOT);
        assert!(seen.insert(first.0 >> 20), "ranges of 2^20 do not overlap");
        let quota = peer.store.allocate(&peer.session, Allocation::Quota).await.expect("alive");
        assert!(quota > 0 && seen.insert(quota | 1 << 63));
    }
    assert_ne!(w.a.session.no, w.b.session.no);
}
