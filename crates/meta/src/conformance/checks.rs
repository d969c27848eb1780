//! Conditions of a commit.

use super::Subject;
use super::world::{DIR, World, inode, name, object, parts, put, text};
use crate::store::*;
use carafe_types::{FileKind, InodeNo, QuotaId, Timestamp};

fn conflict(outcome: Outcome) -> Vec<Failed> {
    match outcome {
        Outcome::Conflict(failed) => failed,
        other => panic!("no conflict: {other:?}"),
    }
}

/// `Same` with the right bytes, with wrong bytes, with "absent", each for a present and an absent record.
pub async fn a_check_holds_for_what_is_there_and_fails_for_anything_else(subject: &dyn Subject) {
    let w = World::new(subject).await;
    w.a.write(vec![put(inode(65), "v1"), put(Key::Xattr(InodeNo(65)), "")]).await;
    let good = [
        Check::Same(inode(65), text("v1")),
        Check::Same(inode(66), None),
        Check::Same(Key::Xattr(InodeNo(65)), text("")),
        Check::Empty(DIR),
    ];
    for check in good {
        w.a.done(Commit { checks: vec![check], ..Commit::default() }).await;
    }
    let bad = [
        (Check::Same(inode(65), text("v2")), Fresh::Record(text("v1"))),
        (Check::Same(inode(65), None), Fresh::Record(text("v1"))),
        (Check::Same(inode(66), text("")), Fresh::Record(None)),
        (Check::Same(Key::Xattr(InodeNo(65)), None), Fresh::Record(text(""))),
    ];
    for (check, fresh) in bad {
        let failed = conflict(w.a.commit(Commit { checks: vec![check], ..Commit::default() }).await);
        assert_eq!(failed, [Failed { failed: true, fresh }]);
    }
}

/// `HasName` and `NoName`.
pub async fn a_name_is_compared_with_its_type_and_inode(subject: &dyn Subject) {
    let w = World::new(subject).await;
    w.a.write(vec![Write::Link(DIR, parts("x", 77))]).await;
    let has = |n: &str, kind, ino| Check::HasName(DIR, name(n), kind, InodeNo(ino));
    for check in [
        has("x", FileKind::Regular, 77),
        Check::NoName(DIR, name("xx")),
        Check::NoName(InodeNo(0), name("x")),
    ] {
        w.a.done(Commit { checks: vec![check], ..Commit::default() }).await;
    }
    let there = Some((FileKind::Regular, InodeNo(77)));
    let bad = [
        (has("x", FileKind::Directory, 77), there),
        (has("x", FileKind::Regular, 78), there),
        (has("y", FileKind::Regular, 77), None),
        (Check::NoName(DIR, name("x")), there),
    ];
    for (check, found) in bad {
        let failed = conflict(w.a.commit(Commit { checks: vec![check], ..Commit::default() }).await);
        assert_eq!(failed, [Failed { failed: true, fresh: Fresh::Name(found) }]);
    }
    let failed = conflict(w.a.commit(Commit { checks: vec![Check::Empty(DIR)], ..Commit::default() }).await);
    assert_eq!(failed, [Failed { failed: true, fresh: Fresh::Empty(false) }]);
}

/// Also those that did not fail, in the order given.
pub async fn a_conflict_tells_the_fresh_value_of_every_check(subject: &dyn Subject) {
    let w = World::new(subject).await;
    w.a.write(vec![put(inode(65), "v1"), Write::Link(DIR, parts("x", 77))]).await;
    let key = WatchKey::Names(InodeNo(64));
    w.b.watch_one(key).await;
    let checks = vec![
        Check::Same(inode(65), text("v1")),
        Check::Same(inode(66), text("gone")),
        Check::NoName(DIR, name("y")),
        Check::HasName(DIR, name("x"), FileKind::Regular, InodeNo(77)),
        Check::NoName(DIR, name("x")),
        Check::Empty(InodeNo(64)),
        Check::Alone(key),
        Check::AloneOrFlushing(WatchKey::Names(DIR)),
    ];
    let there = Some((FileKind::Regular, InodeNo(77)));
    let expected = [
        (false, Fresh::Record(text("v1"))),
        (true, Fresh::Record(None)),
        (false, Fresh::Name(None)),
        (false, Fresh::Name(there)),
        (true, Fresh::Name(there)),
        (false, Fresh::Empty(true)),
        (true, Fresh::Watchers(vec![w.b.session.no])),
        (false, Fresh::Watchers(vec![])),
    ];
    let failed = conflict(w.a.commit(Commit { checks, ..Commit::default() }).await);
    let failed: Vec<_> = failed.into_iter().map(|f| (f.failed, f.fresh)).collect();
    assert_eq!(failed, expected);
}

/// No write, no take, no enlistment, no message, no place in the order.
pub async fn a_refused_commit_leaves_nothing_behind(subject: &dyn Subject) {
    let mut w = World::new(subject).await;
    let before = w.a.load(LoadRequest::default()).await.seq;
    let key = WatchKey::Names(DIR);
    let refused = Commit {
        checks: vec![Check::Same(inode(65), None), Check::Same(inode(64), None)],
        takes: vec![Take { quota: QuotaId::ROOT, bytes: 10, inodes: 1 }],
        take_inline: 5,
        writes: vec![
            put(inode(65), "v"),
            Write::Link(DIR, parts("x", 65)),
            Write::Touch(DIR),
            Write::QueueDead(InodeNo(65), 0),
            Write::QueueObject(object(1, true), 0),
            Write::Reserve(QuotaId::ROOT, 100),
        ],
        enlist: vec![key],
        notify: vec![(w.b.session.no, Message::Unlocked(InodeNo(1)))],
        frees: true,
    };
    conflict(w.a.commit(refused).await);
    w.b.hears_nothing().await;
    assert_eq!(w.b.watch_one(key).await.watched, [Watched::Sole], "nobody was enlisted");
    assert_eq!(w.b.record(inode(65)).await, None);
    assert_eq!(w.b.record(Key::DirTimes(DIR)).await, None);
    assert_eq!(w.b.names(DIR).await, []);
    assert!(w.b.scan(ScanRequest::DeadInodes { limit: 9, from: Some(Timestamp(0)) }).await.found.is_empty());
    assert!(w.b.scan(ScanRequest::DeadObjects { limit: 9, from: Some(Timestamp(0)) }).await.found.is_empty());
    let quota = w.a.quota(QuotaId::ROOT).await.expect("the root quota is there");
    assert_eq!((quota.left_bytes, quota.left_inodes, quota.reserved), (1 << 62, 1 << 40, 0));
    assert_eq!(w.a.load(LoadRequest::default()).await.seq, before);
}
