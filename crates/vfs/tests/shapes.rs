//! Files that are written in unusual ways.

#![allow(clippy::unwrap_used, reason = "a test may stop where a step fails")]

mod common;

use bytes::Bytes;
use common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_crumbs_is_put_in_order_before_it_goes_up() {
    let world = World::new(Settings { block_size: 256 << 10, ..Settings::default() }).await;
    let m = world.mount().await;
    let mut want = noise(8 << 20, 1);
    let ino = m.put(ROOT, "f", &want).await;
    m.sync().await.unwrap();
    let fh = m.open_for(ino, libc::O_RDWR).await;
    for i in 0..1500u64 {
        let at = (i * 7_919_911) % (8 << 20) / 4096 * 4096;
        let bytes = noise(4096, i + 1000);
        want[at as usize..][..4096].copy_from_slice(&bytes);
        m.write_all(fh, at, &bytes).await;
    }
    m.fsync(fh, false).await.unwrap();
    m.close(fh).await;
    assert!(m.get(ino).await.unwrap() == want);
    m.shutdown().await.unwrap();
    let cold = world.mount_with("b", BOOT, |_| ()).await;
    assert!(cold.get(ino).await.unwrap() == want);
    cold.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_file_of_thousands_of_holes_keeps_them() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let (e, o) = m.create(&ctx(), ROOT, &name("f"), file(), libc::O_RDWR).await.unwrap();
    let mut want = vec![0; 60_000];
    for i in 0..3000usize {
        want[i * 20] = i as u8 | 1;
        m.write_all(o.fh, i as u64 * 20, &[i as u8 | 1]).await;
    }
    want.truncate(2999 * 20 + 1);
    m.close(o.fh).await;
    m.sync().await.unwrap();
    assert!(m.get(e.attr.ino).await.unwrap() == want);
    m.shutdown().await.unwrap();
    let cold = world.mount_with("b", BOOT, |_| ()).await;
    assert!(cold.get(e.attr.ino).await.unwrap() == want);
    cold.shutdown().await.unwrap();
}

/// Blocks of 4 KiB are each of one version: readers may see an old or a new one, never a mixture and never zeroes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_see_whole_versions_while_a_writer_rewrites_and_flushes() {
    let settings = Settings {
        block_size: 64 << 10,
        cache_bytes: 8 << 20,
        spill_bytes: 32 << 10,
        flush_delay: Duration::from_millis(1),
        ..Settings::default()
    };
    let world = World::new(settings).await;
    let m = world.mount().await;
    let blocks = 64u64;
    let ino = m.put(ROOT, "f", &vec![1; (blocks * 4096) as usize]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    for r in 0..3u64 {
        let (m, stop) = (Mount { vfs: m.vfs.clone() }, stop.clone());
        readers.push(tokio::spawn(async move {
            let fh = m.open_for(ino, libc::O_RDONLY).await;
            let mut reads = 0u64;
            while !stop.load(SeqCst) {
                let at = (reads * 31 + r * 7) % blocks * 4096;
                let bytes = m.read(fh, at, 4096).await.unwrap();
                assert!(
                    bytes.len() == 4096 && bytes[0] != 0 && bytes.iter().all(|b| *b == bytes[0]),
                    "at {at}"
                );
                reads += 1;
            }
            m.close(fh).await;
            reads
        }));
    }
    let fh = m.open_for(ino, libc::O_RDWR).await;
    for v in 2..=120u8 {
        for b in 0..blocks {
            let at = (b * 13 + u64::from(v)) % blocks * 4096;
            m.write(fh, at, Bytes::from(vec![v; 4096]), false).await.unwrap();
        }
        match v % 4 {
            0 => m.fsync(fh, false).await.unwrap(),
            1 => drop(m.drop_clean_cache()),
            _ => tokio::task::yield_now().await,
        }
    }
    stop.store(true, SeqCst);
    for r in readers {
        assert!(r.await.unwrap() > 0);
    }
    m.close(fh).await;
    assert!(m.get(ino).await.unwrap() == vec![120; (blocks * 4096) as usize]);
    m.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cold_sequential_reader_is_served_ahead_of_its_calls() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let want = noise(64 << 20, 5);
    let ino = m.put(ROOT, "f", &want).await;
    m.shutdown().await.unwrap();
    world.faults.delay(Duration::from_millis(20));
    let cold = world.mount_with("b", BOOT, |_| ()).await;
    let began = std::time::Instant::now();
    assert!(cold.get(ino).await.unwrap() == want);
    // One block after the other would take 16 * 20 ms and each call its own fetch 512 * 20 ms.
    assert!(world.gets() <= 64, "{} GETs", world.gets());
    println!("64 MiB cold in {:?} with {} GETs", began.elapsed(), world.gets());
    cold.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cold_random_reader_does_not_fetch_whole_blocks() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let want = noise(64 << 20, 5);
    let ino = m.put(ROOT, "f", &want).await;
    m.shutdown().await.unwrap();
    let cold = world.mount_with("b", BOOT, |_| ()).await;
    let fh = cold.open_for(ino, libc::O_RDONLY).await;
    for i in 1..=50u64 {
        let at = (i * 7_919_911) % (63 << 20);
        let got = cold.read(fh, at, 4096).await.unwrap();
        assert!(got == want[at as usize..][..4096]);
    }
    let fetched = cold.stats().fetched_bytes;
    assert!(fetched <= 50 * (256 << 10), "{fetched} bytes for 50 reads of 4 KiB");
    cold.close(fh).await;
    cold.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_readers_of_one_place_cause_one_fetch() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let ino = m.put(ROOT, "f", &noise(8 << 20, 5)).await;
    m.shutdown().await.unwrap();
    world.faults.delay(Duration::from_millis(20));
    let cold = world.mount_with("b", BOOT, |_| ()).await;
    let fh = cold.open_for(ino, libc::O_RDONLY).await;
    let reads = (0..40).map(|i| cold.read(fh, (5 << 20) + i * 100, 4096));
    for read in futures::future::join_all(reads).await {
        assert_eq!(read.unwrap().len(), 4096);
    }
    assert_eq!(world.gets(), 1);
    cold.close(fh).await;
    cold.shutdown().await.unwrap();
}
