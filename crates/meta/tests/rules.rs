//! The rules of POSIX, one by one: which error, which owner, which mode, which time.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use bytes::Bytes;
use carafe_meta::{Client, Ctx, FileWrite, NewNode, RenameMode, SetAttr, WriteData, XattrMode};
use carafe_types::{Attr, FileKind, FsError, InodeNo, Timestamp};
use common::*;
use std::sync::Arc;

const OTHER: Ctx = Ctx { uid: 2000, gid: 2000, pid: 8 };

async fn fs() -> (World, Arc<Client>) {
    let w = World::new().await;
    let c = w.client().await;
    (w, c)
}

async fn set(c: &Client, ctx: &Ctx, ino: InodeNo, set: SetAttr) -> Attr {
    c.setattr(ctx, ino, &set).await.unwrap().attr
}

async fn stat(c: &Client, ino: InodeNo) -> Attr {
    c.getattr(ino).await.unwrap().attr
}

#[tokio::test]
async fn creating_fails_as_linux_says() {
    let (_w, c) = fs().await;
    let f = file(&c, ROOT, "f").await;
    let gone = mkdir(&c, ROOT, "gone").await;
    c.rmdir(&ME, ROOT, &name("gone")).await.unwrap();
    let err = |r: Result<carafe_meta::Found, FsError>| r.unwrap_err();
    assert_eq!(err(make(&c, ROOT, "f", FileKind::Regular).await), FsError::Exists);
    assert_eq!(err(make(&c, ROOT, "f", FileKind::Directory).await), FsError::Exists);
    assert_eq!(err(make(&c, f, "x", FileKind::Regular).await), FsError::NotDirectory);
    assert_eq!(err(make(&c, gone, "x", FileKind::Regular).await), FsError::NotFound);
    let link = |target: Vec<u8>| NewNode { target: Some(target.into()), ..node(FileKind::Symlink, 0o777) };
    assert_eq!(err(c.create(&ME, ROOT, &name("l"), link(vec![])).await), FsError::NotFound);
    assert_eq!(err(c.create(&ME, ROOT, &name("l"), link(vec![b'x'; 4096])).await), FsError::NameTooLong);
    let l = c.create(&ME, ROOT, &name("l"), link(vec![b'x'; 4095])).await.unwrap();
    assert_eq!((l.attr.size, c.readlink(l.attr.ino).await.unwrap().len()), (4095, 4095));
    assert_eq!(c.readlink(f).await, Err(FsError::Invalid("no symbolic link")));
}

#[tokio::test]
async fn removing_fails_as_linux_says() {
    let (_w, c) = fs().await;
    file(&c, ROOT, "f").await;
    let d = mkdir(&c, ROOT, "d").await;
    file(&c, d, "x").await;
    assert_eq!(c.unlink(&ME, ROOT, &name("none")).await.unwrap_err(), FsError::NotFound);
    assert_eq!(c.unlink(&ME, ROOT, &name("d")).await.unwrap_err(), FsError::IsDirectory);
    assert_eq!(c.rmdir(&ME, ROOT, &name("f")).await, Err(FsError::NotDirectory));
    assert_eq!(c.rmdir(&ME, ROOT, &name("d")).await, Err(FsError::NotEmpty));
    assert_eq!(c.rmdir(&ME, ROOT, &name("none")).await, Err(FsError::NotFound));
}

#[tokio::test]
async fn a_sticky_directory_protects_entries_of_others() {
    let (_w, c) = fs().await;
    let d = mkdir(&c, ROOT, "tmp").await;
    set(&c, &ME, d, SetAttr { mode: Some(0o1777), uid: Some(0), ..SetAttr::default() }).await;
    file(&c, d, "mine").await;
    mkdir(&c, d, "dir").await;
    let theirs = NewNode { uid: OTHER.uid, ..node(FileKind::Regular, 0o644) };
    c.create(&OTHER, d, &name("theirs"), theirs).await.unwrap();
    let denied = Err(FsError::NotPermitted);
    assert_eq!(c.unlink(&OTHER, d, &name("mine")).await.map(drop), denied);
    assert_eq!(c.rmdir(&OTHER, d, &name("dir")).await, denied);
    let (mine, theirs, new) = (name("mine"), name("theirs"), name("new"));
    let plain = RenameMode::Replace;
    assert_eq!(c.rename(&OTHER, (d, &mine), (d, &new), plain, &[]).await.map(drop), denied);
    assert_eq!(
        c.rename(&OTHER, (d, &theirs), (d, &mine), plain, &[]).await.map(drop),
        denied,
        "over another's"
    );
    c.rename(&OTHER, (d, &theirs), (d, &new), plain, &[]).await.unwrap();
    c.unlink(&Ctx::ROOT, d, &name("mine")).await.unwrap();
}

#[tokio::test]
async fn a_set_group_id_directory_passes_on_its_group() {
    let (_w, c) = fs().await;
    let d = mkdir(&c, ROOT, "d").await;
    set(&c, &Ctx::ROOT, d, SetAttr { gid: Some(77), mode: Some(0o2755), ..SetAttr::default() }).await;
    let f = make(&c, d, "f", FileKind::Regular).await.unwrap().attr;
    assert_eq!((f.gid, f.mode), (77, 0o755));
    let sub = make(&c, d, "sub", FileKind::Directory).await.unwrap().attr;
    assert_eq!((sub.gid, sub.mode), (77, 0o2755));
}

#[tokio::test]
async fn set_ids_go_with_the_owner_with_writes_and_with_truncation() {
    let (_w, c) = fs().await;
    let f = file(&c, ROOT, "f").await;
    let mode = |m| SetAttr { mode: Some(m), ..SetAttr::default() };
    set(&c, &ME, f, mode(0o6755)).await;
    let chown = SetAttr { uid: Some(5), gid: Some(6), ..SetAttr::default() };
    assert_eq!(set(&c, &Ctx::ROOT, f, chown).await.mode, 0o755, "also by root, as on Linux");
    set(&c, &ME, f, mode(0o2644)).await;
    assert_eq!(set(&c, &Ctx::ROOT, f, chown).await.mode, 0o2644, "marks mandatory locking");
    set(&c, &ME, f, mode(0o6755)).await;
    let cut = SetAttr { size: Some(5), kill_setid: true, ..SetAttr::default() };
    assert_eq!(set(&c, &ME, f, cut).await.mode, 0o755);
    set(&c, &ME, f, mode(0o4755)).await;
    let w = FileWrite { kill_setid: true, ..write(&c, f, 0, 10) };
    assert_eq!(c.commit_writes(&[w]).await.unwrap()[0].mode, 0o755);
    let d = mkdir(&c, ROOT, "d").await;
    set(&c, &ME, d, mode(0o6755)).await;
    assert_eq!(set(&c, &Ctx::ROOT, d, chown).await.mode, 0o6755, "of a directory they mean something else");
}

#[tokio::test]
async fn links_count_and_have_their_errors() {
    let (_w, c) = fs().await;
    let d = mkdir(&c, ROOT, "d").await;
    let f = file(&c, ROOT, "f").await;
    assert_eq!(c.link(&ME, d, ROOT, &name("x")).await.unwrap_err(), FsError::NotPermitted);
    assert_eq!(c.link(&ME, f, ROOT, &name("d")).await.unwrap_err(), FsError::Exists);
    assert_eq!(c.link(&ME, f, d, &name("g")).await.unwrap().attr.nlink, 2);
    assert_eq!(stat(&c, ROOT).await.nlink, 3);
    mkdir(&c, d, "sub").await;
    assert_eq!(stat(&c, d).await.nlink, 3);
    mv(&c, (d, "sub"), (ROOT, "sub")).await.unwrap();
    assert_eq!((stat(&c, d).await.nlink, stat(&c, ROOT).await.nlink), (2, 4));
    let (old, new) = (name("f"), name("g"));
    let same = c.rename(&ME, (ROOT, &old), (d, &new), RenameMode::Replace, &[]).await.unwrap();
    assert!(same.replaced.is_none(), "two names of one file: nothing happens");
    assert_eq!(stat(&c, f).await.nlink, 2);
    c.unlink(&ME, ROOT, &name("f")).await.unwrap();
    assert_eq!(stat(&c, f).await.nlink, 1);
    c.unlink(&ME, d, &name("g")).await.unwrap();
    assert_eq!(c.getattr(f).await.unwrap_err(), FsError::NotFound);
}

#[tokio::test]
async fn times_move_with_what_happens() {
    let (_w, c) = fs().await;
    let d = mkdir(&c, ROOT, "d").await;
    let f = file(&c, d, "f").await;
    let (d0, f0) = (stat(&c, d).await, stat(&c, f).await);
    c.link(&ME, f, d, &name("g")).await.unwrap();
    let (d1, f1) = (stat(&c, d).await, stat(&c, f).await);
    assert!(d1.mtime > d0.mtime && d1.ctime > d0.ctime && f1.ctime > f0.ctime && f1.mtime == f0.mtime);
    set(&c, &ME, f, SetAttr { mode: Some(0o600), ..SetAttr::default() }).await;
    let f2 = stat(&c, f).await;
    assert!(f2.ctime > f1.ctime && f2.mtime == f1.mtime && stat(&c, d).await == d1);
    set(&c, &ME, f, SetAttr { size: Some(0), ..SetAttr::default() }).await;
    assert!(stat(&c, f).await.mtime > f2.mtime, "a truncation counts, also to the same size");
    let times = SetAttr { atime: Some(Timestamp(5)), mtime: Some(Timestamp(-6)), ..SetAttr::default() };
    for ino in [d, f] {
        let attr = set(&c, &ME, ino, times).await;
        assert_eq!((attr.atime, attr.mtime), (Timestamp(5), Timestamp(-6)));
        assert!(attr.ctime > d1.ctime);
        assert_eq!(stat(&c, ino).await, attr);
    }
    let atime = SetAttr { atime: Some(Timestamp(9)), ..SetAttr::default() };
    let attr = set(&c, &ME, d, atime).await;
    assert_eq!((attr.atime, attr.mtime), (Timestamp(9), Timestamp(-6)));
    c.unlink(&ME, d, &name("g")).await.unwrap();
    assert!(stat(&c, d).await.mtime > d1.mtime);
}

#[tokio::test]
async fn sizes_have_their_errors() {
    let (_w, c) = fs().await;
    let d = mkdir(&c, ROOT, "d").await;
    let f = file(&c, ROOT, "f").await;
    let fifo = make(&c, ROOT, "p", FileKind::Fifo).await.unwrap().attr.ino;
    let size = |n| SetAttr { size: Some(n), ..SetAttr::default() };
    assert_eq!(c.setattr(&ME, d, &size(1)).await.unwrap_err(), FsError::IsDirectory);
    assert!(matches!(c.setattr(&ME, fifo, &size(1)).await, Err(FsError::Invalid(_))));
    assert_eq!(c.setattr(&ME, f, &size((1 << 62) + 1)).await.unwrap_err(), FsError::TooBig);
    assert_eq!(set(&c, &ME, f, size(1 << 40)).await.size, 1 << 40);
    let none = FileWrite { data: WriteData::None, size: 7, exact: true, ..write(&c, f, 0, 1) };
    assert_eq!(c.commit_writes(&[none]).await.unwrap()[0].size, 7);
}

#[tokio::test]
async fn attributes_are_kept_with_the_inode() {
    let (_w, c) = fs().await;
    let f = file(&c, ROOT, "f").await;
    let d = mkdir(&c, ROOT, "d").await;
    for ino in [f, d] {
        assert_eq!(c.getxattr(ino, b"user.a").await, Err(FsError::NoAttribute));
        c.setxattr(ino, b"user.a", b"1", XattrMode::Create).await.unwrap();
        c.setxattr(ino, b"user.b", b"", XattrMode::Any).await.unwrap();
        assert_eq!(c.setxattr(ino, b"user.a", b"2", XattrMode::Create).await, Err(FsError::Exists));
        assert_eq!(c.setxattr(ino, b"user.c", b"2", XattrMode::Replace).await, Err(FsError::NoAttribute));
        c.setxattr(ino, b"user.a", b"2", XattrMode::Replace).await.unwrap();
        assert_eq!(c.getxattr(ino, b"user.a").await, Ok(Bytes::from_static(b"2")));
        assert_eq!(c.listxattr(ino).await.unwrap().len(), 2);
        c.removexattr(ino, b"user.a").await.unwrap();
        assert_eq!(c.removexattr(ino, b"user.a").await, Err(FsError::NoAttribute));
        c.removexattr(ino, b"user.b").await.unwrap();
        assert!(c.listxattr(ino).await.unwrap().is_empty());
        assert_eq!(c.setxattr(ino, &[b'x'; 256], b"", XattrMode::Any).await, Err(FsError::Range));
        let long = vec![0; 65_537];
        assert_eq!(c.setxattr(ino, b"user.x", &long, XattrMode::Any).await, Err(FsError::AttributeTooBig));
    }
}

#[tokio::test]
async fn data_becomes_visible_with_the_rename_that_publishes_it() {
    let (_w, c) = fs().await;
    let tmp = mkdir(&c, ROOT, "tmp").await;
    let a = file(&c, tmp, "a").await;
    let b = file(&c, tmp, "b").await;
    let writes = [write(&c, a, 0, 100), write(&c, b, 0, 200)];
    let (from, to) = (name("tmp"), name("part"));
    c.rename(&ME, (ROOT, &from), (ROOT, &to), RenameMode::Replace, &writes).await.unwrap();
    assert_eq!((stat(&c, a).await.size, stat(&c, b).await.size), (100, 200));
    let one = [write(&c, a, 0, 500)];
    let (from, to) = (name("a"), name("c"));
    c.rename(&ME, (tmp, &from), (tmp, &to), RenameMode::Replace, &one).await.unwrap();
    assert_eq!(find(&c, tmp, "c").await.unwrap().size, 500, "written and renamed in one record");
}

#[tokio::test]
async fn a_read_only_client_changes_nothing() {
    let w = World::new().await;
    let options = carafe_meta::ClientOptions { read_only: true, ..Default::default() };
    let c = Client::open(w.store.clone(), options).await.unwrap();
    assert_eq!(make(&c, ROOT, "f", FileKind::Regular).await.unwrap_err(), FsError::ReadOnly);
    assert!(find(&c, ROOT, "f").await.is_none());
}
