//! The check finds nothing in a sound file system, finds each kind of damage, and sets right what can be set right.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use carafe_meta::jobs::fsck::{Kind, Report, fsck, repair};
use carafe_meta::jobs::silently;
use carafe_meta::store::{Commit, DeadObject, Key, MetaStore, NewSession, Outcome, Take, Write};
use carafe_meta::{Client, RenameMode};
use carafe_types::record::{Content, Guard, Inode, Segment, VolumeRecord};
use carafe_types::{FileKind, FsError, InodeNo, QuotaId, SessionNo, SessionUuid, SliceId};
use common::furnish::{furnish, volume};
use common::tree::Tree;
use common::*;
use std::sync::Arc;

/// A file system with something of everything, in a volume too, that nobody uses.
async fn furnished() -> World {
    let w = World::new().await;
    let c = w.client().await;
    furnish(&c, ROOT).await;
    let record = c.create_volume(&volume("v")).await.unwrap();
    furnish(&c, record.root).await;
    c.close().await;
    w
}

async fn check(w: &World) -> (Arc<Client>, Report) {
    let c = w.client().await;
    let report = fsck(&c, &silently).await.unwrap();
    (c, report)
}

/// A commit that no operation would make.
async fn raw(w: &World, commit: Commit) {
    let new = NewSession { uuid: SessionUuid(rand::random()), record: "{}".into() };
    let session = w.memory.register(new).await.unwrap();
    let done = w.memory.commit(&session, &commit).await.unwrap();
    assert!(matches!(done, Outcome::Done(_)), "{done:?}");
    w.memory.unregister(&session).await.unwrap();
}

async fn damage(w: &World, writes: Vec<Write>) {
    raw(w, Commit { writes, ..Commit::default() }).await;
}

async fn found(w: &World) -> Vec<Kind> {
    let (c, report) = check(w).await;
    c.close().await;
    assert!(report.exact && !report.cut);
    let mut kinds: Vec<Kind> = report.findings.iter().map(|f| f.kind).collect();
    kinds.dedup();
    kinds
}

/// Repairs, and finds nothing any more.
async fn mends(w: &World) {
    for _ in 0..3 {
        let (c, report) = check(w).await;
        if report.findings.is_empty() {
            Tree::check(&*w.memory).await;
            return;
        }
        assert!(report.findings.iter().any(|f| f.is_repairable()), "{:#?}", report.findings);
        assert!(repair(&c, &report).await.unwrap() > 0);
        c.close().await;
    }
    panic!("repairs do not end");
}

struct Known {
    files: Vec<(InodeNo, Inode)>,
    tree: Tree,
}

impl Known {
    async fn of(w: &World) -> Self {
        let tree = Tree::read(&*w.memory).await;
        let files = tree.files.iter().map(|(ino, inode)| (*ino, inode.clone())).collect();
        Known { files, tree }
    }

    fn file(&self, which: impl Fn(&Inode) -> bool) -> (InodeNo, Inode) {
        self.files.iter().find(|(_, inode)| which(inode)).cloned().expect("furnished")
    }

    fn dir(&self) -> (InodeNo, Guard) {
        let named = |ino: &InodeNo| self.tree.names.values().any(|(_, target)| target == ino);
        let (ino, guard) = self.tree.dirs.iter().find(|(ino, _)| named(ino)).expect("furnished");
        (*ino, guard.clone())
    }
}

fn one(inode: &Inode) -> bool {
    matches!(inode.content, Content::One(_)) && inode.nlink == 1
}

fn many(inode: &Inode) -> bool {
    matches!(inode.content, Content::Many { .. })
}

fn put(ino: InodeNo, inode: &Inode) -> Write {
    Write::Put(Key::Inode(ino), inode.encode().into())
}

#[tokio::test]
async fn a_sound_file_system_has_nothing_to_tell_but_what_is_there() {
    let w = furnished().await;
    let (c, report) = check(&w).await;
    assert_eq!(report.findings, [], "{:#?}", report.findings);
    assert!(report.exact);
    let tree = Tree::read(&*w.memory).await;
    assert_eq!((report.files, report.directories), (tree.files.len() as u64, tree.dirs.len() as u64));
    assert_eq!(report.slices.len(), 12, "each furnishing wrote a plain file, four parts and a pack");
    assert_eq!(report.slices.iter().filter(|s| s.pack).count(), 2);
    assert_eq!(repair(&c, &report).await, Ok(0));
}

#[tokio::test]
async fn wrong_names_are_found() {
    let w = furnished().await;
    let k = Known::of(&w).await;
    let (f, inode) = k.file(one);
    let (dir, _) = k.dir();
    damage(&w, vec![Write::Link(ROOT, (name("ghost"), FileKind::Regular, InodeNo(1 << 30)))]).await;
    assert_eq!(found(&w).await, [Kind::NameWithoutInode]);
    damage(&w, vec![Write::Unlink(ROOT, (name("ghost"), FileKind::Regular, InodeNo(1 << 30)))]).await;
    damage(&w, vec![Write::Link(ROOT, (name("pretender"), FileKind::Fifo, f))]).await;
    assert_eq!(found(&w).await, [Kind::WrongKind, Kind::WrongLinks]);
    damage(&w, vec![Write::Unlink(ROOT, (name("pretender"), FileKind::Fifo, f)), put(f, &inode)]).await;
    damage(&w, vec![Write::Link(ROOT, (name("again"), FileKind::Directory, dir))]).await;
    assert_eq!(found(&w).await, [Kind::ManyNames, Kind::WrongSubdirs]);
}

#[tokio::test]
async fn wrong_counts_are_found_and_set_right() {
    let w = furnished().await;
    let k = Known::of(&w).await;
    let (f, inode) = k.file(one);
    let Content::One(extent) = inode.content else { panic!("one extent") };
    let pack =
        k.file(|i| matches!(i.content, Content::One(e) if e.kind == carafe_types::record::ExtentKind::Pack));
    let Content::One(packed) = pack.1.content else { panic!("a pack") };
    damage(
        &w,
        vec![
            put(f, &Inode { nlink: 3, ..inode }),
            Write::AddSubdirs(ROOT, 5),
            Write::Retain(extent.slice),
            Write::PackLive {
                object: DeadObject { slice: packed.slice, pack: true, len: packed.slice_len },
                by: 77,
                after_ms: 0,
            },
            Write::QueueDead(f, 0),
        ],
    )
    .await;
    let take = Take { quota: QuotaId::ROOT, bytes: 5000, inodes: -2 };
    raw(&w, Commit { takes: vec![take], take_inline: 17, ..Commit::default() }).await;
    let kinds = found(&w).await;
    for kind in [
        Kind::WrongLinks,
        Kind::WrongSubdirs,
        Kind::DeadWithName,
        Kind::WrongQuota,
        Kind::WrongInlineBudget,
        Kind::WrongLiveBytes,
    ] {
        assert!(kinds.contains(&kind), "{kind:?} in {kinds:?}");
    }
    mends(&w).await;
}

#[tokio::test]
async fn inodes_that_nothing_leads_to_are_found() {
    let w = furnished().await;
    let k = Known::of(&w).await;
    let (_, inode) = k.file(one);
    let lost = InodeNo((1 << 40) + 64);
    damage(&w, vec![put(lost, &Inode { nlink: 0, content: Content::Empty, size: 0, ..inode.clone() })]).await;
    let (c, report) = check(&w).await;
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].kind, Kind::Orphan);
    c.close().await;
    mends(&w).await;
    damage(&w, vec![put(lost, &Inode { content: Content::Empty, size: 0, ..inode })]).await;
    let kinds = found(&w).await;
    assert!(kinds.contains(&Kind::Orphan) && kinds.contains(&Kind::WrongQuota), "{kinds:?}");
}

#[tokio::test]
async fn damaged_content_is_found() {
    let w = furnished().await;
    let k = Known::of(&w).await;
    let (small, _) = k.file(|i| matches!(i.content, Content::Inline(_)));
    let (link, _) = k.file(|i| i.kind == FileKind::Symlink);
    damage(&w, vec![Write::Put(Key::Content(small), "other bytes".into())]).await;
    assert_eq!(found(&w).await, [Kind::WrongContent]);
    damage(
        &w,
        vec![Write::Put(Key::Content(small), "a few bytes".into()), Write::Delete(Key::Content(link))],
    )
    .await;
    assert_eq!(found(&w).await, [Kind::WrongContent]);
    damage(&w, vec![Write::Put(Key::Content(link), "sub/plain".into()), Write::Delete(Key::Xattr(small))])
        .await;
    assert_eq!(found(&w).await, [Kind::WrongContent]);
}

#[tokio::test]
async fn damaged_extents_are_found() {
    let w = furnished().await;
    let k = Known::of(&w).await;
    let (f, inode) = k.file(many);
    let Content::Many { g } = inode.content else { panic!("segments") };
    damage(&w, vec![put(f, &Inode { size: inode.size - 1, ..inode.clone() })]).await;
    let kinds = found(&w).await;
    assert!(kinds.contains(&Kind::WrongExtents), "{kinds:?}");
    let segment = |n| Key::Extents { ino: f, g, segment: n };
    damage(&w, vec![put(f, &inode), Write::Put(segment(0), Segment::default().encode(0).into())]).await;
    assert!(found(&w).await.contains(&Kind::WrongExtents));
    damage(&w, vec![Write::Delete(segment(0))]).await;
    assert!(found(&w).await.contains(&Kind::WrongExtents));
    damage(&w, vec![Write::Put(segment(0), "?".into())]).await;
    assert!(found(&w).await.contains(&Kind::WrongExtents));
}

#[tokio::test]
async fn a_slice_that_is_in_use_and_queued_for_deletion_is_found_and_saved() {
    let w = furnished().await;
    let (f, inode) = Known::of(&w).await.file(one);
    let Content::One(e) = inode.content else { panic!("one extent") };
    let pack = e.kind == carafe_types::record::ExtentKind::Pack;
    let object = DeadObject { slice: e.slice, pack, len: e.slice_len };
    damage(&w, vec![Write::QueueObject(object, 1_000_000)]).await;
    assert_eq!(found(&w).await, [Kind::DeadSlice]);
    mends(&w).await;
    let stranger = SliceId { session: SessionNo(9999), n: 1 };
    let content = Content::One(carafe_types::record::Extent { slice: stranger, ..e });
    damage(&w, vec![put(f, &Inode { content, ..inode })]).await;
    let kinds = found(&w).await;
    assert!(kinds.contains(&Kind::NamelessSlice), "{kinds:?}");
}

#[tokio::test]
async fn records_that_do_not_parse_are_found() {
    let w = furnished().await;
    let (f, _) = Known::of(&w).await.file(one);
    let nonsense = |key| Write::Put(key, "nonsense".into());
    damage(
        &w,
        vec![nonsense(Key::Inode(f)), nonsense(Key::DirTimes(ROOT)), nonsense(Key::Volume("x".into()))],
    )
    .await;
    let (_, report) = check(&w).await;
    let damaged = report.findings.iter().filter(|f| f.kind == Kind::Damaged).count();
    assert_eq!(damaged, 3, "{:#?}", report.findings);
}

#[tokio::test]
async fn volumes_and_quotas_that_do_not_fit_are_found() {
    let w = furnished().await;
    let c = w.client().await;
    let record = c.get_volume("v").await.unwrap().unwrap();
    c.close().await;
    let put = |r: &VolumeRecord| Write::Put(Key::Volume("v".into()), r.encode().into());
    damage(&w, vec![put(&VolumeRecord { root: ROOT, ..record.clone() })]).await;
    assert_eq!(found(&w).await, [Kind::WrongVolume]);
    damage(
        &w,
        vec![put(&record), Write::Delete(Key::Quota(record.quota)), Write::InitQuota(record.quota, None)],
    )
    .await;
    assert_eq!(found(&w).await, [Kind::LostQuota]);
    let (f, inode) = Known::of(&w).await.file(|i| one(i) && i.quota != QuotaId::ROOT);
    let foreign = Inode { quota: QuotaId::ROOT, ..inode };
    damage(&w, vec![Write::Put(Key::Inode(f), foreign.encode().into())]).await;
    assert!(found(&w).await.contains(&Kind::ForeignQuota));
}

#[tokio::test]
async fn a_finding_names_the_path() {
    let w = furnished().await;
    let k = Known::of(&w).await;
    let (small, _) = k.file(|i| matches!(i.content, Content::Inline(_)));
    damage(&w, vec![Write::Put(Key::Content(small), "x".into())]).await;
    let (_, report) = check(&w).await;
    let path = report.findings[0].path.clone().unwrap();
    assert!(path == "/small" || path == "/volumes/v/small", "{path}");
    assert!(report.findings[0].to_string().contains("checksum"), "{}", report.findings[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_system_in_use_is_checked_without_false_alarms() {
    let w = furnished().await;
    let a = w.client().await;
    let busy = tokio::spawn({
        let a = a.clone();
        async move {
            for n in 0..400 {
                let dir = mkdir(&a, ROOT, &format!("busy{n}")).await;
                let f = file(&a, dir, "f").await;
                a.commit_writes(&[write(&a, f, 0, 1000)]).await.unwrap();
                let (from, to) = (format!("busy{n}"), format!("done{n}"));
                mv(&a, (ROOT, &from), (ROOT, &to)).await.unwrap();
                a.rename(&ME, (dir, &name("f")), (ROOT, &name("f")), RenameMode::Replace, &[]).await.unwrap();
                a.rmdir(&ME, ROOT, &name(&to)).await.unwrap();
            }
        }
    });
    let c = w.client().await;
    let mut rounds = 0;
    while !busy.is_finished() {
        let report = fsck(&c, &silently).await.unwrap();
        let lost: Vec<_> = report.findings.iter().filter(|f| f.kind.loses_data()).collect();
        assert!(report.exact || lost.is_empty(), "{lost:#?}");
        if !report.exact {
            assert_eq!(repair(&c, &report).await, Err(FsError::WouldBlock));
        }
        rounds += 1;
    }
    busy.await.unwrap();
    assert!(rounds > 1, "{rounds} checks ran");
    let report = fsck(&c, &silently).await.unwrap();
    assert_eq!(report.findings, [], "{:#?}", report.findings);
}
