//! Several threads on two mounts want the same thing at the same time: each call has one winner, nothing is done twice and
//! nothing is lost.
#![allow(clippy::unwrap_used, reason = "a test may stop at once")]

mod common;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;

use carafe_testkit::Mount;
use common::ops::pattern;
use common::stack::Stack;
use common::upkeep;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

const ROUNDS: usize = 40;
/// Two on each mount.
const THREADS: usize = 4;

/// Two mounts of one file system; dropped before the stack.
struct Ring {
    mounts: [Mount; 2],
    stack: Stack,
}

impl Ring {
    fn new() -> Self {
        let stack = Stack::redis_and_folder();
        Self { mounts: [stack.fs.mount().unwrap(), stack.fs.mount().unwrap()], stack }
    }

    fn path(&self, thread: usize, name: &str) -> PathBuf {
        self.mounts[thread % 2].path().join(name)
    }

    /// All threads do the same at the same moment.
    fn all<T: Send>(&self, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let barrier = Barrier::new(THREADS);
        let (barrier, work) = (&barrier, &work);
        thread::scope(|scope| {
            let start = |n| {
                scope.spawn(move || {
                    barrier.wait();
                    work(n)
                })
            };
            let threads: Vec<_> = (0..THREADS).map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// Both mounts see the same names, and `fsck` finds nothing.
    fn end(mut self) {
        assert_eq!(names(self.mounts[0].path()), names(self.mounts[1].path()));
        for mount in &mut self.mounts {
            mount.unmount().unwrap();
        }
        upkeep::fsck_is_clean(&self.stack.fs);
    }
}

fn names(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Exactly one succeeds, and the others fail with one of these.
#[track_caller]
fn one_winner(results: &[std::io::Result<()>], allowed: &[Errno]) {
    let winners = results.iter().filter(|result| result.is_ok()).count();
    let errors = results.iter().filter_map(|result| result.as_ref().err());
    let strange: Vec<_> = errors
        .filter(|error| !allowed.iter().any(|errno| Errno::from_io_error(error) == Some(*errno)))
        .collect();
    assert!(winners == 1 && strange.is_empty(), "{results:?}");
}

#[test]
fn of_many_creators_of_one_name_one_wins() {
    let ring = Ring::new();
    for round in 0..ROUNDS {
        let name = format!("name-{round}");
        let results = ring.all(|n| {
            let mut file = OpenOptions::new().write(true).create_new(true).open(ring.path(n, &name))?;
            file.write_all(format!("thread {n}").as_bytes())
        });
        one_winner(&results, &[Errno::EXIST]);
        let winner = results.iter().position(Result::is_ok).unwrap();
        for n in 0..2 {
            assert_eq!(fs::read_to_string(ring.path(n, &name)).unwrap(), format!("thread {winner}"));
        }
    }
    ring.end();
}

#[test]
fn of_many_that_remove_one_name_one_wins() {
    let ring = Ring::new();
    for round in 0..ROUNDS {
        let name = format!("name-{round}");
        if round % 2 == 0 {
            fs::write(ring.path(round / 2, &name), b"x").unwrap();
            one_winner(&ring.all(|n| fs::remove_file(ring.path(n, &name))), &[Errno::NOENT]);
        } else {
            fs::create_dir(ring.path(round / 2, &name)).unwrap();
            one_winner(&ring.all(|n| fs::remove_dir(ring.path(n, &name))), &[Errno::NOENT]);
        }
    }
    assert!(names(ring.mounts[0].path()).is_empty());
    ring.end();
}

#[test]
fn of_many_that_rename_one_file_one_wins() {
    let ring = Ring::new();
    for round in 0..ROUNDS {
        let source = format!("source-{round}");
        fs::write(ring.path(round, &source), source.as_bytes()).unwrap();
        let target = |n: usize| format!("target-{round}-{n}");
        let results = ring.all(|n| fs::rename(ring.path(n, &source), ring.path(n, &target(n))));
        one_winner(&results, &[Errno::NOENT]);
        let winner = results.iter().position(Result::is_ok).unwrap();
        assert_eq!(fs::read_to_string(ring.path(0, &target(winner))).unwrap(), source);
    }
    assert_eq!(names(ring.mounts[1].path()).len(), ROUNDS);
    ring.end();
}

#[test]
fn of_many_that_claim_one_name_without_replacing_one_wins() {
    let ring = Ring::new();
    for round in 0..ROUNDS {
        let own = |n: usize| format!("own-{round}-{n}");
        let claimed = format!("claimed-{round}");
        for n in 0..THREADS {
            fs::write(ring.path(n, &own(n)), own(n)).unwrap();
        }
        let results = ring.all(|n| {
            let (from, to) = (ring.path(n, &own(n)), ring.path(n, &claimed));
            renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).map_err(std::io::Error::from)
        });
        one_winner(&results, &[Errno::EXIST]);
        let winner = results.iter().position(Result::is_ok).unwrap();
        assert_eq!(fs::read_to_string(ring.path(0, &claimed)).unwrap(), own(winner));
    }
    ring.end();
}

#[test]
fn appended_records_of_all_threads_are_whole_and_none_is_missing() {
    let ring = Ring::new();
    let count = 30;
    // Inline, and far beyond.
    for size in [40_usize, 5_000] {
        let name = format!("log-{size}");
        File::create(ring.path(0, &name)).unwrap();
        let record = |n: usize, k: usize| {
            let mut record = format!("{n}:{k}:").into_bytes();
            record.resize(size - 1, b'a' + (n * 7 + k) as u8 % 26);
            record.push(b'\n');
            record
        };
        ring.all(|n| {
            let mut log = OpenOptions::new().append(true).open(ring.path(n, &name)).unwrap();
            for k in 0..count {
                log.write_all(&record(n, k)).unwrap();
                if k % 5 == 0 {
                    log.sync_data().unwrap();
                }
            }
        });
        for mount in 0..2 {
            let content = fs::read(ring.path(mount, &name)).unwrap();
            assert_eq!(content.len(), THREADS * count * size, "records of {size} bytes, mount {mount}");
            let seen: BTreeSet<&[u8]> = content.chunks(size).collect();
            let missing: Vec<(usize, usize)> = (0..THREADS)
                .flat_map(|n| (0..count).map(move |k| (n, k)))
                .filter(|(n, k)| !seen.contains(record(*n, *k).as_slice()))
                .collect();
            assert!(
                missing.is_empty(),
                "records of {size} bytes, mount {mount}: missing or torn {missing:?}"
            );
        }
    }
    ring.end();
}

#[test]
fn ranges_written_at_once_from_both_mounts_are_all_there() {
    let ring = Ring::new();
    for (round, size) in [200_usize, 900, 70_000, 1_500_000].into_iter().enumerate() {
        let name = format!("file-{round}");
        File::create(ring.path(0, &name)).unwrap();
        let piece = |n: usize| pattern((round * 10 + n) as u64, size);
        ring.all(|n| {
            let file = OpenOptions::new().write(true).open(ring.path(n, &name)).unwrap();
            for (k, part) in piece(n).chunks(size.div_ceil(4)).enumerate() {
                file.write_all_at(part, (n * size + k * size.div_ceil(4)) as u64).unwrap();
            }
            file.sync_all().unwrap();
        });
        let want: Vec<u8> = (0..THREADS).flat_map(piece).collect();
        for n in 0..2 {
            assert!(fs::read(ring.path(n, &name)).unwrap() == want, "ranges of {size} bytes, mount {n}");
        }
    }
    ring.end();
}

#[test]
fn links_made_and_removed_at_once_are_counted_exactly() {
    let ring = Ring::new();
    fs::write(ring.path(0, "file"), b"x").unwrap();
    ring.all(|n| {
        for k in 0..20 {
            fs::hard_link(ring.path(n, "file"), ring.path(n, &format!("link-{n}-{k}"))).unwrap();
            if k % 2 == 1 {
                fs::remove_file(ring.path(n, &format!("link-{n}-{}", k - 1))).unwrap();
            }
        }
    });
    for n in 0..2 {
        assert_eq!(fs::metadata(ring.path(n, "file")).unwrap().nlink(), 1 + 10 * THREADS as u64);
    }
    ring.end();
}

#[test]
fn two_directories_moved_into_each_other_at_once_make_no_circle() {
    let ring = Ring::new();
    for round in 0..ROUNDS {
        let (a, b) = (format!("a-{round}"), format!("b-{round}"));
        fs::create_dir(ring.path(0, &a)).unwrap();
        fs::create_dir(ring.path(1, &b)).unwrap();
        let results = ring.all(|n| match n {
            0 => fs::rename(ring.path(n, &a), ring.path(n, &b).join("a")),
            1 => fs::rename(ring.path(n, &b), ring.path(n, &a).join("b")),
            _ => Err(Errno::NOENT.into()),
        });
        one_winner(&results, &[Errno::NOENT, Errno::INVAL]);
    }
    assert_eq!(names(ring.mounts[0].path()).len(), ROUNDS, "each pair has become one directory in the other");
    ring.end();
}

#[test]
fn a_directory_is_removed_or_gets_a_file_but_not_both() {
    let ring = Ring::new();
    for round in 0..ROUNDS {
        let dir = format!("dir-{round}");
        fs::create_dir(ring.path(round, &dir)).unwrap();
        let results = ring.all(|n| match n {
            0 => fs::remove_dir(ring.path(n, &dir)),
            1 => File::create(ring.path(n, &dir).join("file")).map(drop),
            _ => Err(Errno::NOENT.into()),
        });
        one_winner(&results, &[Errno::NOENT, Errno::NOTEMPTY]);
        assert_eq!(ring.path(0, &dir).exists(), results[1].is_ok());
    }
    ring.end();
}
