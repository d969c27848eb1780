//! Names, directories, attributes.

use crate::world::World;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, RenameFlags, Timespec, Timestamps, mknodat, renameat_with, utimensat,
};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

#[test]
fn a_tree_is_made_listed_renamed_and_removed() {
    let w = World::new();
    fs::create_dir_all(w.path("a/b/c")).unwrap();
    fs::write(w.path("a/b/c/file"), b"hello").unwrap();
    fs::hard_link(w.path("a/b/c/file"), w.path("a/link")).unwrap();
    symlink("b/c/file", w.path("a/soft")).unwrap();
    assert_eq!(fs::read(w.path("a/soft")).unwrap(), b"hello");
    assert_eq!(fs::read_link(w.path("a/soft")).unwrap().to_str(), Some("b/c/file"));
    assert_eq!(fs::metadata(w.path("a/link")).unwrap().nlink(), 2);
    assert_eq!(fs::metadata(w.path("a")).unwrap().nlink(), 3);
    fs::rename(w.path("a/b"), w.path("moved")).unwrap();
    assert_eq!(fs::read(w.path("moved/c/file")).unwrap(), b"hello");
    assert_eq!(fs::remove_dir(w.path("a")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    fs::remove_dir_all(w.path("a")).unwrap();
    fs::remove_dir_all(w.path("moved")).unwrap();
    assert_eq!(fs::read_dir(w.root()).unwrap().count(), 0);
    w.end();
}

#[test]
fn a_directory_of_five_thousand_names_is_listed_whole() {
    let w = World::new();
    let dir = w.path("big");
    fs::create_dir(&dir).unwrap();
    let names: BTreeSet<String> = (0..5000).map(|i| format!("{i:0>60}")).collect();
    names.iter().for_each(|n| drop(fs::File::create(dir.join(n)).unwrap()));
    let listed: Vec<String> =
        fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(listed.len(), 5000);
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), names);
    w.end();
}

#[test]
fn renames_obey_their_flags() {
    let w = World::new();
    fs::write(w.path("a"), "a").unwrap();
    fs::write(w.path("b"), "b").unwrap();
    let rename = |flags| renameat_with(CWD, w.path("a"), CWD, w.path("b"), flags);
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(rustix::io::Errno::EXIST));
    rename(RenameFlags::EXCHANGE).unwrap();
    assert_eq!(
        (fs::read(w.path("a")).unwrap(), fs::read(w.path("b")).unwrap()),
        (b"b".to_vec(), b"a".to_vec())
    );
    assert_eq!(rename(RenameFlags::WHITEOUT), Err(rustix::io::Errno::INVAL));
    fs::rename(w.path("a"), w.path("b")).unwrap();
    assert!(!w.path("a").exists());
    w.end();
}

#[test]
fn special_files_names_of_255_bytes_and_absent_names() {
    let w = World::new();
    mknodat(CWD, w.path("fifo"), FileType::Fifo, Mode::from(0o600), 0).unwrap();
    assert!(fs::metadata(w.path("fifo")).unwrap().file_type().is_fifo());
    mknodat(CWD, w.path("null"), FileType::CharacterDevice, Mode::from(0o600), rustix::fs::makedev(1, 3))
        .unwrap();
    assert_eq!(fs::metadata(w.path("null")).unwrap().rdev(), rustix::fs::makedev(1, 3));
    fs::write(w.path(&"n".repeat(255)), "x").unwrap();
    let long = fs::write(w.path(&"n".repeat(256)), "x").unwrap_err();
    assert_eq!(long.raw_os_error(), Some(libc::ENAMETOOLONG));
    for _ in 0..3 {
        assert_eq!(fs::metadata(w.path("absent")).unwrap_err().kind(), ErrorKind::NotFound);
    }
    fs::write(w.path("absent"), "now here").unwrap();
    assert!(w.path("absent").exists(), "a cached absence must not outlive the creation");
    w.end();
}

#[test]
fn any_time_can_be_set_and_none_hurts_the_mount() {
    let w = World::new();
    fs::write(w.path("f"), "x").unwrap();
    let set = |secs, nanos| {
        let t = Timespec { tv_sec: secs, tv_nsec: nanos };
        let both = Timestamps { last_access: t, last_modification: t };
        utimensat(CWD, w.path("f"), &both, AtFlags::empty()).unwrap();
        let meta = fs::metadata(w.path("f")).unwrap();
        (meta.mtime(), meta.mtime_nsec())
    };
    assert_eq!(set(-2, 800_000_000), (-2, 800_000_000));
    assert_eq!(set(1_764_500_000, 123_456_789), (1_764_500_000, 123_456_789));
    for extreme in [i64::MIN, i64::MIN + 1, i64::MAX] {
        set(extreme, 999_999_999);
    }
    // More than there are threads: had one of these cost a thread, nobody would answer.
    for _ in 0..8 {
        set(i64::MIN, 0);
    }
    assert_eq!(set(7, 7), (7, 7));
    w.end();
}

#[test]
fn writing_clears_set_id_bits_and_root_keeps_them() {
    let w = World::new();
    let file = w.path("suid");
    fs::write(&file, "x").unwrap();
    let set = || fs::set_permissions(&file, fs::Permissions::from_mode(0o6777)).unwrap();
    let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o7777;
    set();
    assert_eq!(mode(), 0o6777);
    std::os::unix::fs::chown(&file, Some(1234), Some(1234)).unwrap();
    assert_eq!(mode(), 0o777, "a change of owner clears them for everybody");
    set();
    let script = format!("echo more >> {}", file.display());
    let status = std::process::Command::new("setpriv")
        .args(["--reuid=1234", "--regid=1234", "--clear-groups", "sh", "-c", &script])
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(mode(), 0o777, "a write by somebody without CAP_FSETID clears them");
    w.end();
}
