//! The daemon is killed at random moments while several writers work, and mounted again with the same cache directory: every
//! byte that fsync, rename or close had promised is there, and nothing else.
//!
//! `CARAFE_KILLS=200` kills more often, `CARAFE_KILL_SEED` repeats a run (the moments still differ).
#![allow(clippy::unwrap_used, reason = "a test may stop at once")]

mod common;

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use carafe_testkit::Mount;
use common::driver::{number, show};
use common::promise::Loss;
use common::stack::Stack;
use common::upkeep;
use common::writer::{Signals, Writer};

const WRITERS: u64 = 4;
/// Kills in continuous integration, over all tests of this file.
const KILLS: u64 = 20;

/// Writers on a mount that is killed again and again.
struct Crash {
    mount: Mount,
    writers: Vec<Writer>,
    random: u64,
}

impl Crash {
    fn start(stack: &Stack) -> Self {
        let seed = number("CARAFE_KILL_SEED", u64::from(std::process::id()));
        show(&format!("CARAFE_KILL_SEED={seed}"));
        let mount = stack.fs.mount().unwrap();
        let root = mount.path().to_path_buf();
        let writer = |n| Writer::new(root.join(format!("writer-{n}")), seed * 1_000 + n);
        Self { mount, writers: (0..WRITERS).map(writer).collect(), random: seed * 2 + 1 }
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below
    }

    /// Lets the writers work, kills the daemon, mounts again, and checks every promise.
    fn round(&mut self, loss: Loss) {
        let signals = Signals::default();
        // A count of calls, not a time: on a slow machine as much happens before the kill as on a fast one.
        let calls = 5 + self.roll(120);
        let pause = Duration::from_micros(self.roll(20_000));
        let Self { mount, writers, .. } = self;
        let results: Vec<Result<(), String>> = thread::scope(|scope| {
            let signals = &signals;
            let work: Vec<_> = writers.iter_mut().map(|w| scope.spawn(move || w.work(signals))).collect();
            let end = Instant::now() + Duration::from_secs(120);
            while signals.acknowledged.load(Ordering::Relaxed) < calls && Instant::now() < end {
                if work.iter().any(|writer| writer.is_finished()) {
                    break;
                }
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(pause);
            signals.dying.store(true, Ordering::SeqCst);
            mount.kill9();
            work.into_iter().map(|writer| writer.join().expect("a writer does not panic")).collect()
        });
        for result in results {
            result.unwrap();
        }
        if loss == Loss::Machine {
            self.mount.lose_cache().unwrap();
        }
        self.mount.remount().unwrap();
        // Now and then the next daemon dies too, while it finishes what the last one had accepted.
        if self.roll(5) == 0 {
            self.mount.kill9();
            self.mount.remount().unwrap();
        }
        for writer in &mut self.writers {
            writer.verify(loss).unwrap();
        }
    }
}

#[test]
fn a_killed_daemon_breaks_no_promise_on_redis_and_s3() {
    let stack = Stack::redis_and_s3();
    let mut crash = Crash::start(&stack);
    for kill in 0..number("CARAFE_KILLS", KILLS) * 6 / 10 {
        crash.round(Loss::Daemon);
        if kill % 4 == 3 {
            upkeep::fsck_is_clean(&stack.fs);
        }
    }
    crash.mount.unmount().unwrap();
    upkeep::nothing_is_left_over(&stack.fs);
}

#[test]
fn a_killed_daemon_breaks_no_promise_on_the_embedded_engine() {
    let stack = Stack::embedded();
    let mut crash = Crash::start(&stack);
    for _ in 0..number("CARAFE_KILLS", KILLS) * 2 / 10 {
        crash.round(Loss::Daemon);
    }
    crash.mount.unmount().unwrap();
    upkeep::nothing_is_left_over(&stack.fs);
}

#[test]
fn the_loss_of_a_machine_with_its_cache_takes_nothing_that_was_synced_or_renamed() {
    let stack = Stack::redis_and_s3();
    let mut crash = Crash::start(&stack);
    for _ in 0..number("CARAFE_KILLS", KILLS) * 2 / 10 {
        crash.round(Loss::Machine);
    }
    crash.mount.unmount().unwrap();
    upkeep::nothing_is_left_over(&stack.fs);
}
