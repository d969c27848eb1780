//! The bucket fails, objects are damaged, the cache disk is full.
#![allow(clippy::unwrap_used, reason = "a test may stop where a step fails")]

mod common;

use bytes::Bytes;
use carafe_object::{ObjectError, Verb};
use carafe_types::FsError;
use common::*;
use futures::TryStreamExt;
use std::time::{Duration, Instant};

fn down() -> ObjectError {
    ObjectError::Unreachable { bucket: "twin".into(), detail: "down".into() }
}

async fn keys(world: &World) -> Vec<String> {
    world.bucket.list("d/").map_ok(|l| l.key).try_collect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_is_away_for_a_while_costs_time_and_nothing_else() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    world.faults.fail_next(Verb::Put, 20, down());
    let small = m.put(ROOT, "small", &noise(20_000, 1)).await;
    let large = m.put(ROOT, "large", &noise(9 << 20, 2)).await;
    m.sync().await.unwrap();
    assert!(m.stats().upload_errors > 0);
    m.shutdown().await.unwrap();
    let cold = world.mount_with("b", BOOT, |_| ()).await;
    assert!(cold.get(small).await.unwrap() == noise(20_000, 1));
    assert!(cold.get(large).await.unwrap() == noise(9 << 20, 2));
    cold.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn fsync_and_publishing_give_up_after_the_patience_and_the_data_stays() {
    let settings = Settings { patience: Duration::from_millis(600), ..Settings::default() };
    let world = World::new(settings).await;
    let m = world.mount().await;
    world.faults.fail_next(Verb::Put, 10_000, down());
    let dir = m.mkdir(ROOT, "tmp").await;
    let ino = m.put(dir, "f", &noise(20_000, 1)).await;
    let fh = m.open_for(ino, libc::O_RDWR).await;
    let began = Instant::now();
    assert!(matches!(m.fsync(fh, false).await, Err(FsError::Unavailable(_))));
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(matches!(m.mv((ROOT, "tmp"), (ROOT, "part")).await, Err(FsError::Unavailable(_))));
    assert_eq!(m.find(ROOT, "part").await, None, "nothing is published without its data");
    assert_eq!(m.read(fh, 0, 20_000).await.unwrap(), Bytes::from(noise(20_000, 1)));
    m.write_all(fh, 20_000, b"more").await;
    world.faults.heal();
    m.mv((ROOT, "tmp"), (ROOT, "part")).await.unwrap();
    m.close(fh).await;
    m.shutdown().await.unwrap();
    let cold = world.mount_with("b", BOOT, |_| ()).await;
    let mut want = noise(20_000, 1);
    want.extend_from_slice(b"more");
    assert!(cold.get(ino).await.unwrap() == want);
    cold.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_object_is_an_error_that_names_it_and_never_zeroes() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let pack = m.put(ROOT, "packed", &noise(20_000, 1)).await;
    let blocks = m.put(ROOT, "blocks", &noise(5 << 20, 2)).await;
    m.shutdown().await.unwrap();
    for key in keys(&world).await {
        let mut bytes = world.bucket.get(&key).await.unwrap().to_vec();
        bytes[5000] ^= 1;
        world.bucket.put(&key, Bytes::from(bytes)).await.unwrap();
    }
    let cold = world.mount_with("b", BOOT, |_| ()).await;
    for ino in [pack, blocks] {
        match cold.get(ino).await {
            Err(FsError::Io(text)) => assert!(keys(&world).await.iter().any(|k| text.contains(k)), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    cold.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_object_is_an_error_that_names_it() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let ino = m.put(ROOT, "f", &noise(20_000, 1)).await;
    m.shutdown().await.unwrap();
    let all = keys(&world).await;
    world.bucket.delete_many(&all).await.unwrap();
    let cold = world.mount_with("b", BOOT, |_| ()).await;
    match cold.get(ino).await {
        Err(FsError::Io(text)) => assert!(text.contains(&all[0]), "{text}"),
        other => panic!("{other:?}"),
    }
    cold.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_cache_file_is_fetched_again() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let ino = m.put(ROOT, "f", &noise(5 << 20, 2)).await;
    m.sync().await.unwrap();
    m.shutdown().await.unwrap();
    drop(m);
    let mut damaged = 0;
    let mut dirs = vec![world.dir.path().to_owned()];
    while let Some(dir) = dirs.pop() {
        for e in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            if e.metadata().unwrap().is_dir() {
                dirs.push(e.path());
            } else if e.metadata().unwrap().len() == 5 << 20 {
                let mut bytes = std::fs::read(e.path()).unwrap();
                bytes[1_000_000] ^= 1;
                std::fs::write(e.path(), bytes).unwrap();
                damaged += 1;
            }
        }
    }
    assert_eq!(damaged, 1);
    let next = world.mount().await;
    assert!(next.get(ino).await.unwrap() == noise(5 << 20, 2));
    assert!(world.gets() > 0);
    next.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_write_buffer_is_never_fuller_than_its_bound() {
    let settings = Settings { cache_bytes: 8 << 20, block_size: 256 << 10, ..Settings::default() };
    let world = World::new(settings).await;
    world.faults.delay(Duration::from_millis(5));
    let m = world.mount().await;
    let mut tasks = Vec::new();
    for i in 0..6u64 {
        let vfs = m.vfs.clone();
        tasks.push(tokio::spawn(async move {
            let m = Mount { vfs };
            m.put(ROOT, &format!("f{i}"), &noise(6 << 20, i)).await;
        }));
    }
    let mut highest = 0;
    while tasks.iter().any(|t| !t.is_finished()) {
        highest = highest.max(m.cache_stats().dirty_bytes);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for t in tasks {
        t.await.unwrap();
    }
    assert!(highest <= m.cache_stats().dirty_limit_bytes + (1 << 20), "{highest} dirty bytes");
    m.shutdown().await.unwrap();
    let cold = world.mount_with("b", BOOT, |_| ()).await;
    for i in 0..6 {
        let ino = cold.find(ROOT, &format!("f{i}")).await.unwrap();
        assert!(cold.get(ino).await.unwrap() == noise(6 << 20, i));
    }
    cold.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_disk_everything_works_in_memory() {
    let world = World::new(Settings::default()).await;
    let m = world.mount_with("a", BOOT, |o| o.cache = carafe_cache::Cache::memory(32 << 20)).await;
    let (small, large) = (noise(3000, 1), noise(40 << 20, 2));
    let a = m.put(ROOT, "a", &small).await;
    let b = m.put(ROOT, "b", &large).await;
    assert!(m.get(a).await.unwrap() == small && m.get(b).await.unwrap() == large);
    m.sync().await.unwrap();
    assert!(m.get(a).await.unwrap() == small && m.get(b).await.unwrap() == large);
    m.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_cache_disk_lets_new_data_go_to_memory() {
    let world = World::new(Settings::default()).await;
    // A cache that believes that its disk has no room for it at all.
    let m = world.mount_with("a", BOOT, |_| ()).await;
    let warm = m.put(ROOT, "warm", &noise(300_000, 1)).await;
    std::fs::remove_dir_all(world.dir.path().join("a")).unwrap();
    std::fs::write(world.dir.path().join("a"), b"in the way").unwrap();
    let ino = m.put(ROOT, "f", &noise(3 << 20, 2)).await;
    assert!(m.stats().memory_mode);
    assert!(m.get(ino).await.unwrap() == noise(3 << 20, 2));
    assert!(m.get(warm).await.unwrap() == noise(300_000, 1), "open files are still there");
    m.sync().await.unwrap();
    m.shutdown().await.unwrap();
    let cold = world.mount_with("b", BOOT, |_| ()).await;
    assert!(cold.get(ino).await.unwrap() == noise(3 << 20, 2));
    assert!(cold.get(warm).await.unwrap() == noise(300_000, 1));
    cold.shutdown().await.unwrap();
}
