//! Two mounts of one file system.
#![allow(clippy::unwrap_used, reason = "a test may stop where a step fails")]

mod common;

use bytes::Bytes;
use carafe_types::FsError;
use carafe_types::record::{LockKind, LockType};
use carafe_vfs::LockRequest;
use common::*;
use std::time::Duration;

async fn two() -> (World, Mount, Mount) {
    let world = World::new(Settings::default()).await;
    let a = world.mount_with("a", BOOT, |_| ()).await;
    let b = world.mount_with("b", BOOT, |_| ()).await;
    (world, a, b)
}

async fn end(a: Mount, b: Mount) {
    a.shutdown().await.unwrap();
    b.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_closed_on_one_mount_is_seen_on_the_other() {
    let (_world, a, b) = two().await;
    let dir = a.mkdir(ROOT, "d").await;
    for len in [100usize, 20_000, 300_000] {
        let n = format!("f{len}");
        a.put(dir, &n, &noise(len, 1)).await;
        let ino = b.find(dir, &n).await.unwrap();
        assert_eq!(b.getattr(ino, None).await.unwrap().attr.size, len as u64);
        assert!(b.get(ino).await.unwrap() == noise(len, 1), "{len}");
    }
    // The directory is shared by now: closes wait for their data.
    a.put(dir, "later", &noise(50_000, 2)).await;
    assert_eq!(a.stats().dirty_files, 0);
    let ino = b.find(dir, "later").await.unwrap();
    assert!(b.get(ino).await.unwrap() == noise(50_000, 2));
    let fh = b.open_for(ino, libc::O_WRONLY | libc::O_APPEND).await;
    b.write_all(fh, 0, b"appended").await;
    b.close(fh).await;
    let got = a.get(ino).await.unwrap();
    assert_eq!(&got[50_000..], b"appended");
    end(a, b).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_directory_is_complete_for_the_other_mount_at_once() {
    let (_world, a, b) = two().await;
    for round in 0..20u64 {
        let (tmp, part) = (format!("tmp{round}"), format!("part{round}"));
        let dir = a.mkdir(ROOT, &tmp).await;
        for i in 0..10 {
            a.put(dir, &format!("c{i}"), &noise(3000, round * 10 + i)).await;
        }
        a.mv((ROOT, &tmp), (ROOT, &part)).await.unwrap();
        let dir = b.find(ROOT, &part).await.unwrap();
        for i in 0..10 {
            let ino = b.find(dir, &format!("c{i}")).await.unwrap();
            assert!(b.get(ino).await.unwrap() == noise(3000, round * 10 + i));
        }
    }
    end(a, b).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_of_two_mounts_do_not_overwrite_each_other() {
    let (_world, a, b) = two().await;
    let ino = a.put(ROOT, "log", b"").await;
    let mut tasks = Vec::new();
    for (w, m) in [&a, &b].into_iter().enumerate() {
        let m = Mount { vfs: m.vfs.clone() };
        tasks.push(tokio::spawn(async move {
            let fh = m.open_for(ino, libc::O_WRONLY | libc::O_APPEND).await;
            for _ in 0..30 {
                m.write(fh, 0, Bytes::from(vec![b'a' + w as u8; 2000]), false).await.unwrap();
            }
            m.close(fh).await;
        }));
    }
    for t in tasks {
        t.await.unwrap();
    }
    let all = a.get(ino).await.unwrap();
    assert_eq!(all.len(), 120_000);
    for w in 0..2u8 {
        assert_eq!(all.chunks(2000).filter(|c| *c == [b'a' + w; 2000]).count(), 30);
    }
    end(a, b).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_under_a_lock_loses_no_step() {
    let (_world, a, b) = two().await;
    let ino = a.put(ROOT, "counter", b"0000").await;
    let mut tasks = Vec::new();
    for (w, m) in [&a, &b].into_iter().enumerate() {
        let m = Mount { vfs: m.vfs.clone() };
        tasks.push(tokio::spawn(async move {
            let fh = m.open_for(ino, libc::O_RDWR).await;
            let lock = LockRequest {
                kind: LockKind::Posix,
                owner: w as u64 + 1,
                start: 0,
                end: u64::MAX,
                typ: Some(LockType::Exclusive),
                pid: 1,
            };
            for _ in 0..25 {
                m.setlk(fh, &lock, Some(Duration::from_secs(60))).await.unwrap();
                let n: u32 = std::str::from_utf8(&m.read(fh, 0, 4).await.unwrap()).unwrap().parse().unwrap();
                m.write_all(fh, 0, format!("{:04}", n + 1).as_bytes()).await;
                m.setlk(fh, &LockRequest { typ: None, ..lock }, None).await.unwrap();
            }
            m.close(fh).await;
        }));
    }
    for t in tasks {
        t.await.unwrap();
    }
    assert_eq!(a.get(ino).await.unwrap(), b"0050");
    end(a, b).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_file_that_the_other_mount_removes_stays_readable() {
    let (_world, a, b) = two().await;
    let ino = a.put(ROOT, "f", &noise(100_000, 1)).await;
    let fh = b.open_for(ino, libc::O_RDONLY).await;
    a.rm(ROOT, "f").await.unwrap();
    assert!(b.read(fh, 50_000, 50_000).await.unwrap() == noise(100_000, 1)[50_000..]);
    b.close(fh).await;
    assert_eq!(b.find(ROOT, "f").await, None);
    end(a, b).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncation_on_one_mount_is_seen_by_the_next_open_of_the_other() {
    let (_world, a, b) = two().await;
    let ino = a.put(ROOT, "f", &noise(100_000, 1)).await;
    assert_eq!(b.get(ino).await.unwrap().len(), 100_000);
    a.cut(ino, 10).await.unwrap();
    assert_eq!(b.get(ino).await.unwrap(), noise(10, 1));
    b.cut(ino, 20).await.unwrap();
    let mut want = noise(10, 1);
    want.resize(20, 0);
    assert_eq!(a.get(ino).await.unwrap(), want);
    end(a, b).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_a_shared_file_sees_it_grow() {
    let (_world, a, b) = two().await;
    let ino = a.put(ROOT, "f", b"one").await;
    let fh = b.open_for(ino, libc::O_RDONLY).await;
    assert_eq!(b.read(fh, 0, 100).await.unwrap(), Bytes::from_static(b"one"));
    let w = a.open_for(ino, libc::O_WRONLY | libc::O_APPEND).await;
    a.write_all(w, 0, b" two").await;
    a.close(w).await;
    assert_eq!(b.getattr(ino, Some(fh)).await.unwrap().attr.size, 7);
    assert_eq!(b.read(fh, 0, 100).await.unwrap(), Bytes::from_static(b"one two"));
    b.close(fh).await;
    end(a, b).await;
}

/// Each mount moves its own dirty file into the directory that the other one holds alone.
#[tokio::test(flavor = "multi_thread")]
async fn crossing_renames_of_two_mounts_wait_for_nobody_long() {
    let (_world, a, b) = two().await;
    for round in 0..10u64 {
        let (da, db) = (format!("a{round}"), format!("b{round}"));
        let da = a.mkdir(ROOT, &da).await;
        let db = b.mkdir(ROOT, &db).await;
        let fa = a.put(da, "f", &noise(20_000, round)).await;
        let fb = b.put(db, "f", &noise(20_000, round + 100)).await;
        let began = std::time::Instant::now();
        let (ra, rb) = tokio::join!(a.mv((da, "f"), (db, "from-a")), b.mv((db, "f"), (da, "from-b")));
        ra.unwrap();
        rb.unwrap();
        assert!(began.elapsed() < Duration::from_secs(10), "round {round}: {:?}", began.elapsed());
        assert_eq!(b.find(db, "from-a").await, Some(fa));
        assert_eq!(a.find(da, "from-b").await, Some(fb));
        assert!(b.get(fa).await.unwrap() == noise(20_000, round));
        assert!(a.get(fb).await.unwrap() == noise(20_000, round + 100));
    }
    end(a, b).await;
}

/// One mount publishes a directory while the other one has dirty files in it, and the other way round one level deeper.
#[tokio::test(flavor = "multi_thread")]
async fn publishing_above_and_below_at_once_loses_nothing() {
    let (_world, a, b) = two().await;
    for round in 0..6u64 {
        let top = a.mkdir(ROOT, &format!("top{round}")).await;
        let sub = b.mkdir(top, "sub").await;
        a.put(sub, "a", &noise(9000, round)).await;
        b.put(sub, "b", &noise(9000, round + 50)).await;
        b.put(top, "c", &noise(9000, round + 70)).await;
        let name = format!("top{round}");
        let done = format!("done{round}");
        let (ra, rb) = tokio::join!(a.mv((ROOT, &name), (ROOT, &done)), b.mv((top, "sub"), (top, "sub2")));
        ra.unwrap();
        rb.unwrap();
        for m in [&a, &b] {
            let top = m.find(ROOT, &done).await.unwrap();
            let sub = m.find(top, "sub2").await.unwrap();
            for (dir, n, seed) in [(sub, "a", round), (sub, "b", round + 50), (top, "c", round + 70)] {
                let ino = m.find(dir, n).await.unwrap();
                assert!(m.get(ino).await.unwrap() == noise(9000, seed), "{n} in round {round}");
            }
        }
    }
    end(a, b).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_mount_tells_of_its_loss_and_goes_on() {
    let (world, a, b) = two().await;
    let dir = a.mkdir(ROOT, "d").await;
    let kept = a.put(dir, "kept", &noise(9000, 1)).await;
    a.sync().await.unwrap();
    let (_, o) = a.create(&ctx(), dir, &name("lost"), file(), libc::O_RDWR).await.unwrap();
    a.write_all(o.fh, 0, &noise(9000, 2)).await;
    // The other session takes this one for dead.
    let old = a.meta().session();
    world.store.expire_lease(old.no);
    use carafe_meta::store::MetaStore;
    assert!(world.store.reap(&b.meta().session(), old.no).await.unwrap());
    let e = a.fsync(o.fh, false).await.unwrap_err();
    assert!(matches!(e, FsError::Io(_) | FsError::Fenced(_)), "{e}");
    assert!(a.write(o.fh, 0, Bytes::from_static(b"x"), false).await.is_err());
    assert!(a.flush(o.fh, 1).await.is_err());
    a.release(o.fh, None).await.unwrap();
    // A new session, and life goes on.
    assert!(a.get(kept).await.unwrap() == noise(9000, 1));
    let again = a.put(dir, "again", &noise(9000, 3)).await;
    assert!(b.get(again).await.unwrap() == noise(9000, 3));
    assert_ne!(a.meta().session().no, old.no);
    assert!(a.stats().lost_files > 0);
    end(a, b).await;
}

/// A call that is given up half way (its caller was killed) leaves nothing half done.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_given_up_leave_a_sound_file() {
    let (world, a, b) = two().await;
    world.faults.delay(Duration::from_millis(3));
    let dir = a.mkdir(ROOT, "d").await;
    let ino = a.put(dir, "f", b"").await;
    let fh = a.open_for(ino, libc::O_RDWR).await;
    for i in 0..150u64 {
        a.write_all(fh, i * 1000, &noise(1000, i)).await;
        let patience = Duration::from_micros(i * 37 % 6000);
        let _given_up = tokio::time::timeout(patience, a.fsync(fh, false)).await;
        if i % 10 == 0 {
            let (from, to) = (format!("t{i}"), format!("p{i}"));
            a.put(dir, &from, &noise(5000, i)).await;
            let _given_up = tokio::time::timeout(patience, a.mv((dir, &from), (dir, &to))).await;
        }
    }
    a.close(fh).await;
    a.sync().await.unwrap();
    for m in [&a, &b] {
        let all = m.get(ino).await.unwrap();
        assert!(all.chunks(1000).enumerate().all(|(i, c)| c == noise(1000, i as u64)));
        for i in (0..150).step_by(10) {
            let (from, to) = (m.find(dir, &format!("t{i}")).await, m.find(dir, &format!("p{i}")).await);
            assert!(from.is_some() != to.is_some(), "one name, {i}");
            let ino = from.or(to).unwrap();
            assert!(m.get(ino).await.unwrap() == noise(5000, i));
        }
    }
    end(a, b).await;
}

/// The kernel does not say that an open file description with a lock is gone, only that a file is closed.
#[tokio::test(flavor = "multi_thread")]
async fn regression_locks_of_an_open_file_description_end_with_the_last_close() {
    let (_world, a, b) = two().await;
    let ino = a.put(ROOT, "f", b"x").await;
    let typ = Some(LockType::Exclusive);
    let lock = LockRequest { kind: LockKind::Posix, owner: 77, start: 0, end: 9, typ, pid: 5 };
    let (on_a, on_b) = (a.open_for(ino, libc::O_RDWR).await, b.open_for(ino, libc::O_RDWR).await);
    a.setlk(on_a, &lock, None).await.unwrap();
    assert_eq!(b.setlk(on_b, &lock, None).await, Err(FsError::WouldBlock));
    // The owner at close is the process, which holds nothing.
    a.flush(on_a, 5).await.unwrap();
    a.release(on_a, None).await.unwrap();
    b.setlk(on_b, &lock, None).await.unwrap();
    b.close(on_b).await;
    end(a, b).await;
}
