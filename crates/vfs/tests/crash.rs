//! The daemon dies, and another one takes up what it had accepted.
#![allow(clippy::unwrap_used, reason = "a test may stop where a step fails")]

mod common;

use bytes::Bytes;
use common::*;

async fn accepted(m: &Mount) -> Vec<(String, Vec<u8>)> {
    let dir = m.mkdir(ROOT, "d").await;
    let mut all = Vec::new();
    for (i, len) in [10, 4000, 5000, 100_000, 200_000, 9 << 20].into_iter().enumerate() {
        let (n, bytes) = (format!("f{i}"), noise(len, i as u64));
        m.put(dir, &n, &bytes).await;
        all.push((n, bytes));
    }
    // Open, overwritten, cut, extended.
    let (_, o) = m.create(&ctx(), dir, &name("open"), file(), libc::O_RDWR).await.unwrap();
    m.write_all(o.fh, 0, &noise(50_000, 77)).await;
    m.write_all(o.fh, 100, b"over").await;
    let ino = m.find(dir, "open").await.unwrap();
    m.cut(ino, 40_000).await.unwrap();
    m.cut(ino, 45_000).await.unwrap();
    let mut want = noise(40_000, 77);
    want[100..104].copy_from_slice(b"over");
    want.resize(45_000, 0);
    all.push(("open".into(), want));
    all
}

async fn check(m: &Mount, all: &[(String, Vec<u8>)]) {
    let dir = m.find(ROOT, "d").await.unwrap();
    for (n, want) in all {
        let ino = m.find(dir, n).await.unwrap_or_else(|| panic!("{n} is gone"));
        let got = m.get(ino).await.unwrap();
        assert!(got == *want, "{n}: {} bytes instead of {}", got.len(), want.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_accepted_byte_survives_the_daemon() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let all = accepted(&m).await;
    m.kill().await;
    let next = world.mount().await;
    assert!(next.meta().session().resumed);
    check(&next, &all).await;
    assert_eq!(next.stats().lost_files, 0);
    next.sync().await.unwrap();
    next.shutdown().await.unwrap();
    let cold = world.mount_with("b", BOOT, |_| ()).await;
    check(&cold, &all).await;
    cold.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_death_before_the_flush_loses_nothing_either() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let all = accepted(&m).await;
    m.kill().await;
    let second = world.mount().await;
    let dir = second.find(ROOT, "d").await.unwrap();
    let ino = second.find(dir, "f3").await.unwrap();
    let fh = second.open_for(ino, libc::O_RDWR).await;
    second.write_all(fh, 50_000, b"written after the first death").await;
    second.kill().await;
    let third = world.mount().await;
    let mut all = all;
    all[3].1[50_000..50_029].copy_from_slice(b"written after the first death");
    check(&third, &all).await;
    third.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_of_the_dead_daemon_work_with_the_next_one() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let (_, o) = m.create(&ctx(), ROOT, &name("f"), file(), libc::O_RDWR).await.unwrap();
    m.write_all(o.fh, 0, b"before").await;
    m.kill().await;
    let next = world.mount().await;
    assert_eq!(next.read(o.fh, 0, 100).await.unwrap(), Bytes::from_static(b"before"));
    next.write_all(o.fh, 6, b" and after").await;
    next.close(o.fh).await;
    let ino = next.find(ROOT, "f").await.unwrap();
    assert_eq!(next.get(ino).await.unwrap(), b"before and after");
    next.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_flushed_is_not_written_again() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let all = accepted(&m).await;
    m.sync().await.unwrap();
    let puts = world.puts();
    m.kill().await;
    let next = world.mount().await;
    assert_eq!(next.stats().dirty_files, 0);
    check(&next, &all).await;
    next.shutdown().await.unwrap();
    assert_eq!(world.puts(), puts);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_removed_does_not_come_back() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let all = accepted(&m).await;
    let dir = m.find(ROOT, "d").await.unwrap();
    m.rm(dir, "f4").await.unwrap();
    m.kill().await;
    let next = world.mount().await;
    assert_eq!(next.find(dir, "f4").await, None);
    let rest: Vec<_> = all.into_iter().filter(|(n, _)| n != "f4").collect();
    check(&next, &rest).await;
    next.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_boot_discards_and_says_so() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let ino = m.put(ROOT, "f", &noise(10_000, 1)).await;
    m.kill().await;
    let next = world.mount_with("a", [8; 16], |_| ()).await;
    assert!(!next.meta().session().resumed);
    assert_eq!(next.stats().dirty_files, 0);
    drop((ino, next.find(ROOT, "f")));
    let third = world.mount_with("b", BOOT, |_| ()).await;
    drop(third);
}
