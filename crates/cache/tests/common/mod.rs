//! What the tests of the cache share.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of this")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use carafe_cache::{Cache, CacheConfig, FRAME_BYTES, FillOutcome, ReadOutcome, SliceFile, SliceKey};

pub const FRAME: usize = FRAME_BYTES as usize;
pub const MIB: usize = 1 << 20;
pub const FS: [u8; 16] = [0xF5; 16];
pub const BOOT: [u8; 16] = [0xB0; 16];

pub fn key(n: u64) -> SliceKey {
    SliceKey { session_uuid: 0x5e55, n }
}

/// Settings that depend on nothing of the machine: no free share, and each read checked.
pub fn config(dir: &Path, size_bytes: usize) -> CacheConfig {
    let mut config = CacheConfig::new(dir, size_bytes as u64, FS, BOOT);
    config.free_ratio = 0.0;
    config.verify_every = Duration::ZERO;
    config
}

pub fn open(dir: &Path, size_bytes: usize) -> Cache {
    Cache::open(config(dir, size_bytes)).unwrap()
}

/// Bytes that differ from slice to slice and from frame to frame.
pub fn pattern(n: u64, len: usize) -> Vec<u8> {
    let table: Vec<u8> = (0..4096 + 251).map(|i| (i * 31 + i / 251) as u8).collect();
    let mut bytes = vec![0; len];
    for (page, out) in bytes.chunks_mut(4096).enumerate() {
        let skip = (n as usize * 7 + page * 3) % 251;
        out.copy_from_slice(&table[skip..skip + out.len()]);
    }
    bytes
}

/// A slice that is clean, by the way of a write.
pub fn written(cache: &Cache, n: u64, len: usize) {
    let slice = cache.create(key(n)).unwrap();
    slice.write_at(0, &pattern(n, len)).unwrap();
    slice.seal(len as u64).unwrap();
    slice.mark_clean().unwrap();
}

/// A slice that is clean, by the way of a fetch.
pub fn filled(cache: &Cache, n: u64, len: usize) -> FillOutcome {
    cache.get_or_insert(key(n), Some(len as u64)).unwrap().fill(0, &pattern(n, len)).unwrap()
}

/// Reads a slice as a scan does, in calls of 128 KiB; false if a part is missing.
pub fn scan(cache: &Cache, n: u64, len: usize) -> bool {
    let Some(slice) = cache.get(key(n)).unwrap() else { return false };
    let want = pattern(n, len);
    (0..len).step_by(128 << 10).all(|at| {
        let part = &want[at..len.min(at + (128 << 10))];
        read(&slice, at, part.len()).is_some_and(|got| got == part)
    })
}

/// The bytes, if all are here.
pub fn read(slice: &SliceFile, offset: usize, len: usize) -> Option<Vec<u8>> {
    let mut buf = vec![0xAA; len];
    match slice.read_at(offset as u64, &mut buf).unwrap() {
        ReadOutcome::Bytes => Some(buf),
        _ => None,
    }
}

pub fn slice_path(dir: &Path, n: u64) -> PathBuf {
    let name = key(n).to_string();
    let slices = dir.join("f5".repeat(16)).join("slices");
    let shards = std::fs::read_dir(slices).unwrap();
    shards
        .map(|shard| shard.unwrap().path().join(&name))
        .find(|path| path.exists())
        .expect("the slice has a file")
}

/// Flips a bit behind the cache's back.
pub fn flip(path: &Path, offset: usize) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset as u64).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset as u64).unwrap();
}

/// Bytes on disk below a directory, in files that are slices.
pub fn disk_bytes(dir: &Path) -> u64 {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            match entry.file_name().to_str().unwrap() {
                _ if meta.is_dir() => disk_bytes(&entry.path()),
                "index" | "format" => 0,
                _ => meta.blocks() * 512,
            }
        })
        .sum()
}

/// A copy of a directory as it is now: what a killed process leaves.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
