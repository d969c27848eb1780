//! Quotas, reserves and the budget for inline data.

use super::Subject;
use super::world::{INLINE, Peer, ROOT_LEFT, World, inode, put, text};
use crate::store::*;
use carafe_types::QuotaId;

const Q: QuotaId = QuotaId(5);

async fn make(peer: &Peer, bytes: i64, inodes: i64) {
    peer.write(vec![Write::InitQuota(Q, Some((bytes, inodes))), put(Key::Quota(Q), "record")]).await;
}

fn take(quota: QuotaId, bytes: i64, inodes: i64) -> Take {
    Take { quota, bytes, inodes }
}

async fn takes(peer: &Peer, takes: Vec<Take>) -> Outcome {
    peer.commit(Commit { takes, ..Commit::default() }).await
}

async fn left(peer: &Peer, quota: QuotaId) -> (i64, i64, i64) {
    let state = peer.quota(quota).await.expect("the quota exists");
    (state.left_bytes, state.left_inodes, state.reserved)
}

/// The last byte and the last inode can be taken, one more cannot.
pub async fn takes_stop_exactly_at_the_limit(subject: &dyn Subject) {
    let w = World::new(subject).await;
    make(&w.a, 1000, 3).await;
    assert_eq!(w.b.quota(Q).await.map(|q| q.record), text("record"));
    assert!(matches!(takes(&w.a, vec![take(Q, 999, 0)]).await, Outcome::Done(_)));
    assert!(matches!(takes(&w.b, vec![take(Q, 2, 0)]).await, Outcome::NoSpace(Q)));
    assert!(matches!(takes(&w.b, vec![take(Q, 1, 3)]).await, Outcome::Done(_)));
    assert!(matches!(takes(&w.b, vec![take(Q, 0, 1)]).await, Outcome::NoSpace(Q)));
    assert!(matches!(takes(&w.b, vec![take(Q, -10, 0)]).await, Outcome::Done(_)));
    assert_eq!(left(&w.a, Q).await, (10, 0, 0));
}

/// The chain is all or nothing, and so are the writes beside it.
pub async fn a_take_that_fails_in_one_quota_takes_from_none(subject: &dyn Subject) {
    let w = World::new(subject).await;
    make(&w.a, 10, 10).await;
    let refused = Commit {
        takes: vec![take(QuotaId::ROOT, 11, 1), take(Q, 11, 1)],
        writes: vec![put(inode(99), "x")],
        ..Commit::default()
    };
    assert!(matches!(w.a.commit(refused).await, Outcome::NoSpace(Q)));
    assert_eq!(left(&w.a, QuotaId::ROOT).await, (ROOT_LEFT.0, ROOT_LEFT.1, 0));
    assert_eq!(w.a.record(inode(99)).await, None);
    assert!(matches!(takes(&w.a, vec![take(QuotaId::ROOT, 10, 1), take(Q, 10, 1)]).await, Outcome::Done(_)));
    assert_eq!(left(&w.a, QuotaId::ROOT).await, (ROOT_LEFT.0 - 10, ROOT_LEFT.1 - 1, 0));
}

/// A commit that replaces a file takes and gives back at once.
pub async fn takes_of_one_quota_are_added_up_first(subject: &dyn Subject) {
    let w = World::new(subject).await;
    make(&w.a, 10, 1).await;
    let both = vec![take(Q, 15, 1), take(Q, -5, -1), take(Q, 0, 1)];
    assert!(matches!(takes(&w.a, both).await, Outcome::Done(_)));
    assert_eq!(left(&w.a, Q).await, (0, 0, 0));
}

/// A quota may be shrunk below what is used.
pub async fn a_limit_below_the_use_still_lets_give_back(subject: &dyn Subject) {
    let w = World::new(subject).await;
    make(&w.a, -500, -2).await;
    assert!(matches!(takes(&w.a, vec![take(Q, 1, 0)]).await, Outcome::NoSpace(Q)));
    assert!(matches!(takes(&w.a, vec![take(Q, -100, -1)]).await, Outcome::Done(_)));
    assert!(matches!(takes(&w.a, vec![take(Q, 0, 1)]).await, Outcome::NoSpace(Q)));
    assert_eq!(left(&w.a, Q).await, (-400, -1, 0));
}

/// 10 PB and more, to the byte.
pub async fn counters_are_exact_beyond_what_a_double_holds(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let big = (1i64 << 60) + 1;
    make(&w.a, big, 1 << 54).await;
    assert!(matches!(takes(&w.a, vec![take(Q, big + 1, 0)]).await, Outcome::NoSpace(Q)));
    assert!(matches!(takes(&w.a, vec![take(Q, big - 1, 1)]).await, Outcome::Done(_)));
    assert_eq!(left(&w.a, Q).await, (1, (1 << 54) - 1, 0));
    assert!(matches!(takes(&w.a, vec![take(Q, 2, 0)]).await, Outcome::NoSpace(Q)));
    assert!(matches!(takes(&w.a, vec![take(Q, -(1 << 60), 0)]).await, Outcome::Done(_)));
    assert_eq!(left(&w.a, Q).await.0, big);
}

/// `take_inline`.
pub async fn the_budget_for_inline_data_is_kept(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let inline = |take_inline| Commit { take_inline, ..Commit::default() };
    let left = || async { w.a.store.renew(&w.a.session).await.expect("alive").inline_left };
    assert_eq!(left().await, INLINE);
    assert!(matches!(w.a.commit(inline(INLINE + 1)).await, Outcome::NoInlineSpace));
    assert!(matches!(w.a.commit(inline(INLINE)).await, Outcome::Done(_)));
    assert!(matches!(w.b.commit(inline(1)).await, Outcome::NoInlineSpace));
    assert!(matches!(w.b.commit(inline(-7)).await, Outcome::Done(_)));
    assert_eq!(left().await, 7);
}

/// By reaping and by going in good order; what was used stays used.
pub async fn reserves_go_back_when_a_session_ends(subject: &dyn Subject) {
    let w = World::new(subject).await;
    make(&w.a, 1000, 10).await;
    let reserve = |bytes: i64| Commit {
        takes: vec![take(Q, bytes, 0), take(QuotaId::ROOT, bytes, 0)],
        writes: vec![Write::Reserve(Q, bytes), Write::Reserve(QuotaId::ROOT, bytes)],
        ..Commit::default()
    };
    w.a.done(reserve(100)).await;
    w.b.done(reserve(300)).await;
    // 50 bytes of the reserve are written to a file: they leave it without going back.
    w.b.write(vec![Write::Reserve(Q, -50), Write::Reserve(QuotaId::ROOT, -50)]).await;
    assert_eq!(left(&w.a, Q).await, (600, 10, 350));
    w.subject.expire(w.b.session.no).await;
    assert!(w.a.store.reap(&w.a.session, w.b.session.no).await.expect("alive"));
    assert_eq!(left(&w.a, Q).await, (850, 10, 100));
    assert!(w.a.store.reap(&w.a.session, w.b.session.no).await.expect("alive"), "it is dead already");
    assert_eq!(left(&w.a, Q).await, (850, 10, 100));
    w.a.store.unregister(&w.a.session).await.expect("alive");
    let c = Peer::join(subject.open().await).await;
    assert_eq!(left(&c, Q).await, (950, 10, 0));
    assert_eq!(left(&c, QuotaId::ROOT).await, (ROOT_LEFT.0 - 50, ROOT_LEFT.1, 0));
}

/// As when a volume was deleted while a mount still writes.
pub async fn a_quota_that_is_gone_has_nothing_left(subject: &dyn Subject) {
    let w = World::new(subject).await;
    make(&w.a, 1000, 10).await;
    let reserve =
        Commit { takes: vec![take(Q, 100, 0)], writes: vec![Write::Reserve(Q, 100)], ..Commit::default() };
    w.b.done(reserve).await;
    w.a.write(vec![Write::InitQuota(Q, None), Write::Delete(Key::Quota(Q))]).await;
    assert_eq!(w.a.quota(Q).await, None);
    assert!(matches!(takes(&w.a, vec![take(Q, 1, 0)]).await, Outcome::NoSpace(Q)));
    assert!(matches!(takes(&w.a, vec![take(Q, -1, -1)]).await, Outcome::Done(_)));
    w.b.write(vec![Write::Reserve(Q, -10)]).await;
    w.b.store.unregister(&w.b.session).await.expect("alive");
    assert_eq!(w.a.quota(Q).await, None, "nothing makes it again by halves");
}
