//! A file system in memory with a cache directory, mounted as often as a test wants.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test takes what it needs, and may stop where a step fails"
)]

use bytes::Bytes;
use carafe_cache::{Cache, CacheConfig};
use carafe_meta::format::{FormatOptions, format};
use carafe_meta::memory::MemoryStore;
use carafe_meta::{Client, ClientOptions};
use carafe_object::decorate::{Failing, Faults, LimitOptions, RetryPolicy};
use carafe_object::store::StoreClient;
use carafe_object::{Bucket, Verb};
use carafe_types::record::Limits;
use carafe_types::{EntryName, FileKind, FsResult, InodeNo};
use carafe_vfs::{Ctx, Lookup, NewNode, RenameMode, SetAttr, Vfs, VfsOptions, resumable_session};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const ROOT: InodeNo = InodeNo::ROOT;
pub(crate) const BOOT: [u8; 16] = [7; 16];

pub(crate) fn ctx() -> Ctx {
    Ctx { uid: 1000, gid: 1000, pid: 1 }
}

pub(crate) fn name(n: &str) -> EntryName {
    EntryName::new(n.as_bytes()).unwrap()
}

/// How a world is made.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) block_size: u32,
    pub(crate) inline_max: u32,
    pub(crate) inline_budget: u64,
    pub(crate) limit: Option<u64>,
    pub(crate) cache_bytes: u64,
    pub(crate) spill_bytes: u64,
    pub(crate) flush_delay: Duration,
    pub(crate) patience: Duration,
    pub(crate) close_sync: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            block_size: 4 << 20,
            inline_max: 4096,
            inline_budget: 64 << 20,
            limit: None,
            cache_bytes: 1 << 30,
            spill_bytes: 128 << 10,
            flush_delay: Duration::from_secs(3600),
            patience: Duration::from_secs(60),
            close_sync: false,
        }
    }
}

/// Store, bucket and cache directory.
pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) bucket: Bucket,
    pub(crate) faults: Faults,
    pub(crate) dir: TempDir,
    pub(crate) settings: Settings,
    fs: [u8; 16],
}

impl World {
    pub(crate) async fn new(settings: Settings) -> Self {
        let store = Arc::new(MemoryStore::new());
        let mut options = FormatOptions::new("test", "memory:");
        options.block_size = settings.block_size;
        options.inline_max = settings.inline_max;
        options.inline_budget = settings.inline_budget;
        options.limits = Limits { bytes: settings.limit, inodes: None };
        let superblock = format(&*store, options).await.unwrap();
        let (client, faults) = Failing::new(StoreClient::memory());
        let quick = RetryPolicy::within(Duration::from_millis(300));
        let bucket = Bucket::over(client, "twin", quick, LimitOptions::default());
        let shm = std::path::Path::new("/dev/shm");
        let dir = if shm.is_dir() { TempDir::new_in(shm) } else { TempDir::new() };
        let dir = dir.unwrap();
        let fs = *superblock.uuid.as_bytes();
        World { store, bucket, faults, dir, settings, fs }
    }

    pub(crate) fn cache(&self, sub: &str, boot: [u8; 16]) -> Cache {
        let dir = self.dir.path().join(sub);
        std::fs::create_dir_all(&dir).unwrap();
        let mut config = CacheConfig::new(dir, self.settings.cache_bytes, self.fs, boot);
        config.free_ratio = 0.0;
        Cache::open(config).unwrap()
    }

    pub(crate) fn options(&self, cache: Cache) -> VfsOptions {
        let mut o = VfsOptions::new(cache, self.bucket.clone(), BOOT);
        o.spill_bytes = self.settings.spill_bytes;
        o.flush_delay = self.settings.flush_delay;
        o.patience = self.settings.patience;
        o.close_sync = self.settings.close_sync;
        o
    }

    pub(crate) async fn mount(&self) -> Mount {
        self.mount_with("a", BOOT, |_| ()).await
    }

    pub(crate) async fn mount_with(
        &self,
        sub: &str,
        boot: [u8; 16],
        f: impl FnOnce(&mut VfsOptions),
    ) -> Mount {
        let mut o = self.options(self.cache(sub, boot));
        o.boot_id = boot;
        f(&mut o);
        let uuid = resumable_session(&o).unwrap();
        let client_options = ClientOptions { role: "test".into(), uuid, ..ClientOptions::default() };
        let client = Client::open(self.store.clone(), client_options).await.unwrap();
        let vfs = Vfs::new(client, o).await.unwrap();
        Mount { vfs }
    }

    pub(crate) fn puts(&self) -> u64 {
        self.bucket.snapshot().of(Verb::Put).requests
    }

    pub(crate) fn gets(&self) -> u64 {
        self.bucket.snapshot().of(Verb::Get).requests
    }
}

/// A mount with short calls.
pub(crate) struct Mount {
    pub(crate) vfs: Arc<Vfs>,
}

impl std::ops::Deref for Mount {
    type Target = Arc<Vfs>;
    fn deref(&self) -> &Arc<Vfs> {
        &self.vfs
    }
}

pub(crate) fn file() -> NewNode {
    NewNode { kind: FileKind::Regular, mode: 0o644, uid: 1000, gid: 1000, rdev: 0, target: None }
}

impl Mount {
    pub(crate) async fn mkdir(&self, dir: InodeNo, n: &str) -> InodeNo {
        let node = NewNode { kind: FileKind::Directory, mode: 0o755, ..file() };
        self.make(&ctx(), dir, &name(n), node).await.unwrap().attr.ino
    }

    /// Creates, writes, closes.
    pub(crate) async fn put(&self, dir: InodeNo, n: &str, bytes: &[u8]) -> InodeNo {
        let (entry, opened) = self.create(&ctx(), dir, &name(n), file(), libc::O_WRONLY).await.unwrap();
        self.write_all(opened.fh, 0, bytes).await;
        self.close(opened.fh).await;
        entry.attr.ino
    }

    pub(crate) async fn write_all(&self, fh: u64, at: u64, bytes: &[u8]) {
        for (i, part) in bytes.chunks(1 << 20).enumerate() {
            let at = at + (i << 20) as u64;
            let n = self.write(fh, at, Bytes::copy_from_slice(part), false).await.unwrap();
            assert_eq!(n as usize, part.len());
        }
    }

    pub(crate) async fn close(&self, fh: u64) {
        self.flush(fh, 1).await.unwrap();
        self.release(fh, None).await.unwrap();
    }

    pub(crate) async fn find(&self, dir: InodeNo, n: &str) -> Option<InodeNo> {
        match self.lookup(dir, &name(n)).await.unwrap() {
            Lookup::Found(e) => Some(e.attr.ino),
            Lookup::Absent { .. } => None,
        }
    }

    pub(crate) async fn open_for(&self, ino: InodeNo, flags: i32) -> u64 {
        self.open(&ctx(), ino, flags, false).await.unwrap().fh
    }

    /// Opens, reads all, closes.
    pub(crate) async fn get(&self, ino: InodeNo) -> FsResult<Vec<u8>> {
        let fh = self.open_for(ino, libc::O_RDONLY).await;
        let mut out = Vec::new();
        let read = loop {
            match self.read(fh, out.len() as u64, 128 << 10).await {
                Ok(bytes) if bytes.is_empty() => break Ok(out),
                Ok(bytes) => out.extend_from_slice(&bytes),
                Err(e) => break Err(e),
            }
        };
        self.close(fh).await;
        read
    }

    pub(crate) async fn mv(&self, from: (InodeNo, &str), to: (InodeNo, &str)) -> FsResult<()> {
        let (a, b) = (name(from.1), name(to.1));
        self.rename(&ctx(), (from.0, &a), (to.0, &b), RenameMode::Replace).await
    }

    pub(crate) async fn rm(&self, dir: InodeNo, n: &str) -> FsResult<()> {
        self.unlink(&ctx(), dir, &name(n)).await
    }

    pub(crate) async fn cut(&self, ino: InodeNo, size: u64) -> FsResult<()> {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.setattr(&ctx(), ino, None, &set).await.map(drop)
    }

    /// Ends as a killed process would: no flush, no farewell.
    pub(crate) async fn kill(self) {
        self.vfs.abandon();
        self.vfs.meta().crash();
        let weak = Arc::downgrade(&self.vfs);
        drop(self.vfs);
        for _ in 0..200 {
            if weak.strong_count() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("somebody still holds the vfs");
    }
}

/// Bytes that differ everywhere.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out.extend_from_slice(&x.to_le_bytes());
    }
    out.truncate(len);
    out
}
