//! Bytes of files.

use crate::world::{CAPACITY, World};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, copy_file_range, fallocate, seek};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

fn open_rw(path: impl AsRef<std::path::Path>) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

#[test]
fn bytes_come_back_through_every_kind_of_handle() {
    let w = World::new();
    let data: Vec<u8> = (0..9_000_000u32).map(|i| (i / 7) as u8).collect();
    fs::write(w.path("f"), &data).unwrap();
    assert_eq!(fs::read(w.path("f")).unwrap(), data);
    let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(w.path("f")).unwrap();
    let mut part = vec![0u8; 777_777];
    direct.read_exact_at(&mut part, 1_234_567).unwrap();
    assert_eq!(part, data[1_234_567..1_234_567 + 777_777], "unaligned and direct");
    let mut appending = OpenOptions::new().append(true).open(w.path("f")).unwrap();
    appending.write_all(b"tail").unwrap();
    assert_eq!(fs::metadata(w.path("f")).unwrap().size(), data.len() as u64 + 4);
    let file = open_rw(w.path("f"));
    file.write_all_at(b"XYZ", 5_000_000).unwrap();
    file.sync_all().unwrap();
    let mut back = [0u8; 5];
    file.read_exact_at(&mut back, 4_999_999).unwrap();
    assert_eq!(&back[1..4], b"XYZ");
    drop((file, appending, direct));
    w.end();
}

#[test]
fn truncating_at_open_and_by_size_leaves_zeroes_behind() {
    let w = World::new();
    fs::write(w.path("f"), vec![7u8; 10_000]).unwrap();
    let file = open_rw(w.path("f"));
    file.set_len(100).unwrap();
    file.set_len(5000).unwrap();
    let read = fs::read(w.path("f")).unwrap();
    assert_eq!((read.len(), read[99], read[100], read[4999]), (5000, 7, 0, 0));
    drop(file);
    drop(File::create(w.path("f")).unwrap());
    assert_eq!(fs::metadata(w.path("f")).unwrap().size(), 0);
    w.end();
}

#[test]
fn an_unlinked_open_file_lives_until_it_is_closed() {
    let w = World::new();
    let file = open_rw(w.path("f"));
    file.write_all_at(b"still here", 0).unwrap();
    fs::remove_file(w.path("f")).unwrap();
    let mut back = [0u8; 10];
    file.read_exact_at(&mut back, 0).unwrap();
    assert_eq!(&back, b"still here");
    file.write_all_at(b"!", 10).unwrap();
    let meta = file.metadata().unwrap();
    assert_eq!((meta.nlink(), meta.size()), (0, 11));
    drop(file);
    w.end();
}

#[test]
fn holes_are_found_punched_and_cost_nothing_to_make() {
    let w = World::new();
    let file = open_rw(w.path("f"));
    let far = CAPACITY as u64 / 2;
    file.write_all_at(b"end", far).unwrap();
    file.write_all_at(&[1u8; 64 << 10], 1 << 20).unwrap();
    file.sync_all().unwrap();
    assert_eq!(file.metadata().unwrap().size(), far + 3);
    assert_eq!(seek(&file, SeekFrom::Data(0)), Ok(1 << 20));
    assert_eq!(seek(&file, SeekFrom::Hole(1 << 20)), Ok((1 << 20) + (64 << 10)));
    assert_eq!(seek(&file, SeekFrom::Data(far + 3)), Err(rustix::io::Errno::NXIO));
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 1 << 20, 4096).unwrap();
    let mut back = [9u8; 8192];
    file.read_exact_at(&mut back, 1 << 20).unwrap();
    assert!(back[..4096].iter().all(|b| *b == 0) && back[4096..].iter().all(|b| *b == 1));
    fallocate(&file, FallocateFlags::ZERO_RANGE, (1 << 20) + 4096, 100).unwrap();
    file.read_exact_at(&mut back, 1 << 20).unwrap();
    assert_eq!((back[4096], back[4195], back[4196]), (0, 0, 1));
    let refused = fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert_eq!(refused, Err(rustix::io::Errno::OPNOTSUPP));
    drop(file);
    w.end();
}

#[test]
fn a_range_is_copied_inside_the_file_system() {
    let w = World::new();
    let data: Vec<u8> = (0..6_000_000u32).map(|i| (i * 31) as u8).collect();
    fs::write(w.path("from"), &data).unwrap();
    let (from, to) = (File::open(w.path("from")).unwrap(), open_rw(w.path("to")));
    let (mut at, mut done) = (1_000u64, 0u64);
    while done < 5_000_000 {
        let mut out = done;
        let n =
            copy_file_range(&from, Some(&mut at), &to, Some(&mut out), (5_000_000 - done) as usize).unwrap();
        assert!(n > 0);
        done += n as u64;
    }
    assert_eq!(fs::read(w.path("to")).unwrap(), data[1_000..5_001_000]);
    drop((from, to));
    w.end();
}

#[test]
fn a_file_that_another_handle_has_changed_is_read_anew() {
    let w = World::new();
    fs::write(w.path("f"), b"old").unwrap();
    let mut reader = File::open(w.path("f")).unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    fs::write(w.path("f"), b"newer").unwrap();
    assert_eq!(fs::read(w.path("f")).unwrap(), b"newer");
    let mut back = [0u8; 5];
    reader.read_exact_at(&mut back, 0).unwrap();
    assert_eq!((text.as_str(), &back), ("old", b"newer"));
    drop(reader);
    w.end();
}

#[test]
fn many_threads_write_and_read_their_own_files() {
    let w = World::new();
    std::thread::scope(|scope| {
        for t in 0..8u8 {
            let dir = w.path(&format!("d{t}"));
            scope.spawn(move || {
                fs::create_dir(&dir).unwrap();
                for i in 0..50u32 {
                    let data = vec![t; 100 + 997 * i as usize];
                    fs::write(dir.join(i.to_string()), &data).unwrap();
                    assert_eq!(fs::read(dir.join(i.to_string())).unwrap(), data);
                }
                fs::rename(&dir, dir.with_extension("done")).unwrap();
                assert_eq!(fs::read_dir(dir.with_extension("done")).unwrap().count(), 50);
            });
        }
    });
    w.end();
}

#[test]
fn statfs_shows_the_capacity_and_what_is_left_of_it() {
    let w = World::new();
    let before = rustix::fs::statvfs(w.root()).unwrap();
    assert_eq!(before.f_blocks * before.f_frsize, CAPACITY as u64);
    assert_eq!(before.f_namemax, 255);
    let file = open_rw(w.path("f"));
    file.write_all_at(&vec![1u8; 8 << 20], 0).unwrap();
    file.sync_all().unwrap();
    let after = rustix::fs::statvfs(w.root()).unwrap();
    assert_eq!((before.f_bavail - after.f_bavail) * after.f_frsize, 8 << 20);
    drop(file);
    w.end();
}

#[test]
fn a_program_on_the_mount_can_be_run() {
    let w = World::new();
    fs::copy("/bin/true", w.path("true")).unwrap();
    let mode = OFlags::RDONLY;
    assert!(rustix::fs::open(w.path("true"), mode, rustix::fs::Mode::empty()).is_ok());
    assert!(std::process::Command::new(w.path("true")).status().unwrap().success(), "exec maps it");
    w.end();
}
