//! The life of a file system by its commands, on the embedded engine and a folder.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test ends where it fails, and says why")]

use carafe_testkit::{ToolOutput, detach, is_mounted, wait_until};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

struct Home {
    dir: TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Home { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(home.path("mnt")).unwrap();
        home.ok(&[
            "format",
            &home.meta(),
            "demo",
            "--bucket",
            &format!("file://{}", home.path("bucket").display()),
        ]);
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn meta(&self) -> String {
        format!("embedded://{}", self.text("meta.redb"))
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let output = carafe(arguments);
        assert_eq!(output.code, 0, "{arguments:?}\n{}{}", output.stdout, output.stderr);
        output.stdout
    }

    /// A mount in the background.
    #[track_caller]
    fn mount(&self, more: &[&str]) {
        let (meta, dir, cache, log) = (self.meta(), self.text("mnt"), self.text("cache"), self.text("log"));
        let fixed = ["mount", &meta, &dir, "--background", "--cache-dir", &cache, "--log-file", &log];
        self.ok(&[&fixed[..], more].concat());
    }

    fn umount(&self) {
        self.ok(&["umount", &self.text("mnt")]);
        assert!(!is_mounted(&self.path("mnt")));
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        detach(&self.path("mnt"));
    }
}

fn carafe(arguments: &[&str]) -> ToolOutput {
    ToolOutput::of(Command::new(env!("CARGO_BIN_EXE_carafe")).args(arguments)).unwrap()
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn what_is_written_before_umount_is_there_after_the_next_mount() {
    let home = Home::new();
    home.mount(&[]);
    std::fs::create_dir(home.path("mnt/dir")).unwrap();
    let big: Vec<u8> = (0..5_000_000u32).map(|i| (i / 3) as u8).collect();
    std::fs::write(home.path("mnt/dir/big"), &big).unwrap();
    std::fs::write(home.path("mnt/dir/small"), "small").unwrap();
    home.umount();
    // Another machine: nothing of the cache is left.
    std::fs::remove_dir_all(home.path("cache")).unwrap();
    home.mount(&["--read-only"]);
    assert_eq!(std::fs::read(home.path("mnt/dir/big")).unwrap(), big);
    assert_eq!(std::fs::read(home.path("mnt/dir/small")).unwrap(), b"small");
    assert!(std::fs::write(home.path("mnt/x"), "x").is_err());
    home.umount();
    let report = json(&home.ok(&["fsck", &home.meta(), "--data", "--json"]));
    assert_eq!(report["findings"].as_array().unwrap().len(), 0, "{report}");
    assert_eq!((report["files"].as_u64(), report["exact"].as_bool()), (Some(2), Some(true)), "{report}");
}

#[test]
fn info_and_status_tell_where_things_are() {
    let home = Home::new();
    home.mount(&[]);
    std::fs::create_dir(home.path("mnt/d")).unwrap();
    std::fs::write(home.path("mnt/d/inline"), vec![1u8; 1000]).unwrap();
    let file = std::fs::File::create(home.path("mnt/d/blocks")).unwrap();
    std::io::Write::write_all(&mut &file, &vec![2u8; 9 << 20]).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let info = |name: &str| json(&home.ok(&["info", &home.text(name), "--json"]));
    let blocks = info("mnt/d/blocks");
    assert_eq!((blocks["size"].as_u64(), blocks["content"].as_str()), (Some(9 << 20), Some("extents")));
    let extent = &blocks["extents"][0];
    assert_eq!((extent["kind"].as_str(), extent["objects"].as_u64()), (Some("blocks"), Some(3)), "{blocks}");
    let object = home.path("bucket").join(extent["object"].as_str().unwrap());
    assert!(std::fs::metadata(&object).unwrap().size() > 4 << 20, "{object:?}");
    let dir = info("mnt/d");
    assert_eq!(
        (dir["summary"]["files"].as_u64(), dir["kind"].as_str()),
        (Some(2), Some("directory")),
        "{dir}"
    );
    assert!(home.ok(&["info", &home.text("mnt/d/blocks")]).contains("FIRST OBJECT"));
    // The embedded engine has one process: while it is mounted nobody else looks into it.
    assert_eq!(carafe(&["status", &home.meta()]).code, 3);
    home.umount();
    let status = json(&home.ok(&["status", &home.meta(), "--json"]));
    assert_eq!(status["superblock"]["name"].as_str(), Some("demo"));
    assert_eq!(status["quotas"][0]["used_bytes"].as_u64(), Some((9 << 20) + 1000), "{status}");
    assert_eq!(status["sessions"].as_array().unwrap().len(), 0, "{status}");
}

#[test]
fn a_subdirectory_is_mounted_as_a_root() {
    let home = Home::new();
    home.mount(&[]);
    std::fs::create_dir_all(home.path("mnt/a/b")).unwrap();
    std::fs::write(home.path("mnt/a/b/f"), "deep").unwrap();
    home.umount();
    home.mount(&["--subdir", "a/b"]);
    assert_eq!(std::fs::read(home.path("mnt/f")).unwrap(), b"deep");
    assert_eq!(std::fs::metadata(home.path("mnt")).unwrap().ino(), 1);
    std::fs::create_dir(home.path("mnt/c")).unwrap();
    std::fs::rename(home.path("mnt/f"), home.path("mnt/c/g")).unwrap();
    assert_eq!(std::fs::read(home.path("mnt/c/../c/g")).unwrap(), b"deep");
    home.umount();
}

#[test]
fn a_dead_mount_is_cleared_away_and_its_data_finished() {
    let home = Home::new();
    let mut daemon = foreground(&home);
    std::fs::write(home.path("mnt/kept"), "accepted, not synced").unwrap();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert_eq!(
        std::fs::metadata(home.path("mnt")).unwrap_err().raw_os_error(),
        Some(libc::ENOTCONN),
        "the mount is dead"
    );
    home.mount(&[]);
    assert_eq!(std::fs::read(home.path("mnt/kept")).unwrap(), b"accepted, not synced");
    home.umount();
}

#[test]
fn a_signal_stores_everything_and_unmounts() {
    let home = Home::new();
    for signal in ["-TERM", "-INT"] {
        let mut daemon = foreground(&home);
        let name = format!("mnt/file{signal}");
        std::fs::write(home.path(&name), vec![7u8; 300_000]).unwrap();
        assert!(Command::new("kill").args([signal, &daemon.id().to_string()]).status().unwrap().success());
        assert!(daemon.wait().unwrap().success());
        assert!(!is_mounted(&home.path("mnt")));
    }
    let report = json(&home.ok(&["fsck", &home.meta(), "--data", "--json"]));
    assert_eq!(
        (report["bytes"].as_u64(), report["findings"].as_array().map(Vec::len)),
        (Some(600_000), Some(0))
    );
}

#[test]
fn a_busy_mount_outlives_a_signal_until_it_is_let_go() {
    let home = Home::new();
    let mut daemon = foreground(&home);
    let mut file = std::fs::File::create(home.path("mnt/open")).unwrap();
    assert_eq!(carafe(&["umount", &home.text("mnt")]).code, 6, "busy");
    assert!(Command::new("kill").args(["-TERM", &daemon.id().to_string()]).status().unwrap().success());
    wait_until("the mount to leave the tree", Duration::from_secs(20), || !is_mounted(&home.path("mnt")))
        .unwrap();
    std::io::Write::write_all(&mut file, b"still served").unwrap();
    assert!(daemon.try_wait().unwrap().is_none());
    drop(file);
    assert!(daemon.wait().unwrap().success());
    home.mount(&[]);
    assert_eq!(std::fs::read(home.path("mnt/open")).unwrap(), b"still served");
    home.umount();
}

#[test]
fn the_cache_is_dropped_and_filled_again_from_the_bucket() {
    let home = Home::new();
    home.mount(&[]);
    let data: Vec<u8> = (0..6_000_000u32).map(|i| (i % 251) as u8).collect();
    let file = std::fs::File::create(home.path("mnt/f")).unwrap();
    std::io::Write::write_all(&mut &file, &data).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let stats = || {
        let mut buffer = vec![0u8; 64 << 10];
        let n = rustix::fs::getxattr(home.path("mnt"), "carafe.stats", buffer.as_mut_slice()).unwrap();
        json(std::str::from_utf8(&buffer[..n]).unwrap())
    };
    home.ok(&["cache", "drop", &home.text("mnt")]);
    // O_DIRECT goes past the kernel's pages.
    let direct = Command::new("dd")
        .args(["if=".to_owned() + &home.text("mnt/f"), "bs=1M".into(), "iflag=direct".into()])
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(direct.stdout == data, "the bytes of the bucket");
    let after = stats();
    assert!(after["fetched_bytes"].as_u64().unwrap() >= 6_000_000, "{after}");
    home.umount();
}

#[test]
fn garbage_is_found_and_deleted_and_strangers_are_left_alone() {
    let home = Home::new();
    home.mount(&[]);
    std::fs::write(home.path("mnt/f"), vec![3u8; 1 << 20]).unwrap();
    home.umount();
    let orphan = home.path("bucket/d/00/notours/x");
    std::fs::create_dir_all(orphan.parent().unwrap()).unwrap();
    std::fs::write(&orphan, "x").unwrap();
    let look = || json(&carafe(&["gc", &home.meta(), "--json"]).stdout);
    let report = look();
    assert_eq!(report["garbage"]["objects"].as_u64(), Some(0), "{report}");
    assert_eq!(report["strangers"]["objects"].as_u64(), Some(1), "{report}");
    home.ok(&["gc", &home.meta(), "--delete", "--grace", "1"]);
    assert!(orphan.exists());
    assert_eq!(look()["in_use"]["objects"].as_u64(), Some(1));
}

#[test]
fn destroy_removes_everything_and_asks_first() {
    let home = Home::new();
    home.mount(&[]);
    std::fs::write(home.path("mnt/f"), vec![3u8; 1 << 20]).unwrap();
    home.umount();
    assert_eq!(carafe(&["destroy", &home.meta()]).code, 2, "nobody is there to confirm");
    assert!(home.ok(&["destroy", &home.meta(), "--yes"]).contains("is gone"));
    assert_eq!(carafe(&["status", &home.meta()]).code, 6);
    let left: Vec<_> = files_below(&home.path("bucket"));
    assert!(left.is_empty(), "{left:?}");
    // Both can be used again.
    home.ok(&["format", &home.meta(), "again", "--bucket", &format!("file://{}", home.text("bucket"))]);
}

#[test]
fn bench_man_and_completions_work_anywhere() {
    let home = Home::new();
    let bench = [
        "bench",
        &home.text("mnt"),
        "--big-file-size",
        "1M",
        "--small-file-size",
        "10K",
        "--small-file-count",
        "3",
    ];
    assert!(home.ok(&bench).contains("| Write small file |") || home.ok(&bench).contains("Write small file"));
    home.ok(&["man", &home.text("man")]);
    assert!(home.path("man/carafe.1").exists() && home.path("man/carafe-mount.1").exists());
    assert!(home.ok(&["completions", "bash"]).contains("carafe"));
}

/// A daemon that is the test's own child.
fn foreground(home: &Home) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(home.path("log")).unwrap();
    let daemon = Command::new(env!("CARGO_BIN_EXE_carafe"))
        .args(["mount", &home.meta(), &home.text("mnt"), "--cache-dir", &home.text("cache")])
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    wait_until("the mount", Duration::from_secs(20), || is_mounted(&home.path("mnt"))).unwrap();
    std::fs::metadata(home.path("mnt")).unwrap();
    daemon
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                folders.push(entry.path())
            } else {
                found.push(entry.path())
            }
        }
    }
    found
}

#[test]
fn regression_format_below_a_missing_folder_says_to_make_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, bucket) = (dir.path().join("missing"), dir.path().join("bucket"));
    let meta = format!("embedded://{}", folder.join("meta.redb").display());
    let output = carafe(&["format", &meta, "demo", "--bucket", &format!("file://{}", bucket.display())]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert!(output.stderr.contains(&format!("mkdir -p {}", folder.display())), "{}", output.stderr);
    assert!(!folder.exists());
}
