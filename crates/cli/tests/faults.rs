//! Bad luck that a mount must bear, and mistakes that only a mount can show: each with its message or its errno.
#![allow(clippy::unwrap_used, reason = "a test may stop at once")]

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use carafe_testkit::{FileSystem, LatencyProxy, MountOptions, RedisServer, Reply, detach, is_mounted};
use common::ops::pattern;
use common::stack::Stack;
use common::upkeep;
use rustix::io::Errno;

fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> Option<Errno> {
    Errno::from_io_error(&result.unwrap_err())
}

#[test]
fn a_mount_point_in_use_is_refused_with_who_uses_it() {
    let stack = Stack::redis_and_folder();
    let mount = stack.fs.mount().unwrap();
    let dir = mount.path().display().to_string();
    let again = stack.fs.carafe(&["mount", &stack.fs.meta_url, &dir, "--no-cache-disk"]).unwrap();
    assert_eq!(again.code, 6, "{}", again.stderr);
    assert!(again.stderr.contains("already mounted: carafe:test"), "{}", again.stderr);
    // The mount that was there first goes on.
    fs::write(mount.path().join("file"), b"x").unwrap();
}

#[test]
fn a_cache_directory_in_use_by_another_mount_is_refused() {
    let stack = Stack::redis_and_folder();
    let mount = stack.fs.mount().unwrap();
    let other = stack.plain("other");
    let (dir, cache) = (other.display().to_string(), mount.cache_dir().display().to_string());
    let second = stack.fs.carafe(&["mount", &stack.fs.meta_url, &dir, "--cache-dir", &cache]).unwrap();
    assert_eq!(second.code, 6, "{}", second.stderr);
    assert!(second.stderr.contains(&cache), "{}", second.stderr);
    assert!(!is_mounted(&other));
}

#[test]
fn a_store_that_swallows_packets_is_reported_within_five_seconds() {
    let redis = RedisServer::start_durable().unwrap();
    let proxy = LatencyProxy::start(redis.port(), Duration::ZERO).unwrap();
    proxy.stall(true);
    let dir = tempfile::tempdir().unwrap();
    let fs = FileSystem::on_folder(format!("redis://127.0.0.1:{}/0", proxy.port()), dir.path());
    let begun = Instant::now();
    let output = fs.carafe(&["status", &fs.meta_url]).unwrap();
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert!(output.stderr.contains("cannot be reached"), "{}", output.stderr);
    assert!(begun.elapsed() < Duration::from_secs(5), "after {:?}", begun.elapsed());
}

#[test]
fn a_damaged_inode_gives_eio_on_its_file_and_a_log_line_and_leaves_the_others_alone() {
    let stack = Stack::redis_and_folder();
    let mut mount = stack.fs.mount().unwrap();
    for name in ["good", "bad", "other"] {
        fs::write(mount.path().join(name), name).unwrap();
    }
    let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(mount.path().join("bad")).unwrap());
    mount.unmount().unwrap();
    damage_inode(stack.redis.as_ref().unwrap(), inode);

    mount.remount().unwrap();
    assert_eq!(errno(fs::read(mount.path().join("bad"))), Some(Errno::IO));
    assert_eq!(fs::read(mount.path().join("good")).unwrap(), b"good");
    assert_eq!(fs::read(mount.path().join("other")).unwrap(), b"other");
    let names = fs::read_dir(mount.path()).unwrap().count();
    assert_eq!(names, 3, "a damaged inode hides no names");
    fs::write(mount.path().join("new"), b"new").unwrap();
    let log = mount.log_text();
    let line = log.lines().find(|line| line.contains("damaged"));
    let line = line.unwrap_or_else(|| panic!("no line about the damage in:\n{log}"));
    assert!(line.contains(&inode.to_string()) || line.contains(&format!("{:x}", inode)), "{line}");
    mount.unmount().unwrap();
    let check = stack.fs.carafe(&["fsck", &stack.fs.meta_url, "--json"]).unwrap();
    assert_eq!(check.code, 5, "fsck must report it: {}{}", check.stdout, check.stderr);
}

/// Overwrites the middle of an inode record in Redis.
fn damage_inode(redis: &RedisServer, inode: u64) {
    let mut client = redis.client().unwrap();
    let (bucket, field) = (inode >> 6, (inode & 63).to_string());
    let key = key_of_bucket(redis, bucket);
    let Reply::Bulk(mut record) = client.call(&["HGET", &key, &field]).unwrap() else {
        panic!("no record of inode {inode} in {key}")
    };
    let middle = record.len() / 2;
    record[0] ^= 0x70;
    record[middle] ^= 0xFF;
    client.call(&[b"HSET".as_slice(), key.as_bytes(), field.as_bytes(), &record]).unwrap();
}

/// `{tag}i<bucket>`: the tag is the file system's own.
fn key_of_bucket(redis: &RedisServer, bucket: u64) -> String {
    let Reply::Array(keys) = redis.command(&["KEYS", &format!("*}}i{bucket}")]).unwrap() else {
        panic!("KEYS gives a list")
    };
    assert_eq!(keys.len(), 1, "one hash holds inode bucket {bucket}: {keys:?}");
    keys[0].text()
}

#[test]
fn a_damaged_object_gives_eio_and_its_name_in_the_log_and_never_zeros() {
    let stack = Stack::redis_and_folder();
    let mut mount = stack.fs.mount().unwrap();
    let content = pattern(5, 5_000_000);
    fs::write(mount.path().join("file"), &content).unwrap();
    mount.unmount().unwrap();
    mount.lose_cache().unwrap();
    let object = largest_object(&stack.plain("bucket"));
    let file = File::options().read(true).write(true).open(&object).unwrap();
    file.write_all_at(&[0; 64], 100_000).unwrap();

    mount.remount().unwrap();
    let file = File::open(mount.path().join("file")).unwrap();
    let mut buffer = vec![0; 4_096];
    assert_eq!(errno(file.read_exact_at(&mut buffer, 98_304)), Some(Errno::IO));
    // What is not damaged is still read.
    file.read_exact_at(&mut buffer, 4_500_000).unwrap();
    assert!(buffer == content[4_500_000..4_504_096]);
    let name = object.file_name().unwrap().to_string_lossy().into_owned();
    let log = mount.log_text();
    let named = log.lines().any(|line| line.contains("corrupt") && line.contains(&name));
    assert!(named, "no line with the object's name {name} in:\n{log}");
}

fn largest_object(bucket: &Path) -> std::path::PathBuf {
    let mut pending = vec![bucket.to_path_buf()];
    let mut objects = Vec::new();
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
            let meta = entry.metadata().unwrap();
            if meta.is_dir() { pending.push(entry.path()) } else { objects.push((meta.len(), entry.path())) }
        }
    }
    objects.into_iter().max().expect("the file has objects").1
}

#[test]
fn a_full_store_gives_enospc_on_create_and_lets_files_be_removed() {
    let stack = Stack::redis_and_folder();
    let mount = stack.fs.mount().unwrap();
    let redis = stack.redis.as_ref().unwrap();
    let dir = mount.path().join("dir");
    fs::create_dir(&dir).unwrap();
    for n in 0..200 {
        fs::write(dir.join(format!("before-{n}")), b"x").unwrap();
    }
    let limit = redis.info("used_memory").unwrap() + 300_000;
    redis.command(&["CONFIG", "SET", "maxmemory", &limit.to_string()]).unwrap();
    // A server at its limit has room again for a moment when it shrinks a buffer of its own, so each kind of call is
    // repeated until it is refused.
    let file = |n| File::create(dir.join(format!("name-of-some-length-{n:08}"))).err();
    let directory = |n| fs::create_dir(dir.join(format!("directory-of-some-length-{n:08}"))).err();
    for refused in [(0..20_000).find_map(file), (0..20_000).find_map(directory)] {
        let refused = refused.expect("the store fills up");
        assert_eq!(Errno::from_io_error(&refused), Some(Errno::NOSPC), "{refused}");
    }
    // What frees memory still works, and reading too.
    for n in 0..200 {
        assert_eq!(fs::read(dir.join(format!("before-{n}"))).unwrap(), b"x");
        fs::remove_file(dir.join(format!("before-{n}"))).unwrap();
    }
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    fs::write(dir.join("after"), b"x").unwrap();
    drop(mount);
    upkeep::fsck_is_clean(&stack.fs);
}

/// A small disk of its own, for a cache; unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(size: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(dir.path())
            .status()
            .unwrap();
        assert!(status.success(), "mount a tmpfs");
        Self(dir)
    }

    /// Somebody else takes what is left, also of what a cache has just given back.
    fn fill(&self) {
        let mut filler =
            File::options().create(true).append(true).open(self.0.path().join("filler")).unwrap();
        while filler.write(&[1; 16_384]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        detach(self.0.path());
    }
}

#[test]
fn a_full_cache_disk_loses_nothing() {
    let disk = SmallDisk::new("12m");
    let stack = Stack::redis_and_s3();
    let options = MountOptions { cache_dir: Some(disk.0.path().join("cache")), ..MountOptions::default() };
    let mut mount = stack.fs.mount_with(options).unwrap();
    let contents: Vec<Vec<u8>> = (0..12).map(|n| pattern(n, 1_000_000 * (n as usize % 5 + 1) + 17)).collect();
    for (n, content) in contents.iter().enumerate() {
        if n >= 4 {
            disk.fill();
        }
        let mut file = File::create(mount.path().join(format!("file-{n}"))).unwrap();
        for piece in content.chunks(300_000) {
            file.write_all(piece).unwrap();
        }
        if n >= 4 {
            disk.fill();
        }
        if n % 2 == 0 {
            file.sync_all().unwrap();
        }
    }
    let check = |mount: &carafe_testkit::Mount| {
        for (n, content) in contents.iter().enumerate() {
            let seen = fs::read(mount.path().join(format!("file-{n}"))).unwrap();
            assert!(seen == *content, "file {n}: other bytes");
        }
    };
    check(&mount);
    let log = mount.log_text();
    mount.unmount().unwrap();
    assert!(log.contains("cache disk"), "nothing in the log about the full cache disk:\n{log}");
    fs::remove_file(disk.0.path().join("filler")).unwrap();
    mount.remount().unwrap();
    check(&mount);
    mount.unmount().unwrap();
    upkeep::fsck_is_clean(&stack.fs);
}

#[test]
fn a_cache_directory_that_cannot_be_used_means_memory_and_a_warning() {
    let stack = Stack::redis_and_folder();
    // Exists, so that the test kit need not make it, and takes no files.
    let options = MountOptions { cache_dir: Some("/proc/self/fdinfo".into()), ..MountOptions::default() };
    let mut mount = stack.fs.mount_with(options).unwrap();
    let content = pattern(1, 3_000_000);
    fs::write(mount.path().join("file"), &content).unwrap();
    assert!(fs::read(mount.path().join("file")).unwrap() == content);
    assert!(mount.log_text().contains("WARN"), "no warning:\n{}", mount.log_text());
    mount.unmount().unwrap();
}
