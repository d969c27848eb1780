//! Who may cache what, and who is asked to share.

use super::Subject;
use super::world::{DIR, Peer, World, inode, name, parts, put};
use crate::store::*;
use carafe_types::{BucketNo, InodeNo, SessionNo};

const KEY: WatchKey = WatchKey::Names(DIR);
const BUCKET: WatchKey = WatchKey::Bucket(BucketNo(DIR.0 >> 6));

async fn stand(peer: &Peer, key: WatchKey) -> Watched {
    let loaded = peer.watch_one(key).await;
    assert!(loaded.held.is_empty(), "held: {:?}", loaded.held);
    loaded.watched[0]
}

async fn in_the_way(peer: &Peer, check: Check) -> Vec<SessionNo> {
    match peer.commit(Commit { checks: vec![check], ..Commit::default() }).await {
        Outcome::Done(_) => Vec::new(),
        Outcome::Conflict(failed) => match &failed[0].fresh {
            Fresh::Watchers(sids) => sids.clone(),
            other => panic!("no watchers: {other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Each key for itself; again and again.
pub async fn the_only_watcher_is_sole(subject: &dyn Subject) {
    let w = World::new(subject).await;
    assert_eq!(stand(&w.a, KEY).await, Watched::Sole);
    assert_eq!(stand(&w.a, KEY).await, Watched::Sole);
    assert_eq!(stand(&w.b, BUCKET).await, Watched::Sole, "names and records of a directory are two keys");
    assert_eq!(stand(&w.b, WatchKey::Names(InodeNo(64))).await, Watched::Sole);
}

/// The newcomer is told `held` until the holder has shared; then both are.
pub async fn a_second_watcher_asks_a_sole_one_to_share(subject: &dyn Subject) {
    let mut w = World::new(subject).await;
    stand(&w.a, KEY).await;
    for _ in 0..2 {
        let loaded = w.b.watch_one(KEY).await;
        assert_eq!((loaded.held, loaded.watched), (vec![KEY], vec![Watched::Shared]));
        assert_eq!(w.a.message().await, Message::Share(KEY));
    }
    assert_eq!(in_the_way(&w.a, Check::Alone(KEY)).await, [], "who is refused is not enlisted");
    w.a.mark(KEY, WatchChange::Share).await;
    assert_eq!(stand(&w.b, KEY).await, Watched::Shared);
    assert_eq!(stand(&w.a, KEY).await, Watched::Shared);
    w.a.hears_nothing().await;
    w.b.hears_nothing().await;
}

/// By record, bucket, name and list; keys that nobody holds are answered in the same load.
pub async fn reading_without_watching_asks_a_sole_one_too(subject: &dyn Subject) {
    let mut w = World::new(subject).await;
    w.a.load(LoadRequest { watch: vec![KEY, BUCKET], ..LoadRequest::default() }).await;
    let list = ListRequest { dir: DIR, after: None, limit: 1 };
    let asks = [
        (LoadRequest { records: vec![Key::Xattr(DIR)], ..LoadRequest::default() }, BUCKET),
        (LoadRequest { buckets: vec![DIR.bucket(), BucketNo(1)], ..LoadRequest::default() }, BUCKET),
        (LoadRequest { names: vec![(DIR, name("x"))], ..LoadRequest::default() }, KEY),
        (LoadRequest { lists: vec![list], ..LoadRequest::default() }, KEY),
    ];
    for (request, key) in asks {
        assert_eq!(w.b.load(request).await.held, [key]);
        assert_eq!(w.a.message().await, Message::Share(key));
    }
    let free = LoadRequest { records: vec![Key::Locks(DIR), inode(64)], ..LoadRequest::default() };
    assert_eq!(w.b.load(free).await.held, []);
    w.a.hears_nothing().await;
    w.a.mark(BUCKET, WatchChange::Share).await;
    let request = LoadRequest { buckets: vec![DIR.bucket()], ..LoadRequest::default() };
    assert_eq!(w.b.load(request).await.held, [], "what is shared may be read by who does not watch");
    assert_eq!(stand(&w.a, BUCKET).await, Watched::Sole, "and who does not watch is no watcher");
}

/// `Leave`.
pub async fn what_is_shared_is_sole_again_after_the_others_left(subject: &dyn Subject) {
    let w = World::new(subject).await;
    stand(&w.a, KEY).await;
    w.a.mark(KEY, WatchChange::Share).await;
    assert_eq!(stand(&w.b, KEY).await, Watched::Shared);
    w.a.mark(KEY, WatchChange::Leave).await;
    w.a.mark(KEY, WatchChange::Leave).await;
    assert_eq!(in_the_way(&w.a, Check::Alone(KEY)).await, [w.b.session.no]);
    w.a.write(vec![Write::Link(DIR, parts("x", 1))]).await;
    assert_eq!(stand(&w.b, KEY).await, Watched::Sole, "at its next load");
    w.b.mark(KEY, WatchChange::Leave).await;
    assert_eq!(stand(&w.a, KEY).await, Watched::Sole);
}

/// Writes of another session are `Held`, of the holder not; records that nobody caches are free.
pub async fn a_key_that_another_holds_alone_cannot_be_written(subject: &dyn Subject) {
    let mut w = World::new(subject).await;
    w.a.load(LoadRequest { watch: vec![KEY, BUCKET], ..LoadRequest::default() }).await;
    let writes = [
        (put(Key::Inode(DIR), "x"), BUCKET),
        (Write::Delete(Key::Content(DIR)), BUCKET),
        (put(Key::Extents { ino: DIR, g: 1, segment: 1 }, "x"), BUCKET),
        (Write::Touch(DIR), BUCKET),
        (Write::AddSubdirs(DIR, 1), BUCKET),
        (Write::Link(DIR, parts("x", 1)), KEY),
    ];
    for (write, key) in writes {
        let commit = Commit { writes: vec![write], ..Commit::default() };
        match w.b.commit(commit.clone()).await {
            Outcome::Held(keys) => assert_eq!(keys, [key]),
            other => panic!("{other:?}"),
        }
        w.a.done(commit).await;
    }
    let unwatched = vec![put(Key::Locks(DIR), "l"), Write::QueueDead(DIR, 0), Write::HoldOpen(DIR)];
    w.b.write(unwatched).await;
    w.a.hears_nothing().await;
    w.a.mark(BUCKET, WatchChange::Share).await;
    w.b.write(vec![Write::Touch(DIR)]).await;
}

/// `enlist`.
pub async fn a_new_key_is_held_alone_by_who_makes_it(subject: &dyn Subject) {
    let mut w = World::new(subject).await;
    let make =
        Commit { writes: vec![put(Key::Inode(DIR), "g")], enlist: vec![KEY, BUCKET], ..Commit::default() };
    w.a.done(make).await;
    assert_eq!(w.b.watch_one(KEY).await.held, [KEY]);
    assert_eq!(w.a.message().await, Message::Share(KEY));
    assert_eq!(stand(&w.a, KEY).await, Watched::Sole);
}

/// It cannot be "only this session" then.
pub async fn a_new_key_where_another_stands_is_refused(subject: &dyn Subject) {
    let w = World::new(subject).await;
    stand(&w.b, KEY).await;
    w.b.mark(KEY, WatchChange::Share).await;
    let make = Commit { enlist: vec![BUCKET, KEY], ..Commit::default() };
    match w.a.commit(make.clone()).await {
        Outcome::Held(keys) => assert_eq!(keys, [KEY]),
        other => panic!("{other:?}"),
    }
    w.b.mark(KEY, WatchChange::Leave).await;
    w.a.done(make).await;
}

/// `Alone` does not mind the session itself.
pub async fn alone_names_the_sessions_in_the_way(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let c = Peer::join(subject.open().await).await;
    assert_eq!(in_the_way(&w.a, Check::Alone(KEY)).await, []);
    for peer in [&w.a, &w.b, &c] {
        peer.watch_one(KEY).await;
        w.a.mark(KEY, WatchChange::Share).await;
        stand(peer, KEY).await;
    }
    let mut others = in_the_way(&w.a, Check::Alone(KEY)).await;
    others.sort();
    assert_eq!(others, [w.b.session.no, c.session.no]);
    w.b.mark(KEY, WatchChange::Leave).await;
    assert_eq!(in_the_way(&c, Check::Alone(KEY)).await, [w.a.session.no]);
}

/// `AloneOrFlushing`, `SetFlushing`, `ClearFlushing`.
pub async fn flushing_sessions_are_not_in_the_way(subject: &dyn Subject) {
    let w = World::new(subject).await;
    stand(&w.b, KEY).await;
    let check = || Check::AloneOrFlushing(KEY);
    assert_eq!(in_the_way(&w.a, check()).await, [w.b.session.no], "sole, but not flushing");
    w.b.mark(KEY, WatchChange::SetFlushing).await;
    assert_eq!(in_the_way(&w.a, check()).await, []);
    assert_eq!(in_the_way(&w.a, Check::Alone(KEY)).await, [w.b.session.no]);
    w.b.mark(KEY, WatchChange::ClearFlushing).await;
    assert_eq!(in_the_way(&w.a, check()).await, [w.b.session.no]);
    w.b.mark(KEY, WatchChange::Leave).await;
    w.b.mark(KEY, WatchChange::SetFlushing).await;
    assert_eq!(in_the_way(&w.a, Check::Alone(KEY)).await, [], "who does not watch has no mark");
}

/// The two marks are independent.
pub async fn marks_survive_sharing_and_loading(subject: &dyn Subject) {
    let mut w = World::new(subject).await;
    stand(&w.b, KEY).await;
    w.b.mark(KEY, WatchChange::SetFlushing).await;
    assert_eq!(stand(&w.b, KEY).await, Watched::Sole);
    assert_eq!(w.a.watch_one(KEY).await.held, [KEY], "still alone");
    assert_eq!(w.b.message().await, Message::Share(KEY));
    w.b.mark(KEY, WatchChange::Share).await;
    assert_eq!(stand(&w.a, KEY).await, Watched::Shared);
    assert_eq!(stand(&w.b, KEY).await, Watched::Shared);
    assert_eq!(in_the_way(&w.a, Check::AloneOrFlushing(KEY)).await, []);
    w.b.mark(KEY, WatchChange::ClearFlushing).await;
    assert_eq!(in_the_way(&w.a, Check::AloneOrFlushing(KEY)).await, [w.b.session.no]);
}
