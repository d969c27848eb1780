//! What is ours and no file system's: the mount table, questions to the daemon, unmounting.

use crate::world::World;
use carafe_fuse::table::{FS_TYPE, mounted_at};
use carafe_fuse::{MountError, unmount};
use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::{Duration, Instant};

fn get(path: &std::path::Path, name: &str) -> Result<String, Errno> {
    let mut buffer = vec![0u8; 4096];
    let n = getxattr(path, name, buffer.as_mut_slice())?;
    Ok(String::from_utf8_lossy(&buffer[..n]).into_owned())
}

#[test]
fn the_mount_table_names_the_file_system() {
    let w = World::new();
    let entry = mounted_at(w.root()).unwrap().unwrap();
    assert_eq!((entry.fs_type.as_str(), entry.source.to_str()), (FS_TYPE, Some("carafe:test")));
    assert_eq!(fs::metadata(w.root()).unwrap().ino(), 1);
    w.end();
}

#[test]
fn attributes_are_kept_and_questions_are_answered_beside_them() {
    let w = World::new();
    let file = w.path("f");
    fs::write(&file, "x").unwrap();
    setxattr(&file, "user.colour", b"red", XattrFlags::empty()).unwrap();
    assert_eq!(get(&file, "user.colour").as_deref(), Ok("red"));
    assert_eq!(setxattr(&file, "user.colour", b"blue", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(setxattr(&file, "user.size", b"1", XattrFlags::REPLACE), Err(Errno::NODATA));
    assert_eq!(setxattr(&file, "system.nfs4_acl", b"x", XattrFlags::empty()), Err(Errno::OPNOTSUPP));
    let inode = fs::metadata(&file).unwrap().ino();
    assert_eq!(get(&file, "carafe.what").unwrap(), format!("what of {inode}"));
    assert_eq!(setxattr(&file, "carafe.order", b"1", XattrFlags::empty()), Ok(()));
    assert_eq!(setxattr(&file, "carafe.else", b"1", XattrFlags::empty()), Err(Errno::OPNOTSUPP));
    let mut names = vec![0u8; 256];
    let n = listxattr(&file, names.as_mut_slice()).unwrap();
    assert_eq!(&names[..n], b"user.colour\0");
    w.end();
}

#[test]
fn a_process_that_waits_for_an_answer_can_be_killed() {
    let w = World::new();
    for signal in ["-KILL", "-TERM"] {
        let code = format!("import os\nos.getxattr({:?}, 'carafe.slow')", w.root().display().to_string());
        let mut waiter = Command::new("python3").args(["-c", &code]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        assert!(waiter.try_wait().unwrap().is_none(), "it waits for its answer");
        let begun = Instant::now();
        assert!(Command::new("kill").args([signal, &waiter.id().to_string()]).status().unwrap().success());
        assert!(!waiter.wait().unwrap().success());
        assert!(begun.elapsed() < Duration::from_secs(10), "{signal} took {:?}", begun.elapsed());
    }
    assert_eq!(get(w.root(), "carafe.quick").as_deref(), Ok("quick of 64"), "others are answered");
}

#[test]
fn a_busy_mount_is_told_so_and_goes_lazily() {
    let w = World::new();
    let file = fs::File::create(w.path("f")).unwrap();
    assert!(matches!(unmount(w.root(), false), Err(MountError::Busy { .. })));
    unmount(w.root(), true).unwrap();
    assert!(mounted_at(w.root()).unwrap().is_none());
    assert!(file.metadata().is_ok(), "what is open is served on");
}

#[test]
fn a_read_only_mount_refuses_changes() {
    let w = World::with(|options| options.read_only = true);
    let refused = fs::write(w.path("f"), "x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
    w.end();
}
