//! A disk that is full: a tmpfs of a few MiB. Needs root; without it the tests say so and pass.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::single_range_in_vec_init,
    reason = "helpers of tests are tests; lists of one range are meant"
)]

mod common;

use std::path::{Path, PathBuf};

use carafe_cache::{Cache, CacheError, FillOutcome, Journal, JournalHeader, Recovery};
use common::*;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// A mount that ends with the test.
struct Tmpfs {
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Tmpfs {
    fn new(mib: usize) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::create_dir(&path).unwrap();
        let options = std::ffi::CString::new(format!("size={mib}m")).unwrap();
        match mount("carafe-test", &path, "tmpfs", MountFlags::empty(), options.as_c_str()) {
            Ok(()) => Some(Tmpfs { path, _dir: dir }),
            Err(e) => {
                eprintln!("skipped: no tmpfs can be mounted here: {e}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        unmount(&self.path, UnmountFlags::DETACH).unwrap();
    }
}

#[test]
fn a_write_to_a_full_disk_says_so_and_leaves_the_slice_usable() {
    let Some(disk) = Tmpfs::new(8) else { return };
    let cache = open(disk.path(), 1 << 30);
    let slice = cache.create(key(1)).unwrap();
    let data = pattern(1, 16 * MIB);
    let mut good = 0;
    let failed = loop {
        match slice.write_at(good as u64, &data[good..good + 300_000]) {
            Ok(()) => good += 300_000,
            Err(e) => break e,
        }
    };
    assert!(matches!(failed, CacheError::DiskFull { .. }) && failed.is_disk(), "{failed}");
    assert!(good > 6 * MIB, "{good}");
    assert!(read(&slice, 0, good).unwrap() == data[..good]);
    slice.seal(good as u64).unwrap();
    let mut got = vec![0; good];
    assert_eq!(slice.read_verified(0, &mut got).unwrap(), carafe_cache::ReadOutcome::Bytes);
    assert!(got == data[..good]);
    assert_eq!(slice.dirty_bytes(), good as u64);
    slice.mark_clean().unwrap();
    // Clean bytes make way for the next writer.
    let next = cache.create(key(2)).unwrap();
    next.write_at(0, &data[..2 * MIB]).unwrap();
    assert!(read(&next, 0, 2 * MIB).unwrap() == data[..2 * MIB]);
}

#[test]
fn a_write_evicts_when_others_filled_the_disk_unnoticed() {
    let Some(disk) = Tmpfs::new(16) else { return };
    let cache = open(disk.path(), 1 << 30);
    (0..6).for_each(|n| written(&cache, n, MIB));
    std::fs::write(disk.path().join("other"), vec![1; 9 * MIB]).unwrap();
    let slice = cache.create(key(100)).unwrap();
    for i in 0..3 {
        slice.write_at(i * MIB as u64, &pattern(i, MIB)).unwrap();
    }
    assert!(cache.stats().evictions > 0);
}

#[test]
fn the_share_that_must_stay_free_stays_free() {
    let Some(disk) = Tmpfs::new(64) else { return };
    let mut config = config(disk.path(), 1 << 30);
    config.free_ratio = 0.5;
    let cache = Cache::open(config).unwrap();
    for n in 0..60 {
        filled(&cache, n, MIB);
    }
    assert!(cache.stats().used_bytes <= 32 * MIB as u64, "{:?}", cache.stats());
    assert!(cache.stats().used_bytes >= 12 * MIB as u64, "{:?}", cache.stats());
    std::fs::write(disk.path().join("other"), vec![1; 20 * MIB]).unwrap();
    cache.maintain();
    assert!(cache.stats().used_bytes <= 12 * MIB as u64, "{:?}", cache.stats());
    assert!(cache.stats().dirty_limit_bytes <= 6 * MIB as u64);
    std::fs::remove_file(disk.path().join("other")).unwrap();
    cache.maintain();
    assert!(cache.stats().limit_bytes >= 30 * MIB as u64);
}

#[test]
fn a_fill_of_a_full_disk_is_an_error_that_loses_nothing() {
    let Some(disk) = Tmpfs::new(8) else { return };
    let cache = open(disk.path(), 1 << 30);
    let slice = cache.create(key(1)).unwrap();
    slice.write_at(0, &pattern(1, 5 * MIB)).unwrap();
    std::fs::write(disk.path().join("other"), vec![1; 2 * MIB + MIB / 2]).unwrap();
    let clean = cache.get_or_insert(key(2), None).unwrap();
    match clean.fill(0, &pattern(2, 2 * MIB)) {
        Err(CacheError::DiskFull { .. }) | Ok(FillOutcome::NoRoom) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(clean.missing(0..2 * MIB as u64), [0..2 * MIB as u64]);
    assert!(scan(&cache, 1, 5 * MIB));
}

#[test]
fn a_journal_on_a_full_disk_refuses_and_goes_on_when_there_is_room() {
    let Some(disk) = Tmpfs::new(1) else { return };
    let dir = disk.path().join("journal");
    let header =
        JournalHeader { boot_id: BOOT, fs_uuid: FS, session_uuid: [1; 16], session: 1, generation: 1 };
    let journal = Journal::create(&dir, header, 64 << 20).unwrap();
    let mut tokens = Vec::new();
    let failed = loop {
        match journal.append(1, &[&[7; 10_000], &[8; 50_000]]) {
            Ok(token) => tokens.push(token),
            Err(e) => break e,
        }
    };
    assert!(matches!(failed, CacheError::DiskFull { .. }), "{failed}");
    tokens.push(journal.append(2, &[b"small"]).unwrap());
    let Recovery::Live(found) = Journal::recover(&dir, BOOT).unwrap() else { panic!() };
    assert_eq!((found.records.len(), found.torn_tail, found.damage.len()), (tokens.len(), false, 0));
    assert_eq!(found.read(found.records.last().unwrap()).unwrap(), b"small");
}
