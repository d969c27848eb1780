//! What a mount does when a part below it is full or damaged: a clear error, and nothing that was acknowledged is lost.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test ends where it fails, and says why")]

use carafe_testkit::{FileSystem, MountOptions, RedisOptions, RedisServer, detach};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A Redis that loses nothing, and a folder as the bucket.
fn redis_and_folder(options: RedisOptions) -> (RedisServer, FileSystem, TempDir) {
    let redis = RedisServer::start(RedisOptions { appendonly: true, ..options }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("bucket")).unwrap();
    let fs = FileSystem::on_folder(redis.url(0), &dir.path().join("bucket"));
    fs.format().unwrap();
    (redis, fs, dir)
}

/// A disk of a few megabytes, gone with its value.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn new(size: &str) -> Self {
        let disk = SmallDisk(tempfile::tempdir().unwrap());
        let option = format!("size={size}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &option, "tmpfs"]).arg(disk.0.path()).status();
        assert!(mounted.unwrap().success());
        disk
    }

    fn path(&self) -> &Path {
        self.0.path()
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
    let (_redis, fs, _dir) = redis_and_folder(RedisOptions::default());
    let options = MountOptions { cache_dir: Some(disk.path().to_owned()), ..Default::default() };
    let mut mount = fs.mount_with(options).unwrap();
    let data: Vec<u8> = (0..40_000_000u32).map(|i| (i / 5) as u8).collect();
    fs::write(mount.path().join("big"), &data).unwrap();
    // Somebody else takes what is left of the disk.
    let _ = fs::write(disk.path().join("hog"), vec![0u8; 12 << 20]);
    for i in 0..20u8 {
        fs::write(mount.path().join(format!("small-{i}")), vec![i; 100_000]).unwrap();
    }
    fs::rename(mount.path().join("big"), mount.path().join("published")).unwrap();
    assert!(fs::read(mount.path().join("published")).unwrap() == data);
    mount.unmount().unwrap();
    let mount = fs.mount().unwrap();
    assert!(fs::read(mount.path().join("published")).unwrap() == data);
    for i in 0..20u8 {
        assert_eq!(fs::read(mount.path().join(format!("small-{i}"))).unwrap(), vec![i; 100_000]);
    }
}

#[test]
fn a_cache_directory_that_cannot_be_used_is_replaced_by_memory() {
    let (_redis, fs, dir) = redis_and_folder(RedisOptions::default());
    let in_the_way = dir.path().join("file");
    fs::write(&in_the_way, "x").unwrap();
    let cache = in_the_way.join("cache");
    let mount_point = dir.path().join("mnt");
    fs::create_dir(&mount_point).unwrap();
    let ran = fs
        .carafe(&[
            "mount",
            &fs.meta_url,
            &mount_point.display().to_string(),
            "--background",
            "--cache-dir",
            &cache.display().to_string(),
            "--log-file",
            &dir.path().join("log").display().to_string(),
        ])
        .unwrap();
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    fs::write(mount_point.join("f"), "kept").unwrap();
    assert!(fs::read_to_string(dir.path().join("log")).unwrap().contains("caching in memory"));
    assert_eq!(fs.carafe(&["umount", &mount_point.display().to_string()]).unwrap().code, 0);
}

#[test]
fn a_full_store_refuses_new_files_and_still_frees_old_ones() {
    let (redis, fs, _dir) = redis_and_folder(RedisOptions::default());
    let mount = fs.mount().unwrap();
    fs::write(mount.path().join("before"), "x").unwrap();
    let set = |limit: &str| drop(redis.command(&["CONFIG", "SET", "maxmemory", limit]).unwrap());
    set("1mb");
    let refused = fs::write(mount.path().join("after"), "y").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENOSPC), "{refused}");
    fs::remove_file(mount.path().join("before")).unwrap();
    set("0");
    fs::write(mount.path().join("after"), "y").unwrap();
    assert_eq!(fs::read(mount.path().join("after")).unwrap(), b"y");
}

#[test]
fn a_damaged_record_is_an_error_of_its_file_alone_and_found_by_fsck() {
    let (redis, fs, _dir) = redis_and_folder(RedisOptions::default());
    let mut mount = fs.mount().unwrap();
    fs::create_dir(mount.path().join("d")).unwrap();
    fs::write(mount.path().join("d/bad"), "x").unwrap();
    fs::write(mount.path().join("d/good"), "y").unwrap();
    let ino = fs::metadata(mount.path().join("d/bad")).unwrap().ino();
    mount.unmount().unwrap();
    let key = format!("{{carafe}}i{}", ino >> 6);
    redis.command(&["HSET", &key, &(ino & 63).to_string(), "nonsense"]).unwrap();
    let mount = fs.mount().unwrap();
    let error = fs::metadata(mount.path().join("d/bad")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    assert_eq!(fs::read(mount.path().join("d/good")).unwrap(), b"y");
    assert!(mount.log_text().contains("damaged"), "{}", mount.log_text());
    drop(mount);
    let checked = fs.carafe(&["fsck", &fs.meta_url]).unwrap();
    assert_eq!(checked.code, 5, "{}{}", checked.stdout, checked.stderr);
    assert!(checked.stdout.contains(&format!("inode {ino}")), "{}", checked.stdout);
}

#[test]
fn a_damaged_object_is_an_error_with_its_name_and_never_zeroes() {
    let (_redis, fs, dir) = redis_and_folder(RedisOptions::default());
    let mut mount = fs.mount().unwrap();
    fs::write(mount.path().join("f"), vec![7u8; 1 << 20]).unwrap();
    mount.unmount().unwrap();
    let object = biggest_file(&dir.path().join("bucket"));
    let mut bytes = fs::read(&object).unwrap();
    bytes[500_000] ^= 1;
    fs::write(&object, bytes).unwrap();
    mount.lose_cache().unwrap();
    mount.remount().unwrap();
    let error = fs::read(mount.path().join("f")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    let name = object.file_name().unwrap().to_string_lossy().into_owned();
    assert!(mount.log_text().contains("corrupt") && mount.log_text().contains(&name), "{}", mount.log_text());
    drop(mount);
    let checked = fs.carafe(&["fsck", &fs.meta_url, "--data"]).unwrap();
    assert_eq!(checked.code, 5, "{}{}", checked.stdout, checked.stderr);
}

fn biggest_file(dir: &Path) -> std::path::PathBuf {
    let mut folders = vec![dir.to_owned()];
    let mut best: Option<(u64, std::path::PathBuf)> = None;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let meta = entry.metadata().unwrap();
            if meta.is_dir() {
                folders.push(entry.path());
            } else if best.as_ref().is_none_or(|(size, _)| meta.len() > *size) {
                best = Some((meta.len(), entry.path()));
            }
        }
    }
    best.expect("the bucket holds the file's bytes").1
}
