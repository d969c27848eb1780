//! Names in directories.

use super::Subject;
use super::world::{DIR, World, name, parts};
use crate::store::*;
use carafe_types::{EntryName, FileKind, InodeNo};

fn odd_names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        &b"a"[..],
        b"a\x01",
        b"ab",
        b"a\xff",
        b"A",
        b"b",
        b" ",
        b"\n",
        b"\r\n",
        b"\x01",
        b"\xff",
        b"\xff\xff",
        b"...",
        b"-",
        b"+",
        b"[a",
        b"(a",
        b"%d",
        b"\xc3\xa4",
        b"a\x7f",
        b"$",
        b"{x}",
        b"*",
        b"0",
        b"00",
    ]
    .iter()
    .map(|n| n.to_vec())
    .collect();
    names.push(vec![b'l'; 255]);
    names.push(vec![b'l'; 254]);
    names.push(vec![0xff; 255]);
    names
}

/// Prefixes of each other, 0xff, newlines, the longest ones.
pub async fn names_of_any_bytes_are_kept_apart_and_in_order(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let mut names = odd_names();
    // Numbers around the limits of the stored form.
    let number = |n: usize| [0, 63, 64, 1 << 20, (1 << 53) + 1, u64::MAX][n % 6].wrapping_sub(n as u64 / 6);
    let kinds = [FileKind::Regular, FileKind::Directory, FileKind::Symlink, FileKind::BlockDevice];
    let part = |n: usize, bytes: &[u8]| (name(bytes), kinds[n % 4], InodeNo(number(n)));
    w.a.write(names.iter().enumerate().map(|(n, b)| Write::Link(DIR, part(n, b))).collect()).await;
    let wanted: Vec<_> = names.iter().map(|n| (DIR, name(n))).chain([(DIR, name("absent"))]).collect();
    let loaded = w.b.load(LoadRequest { names: wanted, ..LoadRequest::default() }).await;
    for (n, bytes) in names.iter().enumerate() {
        let (_, kind, ino) = part(n, bytes);
        assert_eq!(loaded.names[n], Some((kind, ino)), "{:?}", name(bytes));
    }
    assert_eq!(loaded.names[names.len()], None);
    let listed: Vec<Vec<u8>> = w.b.names(DIR).await.iter().map(|e| e.name.as_bytes().to_vec()).collect();
    let removed = names.clone();
    names.sort();
    assert_eq!(listed, names);
    for (n, bytes) in removed.iter().enumerate() {
        let checks = vec![Check::HasName(DIR, name(bytes), part(n, bytes).1, part(n, bytes).2)];
        w.b.done(Commit { checks, writes: vec![Write::Unlink(DIR, part(n, bytes))], ..Commit::default() })
            .await;
    }
    assert_eq!(w.a.names(DIR).await, []);
}

/// As rename over an existing name does.
pub async fn a_name_is_replaced_within_one_commit(subject: &dyn Subject) {
    let w = World::new(subject).await;
    w.a.write(vec![Write::Link(DIR, parts("old", 1)), Write::Link(DIR, parts("new", 2))]).await;
    let writes = vec![
        Write::Unlink(DIR, parts("old", 1)),
        Write::Unlink(DIR, parts("new", 2)),
        Write::Link(DIR, parts("new", 1)),
    ];
    w.a.write(writes).await;
    let entry = DirEntry { name: name("new"), kind: FileKind::Regular, ino: InodeNo(1) };
    assert_eq!(w.b.names(DIR).await, [entry]);
}

/// By `load` and by `scan`, from any place.
pub async fn five_thousand_names_come_in_pages_once_each(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let all: Vec<DirEntryParts> =
        (0..5000).map(|n| parts(format!("{:04}.bin", n * 7919 % 5000), n)).collect();
    for piece in all.chunks(500) {
        w.a.write(piece.iter().map(|p| Write::Link(DIR, p.clone())).collect()).await;
    }
    let mut expected: Vec<EntryName> = all.iter().map(|p| p.0.clone()).collect();
    expected.sort();
    let (mut loaded, mut scanned): (Vec<EntryName>, Vec<EntryName>) = (Vec::new(), Vec::new());
    loop {
        let request = ListRequest { dir: DIR, after: loaded.last().cloned(), limit: 999 };
        let page =
            w.b.load(LoadRequest { lists: vec![request], ..LoadRequest::default() }).await.lists.remove(0);
        loaded.extend(page.iter().map(|e| e.name.clone()));
        if page.len() < 999 {
            break;
        }
    }
    loop {
        let request = ListRequest { dir: DIR, after: scanned.last().cloned(), limit: 1000 };
        let page = w.b.scan(ScanRequest::Names(request)).await.found;
        let full = page.len() == 1000;
        scanned.extend(
            page.into_iter().filter_map(|s| if let Scanned::Name(e) = s { Some(e.name) } else { None }),
        );
        if !full {
            break;
        }
    }
    assert_eq!(scanned.len(), 5000, "the page after the last full one is empty");
    assert!(loaded == expected && scanned == expected);
    let between = ListRequest { dir: DIR, after: Some(name("2499.bio")), limit: 1 };
    let page = w.b.load(LoadRequest { lists: vec![between], ..LoadRequest::default() }).await.lists.remove(0);
    assert_eq!(page[0].name, name("2500.bin"), "the place to go on from need not exist");
}

/// Directory numbers do not run into names.
pub async fn the_same_name_in_other_directories_is_another_name(subject: &dyn Subject) {
    let w = World::new(subject).await;
    let dirs = [6400, 6464, 64, 640, 1 << 40].map(InodeNo);
    for (n, dir) in dirs.iter().enumerate() {
        w.a.write(vec![Write::Link(*dir, parts("x", n as u64 + 1)), Write::Link(*dir, parts("0", 99))]).await;
    }
    for (n, dir) in dirs.iter().enumerate() {
        let names = w.b.names(*dir).await;
        assert_eq!(names.len(), 2);
        assert_eq!((names[1].name.clone(), names[1].ino), (name("x"), InodeNo(n as u64 + 1)));
    }
}
