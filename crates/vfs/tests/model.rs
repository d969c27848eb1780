//! Random operations through a mount, compared with the same operations on a plain directory.
#![allow(clippy::unwrap_used, reason = "a test may stop where a step fails")]

mod common;

use bytes::Bytes;
use carafe_vfs::{Falloc, SetAttr};
use common::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const FILES: u8 = 3;
const MAX: u64 = 300_000;

#[derive(Clone, Debug)]
enum Op {
    Open(u8, u8, bool),
    Close(u8),
    Write(u8, u64, usize),
    Read(u8, u64, usize),
    Truncate(u8, u64),
    Punch(u8, u64, u64),
    Fsync(u8),
    Unlink(u8),
    Rename(u8, u8),
    Copy(u8, u64, u8, u64, u64),
    DropCaches,
    Sync,
    Pause,
}

/// Offsets near each other and near borders find more than uniform ones.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..5000u64, 2 => 0..MAX, 1 => prop::sample::select(vec![0, 4095, 4096, 65_535, 65_536, 131_072, 262_144])]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 1..5000usize, 1 => 1..150_000usize]
}

fn op() -> impl Strategy<Value = Op> {
    let h = 0..4u8;
    prop_oneof![
        4 => (h.clone(), 0..FILES, prop::bool::weighted(0.2)).prop_map(|(h, f, a)| Op::Open(h, f, a)),
        2 => h.clone().prop_map(Op::Close),
        10 => (h.clone(), offset(), length()).prop_map(|(h, o, l)| Op::Write(h, o, l)),
        8 => (h.clone(), offset(), length()).prop_map(|(h, o, l)| Op::Read(h, o, l)),
        3 => (0..FILES, offset()).prop_map(|(f, s)| Op::Truncate(f, s)),
        2 => (h.clone(), offset(), 1..100_000u64).prop_map(|(h, o, l)| Op::Punch(h, o, l)),
        2 => h.clone().prop_map(Op::Fsync),
        1 => (0..FILES).prop_map(Op::Unlink),
        1 => (0..FILES, 0..FILES).prop_map(|(a, b)| Op::Rename(a, b)),
        1 => (h.clone(), offset(), h, offset(), 1..100_000u64).prop_map(|(a, o, b, p, l)| Op::Copy(a, o, b, p, l)),
        1 => Just(Op::DropCaches),
        1 => Just(Op::Sync),
        1 => Just(Op::Pause),
    ]
}

struct Both {
    m: Mount,
    dir: PathBuf,
    handles: HashMap<u8, (u64, File, bool)>,
    seed: u64,
}

impl Both {
    fn path(&self, f: u8) -> PathBuf {
        self.dir.join(f.to_string())
    }

    async fn run(&mut self, op: &Op) {
        self.seed += 1;
        match *op {
            Op::Open(h, f, append) => self.open(h, f, append).await,
            Op::Close(h) => self.close(h).await,
            Op::Write(h, o, l) => self.write(h, o, l).await,
            Op::Read(h, o, l) => self.read(h, o, l).await,
            Op::Truncate(f, size) => self.truncate(f, size).await,
            Op::Punch(h, o, l) => self.punch(h, o, l).await,
            Op::Fsync(h) => {
                if let Some((fh, ..)) = self.handles.get(&h) {
                    self.m.fsync(*fh, false).await.unwrap();
                }
            }
            Op::Unlink(f) => {
                let ours = self.m.rm(ROOT, &f.to_string()).await.is_ok();
                assert_eq!(ours, std::fs::remove_file(self.path(f)).is_ok());
            }
            Op::Rename(a, b) => {
                let ours = self.m.mv((ROOT, &a.to_string()), (ROOT, &b.to_string())).await.is_ok();
                assert_eq!(ours, std::fs::rename(self.path(a), self.path(b)).is_ok());
            }
            Op::Copy(a, o, b, p, l) => self.copy(a, o, b, p, l).await,
            Op::DropCaches => drop(self.m.drop_clean_cache()),
            Op::Sync => self.m.sync().await.unwrap(),
            Op::Pause => tokio::time::sleep(Duration::from_millis(3)).await,
        }
    }

    async fn open(&mut self, h: u8, f: u8, append: bool) {
        self.close(h).await;
        let n = f.to_string();
        let flags = libc::O_RDWR | if append { libc::O_APPEND } else { 0 };
        let fh = match self.m.find(ROOT, &n).await {
            Some(ino) => self.m.open_for(ino, flags).await,
            None => self.m.create(&ctx(), ROOT, &name(&n), file(), flags).await.unwrap().1.fh,
        };
        let mut o = OpenOptions::new();
        o.read(true).create(true).truncate(false);
        let theirs = if append { o.append(true) } else { o.write(true) }.open(self.path(f)).unwrap();
        self.handles.insert(h, (fh, theirs, append));
    }

    async fn close(&mut self, h: u8) {
        if let Some((fh, ..)) = self.handles.remove(&h) {
            self.m.close(fh).await;
        }
    }

    async fn write(&mut self, h: u8, o: u64, l: usize) {
        let Some((fh, theirs, append)) = self.handles.get(&h) else { return };
        let bytes = noise(l, self.seed);
        if *append {
            use std::io::Write;
            (&*theirs).write_all(&bytes).unwrap();
        } else {
            theirs.write_all_at(&bytes, o).unwrap();
        }
        let n = self.m.write(*fh, o, Bytes::from(bytes), false).await.unwrap();
        assert_eq!(n as usize, l);
    }

    async fn read(&mut self, h: u8, o: u64, l: usize) {
        let Some((fh, theirs, _)) = self.handles.get(&h) else { return };
        let mut want = vec![0; l];
        let mut n = 0;
        loop {
            match theirs.read_at(&mut want[n..], o + n as u64).unwrap() {
                0 => break,
                more => n += more,
            }
        }
        let got = self.m.read(*fh, o, l as u32).await.unwrap();
        assert_same(&got, &want[..n], &format!("read of handle {h} at {o}"));
    }

    async fn truncate(&mut self, f: u8, size: u64) {
        let Some(ino) = self.m.find(ROOT, &f.to_string()).await else { return };
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        let e = self.m.setattr(&ctx(), ino, None, &set).await.unwrap();
        assert_eq!(e.attr.size, size);
        OpenOptions::new().write(true).open(self.path(f)).unwrap().set_len(size).unwrap();
    }

    async fn punch(&mut self, h: u8, o: u64, l: u64) {
        let Some((fh, theirs, _)) = self.handles.get(&h) else { return };
        self.m.fallocate(&ctx(), *fh, Falloc::PunchHole, o, l).await.unwrap();
        let size = theirs.metadata().unwrap().len();
        let n = l.min(size.saturating_sub(o)) as usize;
        // A file opened with O_APPEND cannot be written in the middle; another descriptor can.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(theirs));
        OpenOptions::new().write(true).open(path).unwrap().write_all_at(&vec![0; n], o).unwrap();
    }

    async fn copy(&mut self, a: u8, o: u64, b: u8, p: u64, l: u64) {
        let (Some((from, source, _)), Some((to, target, append))) =
            (self.handles.get(&a), self.handles.get(&b))
        else {
            return;
        };
        if *append {
            return;
        }
        let Ok(copied) = self.m.copy_file_range(&ctx(), (*from, o), (*to, p), l).await else { return };
        let mut bytes = vec![0; copied as usize];
        source.read_exact_at(&mut bytes, o).unwrap();
        target.write_all_at(&bytes, p).unwrap();
    }

    async fn compare(&self) {
        for f in 0..FILES {
            let theirs = std::fs::read(self.path(f)).ok();
            let ours = match self.m.find(ROOT, &f.to_string()).await {
                Some(ino) => Some(self.m.get(ino).await.unwrap()),
                None => None,
            };
            assert_eq!(ours.is_some(), theirs.is_some(), "existence of {f}");
            if let (Some(ours), Some(theirs)) = (ours, theirs) {
                assert_same(&ours, &theirs, &format!("content of {f}"));
            }
        }
    }
}

fn assert_same(got: &[u8], want: &[u8], what: &str) {
    assert_eq!(got.len(), want.len(), "length of {what}");
    if let Some(at) = (0..got.len()).find(|&i| got[i] != want[i]) {
        panic!("{what} differs first at {at}: {} instead of {}", got[at], want[at]);
    }
}

fn settings(small: bool) -> Settings {
    let flush_delay = Duration::from_millis(if small { 2 } else { 3_600_000 });
    Settings {
        block_size: 64 << 10,
        inline_max: 4096,
        cache_bytes: if small { 3 << 20 } else { 1 << 30 },
        spill_bytes: if small { 20_000 } else { 128 << 10 },
        flush_delay,
        ..Settings::default()
    }
}

fn run(small: bool, ops: &[Op]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::new(settings(small)).await;
        let plain = tempfile::TempDir::new_in(Path::new("/dev/shm").canonicalize().unwrap()).unwrap();
        let m = world.mount().await;
        let mut both = Both { m, dir: plain.path().to_owned(), handles: HashMap::new(), seed: 0 };
        both.open(0, 0, false).await;
        both.open(1, 1, false).await;
        for op in ops {
            both.run(op).await;
        }
        both.compare().await;
        for h in 0..4 {
            both.close(h).await;
        }
        both.m.shutdown().await.unwrap();
        assert_eq!(both.m.stats().small_bytes, 0);
        assert_eq!(both.m.cache_stats().dirty_bytes, 0);
        // Another mount with an empty cache sees the same.
        let again = Both { m: world.mount_with("b", BOOT, |_| ()).await, ..both };
        again.compare().await;
        again.m.shutdown().await.unwrap();
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_mount_agrees_with_a_plain_directory(ops in prop::collection::vec(op(), 1..80)) {
        run(false, &ops);
    }

    #[test]
    fn a_mount_with_a_tiny_cache_and_quick_flushes_agrees_too(ops in prop::collection::vec(op(), 1..80)) {
        run(true, &ops);
    }
}
