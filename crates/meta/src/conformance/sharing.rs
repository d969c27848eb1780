//! Messages, and sessions that cannot answer them.

use super::Subject;
use super::world::{DIR, World, put};
use crate::store::*;
use carafe_types::{BucketNo, InodeNo, QuotaId, SessionNo};

const KEY: WatchKey = WatchKey::Names(DIR);

/// And not before: who hears of a change finds it.
pub async fn messages_come_in_order_after_their_commit(subject: &dyn Subject) {
    let mut w = World::new(subject).await;
    for n in 0..50u64 {
        let commit = Commit {
            writes: vec![put(Key::Inode(DIR), n.to_string())],
            notify: vec![(w.b.session.no, Message::Changed(InodeNo(n)))],
            ..Commit::default()
        };
        w.a.done(commit).await;
        w.a.store.send(&w.a.session, w.b.session.no, Message::Unlocked(InodeNo(n))).await.expect("alive");
    }
    for n in 0..50u64 {
        assert_eq!(w.b.message().await, Message::Changed(InodeNo(n)));
        let now = w.b.record(Key::Inode(DIR)).await.expect("written");
        let now: u64 = std::str::from_utf8(&now).expect("text").parse().expect("a number");
        assert!(now >= n);
        assert_eq!(w.b.message().await, Message::Unlocked(InodeNo(n)));
    }
    w.b.hears_nothing().await;
}

/// Dead, or never there.
pub async fn a_message_to_nobody_is_dropped(subject: &dyn Subject) {
    let mut w = World::new(subject).await;
    w.b.store.unregister(&w.b.session).await.expect("alive");
    for to in [w.b.session.no, SessionNo(4_000_000)] {
        w.a.store.send(&w.a.session, to, Message::Unlocked(DIR)).await.expect("no error");
        w.a.done(Commit { notify: vec![(to, Message::Unlocked(DIR))], ..Commit::default() }).await;
    }
    w.a.hears_nothing().await;
}

/// `Gap` is made by engines, and so not sent here.
pub async fn every_kind_of_message_arrives_as_sent(subject: &dyn Subject) {
    let mut w = World::new(subject).await;
    let all = [
        Message::Share(KEY),
        Message::Share(WatchKey::Bucket(BucketNo(u64::MAX >> 6))),
        Message::Flush { dir: DIR, from: SessionNo(7) },
        Message::Flushed { dir: InodeNo(u64::MAX), by: SessionNo(u32::MAX) },
        Message::Unlocked(InodeNo(5)),
        Message::Yield(KEY),
        Message::Yield(WatchKey::Bucket(BucketNo(3))),
        Message::ReturnReserve(QuotaId(9)),
        Message::Changed(InodeNo(6)),
    ];
    for message in &all {
        w.a.store.send(&w.a.session, w.b.session.no, message.clone()).await.expect("alive");
    }
    w.a.store.send(&w.a.session, w.a.session.no, Message::Changed(InodeNo(1))).await.expect("to itself");
    for message in all {
        assert_eq!(w.b.message().await, message);
    }
    assert_eq!(w.a.message().await, Message::Changed(InodeNo(1)));
}

/// Neither as sole holder nor as one in the way.
pub async fn the_watch_of_a_dead_session_does_not_count(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let bucket = WatchKey::Bucket(DIR.bucket());
    w.b.load(LoadRequest { watch: vec![KEY, bucket], ..LoadRequest::default() }).await;
    w.b.mark(bucket, WatchChange::Share).await;
    w.subject.expire(w.b.session.no).await;
    assert_eq!(w.a.watch_one(KEY).await.held, [KEY], "a lease that ended is not yet a dead session");
    assert!(w.a.store.reap(&w.a.session, w.b.session.no).await.expect("alive"));
    w.a.done(Commit { checks: vec![Check::Alone(KEY), Check::Alone(bucket)], ..Commit::default() }).await;
    w.a.write(vec![put(Key::Inode(DIR), "x")]).await;
    let loaded = w.a.load(LoadRequest { watch: vec![KEY, bucket], ..LoadRequest::default() }).await;
    assert_eq!((loaded.held, loaded.watched), (vec![], vec![Watched::Sole, Watched::Sole]));
}
