//! What is ours and no file system's: the mount table, questions to the daemon, unmounting.

use crate::world::World;
use carafe_fuse::table::{FS_TYPE, mounted_at};
use carafe_fuse::{MountError, unmount};
use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::MetadataExt;

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
