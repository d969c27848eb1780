//! Random changes of files against a table of cells; afterwards every slice is owned as often as it is named.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use carafe_meta::decorate::Call;
use carafe_meta::failing::Failing;
use carafe_meta::{Client, ClientOptions, Falloc, FileWrite, SetAttr, WriteData};
use carafe_types::record::{Extent, ExtentKind};
use carafe_types::{FileKind, FsError, InodeNo, SliceId};
use common::tree::{Tree, dead_slices};
use common::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// One cell is a fifth of a segment, so that extents cross segments and do not end with them.
const CELL: u64 = (256 << 20) / 5;
const CELLS: u64 = 30;

#[derive(Clone, Debug)]
enum Step {
    /// file, first cell, cells, pack, split into how many extents
    Write(usize, u64, u64, bool),
    Append(usize, u64),
    Truncate(usize, u64),
    Punch(usize, u64, u64),
    Copy(usize, u64, usize, u64, u64),
    Replace(usize, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let f = 0usize..3;
    let at = 0u64..CELLS - 8;
    let n = 1u64..8;
    prop_oneof![
        4 => (f.clone(), at.clone(), n.clone(), any::<bool>()).prop_map(|(f, a, n, p)| Step::Write(f, a, n, p)),
        1 => (f.clone(), 1u64..3).prop_map(|(f, n)| Step::Append(f, n)),
        2 => (f.clone(), 0u64..CELLS).prop_map(|(f, n)| Step::Truncate(f, n)),
        1 => (f.clone(), at.clone(), n.clone()).prop_map(|(f, a, n)| Step::Punch(f, a, n)),
        2 => (f.clone(), at.clone(), f.clone(), at, n.clone()).prop_map(|(a, x, b, y, n)| Step::Copy(a, x, b, y, n)),
        1 => (f, n).prop_map(|(f, n)| Step::Replace(f, n)),
    ]
}

type Cells = Vec<Option<(SliceId, u64)>>;

struct Model {
    files: [Cells; 3],
    slices: BTreeSet<SliceId>,
}

async fn apply(c: &Client, inos: &[InodeNo], m: &mut Model, step: &Step) {
    match *step {
        Step::Write(f, at, n, pack) => {
            let w = slice_write(c, m, inos[f], at, n, pack);
            put(m, f, at, n, &w);
            c.commit_writes(&[w]).await.unwrap();
        }
        Step::Append(f, n) => {
            let at = m.files[f].len() as u64;
            if at + n > 2 * CELLS {
                return;
            }
            let mut w = slice_write(c, m, inos[f], 0, n, false);
            (w.append, w.size) = (true, n * CELL);
            put(m, f, at, n, &w);
            c.commit_writes(&[w]).await.unwrap();
        }
        Step::Truncate(f, n) => {
            m.files[f].resize(n as usize, None);
            let set = SetAttr { size: Some(n * CELL), ..SetAttr::default() };
            c.setattr(&ME, inos[f], &set).await.unwrap();
        }
        Step::Punch(f, at, n) => {
            let len = m.files[f].len() as u64;
            (at.min(len)..(at + n).min(len)).for_each(|i| m.files[f][i as usize] = None);
            c.fallocate(&ME, inos[f], Falloc::PunchHole, at * CELL, n * CELL).await.unwrap();
        }
        Step::Copy(a, x, b, y, n) => {
            let len = (m.files[a].len() as u64).saturating_sub(x).min(n);
            let result = c.copy_range(inos[a], x * CELL, inos[b], y * CELL, n * CELL).await;
            if a == b && len > 0 && x < y + len && y < x + len {
                assert_eq!(result, Err(FsError::Invalid("the ranges overlap")));
                return;
            }
            assert_eq!(result, Ok(len * CELL));
            let copied: Cells = m.files[a][..].iter().skip(x as usize).take(len as usize).copied().collect();
            let to = y as usize;
            if len > 0 && m.files[b].len() < to + len as usize {
                m.files[b].resize(to + len as usize, None);
            }
            copied.into_iter().enumerate().for_each(|(i, cell)| m.files[b][to + i] = cell);
        }
        Step::Replace(f, n) => {
            let mut w = slice_write(c, m, inos[f], 0, n, false);
            w.exact = true;
            m.files[f].clear();
            put(m, f, 0, n, &w);
            c.commit_writes(&[w]).await.unwrap();
        }
    }
}

fn slice_write(c: &Client, m: &mut Model, ino: InodeNo, at: u64, n: u64, pack: bool) -> FileWrite {
    let mut w = write(c, ino, at * CELL, n * CELL);
    let kind = if pack { ExtentKind::Pack } else { ExtentKind::Blocks };
    let WriteData::Extents(list) = &mut w.data else { unreachable!() };
    m.slices.insert(list[0].slice);
    *list = (0..n)
        .map(|i| Extent {
            kind,
            offset: (at + i) * CELL,
            len: CELL,
            slice_off: i * CELL,
            slice_len: n * CELL,
            ..list[0]
        })
        .collect();
    w
}

fn put(m: &mut Model, f: usize, at: u64, n: u64, w: &FileWrite) {
    let WriteData::Extents(list) = &w.data else { unreachable!() };
    let cells = &mut m.files[f];
    if cells.len() < (at + n) as usize {
        cells.resize((at + n) as usize, None);
    }
    (0..n).for_each(|i| cells[(at + i) as usize] = Some((list[0].slice, i * CELL)));
}

async fn compare(c: &Client, ino: InodeNo, cells: &Cells) {
    let found = c.content(ino, 0..u64::MAX).await.unwrap();
    assert_eq!(found.attr.size, cells.len() as u64 * CELL);
    let mut seen: Cells = vec![None; cells.len()];
    for e in &found.extents {
        for i in 0..e.len / CELL {
            seen[(e.offset / CELL + i) as usize] = Some((e.slice, e.slice_off + i * CELL));
        }
    }
    assert_eq!(&seen, cells);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn files_hold_what_was_written_and_slices_are_owned_as_often_as_named(
        steps in prop::collection::vec(step(), 1..40),
        cold in any::<bool>(),
    ) {
        let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        rt.block_on(async {
            let w = World::new().await;
            let mut c = w.client().await;
            let mut inos = Vec::new();
            for n in ["a", "b", "c"] {
                inos.push(file(&c, ROOT, n).await);
            }
            let mut m = Model { files: Default::default(), slices: BTreeSet::new() };
            for s in &steps {
                apply(&c, &inos, &mut m, s).await;
            }
            if cold {
                c.close().await;
                c = w.client().await;
            }
            for (ino, cells) in inos.iter().zip(&m.files) {
                compare(&c, *ino, cells).await;
            }
            Tree::check(&*w.memory).await;
            for n in ["a", "b", "c"] {
                c.unlink(&ME, ROOT, &name(n)).await.unwrap();
            }
            for ino in &inos {
                carafe_meta::jobs::purge_inode(&c, *ino).await.unwrap();
            }
            c.close().await;
            Tree::check(&*w.memory).await;
            assert!(Tree::read(&*w.memory).await.files.is_empty());
            assert_eq!(dead_slices(&*w.memory).await, m.slices, "nothing is left and nothing is forgotten");
        });
    }
}

#[tokio::test]
async fn a_sparse_file_of_an_exabyte_is_cut_and_freed_at_once() {
    let w = World::new().await;
    let c = w.client().await;
    let f = file(&c, ROOT, "f").await;
    for at in [0u64, 1 << 40, 1 << 60] {
        c.commit_writes(&[write(&c, f, at, 4096)]).await.unwrap();
    }
    assert_eq!(c.content(f, 0..u64::MAX).await.unwrap().extents.len(), 3);
    let set = SetAttr { size: Some(1 << 50), ..SetAttr::default() };
    c.setattr(&ME, f, &set).await.unwrap();
    assert_eq!(c.content(f, 0..u64::MAX).await.unwrap().extents.len(), 2);
    c.unlink(&ME, ROOT, &name("f")).await.unwrap();
    carafe_meta::jobs::purge_inode(&c, f).await.unwrap();
    assert_eq!(dead_slices(&*w.memory).await.len(), 3);
}

#[tokio::test]
async fn a_file_of_many_slices_is_cut_in_pieces() {
    let w = World::new().await;
    let c = w.client().await;
    let f = file(&c, ROOT, "f").await;
    for n in 0..700u64 {
        c.commit_writes(&[write(&c, f, n * 2_000_000, 1_000_000)]).await.unwrap();
    }
    let set = SetAttr { size: Some(500_000), ..SetAttr::default() };
    assert_eq!(c.setattr(&ME, f, &set).await.unwrap().attr.size, 500_000);
    assert_eq!(c.content(f, 0..u64::MAX).await.unwrap().extents.len(), 1);
    Tree::check(&*w.memory).await;
    assert_eq!(dead_slices(&*w.memory).await.len(), 699);
}

#[tokio::test]
async fn inline_bytes_become_extents_only_if_all_of_them_are_covered() {
    let w = World::new().await;
    let c = w.client().await;
    let f = file(&c, ROOT, "f").await;
    let inline = |bytes: &'static [u8]| {
        let data = WriteData::Inline(bytes.into());
        FileWrite { data, size: bytes.len() as u64, exact: true, ..write(&c, f, 0, 1) }
    };
    let left = c.inline_left();
    c.commit_writes(&[inline(b"hello, world")]).await.unwrap();
    assert_eq!(c.inline_left(), left - 12);
    assert_eq!(&c.content(f, 0..5).await.unwrap().inline.unwrap()[..], b"hello, world");
    c.fallocate(&ME, f, Falloc::PunchHole, 0, 5).await.unwrap();
    assert_eq!(&c.content(f, 0..5).await.unwrap().inline.unwrap()[..], b"\0\0\0\0\0, world");
    c.setattr(&ME, f, &SetAttr { size: Some(8), ..SetAttr::default() }).await.unwrap();
    assert_eq!(&c.content(f, 0..5).await.unwrap().inline.unwrap()[..], b"\0\0\0\0\0, w");
    assert_eq!(c.inline_left(), left - 8);
    let uncovered = c.commit_writes(&[write(&c, f, 4, 100)]).await;
    assert_eq!(uncovered, Err(FsError::Invalid("extents do not cover the inline bytes")));
    assert_eq!(c.copy_range(f, 0, f, 100, 4).await, Err(FsError::NotSupported));
    c.commit_writes(&[write(&c, f, 0, 104)]).await.unwrap();
    assert_eq!(c.inline_left(), left);
    assert!(c.content(f, 0..5).await.unwrap().inline.is_none());
    c.commit_writes(&[inline(b"short")]).await.unwrap();
    c.unlink(&ME, ROOT, &name("f")).await.unwrap();
    assert_eq!(c.inline_left(), left);
    Tree::check(&*w.memory).await;
}

#[tokio::test]
async fn a_write_on_other_content_than_it_read_is_refused() {
    let w = World::new().await;
    let (a, b) = (w.client().await, w.client().await);
    let f = file(&a, ROOT, "f").await;
    let base = Some(a.getattr(f).await.unwrap().attr.dataver);
    b.commit_writes(&[write(&b, f, 0, 10)]).await.unwrap();
    let late = a.commit_writes(&[FileWrite { base, ..write(&a, f, 0, 10) }]).await;
    assert_eq!(late, Err(FsError::WouldBlock));
    let appended = |c: &Client| FileWrite { append: true, size: 10, ..write(c, f, 0, 10) };
    let (x, y) = (appended(&a), appended(&b));
    let (x, y) = ([x], [y]);
    let (x, y) = tokio::join!(a.commit_writes(&x), b.commit_writes(&y));
    let mut sizes = [x.unwrap()[0].size, y.unwrap()[0].size];
    sizes.sort_unstable();
    assert_eq!(sizes, [20, 30], "appends of two mounts do not overwrite each other");
    assert!(make(&a, ROOT, "d", FileKind::Directory).await.is_ok());
}

#[tokio::test]
async fn a_commit_that_is_made_twice_releases_nothing() {
    let w = World::new().await;
    let c = w.client().await;
    let f = file(&c, ROOT, "f").await;
    let one = [write(&c, f, 0, 1 << 30)];
    c.commit_writes(&one).await.unwrap();
    c.commit_writes(&one).await.unwrap();
    Tree::check(&*w.memory).await;
    let other = [write(&c, f, 2 << 30, 1 << 30)];
    c.commit_writes(&other).await.unwrap();
    c.commit_writes(&other).await.unwrap();
    c.commit_writes(&one).await.unwrap();
    Tree::check(&*w.memory).await;
    assert!(dead_slices(&*w.memory).await.is_empty());
}

#[tokio::test]
async fn regression_a_lost_race_does_not_bring_back_an_older_list_of_extents() {
    let w = World::new().await;
    let mut appending = Vec::new();
    let first = w.client().await;
    let f = file(&first, ROOT, "log").await;
    // Between what one has loaded and what it commits, others commit.
    for pause in [3, 5, 7] {
        let store = Arc::new(Failing::new(w.store.clone()));
        store.faults().delay(Call::Commit, Duration::from_micros(pause * 300));
        let c = Client::open(store, ClientOptions::default()).await.unwrap();
        appending.push(tokio::spawn(async move {
            for _ in 0..40 {
                let record = FileWrite { append: true, size: 10, ..write(&c, f, 0, 10) };
                c.commit_writes(&[record]).await.unwrap();
            }
        }));
    }
    for client in appending {
        client.await.unwrap();
    }
    let found = first.content(f, 0..u64::MAX).await.unwrap();
    assert_eq!((found.attr.size, found.extents.iter().map(|e| e.len).sum::<u64>()), (1200, 1200));
    Tree::check(&*w.memory).await;
}
