//! Locks, and what ends a wait for one.

use crate::world::World;
use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

fn open(w: &World) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(w.path("f")).unwrap()
}

/// A process that takes the lock and holds it, or waits for it.
fn locker(w: &World, kind: &str, then: &str) -> Child {
    let call = match kind {
        "flock" => "fcntl.flock(f, fcntl.LOCK_EX)",
        _ => "fcntl.lockf(f, fcntl.LOCK_EX)",
    };
    let path = w.path("f").display().to_string();
    let code = format!("import fcntl,sys,time\nf=open({path:?},'r+')\n{call}\n{then}");
    Command::new("python3").args(["-c", &code]).spawn().unwrap()
}

fn wait_until(mut what: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !what() {
        assert!(Instant::now() < end, "it did not come true");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn flock_excludes_between_handles_and_is_not_seen_by_fcntl() {
    let w = World::new();
    let (a, b) = (open(&w), open(&w));
    flock(&a, FlockOperation::LockExclusive).unwrap();
    assert_eq!(flock(&b, FlockOperation::NonBlockingLockShared), Err(Errno::WOULDBLOCK));
    fcntl_lock(&b, FlockOperation::NonBlockingLockExclusive).unwrap();
    drop(a);
    wait_until(|| flock(&b, FlockOperation::NonBlockingLockShared).is_ok());
    drop(b);
    w.end();
}

#[test]
fn a_record_lock_excludes_another_process_until_it_ends() {
    let w = World::new();
    let mine = open(&w);
    let sign = w.path("locked").display().to_string();
    let mut holder = locker(&w, "fcntl", &format!("open({sign:?},'w')\ntime.sleep(60)"));
    wait_until(|| w.path("locked").exists());
    assert!(fcntl_lock(&mine, FlockOperation::NonBlockingLockExclusive).is_err());
    holder.kill().unwrap();
    holder.wait().unwrap();
    wait_until(|| fcntl_lock(&mine, FlockOperation::NonBlockingLockExclusive).is_ok());
    drop(mine);
    w.end();
}

#[test]
fn who_waits_for_a_lock_gets_it_when_it_is_released() {
    let w = World::new();
    for kind in ["flock", "fcntl"] {
        let mine = open(&w);
        flock(&mine, FlockOperation::LockExclusive).unwrap();
        fcntl_lock(&mine, FlockOperation::LockExclusive).unwrap();
        let mut waiter = locker(&w, kind, "");
        std::thread::sleep(Duration::from_millis(400));
        assert!(waiter.try_wait().unwrap().is_none(), "{kind}: it has to wait");
        drop(mine);
        wait_until(|| waiter.try_wait().unwrap().is_some());
        assert!(waiter.wait().unwrap().success());
    }
    w.end();
}

#[test]
fn a_signal_ends_the_wait_for_a_lock_and_a_kill_ends_the_process() {
    let w = World::new();
    let mine = open(&w);
    flock(&mine, FlockOperation::LockExclusive).unwrap();
    for signal in ["-TERM", "-KILL"] {
        let mut waiter = locker(&w, "flock", "");
        std::thread::sleep(Duration::from_millis(500));
        assert!(waiter.try_wait().unwrap().is_none());
        let begun = Instant::now();
        assert!(Command::new("kill").args([signal, &waiter.id().to_string()]).status().unwrap().success());
        wait_until(|| waiter.try_wait().unwrap().is_some());
        assert!(begun.elapsed() < Duration::from_secs(3), "{signal} took {:?}", begun.elapsed());
    }
    // The waiters left nothing behind.
    drop(mine);
    let again = open(&w);
    wait_until(|| flock(&again, FlockOperation::NonBlockingLockExclusive).is_ok());
    drop(again);
    w.end();
}
