//! Snapshots and clones on any engine: equal to the cut, apart from what is written later, exact in every counter.

#![allow(unreachable_pub, dead_code, reason = "shared by the tests of several crates")]

use crate::common::furnish::{furnish, inline, volume};
use crate::common::tree::{Tree, dead_slices};
use crate::common::*;
use carafe_meta::jobs::{fsck::fsck, purge_inodes, purge_trash, silently};
use carafe_meta::store::{Key, ListRequest, MetaStore, ScanRequest, Scanned};
use carafe_meta::volumes::{NewSnapshot, NewVolume, VolumeError};
use carafe_meta::{Client, ClientOptions, SetAttr};
use carafe_types::record::{Content, CopySource, Guard, Inode, SEGMENT_BYTES, Segment, VolumeState};
use carafe_types::{FileKind, InodeNo};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub fn snapshot(id: &str, source: &str) -> NewSnapshot {
    NewSnapshot { id: id.to_owned(), name: format!("name of {id}"), source: source.to_owned() }
}

pub fn of_snapshot(id: &str) -> CopySource {
    CopySource::Snapshot(id.to_owned())
}

pub async fn join(store: &Arc<dyn MetaStore>) -> Arc<Client> {
    Client::open(store.clone(), ClientOptions::default()).await.unwrap()
}

async fn record(store: &dyn MetaStore, key: Key) -> Option<Vec<u8>> {
    match &store.scan(&ScanRequest::Records(vec![key])).await.unwrap().found[0] {
        Scanned::Record(value) => value.as_ref().map(|bytes| bytes.to_vec()),
        other => panic!("{other:?}"),
    }
}

/// Everything that a user can see of a tree: by path, attributes and where the bytes are. Names of one file share a number.
pub async fn picture(store: &dyn MetaStore, root: InodeNo) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    let mut numbers: BTreeMap<InodeNo, usize> = BTreeMap::new();
    let mut stack = vec![(String::new(), root)];
    while let Some((path, ino)) = stack.pop() {
        let bytes = record(store, Key::Inode(ino)).await.unwrap();
        let xattr = record(store, Key::Xattr(ino)).await;
        let text = match Guard::decode(&bytes) {
            Ok(guard) => {
                let list = ListRequest { dir: ino, after: None, limit: 100_000 };
                for found in store.scan(&ScanRequest::Names(list)).await.unwrap().found {
                    let Scanned::Name(entry) = found else { panic!("a name") };
                    stack.push((format!("{path}/{}", entry.name), entry.ino));
                }
                let times = record(store, Key::DirTimes(ino)).await;
                let Guard { mode, uid, gid, btime, .. } = guard;
                format!("dir {mode:o} {uid} {gid} {btime:?} {times:?} {xattr:?}")
            }
            Err(_) => {
                let next = numbers.len();
                let number = *numbers.entry(ino).or_insert(next);
                let inode = Inode::decode(&bytes).unwrap();
                let extents = extents(store, ino, &inode).await;
                let content = record(store, Key::Content(ino)).await;
                let bare =
                    Inode { quota: carafe_types::QuotaId(0), parent: None, content: Content::Empty, ..inode };
                format!("file {number} {bare:?} {extents} {content:?} {xattr:?}")
            }
        };
        seen.insert(path, text);
    }
    seen
}

async fn extents(store: &dyn MetaStore, ino: InodeNo, inode: &Inode) -> String {
    match inode.content {
        Content::One(e) => format!("{e:?}"),
        Content::Many { g } => {
            let mut all = String::new();
            for segment in 0..=inode.size / SEGMENT_BYTES {
                if let Some(bytes) = record(store, Key::Extents { ino, g, segment }).await {
                    all += &format!("{:?}", Segment::decode(segment, &bytes).unwrap().extents);
                }
            }
            all
        }
        _ => String::new(),
    }
}

async fn clean(c: &Client) {
    let report = fsck(c, &silently).await.unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// A snapshot, a volume made from it and one made from the volume itself are equal to the volume, and deleting any of them
/// takes nothing from the others.
pub async fn copies_are_equal_and_independent(store: Arc<dyn MetaStore>) {
    let (c, m) = (join(&store).await, join(&store).await);
    let v = c.create_volume(&volume("v")).await.unwrap();
    furnish(&m, v.root).await;
    let cut = picture(&*store, v.root).await;
    let s = c.create_snapshot(&snapshot("s", "v")).await.unwrap();
    assert_eq!((s.state, s.copy, s.capacity), (VolumeState::Ready, None, 1 << 40));
    assert_eq!(c.create_snapshot(&snapshot("s", "v")).await.unwrap(), s, "a repeated call finds it");
    assert_eq!(picture(&*store, s.root).await, cut);
    let w = c.create_volume_from(&volume("w"), &of_snapshot("s")).await.unwrap();
    let x = c.create_volume_from(&volume("x"), &CopySource::Volume("v".into())).await.unwrap();
    for root in [w.root, x.root, v.root] {
        assert_eq!(picture(&*store, root).await, cut);
    }
    assert_eq!(find(&m, find(&m, ROOT, "volumes").await.unwrap().ino, "w").await.unwrap().ino, w.root);
    Tree::check(&*store).await;
    clean(&c).await;
    for (gone, left) in
        [("v", vec![s.root, w.root, x.root]), ("x", vec![s.root, w.root]), ("s", vec![w.root])]
    {
        if gone == "s" { c.delete_snapshot(gone).await } else { c.delete_volume(gone).await }.unwrap();
        purge_trash(&c, Duration::ZERO, &silently).await.unwrap();
        for root in left {
            assert_eq!(picture(&*store, root).await, cut, "after the end of {gone}");
        }
        Tree::check(&*store).await;
    }
    clean(&c).await;
    c.delete_snapshot("s").await.unwrap();
    c.delete_volume("w").await.unwrap();
    purge_trash(&c, Duration::ZERO, &silently).await.unwrap();
    Tree::check(&*store).await;
    c.close().await;
    m.close().await;
}

/// The model: whatever is written to the original and to a clone later, the snapshot stays as it was, and so does each side
/// from what the other one does.
pub async fn later_writes_stay_apart(store: Arc<dyn MetaStore>, seed: u64, steps: usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    let (c, m) = (join(&store).await, join(&store).await);
    let v = c.create_volume(&volume("v")).await.unwrap();
    furnish(&m, v.root).await;
    for _ in 0..steps / 4 {
        scribble(&m, v.root, &mut rng).await;
    }
    let cut = picture(&*store, v.root).await;
    let s = c.create_snapshot(&snapshot("s", "v")).await.unwrap();
    assert_eq!(picture(&*store, s.root).await, cut);
    for _ in 0..steps / 4 {
        scribble(&m, v.root, &mut rng).await;
    }
    let w = c.create_volume_from(&volume("w"), &of_snapshot("s")).await.unwrap();
    assert_eq!(picture(&*store, w.root).await, cut);
    for step in 0..steps {
        let (written, other) = if step % 2 == 0 { (v.root, w.root) } else { (w.root, v.root) };
        let before = picture(&*store, other).await;
        scribble(&m, written, &mut rng).await;
        assert_eq!(picture(&*store, other).await, before, "step {step}");
        if step % 8 == 0 {
            assert_eq!(picture(&*store, s.root).await, cut, "step {step}");
        }
    }
    assert_eq!(picture(&*store, s.root).await, cut);
    Tree::check(&*store).await;
    clean(&c).await;
    c.close().await;
    m.close().await;
}

/// One random change of a random file below `root`.
async fn scribble(c: &Arc<Client>, root: InodeNo, rng: &mut StdRng) {
    let mut dirs = vec![root];
    let mut files = Vec::new();
    let mut at = 0;
    while at < dirs.len() {
        for (entry, _) in c.list(dirs[at], None, 10_000, false).await.unwrap().entries {
            match entry.kind {
                FileKind::Directory => dirs.push(entry.ino),
                FileKind::Regular => files.push((dirs[at], entry.name.clone(), entry.ino)),
                _ => {}
            }
        }
        at += 1;
    }
    let dir = dirs[rng.random_range(0..dirs.len())];
    let (from, file_name, ino) = files[rng.random_range(0..files.len())].clone();
    let fresh = format!("f{}", rng.random_range(0..1_000_000));
    let size = c.getattr(ino).await.unwrap().attr.size;
    let at = rng.random_range(0..=size.min(3 * SEGMENT_BYTES));
    let _ = match rng.random_range(0..8) {
        0 => make(c, dir, &fresh, FileKind::Regular).await.map(drop),
        1 => make(c, dir, &fresh, FileKind::Directory).await.map(drop),
        2 if files.len() > 3 => c.unlink(&ME, from, &file_name).await.map(drop),
        3 => mv(c, (from, &file_name.to_string()), (dir, &fresh)).await.map(drop),
        4 => {
            let change = SetAttr { size: Some(rng.random_range(0..=size)), ..SetAttr::default() };
            c.setattr(&ME, ino, &change).await.map(drop)
        }
        5 => c.link(&ME, ino, dir, &name(&fresh)).await.map(drop),
        6 => c.commit_writes(&[inline(c, ino, b"something short")]).await.map(drop),
        _ => c.commit_writes(&[write(c, ino, at, rng.random_range(1..5000))]).await.map(drop),
    };
}

/// A writer never stops; every snapshot shows a moment that was.
pub async fn a_snapshot_under_load_is_one_moment(store: Arc<dyn MetaStore>) {
    let c = join(&store).await;
    let v = c.create_volume(&volume("v")).await.unwrap();
    let m = join(&store).await;
    let dir = mkdir(&m, v.root, "d").await;
    let pair = [file(&m, dir, "a").await, file(&m, dir, "b").await];
    for n in 0..300 {
        file(&m, v.root, &format!("bulk{n}")).await;
    }
    let writing = {
        let m = m.clone();
        tokio::spawn(async move {
            // a is always as long as b, or one byte longer.
            for n in 0..100_000_u64 {
                for ino in pair {
                    m.commit_writes(&[write(&m, ino, n, 1)]).await.unwrap();
                }
                tokio::task::yield_now().await;
            }
        })
    };
    let mut last = 0;
    for n in 0..5 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let s = c.create_snapshot(&snapshot(&format!("s{n}"), "v")).await.unwrap();
        let d = find(&c, s.root, "d").await.unwrap().ino;
        let (a, b) = (find(&c, d, "a").await.unwrap().size, find(&c, d, "b").await.unwrap().size);
        assert!(a == b || a == b + 1, "{a} and {b}");
        assert!(a > last, "the writer goes on between snapshots: {a}, then {last}");
        last = a;
    }
    assert!(!writing.is_finished(), "it was written all the time");
    writing.abort();
    let _ = writing.await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    Tree::check(&*store).await;
    c.close().await;
    m.close().await;
}

/// What does not fit, is not there, or is in the way.
pub async fn refusals_leave_nothing_behind(store: Arc<dyn MetaStore>) {
    let c = join(&store).await;
    let v = c.create_volume(&volume("v")).await.unwrap();
    furnish(&c, v.root).await;
    let names = async || Tree::read(&*store).await.names;
    let before = names().await;
    let absent = c.create_snapshot(&snapshot("s", "nobody")).await;
    assert_eq!(absent, Err(VolumeError::NotFound("nobody".into())));
    let small = NewVolume { capacity: Some(10), ..volume("w") };
    let refused = c.create_volume_from(&small, &CopySource::Volume("v".into())).await;
    assert!(matches!(refused, Err(VolumeError::TooSmall { asked: 10, .. })), "{refused:?}");
    let taken = NewVolume { path: "volumes/v/sub".into(), ..volume("w") };
    let refused = c.create_volume_from(&taken, &CopySource::Volume("v".into())).await;
    assert!(matches!(refused, Err(VolumeError::PathTaken { .. })), "{refused:?}");
    let few = NewVolume { inode_limit: Some(3), ..volume("w") };
    let refused = c.create_volume_from(&few, &CopySource::Volume("v".into())).await;
    assert!(matches!(refused, Err(VolumeError::Fs(_))), "{refused:?}");
    assert_eq!(c.get_volume("w").await.unwrap(), None);
    purge_trash(&c, Duration::ZERO, &silently).await.unwrap();
    purge_inodes(&c, &silently).await.unwrap();
    assert_eq!(names().await, before);
    assert!(dead_slices(&*store).await.is_empty());
    // The gate is open again.
    file(&c, v.root, "more").await;
    Tree::check(&*store).await;
    clean(&c).await;
    c.close().await;
}
