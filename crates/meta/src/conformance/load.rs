//! Many at once, and much at once.

use super::Subject;
use super::world::{DIR, Peer, World, inode, parts, put};
use crate::store::*;
use bytes::Bytes;
use carafe_types::{BucketNo, InodeNo, QuotaId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const TASKS: usize = 16;

/// Two records that change together are read together.
pub async fn a_snapshot_is_never_torn(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let (x, y) = (inode(70), inode(7000));
    let writer = async {
        for n in 0..200 {
            w.a.write(vec![put(x.clone(), n.to_string()), put(y.clone(), n.to_string())]).await;
        }
    };
    let reader = async {
        for _ in 0..200 {
            let request = LoadRequest { records: vec![x.clone(), y.clone()], ..LoadRequest::default() };
            let loaded = w.b.load(request).await;
            assert_eq!(loaded.records[0], loaded.records[1]);
        }
    };
    futures::join!(writer, reader);
}

/// Adds 1 to a record until that has succeeded, by check and retry.
async fn add_one(peer: &Peer, key: Key) {
    let mut seen: Option<Bytes> = None;
    loop {
        let n: u64 = seen.as_ref().map_or(0, |v| String::from_utf8_lossy(v).parse().expect("a number"));
        let commit = Commit {
            checks: vec![Check::Same(key.clone(), seen.clone())],
            writes: vec![put(key.clone(), (n + 1).to_string())],
            ..Commit::default()
        };
        match peer.commit(commit).await {
            Outcome::Done(_) => return,
            Outcome::Conflict(failed) => match &failed[0].fresh {
                Fresh::Record(fresh) => seen = fresh.clone(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
}

/// Some commit always wins, none wins twice.
pub async fn no_update_of_sixteen_tasks_is_lost(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let key = inode(70);
    let peers = [Arc::new(w.a), Arc::new(w.b)];
    let tasks = (0..TASKS).map(|t| {
        let (peer, key) = (peers[t % 2].clone(), key.clone());
        tokio::spawn(async move {
            for _ in 0..20 {
                add_one(&peer, key.clone()).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
    let value = peers[0].record(key).await.expect("written");
    assert_eq!(value, (TASKS * 20).to_string());
}

/// To the byte.
pub async fn a_quota_is_exact_under_sixteen_tasks(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let q = QuotaId(4);
    w.a.write(vec![Write::InitQuota(q, Some((1000, 1 << 40)))]).await;
    let peers = [Arc::new(w.a), Arc::new(w.b)];
    let tasks = (0..TASKS).map(|t| {
        let peer = peers[t % 2].clone();
        tokio::spawn(async move {
            let mut got = 0;
            for n in 0..30 {
                let takes = vec![Take { quota: q, bytes: 1 + (n * 7 + t as i64) % 5, inodes: 1 }];
                match peer.commit(Commit { takes: takes.clone(), ..Commit::default() }).await {
                    Outcome::Done(_) => got += takes[0].bytes,
                    Outcome::NoSpace(_) => {}
                    other => panic!("{other:?}"),
                }
            }
            got
        })
    });
    let mut got = 0;
    for task in tasks.collect::<Vec<_>>() {
        got += task.await.expect("no panic");
    }
    let left = peers[0].quota(q).await.expect("there").left_bytes;
    assert_eq!((got + left, left), (1000, 0), "single bytes are asked for until none is left");
}

/// The largest transaction: each with a check, a record, a name, a reference.
pub async fn five_hundred_records_are_one_commit(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let mut commit = Commit::default();
    for n in 0..500 {
        let ino = InodeNo(64_000 + n);
        commit.checks.push(Check::Same(Key::Inode(ino), None));
        commit.writes.push(put(Key::Inode(ino), vec![n as u8; 48]));
        commit.writes.push(Write::Link(DIR, parts(format!("file {n}"), ino.0)));
        commit.writes.push(Write::PackLive { object: super::world::object(1, true), by: 10, after_ms: 0 });
    }
    w.a.done(commit.clone()).await;
    assert_eq!(w.b.names(DIR).await.len(), 500);
    let buckets: Vec<BucketNo> = (1000..1008).map(BucketNo).collect();
    let loaded = w.b.load(LoadRequest { buckets, ..LoadRequest::default() }).await;
    assert_eq!(loaded.buckets.iter().map(Vec::len).sum::<usize>(), 500);
    commit.writes.clear();
    let Outcome::Conflict(failed) = w.b.commit(commit).await else { panic!("all are there now") };
    assert!(failed.len() == 500 && failed.iter().all(|f| f.failed));
}

/// 1 MiB in one record and in one answer.
pub async fn a_value_of_a_megabyte_is_kept(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let value: Vec<u8> = (0..1 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let key = Key::Xattr(InodeNo(70));
    w.a.write(vec![put(key.clone(), &value)]).await;
    assert_eq!(w.b.record(key.clone()).await.as_deref(), Some(value.as_slice()));
    let checks = vec![Check::Same(key.clone(), Some(value.into()))];
    w.b.done(Commit { checks, writes: vec![Write::Delete(key)], ..Commit::default() }).await;
}

/// With their records, watched or not; emptied ones are gone.
pub async fn a_scan_of_buckets_finds_all(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let mut expected: BTreeSet<u64> = BTreeSet::from([64]);
    for piece in 0..5u64 {
        let numbers = (0..100).map(|n| ((piece * 100 + n) << 10) + 64 + n % 64);
        let writes = numbers.clone().map(|n| put(inode(n), n.to_string())).collect();
        w.a.write(writes).await;
        expected.extend(numbers);
    }
    w.a.watch_one(WatchKey::Bucket(BucketNo(777))).await;
    w.a.write(vec![put(inode(99 << 6), "x"), put(Key::Xattr(InodeNo(98 << 6)), "no bucket")]).await;
    w.a.write(vec![Write::Delete(inode(99 << 6))]).await;
    let mut found = BTreeMap::new();
    let (mut cursor, mut pages) = (0, 0);
    loop {
        let page = w.b.scan(ScanRequest::Buckets { cursor, limit: 50 }).await;
        pages += 1;
        for one in page.found {
            let Scanned::Bucket(b, records) = one else { panic!("no bucket: {one:?}") };
            assert!(!records.is_empty(), "bucket {b:?} has no records");
            found.extend(records);
        }
        match page.next {
            Some(next) => cursor = next,
            None => break,
        }
    }
    let inodes: BTreeSet<u64> =
        found.keys().map(|k| if let Key::Inode(i) = k { i.0 } else { panic!("{k:?}") }).collect();
    assert_eq!(inodes, expected);
    assert!(pages >= 5, "{pages} pages");
    assert_eq!(found[&inode(65 + (1 << 10))], "1089");
}

/// In order, whatever was deleted between.
pub async fn volumes_come_in_pages_by_id(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let id = |n: usize| format!("cv1-{n:03}");
    w.a.write((0..40).map(|n| put(Key::Volume(id(n)), format!("record {n}"))).collect()).await;
    let mut seen = Vec::new();
    loop {
        let after = seen.last().map(|(id, _): &(String, Bytes)| id.clone());
        let page = w.b.scan(ScanRequest::Volumes { after, limit: 7 }).await.found;
        let len = page.len();
        seen.extend(
            page.into_iter().map(|s| if let Scanned::Volume(id, r) = s { (id, r) } else { panic!() }),
        );
        w.a.write(vec![Write::Delete(Key::Volume(id(0)))]).await;
        if len < 7 {
            break;
        }
    }
    let expected: Vec<_> = (0..40).map(|n| (id(n), Bytes::from(format!("record {n}")))).collect();
    assert_eq!(seen, expected);
}

/// As volumes, and apart from them.
pub async fn snapshots_come_in_pages_by_id(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let id = |n: usize| format!("c{n:03}");
    w.a.write((0..20).map(|n| put(Key::Snapshot(id(n)), format!("record {n}"))).collect()).await;
    w.a.write(vec![put(Key::Volume(id(5)), "a volume"), put(Key::Volume(id(100)), "another")]).await;
    let (mut seen, mut after): (Vec<(String, Bytes)>, _) = (Vec::new(), None);
    loop {
        let page = w.b.scan(ScanRequest::Snapshots { after, limit: 6 }).await.found;
        let len = page.len();
        seen.extend(page.into_iter().map(|s| match s {
            Scanned::Snapshot(id, record) => (id, record),
            other => panic!("no snapshot: {other:?}"),
        }));
        after = seen.last().map(|(id, _)| id.clone());
        if len < 6 {
            break;
        }
    }
    let expected: Vec<_> = (0..20).map(|n| (id(n), Bytes::from(format!("record {n}")))).collect();
    assert_eq!(seen, expected);
}

/// What `carafe status` reads.
pub async fn quotas_and_single_records_are_scanned(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let q = QuotaId(12);
    let writes =
        vec![Write::InitQuota(q, Some((5, 6))), put(Key::Quota(q), "r"), put(Key::Single("gc-mark"), "m")];
    w.a.write(writes).await;
    let found = w.b.scan(ScanRequest::Quotas).await.found;
    let mut quotas: Vec<(QuotaId, QuotaState)> =
        found.into_iter().map(|s| if let Scanned::Quota(id, q) = s { (id, q) } else { panic!() }).collect();
    quotas.sort_by_key(|q| q.0);
    assert_eq!(quotas.iter().map(|q| q.0).collect::<Vec<_>>(), [QuotaId::ROOT, q]);
    let state = QuotaState { record: Bytes::from_static(b"r"), left_bytes: 5, left_inodes: 6, reserved: 0 };
    assert_eq!(quotas[1].1, state);
    let mut renewed = w.a.store.renew(&w.a.session).await.expect("alive").quotas;
    renewed.sort_by_key(|q| q.0);
    assert_eq!(renewed, quotas);
    assert_eq!(w.b.record(Key::Single("gc-mark")).await.as_deref(), Some(&b"m"[..]));
    w.b.store.barrier().await.expect("nothing to wait for");
}
