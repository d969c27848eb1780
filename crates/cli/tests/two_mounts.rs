//! Two mounts of one file system, each with its own cache: what one has done, the other sees at once.
//!
//! Content is close-to-open, everything else exact. The random run sends each operation through one of the two mounts;
//! `CARAFE_TWO_MOUNTS_OPS=20000` runs longer.
#![allow(clippy::unwrap_used, reason = "a test may stop at once")]

mod common;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use carafe_testkit::Mount;
use common::arena::Arena;
use common::driver;
use common::stack::Stack;

/// Two mounts and what lies below them; the mounts are dropped first.
struct Pair {
    a: Mount,
    b: Mount,
    stack: Stack,
}

impl Pair {
    fn start() -> Self {
        let stack = Stack::redis_and_s3();
        let (a, b) = (stack.fs.mount().unwrap(), stack.fs.mount().unwrap());
        Self { a, b, stack }
    }

    /// The same path on both.
    fn paths(&self, below: &str) -> [PathBuf; 2] {
        [self.a.path().join(below), self.b.path().join(below)]
    }
}

fn names(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn random_operations_through_either_mount_agree_with_a_local_disk() {
    let pair = Pair::start();
    let arena = Arena::new(&pair.stack.plain("reference"), &[pair.a.path(), pair.b.path()]);
    driver::run(&arena, driver::number("CARAFE_TWO_MOUNTS_OPS", 3_000), 1, |_| {});
}

#[test]
fn what_was_closed_on_one_mount_is_read_on_the_other() {
    let pair = Pair::start();
    let [a, b] = pair.paths("file");
    for round in 0..40_u32 {
        // Inline, one frame, several blocks; written from either side.
        let size = [100, 4_096, 5_000, 70_000, 9_000_000][round as usize % 5];
        let content: Vec<u8> = (0..size).map(|n: u32| (n.wrapping_mul(31) ^ round) as u8).collect();
        let (writer, reader) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        fs::write(writer, &content).unwrap();
        assert_eq!(fs::metadata(reader).unwrap().len(), u64::from(size), "round {round}");
        assert!(fs::read(reader).unwrap() == content, "round {round}: other bytes");
    }
}

#[test]
fn many_files_closed_on_one_mount_are_complete_on_the_other() {
    let pair = Pair::start();
    let [a, b] = pair.paths("dir");
    fs::create_dir(&a).unwrap();
    for n in 0..200_usize {
        fs::write(a.join(format!("{n}")), vec![n as u8; n * 37]).unwrap();
    }
    // The first look from elsewhere: what was closed and is still on its way must have arrived.
    for n in 0..200_usize {
        let content = fs::read(b.join(format!("{n}"))).unwrap();
        assert!(content == vec![n as u8; n * 37], "file {n} has {} bytes", content.len());
    }
}

#[test]
fn a_file_opened_again_shows_what_the_other_mount_closed_meanwhile() {
    let pair = Pair::start();
    let [a, b] = pair.paths("file");
    fs::write(&a, b"first").unwrap();
    let mut open_before = File::open(&b).unwrap();
    let mut text = String::new();
    open_before.read_to_string(&mut text).unwrap();
    assert_eq!(text, "first");
    fs::write(&a, b"second, longer").unwrap();
    assert_eq!(fs::read(&b).unwrap(), b"second, longer");
    // The new open has dropped the old pages, for the old handle too.
    text.clear();
    open_before.seek(SeekFrom::Start(0)).unwrap();
    open_before.read_to_string(&mut text).unwrap();
    assert!(["first", "second, longer"].contains(&text.as_str()), "{text:?} is neither version");
}

#[test]
fn writes_through_handles_on_both_mounts_change_only_the_bytes_they_name() {
    let pair = Pair::start();
    let [a, b] = pair.paths("file");
    // Inline, and in blocks.
    for size in [1_000_usize, 300_000] {
        fs::write(&a, vec![b'.'; size]).unwrap();
        let open = |path| File::options().read(true).write(true).open(path).unwrap();
        let (on_a, on_b) = (open(&a), open(&b));
        on_a.write_all_at(b"AAAA", 10).unwrap();
        on_a.sync_all().unwrap();
        on_b.write_all_at(b"BBBB", 500).unwrap();
        on_b.sync_all().unwrap();
        on_a.write_all_at(b"aa", 990).unwrap();
        on_a.sync_all().unwrap();
        let mut want = vec![b'.'; size];
        want[10..14].fill(b'A');
        want[500..504].fill(b'B');
        want[990..992].fill(b'a');
        drop((on_a, on_b));
        for path in [&a, &b] {
            assert!(fs::read(path).unwrap() == want, "{size} bytes, read at {}", path.display());
        }
    }
}

#[test]
fn appends_from_both_mounts_follow_each_other() {
    let pair = Pair::start();
    let [a, b] = pair.paths("log");
    let open = |path| File::options().append(true).create(true).open(path).unwrap();
    let (mut on_a, mut on_b) = (open(&a), open(&b));
    let mut want = String::new();
    for n in 0..60 {
        let line = format!("line {n}\n");
        let side = if n % 3 == 0 { &mut on_b } else { &mut on_a };
        side.write_all(line.as_bytes()).unwrap();
        side.sync_data().unwrap();
        want.push_str(&line);
    }
    drop((on_a, on_b));
    assert_eq!(fs::read_to_string(&a).unwrap(), want);
    assert_eq!(fs::read_to_string(&b).unwrap(), want);
}

#[test]
fn a_name_that_was_looked_for_in_vain_is_found_once_the_other_mount_has_made_it() {
    let pair = Pair::start();
    for n in 0..50 {
        let [a, b] = pair.paths(&format!("name-{n}"));
        assert!(!b.exists());
        fs::write(&a, b"").unwrap();
        assert!(b.exists(), "name {n} is still missing");
        fs::remove_file(&b).unwrap();
        assert!(!a.exists(), "name {n} is still there");
        fs::create_dir(&a).unwrap();
        assert!(fs::metadata(&b).unwrap().is_dir(), "name {n} is not the directory");
    }
}

#[test]
fn attributes_set_on_one_mount_are_seen_on_the_other() {
    let pair = Pair::start();
    let [a, b] = pair.paths("file");
    fs::write(&a, b"x").unwrap();
    for n in 0..50_u32 {
        let (set, look) = if n % 2 == 0 { (&a, &b) } else { (&b, &a) };
        fs::metadata(look).unwrap();
        let mode = 0o600 + n % 0o100;
        fs::set_permissions(set, fs::Permissions::from_mode(mode)).unwrap();
        File::options().write(true).open(set).unwrap().set_len(u64::from(n)).unwrap();
        let meta = fs::metadata(look).unwrap();
        assert_eq!((meta.permissions().mode() & 0o7777, meta.len()), (mode, u64::from(n)), "round {n}");
    }
}

#[test]
fn listings_are_exact_on_both_mounts_after_each_change() {
    let pair = Pair::start();
    let [a, b] = pair.paths("dir");
    fs::create_dir(&a).unwrap();
    let mut want = BTreeSet::new();
    for n in 0..60 {
        let (change, look) = if n % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let name = format!("entry-{n}");
        fs::write(change.join(&name), b"").unwrap();
        want.insert(name);
        if n % 5 == 4 {
            let (old, new) = (format!("entry-{}", n - 2), format!("moved-{n}"));
            fs::rename(look.join(&old), look.join(&new)).unwrap();
            want.remove(&old);
            want.insert(new);
        }
        assert_eq!(names(look), want, "round {n}");
        assert_eq!(names(change), want, "round {n}");
    }
}

#[test]
fn a_directory_published_on_one_mount_is_whole_on_the_other() {
    let pair = Pair::start();
    for n in 0..10 {
        let [a, b] = pair.paths(&format!("tmp-{n}"));
        let [_, published] = pair.paths(&format!("part-{n}"));
        fs::create_dir(&a).unwrap();
        for file in 0..20_usize {
            fs::write(a.join(format!("{file}.bin")), vec![file as u8; file * 3_000]).unwrap();
        }
        // Renamed by the mount that did not write it: the writer's closed files must be stored before.
        fs::rename(&b, &published).unwrap();
        for file in 0..20_usize {
            let content = fs::read(published.join(format!("{file}.bin"))).unwrap();
            assert!(content == vec![file as u8; file * 3_000], "part {n}, file {file}");
        }
    }
}

#[test]
fn an_open_file_stays_readable_when_the_other_mount_removes_it() {
    let pair = Pair::start();
    let [a, b] = pair.paths("file");
    let content: Vec<u8> = (0..200_000_u32).map(|n| n as u8).collect();
    fs::write(&a, &content).unwrap();
    let mut open = File::options().read(true).write(true).open(&a).unwrap();
    fs::remove_file(&b).unwrap();
    assert!(!a.exists());
    assert_eq!(open.metadata().unwrap().nlink(), 0);
    let mut seen = Vec::new();
    open.read_to_end(&mut seen).unwrap();
    assert!(seen == content);
    open.write_all(b"more").unwrap();
    open.sync_all().unwrap();
    assert_eq!(open.metadata().unwrap().len(), 200_004);
}
