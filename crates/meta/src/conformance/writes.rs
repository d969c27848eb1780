//! Writes and the simple merges.

use super::Subject;
use super::world::{DIR, World, inode, put, text};
use crate::store::*;
use bytes::Bytes;
use carafe_types::record::DirTimes;
use carafe_types::{BucketNo, InodeNo, QuotaId, SessionNo, SliceId, Timestamp};

fn every_key() -> Vec<Key> {
    let i = InodeNo((7 << 30) + 5);
    let slice = SliceId { session: SessionNo(9), n: 1 << 33 };
    vec![
        Key::Inode(i),
        Key::DirTimes(i),
        Key::DirAtime(i),
        Key::DirSubdirs(i),
        Key::Content(i),
        Key::Xattr(i),
        Key::Locks(i),
        Key::Extents { ino: i, g: 0, segment: 0 },
        Key::Extents { ino: i, g: 1, segment: 0 },
        Key::Extents { ino: i, g: 1, segment: 1 << 40 },
        Key::OpenHolders(i),
        Key::SliceOwners(slice),
        Key::PackLive(slice),
        Key::Quota(QuotaId(3)),
        Key::Volume("cv1-5".to_owned()),
        Key::Snapshot("cv1-5".to_owned()),
        Key::Gate(QuotaId(3)),
        Key::Single("gc-mark"),
    ]
}

/// And none is mistaken for another.
pub async fn every_kind_of_record_is_put_read_and_deleted(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let keys = every_key();
    let value = |n: usize| Bytes::from(format!("value {n}"));
    w.a.write(keys.iter().enumerate().map(|(n, k)| Write::Put(k.clone(), value(n))).collect()).await;
    let request = LoadRequest { records: keys.clone(), ..LoadRequest::default() };
    let expected: Vec<_> = (0..keys.len()).map(|n| Some(value(n))).collect();
    assert_eq!(w.b.load(request.clone()).await.records, expected);
    for n in (0..keys.len()).step_by(2) {
        let checks = vec![Check::Same(keys[n].clone(), Some(value(n)))];
        w.b.done(Commit { checks, writes: vec![Write::Delete(keys[n].clone())], ..Commit::default() }).await;
    }
    let expected: Vec<_> = (0..keys.len()).map(|n| (n % 2 == 1).then(|| value(n))).collect();
    assert_eq!(w.a.load(request).await.records, expected);
}

/// Not the neighbours, not the watchers.
pub async fn a_bucket_gives_exactly_its_records(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let b = BucketNo(100);
    let mut expected = vec![
        (Key::Inode(b.inode(0)), Bytes::from_static(b"guard")),
        (Key::DirTimes(b.inode(0)), Bytes::from_static(b"times")),
        (Key::DirAtime(b.inode(0)), Bytes::from_static(b"5")),
        (Key::DirSubdirs(b.inode(0)), Bytes::from_static(b"1")),
        (Key::Inode(b.inode(9)), Bytes::from_static(b"file")),
        (Key::Inode(b.inode(63)), Bytes::from_static(b"last")),
    ];
    let mut writes: Vec<Write> = expected.iter().map(|(k, v)| Write::Put(k.clone(), v.clone())).collect();
    for stranger in [BucketNo(99).inode(63), BucketNo(101).inode(0)] {
        writes.push(put(Key::Inode(stranger), "stranger"));
    }
    writes.push(put(Key::Xattr(b.inode(9)), "not in the bucket"));
    w.a.write(writes).await;
    let watch = vec![WatchKey::Bucket(b), WatchKey::Names(b.inode(0))];
    let request = LoadRequest { buckets: vec![b, BucketNo(98)], watch, ..LoadRequest::default() };
    w.a.load(request.clone()).await;
    let mut loaded = w.a.load(request).await;
    assert!(loaded.held.is_empty());
    loaded.buckets[0].sort();
    expected.sort();
    assert_eq!(loaded.buckets, [expected, vec![]]);
}

/// The last one wins.
pub async fn writes_are_applied_in_the_order_given(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let (x, y) = (inode(70), inode(71));
    w.a.write(vec![put(x.clone(), "1"), Write::Delete(x.clone()), put(x.clone(), "2")]).await;
    w.a.write(vec![put(y.clone(), "1"), put(y.clone(), "2"), Write::Delete(y.clone())]).await;
    assert_eq!((w.b.record(x).await, w.b.record(y).await), (text("2"), None));
}

/// The same instant that `Done` tells, over whatever was there.
pub async fn touch_writes_the_clock_of_the_commit(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let set = DirTimes::Set { mtime: Timestamp(1), ctime: Timestamp(2) };
    w.a.write(vec![put(Key::DirTimes(DIR), set.encode())]).await;
    let done = w.a.write(vec![Write::Touch(DIR)]).await;
    let times = w.b.record(Key::DirTimes(DIR)).await.expect("touched");
    assert_eq!(DirTimes::decode(&times), Ok(DirTimes::Touched(done.time)));
    let second = w.b.write(vec![Write::Touch(DIR)]).await;
    assert!(second.time >= done.time);
}

/// `AddSubdirs`.
pub async fn subdirectories_are_counted_and_none_is_absent(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let key = || Key::DirSubdirs(DIR);
    w.a.write(vec![Write::AddSubdirs(DIR, 1), Write::AddSubdirs(DIR, 2)]).await;
    assert_eq!(w.b.record(key()).await, text("3"));
    w.b.write(vec![Write::AddSubdirs(DIR, -3)]).await;
    assert_eq!(w.b.record(key()).await, None);
}

/// Empty values, protocol bytes, bytes that are no text.
pub async fn any_bytes_are_kept_as_they_are(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let values: [&[u8]; 6] = [b"", b"\0", b"\r\n$-1\r\n", &[0xff; 64], b"-", b"'\"]]\\%0;:"];
    let mut every_byte: Vec<u8> = (0..=255).collect();
    every_byte.extend(0..=255);
    for (n, value) in values.into_iter().chain([every_byte.as_slice()]).enumerate() {
        let key = Key::Content(InodeNo(640 + n as u64));
        w.a.write(vec![put(key.clone(), value)]).await;
        let fresh = Bytes::copy_from_slice(value);
        assert_eq!(w.b.record(key.clone()).await.as_ref(), Some(&fresh));
        let check = Check::Same(key, Some(fresh));
        w.b.done(Commit { checks: vec![check], ..Commit::default() }).await;
    }
}

/// `seq` grows by one a commit, and a load tells the last.
pub async fn every_commit_has_its_place_in_the_order(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let first = w.a.write(vec![]).await;
    let second = w.b.write(vec![put(inode(70), "x")]).await;
    assert_eq!(second.seq, first.seq + 1);
    assert!(second.time >= first.time);
    let loaded = w.a.load(LoadRequest::default()).await;
    assert_eq!(loaded.seq, second.seq);
    assert!(loaded.time >= second.time);
    let (info, renewal) = (w.a.store.info().await, w.a.store.renew(&w.a.session).await);
    assert_eq!(info.expect("the store answers").seq, second.seq);
    assert_eq!(renewal.expect("alive").seq, second.seq);
}
