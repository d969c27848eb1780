//! What a mount does in ordinary life, and what it costs in requests.
#![allow(clippy::unwrap_used, reason = "a test may stop where a step fails")]

mod common;

use bytes::Bytes;
use carafe_types::FsError;
use carafe_vfs::{Falloc, SeekWhence};
use common::*;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_read_back_while_dirty_and_after_each_kind_of_flush() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    for len in [0, 1, 4096, 4097, 100_000, 130_000, 3 << 20, 9 << 20] {
        let bytes = noise(len, len as u64);
        let ino = m.put(ROOT, &format!("f{len}"), &bytes).await;
        assert!(m.get(ino).await.unwrap() == bytes, "{len} dirty");
        m.sync().await.unwrap();
        assert_eq!(m.stats().dirty_files, 0);
        assert!(m.get(ino).await.unwrap() == bytes, "{len} committed");
        assert_eq!(m.getattr(ino, None).await.unwrap().attr.size, len as u64);
    }
    assert_eq!(world.gets(), 0, "what was written is cached");
    m.shutdown().await.unwrap();
    let cold = world.mount_with("b", BOOT, |_| ()).await;
    for len in [0, 1, 4096, 4097, 100_000, 130_000, 3 << 20, 9 << 20] {
        let ino = cold.find(ROOT, &format!("f{len}")).await.unwrap();
        assert!(cold.get(ino).await.unwrap() == noise(len, len as u64), "{len} cold");
    }
    cold.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_sixty_files_is_one_pack_and_goes_up_with_the_rename() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    m.sync().await.unwrap();
    let part = m.mkdir(ROOT, "tmp_part").await;
    let mut files = Vec::new();
    for i in 0..60usize {
        let bytes = noise(100 + i * 1000, i as u64);
        files.push((m.put(part, &format!("c{i}.bin"), &bytes).await, bytes));
    }
    assert_eq!((world.puts(), m.stats().commits), (0, 0));
    m.mv((ROOT, "tmp_part"), (ROOT, "part")).await.unwrap();
    assert_eq!((world.puts(), m.stats().commits, m.stats().dirty_files), (1, 1, 0));
    m.shutdown().await.unwrap();
    let cold = world.mount_with("b", BOOT, |_| ()).await;
    let part = cold.find(ROOT, "part").await.unwrap();
    for (i, (_, bytes)) in files.iter().enumerate() {
        let ino = cold.find(part, &format!("c{i}.bin")).await.unwrap();
        assert!(cold.get(ino).await.unwrap() == *bytes, "file {i}");
    }
    assert_eq!(world.gets(), 1, "one file brings its neighbours");
}

#[tokio::test(flavor = "multi_thread")]
async fn regression_set_id_bits_that_are_set_after_a_write_stay() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let ino = m.put(ROOT, "tool", b"one").await;
    let mode = |mode| carafe_meta::SetAttr { mode: Some(mode), ..Default::default() };
    m.setattr(&ctx(), ino, None, &mode(0o4755)).await.unwrap();
    let fh = m.open_for(ino, libc::O_WRONLY).await;
    m.write(fh, 0, Bytes::from_static(b"two"), true).await.unwrap();
    assert_eq!(m.getattr(ino, None).await.unwrap().attr.mode, 0o755, "the write has cleared them");
    m.setattr(&ctx(), ino, None, &mode(0o4755)).await.unwrap();
    m.close(fh).await;
    m.sync().await.unwrap();
    assert_eq!(m.getattr(ino, None).await.unwrap().attr.mode, 0o4755);
    m.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tiny_part_needs_no_object_at_all() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let part = m.mkdir(ROOT, "tmp").await;
    for i in 0..10usize {
        m.put(part, &format!("c{i}"), &noise(20 + i * 100, 1)).await;
    }
    m.mv((ROOT, "tmp"), (ROOT, "part")).await.unwrap();
    assert_eq!((world.puts(), m.stats().inline_files), (0, 10));
    let ino = m.find(part, "c9").await.unwrap();
    assert_eq!(m.get(ino).await.unwrap(), noise(920, 1));
    m.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_inline_budget_tiny_files_are_packed() {
    let world = World::new(Settings { inline_budget: 100, ..Settings::default() }).await;
    let m = world.mount().await;
    let part = m.mkdir(ROOT, "tmp").await;
    for i in 0..10usize {
        m.put(part, &format!("c{i}"), &noise(500, i as u64)).await;
    }
    m.mv((ROOT, "tmp"), (ROOT, "part")).await.unwrap();
    assert_eq!((world.puts(), m.stats().inline_files), (1, 0));
    m.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_removed_before_its_flush_costs_no_request() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    m.put(ROOT, "tmp", &noise(50_000, 1)).await;
    m.put(ROOT, "big", &noise(300_000, 1)).await;
    m.rm(ROOT, "tmp").await.unwrap();
    m.rm(ROOT, "big").await.unwrap();
    assert_eq!((m.stats().dirty_files, m.stats().small_bytes), (0, 0));
    m.shutdown().await.unwrap();
    assert_eq!(world.puts(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unlinked_open_file_is_readable_until_its_last_close() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let ino = m.put(ROOT, "f", b"still here").await;
    let fh = m.open_for(ino, libc::O_RDWR).await;
    m.rm(ROOT, "f").await.unwrap();
    m.write_all(fh, 10, b", and more").await;
    assert_eq!(m.read(fh, 0, 100).await.unwrap(), Bytes::from_static(b"still here, and more"));
    m.fsync(fh, false).await.unwrap();
    assert_eq!(m.read(fh, 6, 4).await.unwrap(), Bytes::from_static(b"here"));
    m.close(fh).await;
    assert_eq!((m.stats().nodes, m.stats().dirty_files), (0, 0));
    m.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_files_go_up_after_the_delay_and_open_ones_do_not() {
    let settings = Settings { flush_delay: Duration::from_millis(50), ..Settings::default() };
    let world = World::new(settings).await;
    let m = world.mount().await;
    for i in 0..20 {
        m.put(ROOT, &format!("f{i}"), &noise(10_000, i)).await;
    }
    let (_, open) = m.create(&ctx(), ROOT, &name("open"), file(), libc::O_RDWR).await.unwrap();
    m.write_all(open.fh, 0, b"not yet").await;
    for _ in 0..100 {
        if m.stats().dirty_files == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((m.stats().dirty_files, m.stats().packs), (1, 1));
    m.close(open.fh).await;
    m.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_fsyncs_share_their_commits() {
    let world = World::new(Settings { inline_max: 0, ..Settings::default() }).await;
    world.faults.delay(Duration::from_millis(20));
    let m = world.mount().await;
    let mut tasks = Vec::new();
    for i in 0..40u64 {
        let vfs = m.vfs.clone();
        tasks.push(tokio::spawn(async move {
            let m = Mount { vfs };
            let made = m.create(&ctx(), ROOT, &name(&format!("f{i}")), file(), libc::O_RDWR).await;
            let fh = made.unwrap().1.fh;
            m.write_all(fh, 0, &noise(1000, i)).await;
            m.fsync(fh, true).await.unwrap();
            m.close(fh).await;
        }));
    }
    for t in tasks {
        t.await.unwrap();
    }
    assert!(world.puts() <= 12, "{} PUTs for 40 files", world.puts());
    m.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_exact_at_write() {
    let world = World::new(Settings { limit: Some(100_000), ..Settings::default() }).await;
    let m = world.mount().await;
    let (_, o) = m.create(&ctx(), ROOT, &name("f"), file(), libc::O_RDWR).await.unwrap();
    m.write_all(o.fh, 0, &noise(99_990, 1)).await;
    let e = m.write(o.fh, 99_990, Bytes::from(vec![1; 11]), false).await.unwrap_err();
    assert!(matches!(e, FsError::NoSpace(_) | FsError::QuotaExceeded), "{e}");
    m.write_all(o.fh, 99_990, &[1; 10]).await;
    assert_eq!(m.statfs(ROOT).unwrap().free_bytes, 0);
    m.cut(m.find(ROOT, "f").await.unwrap(), 50_000).await.unwrap();
    m.write_all(o.fh, 50_000, &noise(50_000, 2)).await;
    m.close(o.fh).await;
    m.sync().await.unwrap();
    assert_eq!(m.statfs(ROOT).unwrap().free_bytes, 0);
    m.rm(ROOT, "f").await.unwrap();
    m.put(ROOT, "g", &noise(100_000, 3)).await;
    m.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_file_needs_a_bounded_part_of_the_write_buffer() {
    let settings = Settings { cache_bytes: 16 << 20, block_size: 256 << 10, ..Settings::default() };
    let world = World::new(settings).await;
    let m = world.mount().await;
    let (e, o) = m.create(&ctx(), ROOT, &name("long"), file(), libc::O_RDWR).await.unwrap();
    for i in 0..64u64 {
        m.write_all(o.fh, i << 20, &noise(1 << 20, i)).await;
        let dirty = m.vfs.cache_stats().dirty_bytes;
        assert!(dirty <= 9 << 20, "{dirty} dirty bytes after {i} MiB");
    }
    m.close(o.fh).await;
    m.sync().await.unwrap();
    let fh = m.open_for(e.attr.ino, libc::O_RDONLY).await;
    for i in 0..64u64 {
        let mut got = Vec::new();
        while got.len() < 1 << 20 {
            got.extend_from_slice(&m.read(fh, (i << 20) + got.len() as u64, 128 << 10).await.unwrap());
        }
        assert!(got == noise(1 << 20, i), "MiB {i}");
    }
    m.close(fh).await;
    m.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn holes_are_found_and_read_as_zero() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let (_, o) = m.create(&ctx(), ROOT, &name("sparse"), file(), libc::O_RDWR).await.unwrap();
    m.write_all(o.fh, 1 << 40, b"far away").await;
    for _ in 0..2 {
        assert_eq!(m.lseek(o.fh, 0, SeekWhence::Hole).await, Ok(0));
        assert_eq!(m.lseek(o.fh, 0, SeekWhence::Data).await, Ok(1 << 40));
        assert_eq!(m.lseek(o.fh, 1 << 40, SeekWhence::Hole).await, Ok((1 << 40) + 8));
        assert_eq!(m.lseek(o.fh, (1 << 40) + 8, SeekWhence::Data).await, Err(FsError::BeyondEnd));
        assert_eq!(m.read(o.fh, (1 << 40) - 2, 100).await.unwrap(), Bytes::from_static(b"\0\0far away"));
        m.fsync(o.fh, false).await.unwrap();
    }
    m.fallocate(&ctx(), o.fh, Falloc::PunchHole, 1 << 40, 4).await.unwrap();
    assert_eq!(m.read(o.fh, 1 << 40, 100).await.unwrap(), Bytes::from_static(b"\0\0\0\0away"));
    m.close(o.fh).await;
    m.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_inside_shares_slices_and_an_inline_file_is_copied_by_bytes() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    for len in [1000, 5 << 20] {
        let bytes = noise(len, 9);
        let src = m.put(ROOT, &format!("s{len}"), &bytes).await;
        let from = m.open_for(src, libc::O_RDONLY).await;
        let made = m.create(&ctx(), ROOT, &name(&format!("d{len}")), file(), libc::O_RDWR).await.unwrap();
        let (dst, to) = (made.0.attr.ino, made.1.fh);
        m.fsync(from, false).await.unwrap();
        let puts = world.puts();
        let copied = m.copy_file_range(&ctx(), (from, 0), (to, 0), len as u64).await.unwrap();
        assert_eq!((copied, world.puts()), (len as u64, puts));
        m.close(to).await;
        assert!(m.get(dst).await.unwrap() == bytes);
        m.close(from).await;
    }
    m.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_any_size_is_read_once_each_while_it_changes() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let dir = m.mkdir(ROOT, "d").await;
    for i in 0..2500 {
        m.put(dir, &format!("n{i:05}"), b"").await;
    }
    let fh = m.opendir(&ctx(), dir).await.unwrap();
    let mut seen = Vec::new();
    let mut cookie = 0;
    loop {
        let page = m.readdir(fh, cookie, 300, seen.len() % 2 == 0).await.unwrap();
        let Some(last) = page.entries.last() else { break };
        cookie = last.cookie;
        // Names that come and go meanwhile.
        m.put(dir, &format!("n00000-{}", seen.len()), b"").await;
        m.rm(dir, &format!("n{:05}", seen.len() / 2 * 2)).await.ok();
        seen.extend(page.entries.into_iter().map(|e| e.name));
    }
    let names: Vec<String> = seen.iter().map(|n| String::from_utf8_lossy(n).into_owned()).collect();
    assert_eq!(&names[..2], [".", ".."]);
    let mut unique = names.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "no name twice");
    let stayed = (0..2500).filter(|i| i % 2 == 1).map(|i| format!("n{i:05}"));
    assert!(stayed.into_iter().all(|n| unique.binary_search(&n).is_ok()));
    let again = m.readdir(fh, 0, 3, false).await.unwrap();
    assert_eq!(again.entries[0].name, "."); // rewinddir
    m.releasedir(fh).await.unwrap();
    m.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_of_several_handles_never_overwrite_each_other() {
    let world = World::new(Settings::default()).await;
    let m = world.mount().await;
    let ino = m.put(ROOT, "log", b"").await;
    let mut tasks = Vec::new();
    for w in 0..4u8 {
        let vfs = m.vfs.clone();
        tasks.push(tokio::spawn(async move {
            let m = Mount { vfs };
            let fh = m.open_for(ino, libc::O_WRONLY | libc::O_APPEND).await;
            for _ in 0..100 {
                m.write(fh, 0, Bytes::from(vec![b'a' + w; 10]), false).await.unwrap();
            }
            m.close(fh).await;
        }));
    }
    for t in tasks {
        t.await.unwrap();
    }
    let all = m.get(ino).await.unwrap();
    assert_eq!(all.len(), 4000);
    for w in 0..4u8 {
        assert_eq!(all.chunks(10).filter(|c| *c == [b'a' + w; 10]).count(), 100);
    }
    m.shutdown().await.unwrap();
}
