//! Redis or the S3 server dies in the middle of the work of several writers and comes back: calls wait, nothing fails, and nothing
//! that was acknowledged is lost.
#![allow(clippy::unwrap_used, reason = "a test may stop at once")]

mod common;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use carafe_testkit::{Mount, wait_until};
use common::ops::pattern;
use common::promise::Loss;
use common::stack::{Stack, Victim};
use common::upkeep;
use common::writer::{Signals, Writer};
use rustix::fs::{Advice, fadvise};

const WRITERS: u64 = 3;
/// How much is acknowledged before a blow, and must be acknowledged after it.
const CALLS: u64 = 40;
const PATIENCE: Duration = Duration::from_secs(90);

/// Runs writers on `mount` while `blow` lets something die and brings it back, then checks every promise, first with the daemon
/// that lived through it, then from store and bucket alone.
fn survive(mount: &mut Mount, blows: u64, mut blow: impl FnMut(u64)) {
    let root = mount.path().to_path_buf();
    let mut writers: Vec<Writer> =
        (0..WRITERS).map(|n| Writer::new(root.join(format!("writer-{n}")), 77 + n)).collect();
    let signals = Signals::default();
    let results: Vec<Result<(), String>> = thread::scope(|scope| {
        let signals = &signals;
        let work: Vec<_> = writers.iter_mut().map(|w| scope.spawn(move || w.work(signals))).collect();
        let failed = || work.iter().any(|writer| writer.is_finished());
        let acknowledged = || signals.acknowledged.load(Ordering::Relaxed);
        for n in 0..=blows {
            let goal = acknowledged() + CALLS;
            let waited =
                wait_until("calls to be acknowledged", PATIENCE, || acknowledged() >= goal || failed());
            if waited.is_err() || failed() {
                break;
            }
            if n < blows {
                blow(n);
            }
        }
        signals.stop.store(true, Ordering::Relaxed);
        work.into_iter().map(|writer| writer.join().expect("a writer does not panic")).collect()
    });
    for result in results {
        result.unwrap();
    }
    assert!(signals.acknowledged.load(Ordering::Relaxed) >= (blows + 1) * CALLS, "the writers did not go on");
    for writer in &mut writers {
        writer.verify(Loss::Daemon).unwrap();
    }
    mount.kill9();
    mount.lose_cache().unwrap();
    mount.remount().unwrap();
    for writer in &mut writers {
        writer.verify(Loss::Machine).unwrap();
    }
}

/// Long enough that every writer has met the outage.
const AWAY: Duration = Duration::from_secs(2);
/// Longer than a lease, so that nothing answers only because the daemon has not noticed yet.
const OVER_A_LEASE: Duration = Duration::from_secs(14);

/// Writers on Redis and S3 while the victims die `blows` times.
fn outage(victims: &[Victim], blows: u64) {
    let mut stack = Stack::redis_and_s3();
    let mut mount = stack.fs.mount().unwrap();
    survive(&mut mount, blows, |_| stack.without(victims, || thread::sleep(AWAY)));
    mount.unmount().unwrap();
    upkeep::fsck_is_clean(&stack.fs);
}

#[test]
fn a_redis_that_is_killed_and_restarted_loses_nothing_that_was_acknowledged() {
    outage(&[Victim::Redis], 3);
}

#[test]
fn an_s3_server_that_is_killed_and_restarted_loses_nothing_that_was_acknowledged() {
    outage(&[Victim::S3], 2);
}

#[test]
fn both_servers_killed_at_once_lose_nothing_that_was_acknowledged() {
    outage(&[Victim::Redis, Victim::S3], 1);
}

#[test]
fn statfs_answers_from_memory_while_the_store_is_down() {
    let mut stack = Stack::redis_and_s3();
    let mount = stack.fs.mount().unwrap();
    let before = rustix::fs::statvfs(mount.path()).unwrap();
    let mut times = Vec::new();
    stack.without(&[Victim::Redis], || {
        let end = Instant::now() + OVER_A_LEASE;
        while Instant::now() < end {
            let begun = Instant::now();
            let now = rustix::fs::statvfs(mount.path()).unwrap();
            times.push(begun.elapsed());
            assert_eq!((now.f_blocks, now.f_bavail), (before.f_blocks, before.f_bavail));
            thread::sleep(Duration::from_millis(50));
        }
    });
    times.sort();
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    assert!(median < Duration::from_millis(1), "median {median:?}, worst {worst:?}");
    assert!(worst < Duration::from_millis(500), "median {median:?}, worst {worst:?}");
}

#[test]
fn open_files_that_are_cached_are_read_while_store_and_bucket_are_down() {
    let mut stack = Stack::redis_and_s3();
    let mount = stack.fs.mount().unwrap();
    let contents: Vec<Vec<u8>> = [500, 20_000, 6_000_000].iter().map(|size| pattern(9, *size)).collect();
    let mut files = Vec::new();
    for (n, content) in contents.iter().enumerate() {
        let path = mount.path().join(format!("file-{n}"));
        std::fs::write(&path, content).unwrap();
        let mut file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        let mut seen = Vec::new();
        file.read_to_end(&mut seen).unwrap();
        assert!(seen == *content);
        files.push(file);
    }
    stack.without(&[Victim::Redis, Victim::S3], || {
        let end = Instant::now() + OVER_A_LEASE;
        while Instant::now() < end {
            for (file, content) in files.iter().zip(&contents) {
                // The daemon is asked, not the page cache.
                fadvise(file, 0, None, Advice::DontNeed).unwrap();
                let mut seen = vec![0; content.len()];
                file.read_exact_at(&mut seen, 0).unwrap();
                assert!(seen == *content, "other bytes during an outage");
            }
            thread::sleep(Duration::from_millis(500));
        }
    });
    wait_until("the mount to take new files again", PATIENCE, || {
        std::fs::write(mount.path().join("after"), b"x").is_ok()
    })
    .unwrap();
}

#[test]
fn a_call_that_waits_for_the_store_is_answered_once_it_is_back() {
    let mut stack = Stack::redis_and_s3();
    let mount = stack.fs.mount().unwrap();
    let dir = mount.path().join("dir");
    std::fs::create_dir(&dir).unwrap();
    thread::scope(|scope| {
        let mut waiting = None;
        stack.without(&[Victim::Redis], || {
            waiting = Some(scope.spawn(|| {
                std::fs::write(dir.join("a"), b"written while the store was away").unwrap();
                std::fs::rename(dir.join("a"), dir.join("b")).unwrap();
                std::fs::read(dir.join("b")).unwrap()
            }));
            thread::sleep(AWAY);
            let early = waiting.as_ref().is_some_and(thread::ScopedJoinHandle::is_finished);
            assert!(!early, "a rename was acknowledged without a store");
        });
        let seen = waiting.expect("it was started").join().unwrap();
        assert_eq!(seen, b"written while the store was away");
    });
}
