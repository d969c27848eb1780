//! The registry of volumes: made once, apart from each other, deleted in one step, exact in their quotas.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use carafe_meta::decorate::Call;
use carafe_meta::failing::Failing;
use carafe_meta::format::TRASH;
use carafe_meta::jobs::{purge_inodes, purge_trash, silently};
use carafe_meta::store::MetaStore;
use carafe_meta::volumes::{NewVolume, VolumeError};
use carafe_meta::{Client, ClientOptions};
use carafe_types::{FileKind, FsError, InodeNo};
use common::tree::Tree;
use common::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

fn volume(id: &str, path: &str) -> NewVolume {
    NewVolume {
        id: id.to_owned(),
        name: format!("pvc of {id}"),
        path: path.to_owned(),
        capacity: Some(1 << 20),
        inode_limit: Some(4),
        uid: 7,
        gid: 8,
        mode: 0o2770,
        parameters: BTreeMap::from([("uid".to_owned(), "7".to_owned())]),
        settings: BTreeMap::new(),
    }
}

async fn root_of(c: &Client, path: &str) -> InodeNo {
    let mut at = ROOT;
    for part in path.split('/') {
        at = find(c, at, part).await.unwrap_or_else(|| panic!("{part} of {path}")).ino;
    }
    at
}

#[tokio::test]
async fn a_volume_is_a_directory_with_owner_mode_and_quota() {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    let new = volume("v1", "volumes/deep/v1");
    let record = a.create_volume(&new).await.unwrap();
    assert!(new.is(&record) && !volume("v1", "elsewhere").is(&record));
    assert_eq!(b.get_volume("v1").await.unwrap(), Some(record.clone()));
    let root = root_of(&b, "volumes/deep/v1").await;
    assert_eq!(root, record.root);
    let attr = b.getattr(root).await.unwrap().attr;
    assert_eq!((attr.uid, attr.gid, attr.mode, attr.quota), (7, 8, 0o2770, record.quota));
    let above = b.getattr(root_of(&b, "volumes/deep").await).await.unwrap().attr;
    assert_eq!((above.uid, above.mode, above.nlink), (0, 0o755, 3));
    Tree::check(&*w.memory).await;
}

#[tokio::test]
async fn the_quota_of_a_volume_stops_its_writers_and_expansion_lets_them_go_on() {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    let record = a.create_volume(&volume("v", "v")).await.unwrap();
    let f = file(&b, record.root, "f").await;
    b.commit_writes(&[write(&b, f, 0, 1 << 20)]).await.unwrap();
    let full = b.commit_writes(&[write(&b, f, 1 << 20, 1)]).await;
    assert!(matches!(full, Err(FsError::NoSpace(_))), "{full:?}");
    let grown = a.expand_volume("v", (1 << 20) + 1).await.unwrap();
    assert_eq!(grown.capacity, (1 << 20) + 1);
    b.commit_writes(&[write(&b, f, 1 << 20, 1)]).await.unwrap();
    file(&b, record.root, "g").await;
    file(&b, record.root, "h").await;
    let none = make(&b, record.root, "i", FileKind::Regular).await.map(drop);
    assert!(matches!(none, Err(FsError::NoSpace(_))), "the directory itself counts: {none:?}");
    assert_eq!(a.expand_volume("v", 5).await.unwrap().capacity, (1 << 20) + 1, "it never shrinks");
    assert_eq!(a.expand_volume("w", 5).await, Err(VolumeError::NotFound("w".into())));
    Tree::check(&*w.memory).await;
}

#[tokio::test]
async fn no_volume_lies_in_another_or_in_the_place_of_anything() {
    let w = World::new().await;
    let c = w.client().await;
    mkdir(&c, ROOT, "plain").await;
    file(&c, ROOT, "file").await;
    c.create_volume(&volume("v", "a/b")).await.unwrap();
    for path in ["a/b", "a/b/c", "a", "plain", "file", "file/x", "a/b/c/d"] {
        let refused = c.create_volume(&volume("w", path)).await;
        assert!(matches!(refused, Err(VolumeError::PathTaken { .. })), "{path}: {refused:?}");
    }
    for path in ["", "/", "..", "a//c", "/a"] {
        let refused = c.create_volume(&volume("w", path)).await;
        assert!(matches!(refused, Err(VolumeError::Invalid(_))), "{path}: {refused:?}");
    }
    c.create_volume(&volume("w", "a/bc")).await.unwrap();
    // Where the record of a volume says that it lies, no other one may lie, though it was moved.
    mv(&c, (root_of(&c, "a").await, "bc"), (ROOT, "moved")).await.unwrap();
    let refused = c.create_volume(&volume("x", "a/bc")).await;
    assert!(matches!(refused, Err(VolumeError::PathTaken { by, .. }) if by == "volume w"));
    let ids: Vec<String> = c.list_volumes(None, 10).await.unwrap().into_iter().map(|r| r.id).collect();
    assert_eq!(ids, ["v", "w"]);
    assert_eq!(c.list_volumes(Some("v"), 10).await.unwrap().len(), 1);
    Tree::check(&*w.memory).await;
}

#[tokio::test]
async fn a_deleted_volume_is_gone_at_once_and_freed_later() {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    let record = a.create_volume(&NewVolume { inode_limit: None, ..volume("v", "vols/v") }).await.unwrap();
    let dir = mkdir(&b, record.root, "dir").await;
    for n in 0..150 {
        let f = file(&b, dir, &format!("f{n}")).await;
        if n % 10 == 0 {
            b.commit_writes(&[write(&b, f, 0, 1000)]).await.unwrap();
        }
    }
    a.delete_volume("v").await.unwrap();
    a.delete_volume("v").await.unwrap();
    assert_eq!(a.get_volume("v").await.unwrap(), None);
    assert!(find(&b, root_of(&b, "vols").await, "v").await.is_none());
    Tree::check(&*w.memory).await;
    assert_eq!(purge_trash(&a, Duration::from_secs(60), &silently).await.unwrap(), 0);
    a.create_volume(&volume("v", "vols/v")).await.unwrap();
    assert_eq!(purge_trash(&a, Duration::ZERO, &silently).await.unwrap(), 152);
    w.memory.advance_clock(Duration::from_secs(601));
    purge_inodes(&a, &silently).await.unwrap();
    Tree::check(&*w.memory).await;
    let tree = Tree::read(&*w.memory).await;
    assert_eq!((tree.files.len(), tree.dirs.len()), (0, 4));
}

#[tokio::test]
async fn a_moved_volume_is_deleted_where_it_is() {
    let w = World::new().await;
    let c = w.client().await;
    c.create_volume(&volume("v", "vols/v")).await.unwrap();
    mv(&c, (root_of(&c, "vols").await, "v"), (ROOT, "else where")).await.unwrap();
    c.delete_volume("v").await.unwrap();
    assert_eq!(names(&c, ROOT).await, ["vols"]);
    assert_eq!(names(&c, TRASH).await.len(), 1);
    Tree::check(&*w.memory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_make_the_same_volume_all_get_the_same_one() {
    let w = World::new().await;
    let mut tasks = Vec::new();
    for n in 0..8 {
        let c = w.client().await;
        // Half of them race for the place above, too.
        let path = if n % 2 == 0 { "x/y" } else { "x/y/z" };
        let id = if n % 2 == 0 { "even" } else { "odd" };
        tasks.push(tokio::spawn(async move { (c.create_volume(&volume(id, path)).await.ok(), c) }));
    }
    let mut made = BTreeMap::new();
    // Who is gone without a word keeps what it held alone for 12 s.
    let mut clients = Vec::new();
    for task in tasks {
        let (record, client) = task.await.unwrap();
        clients.push(client);
        if let Some(record) = record {
            let first = made.entry(record.id.clone()).or_insert_with(|| record.clone());
            assert_eq!(*first, record);
        }
    }
    assert!(made.len() <= 1, "one lies in the other: {made:?}");
    Tree::check(&*w.memory).await;
}

/// Each call is ended at each of its commits, before it or without its answer, by a client that never comes back; the next
/// one repeats it.
#[tokio::test]
async fn a_crash_at_any_commit_is_healed_by_the_next_call() {
    for lose in [false, true] {
        for at in 0..6 {
            let w = World::new().await;
            let failing = Arc::new(Failing::new(w.memory.clone()));
            let calls: [&str; 3] = ["create", "expand", "delete"];
            for call in calls {
                let dying = Client::open(failing.clone(), ClientOptions::default()).await.unwrap();
                failing.faults().end_after(Call::Commit, at, lose);
                let _ = act(&dying, call).await;
                failing.faults().heal();
                dying.crash();
                w.memory.expire_lease(dying.session().no);
                let next = w.client().await;
                assert!(w.memory.reap(&next.session(), dying.session().no).await.unwrap());
                act(&next, call).await.unwrap();
                Tree::check(&*w.memory).await;
                let volumes = next.list_volumes(None, 10).await.unwrap();
                match call {
                    "delete" => assert_eq!(volumes, []),
                    "expand" => assert_eq!(volumes[0].capacity, 2 << 20),
                    _ => assert_eq!(root_of(&next, "a/b/v").await, volumes[0].root),
                }
                next.close().await;
            }
        }
    }
}

async fn act(c: &Client, call: &str) -> Result<(), VolumeError> {
    match call {
        "create" => c.create_volume(&volume("v", "a/b/v")).await.map(drop),
        "expand" => c.expand_volume("v", 2 << 20).await.map(drop),
        _ => c.delete_volume("v").await,
    }
}

#[tokio::test]
async fn a_read_only_client_changes_no_volume() {
    let w = World::new().await;
    let options = ClientOptions { read_only: true, ..ClientOptions::default() };
    let c = Client::open(w.store.clone(), options).await.unwrap();
    assert_eq!(c.create_volume(&volume("v", "v")).await, Err(FsError::ReadOnly.into()));
    assert_eq!(c.delete_volume("v").await, Err(FsError::ReadOnly.into()));
}
