//! Calls through a handle, on one side of the random model.

use std::os::fd::BorrowedFd;

use rustix::fs::{
    FallocateFlags, FileType, SeekFrom, copy_file_range, fallocate, fdatasync, fstat, fsync, ftruncate, seek,
};
use rustix::io::{Errno, pread, pwrite, read, write};

use super::attr::Attr;
use super::exec::{Outcome, Seen, Side};
use super::ops::{Alloc, Op, Whence};
use super::sys::Mapping;

/// How much of a range that should be zero is looked at, at each end.
const LOOK: u64 = 1 << 20;

/// Runs an operation on the handle in its slot.
pub(crate) fn run(side: &Side<'_>, op: &Op) -> Outcome {
    let slots = op.slots();
    let Some(fd) = slots.first().and_then(|slot| side.slots[*slot]) else { return Ok(Seen::Idle) };
    match op {
        Op::Read { len, .. } => filled(*len, |buffer| read(fd, buffer)),
        Op::Write { data, .. } => Ok(Seen::Count(write(fd, &data.bytes())? as u64)),
        Op::Pread { at, len, .. } => filled(*len, |buffer| pread(fd, buffer, *at)),
        Op::Pwrite { at, data, .. } => Ok(Seen::Count(pwrite(fd, &data.bytes(), *at)? as u64)),
        Op::Seek { whence, by, .. } => seek_by(fd, *whence, *by),
        Op::Ftruncate { size, .. } => ftruncate(fd, *size).map(|()| Seen::Done),
        Op::Allocate { how, at, len, .. } => allocate(fd, *how, *at, *len),
        Op::DataHole { at, .. } => data_and_holes(fd, *at),
        Op::Copy { from_at, to, to_at, len, .. } => {
            let Some(target) = side.slots[*to] else { return Ok(Seen::Idle) };
            copy(fd, *from_at, target, *to_at, u64::from(*len))
        }
        Op::MapRead { at, len, .. } => map(fd, *at, *len as usize, false, |mapping, _| Ok(mapping.load())),
        Op::MapWrite { at, data, sync, .. } => {
            let bytes = data.bytes();
            map(fd, *at, bytes.len(), true, |mapping, len| {
                mapping.store(&bytes[..len]);
                if *sync {
                    mapping.sync()?;
                }
                Ok(mapping.load())
            })
        }
        Op::Fsync { data_only: true, .. } => fdatasync(fd).map(|()| Seen::Done),
        Op::Fsync { data_only: false, .. } => fsync(fd).map(|()| Seen::Done),
        Op::Fstat { .. } => {
            let stat = fstat(fd)?;
            Ok(Seen::Attr(Attr::of(&stat, side.clock), stat.st_ino))
        }
        other => unreachable!("{other:?} uses no handle"),
    }
}

/// The first and the last part of a file.
pub(crate) fn read_ends(fd: BorrowedFd<'_>) -> Outcome {
    let Seen::Bytes(mut bytes) = filled(8 << 20, |buffer| read(fd, buffer))? else { return Ok(Seen::Idle) };
    let size = fstat(fd)?.st_size as u64;
    if size > bytes.len() as u64 && kind(fd)? == FileType::RegularFile {
        let from = (bytes.len() as u64).max(size.saturating_sub(100_000));
        if let Seen::Bytes(tail) = filled(100_000, |buffer| pread(fd, buffer, from))? {
            bytes.extend(tail);
        }
    }
    Ok(Seen::Bytes(bytes))
}

fn kind(fd: BorrowedFd<'_>) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode))
}

fn filled(len: u32, call: impl FnOnce(&mut [u8]) -> Result<usize, Errno>) -> Outcome {
    let mut buffer = vec![0; len as usize];
    let count = call(&mut buffer)?;
    buffer.truncate(count);
    Ok(Seen::Bytes(buffer))
}

fn seek_by(fd: BorrowedFd<'_>, whence: Whence, by: i64) -> Outcome {
    // Offsets in a directory mean nothing outside the file system.
    if kind(fd)? == FileType::Directory {
        return Ok(Seen::Idle);
    }
    let to = match whence {
        Whence::Start => SeekFrom::Start(by.unsigned_abs()),
        Whence::Current => SeekFrom::Current(by),
        Whence::End => SeekFrom::End(by),
    };
    Ok(Seen::Count(seek(fd, to)?))
}

fn allocate(fd: BorrowedFd<'_>, how: Alloc, at: u64, len: u64) -> Outcome {
    let flags = match how {
        Alloc::Extend => FallocateFlags::empty(),
        Alloc::Keep => FallocateFlags::KEEP_SIZE,
        Alloc::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        Alloc::Zero => FallocateFlags::ZERO_RANGE,
        Alloc::ZeroKeep => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
    };
    match fallocate(fd, flags, at, len) {
        // Some local file systems cannot zero a range; a hole reads the same.
        Err(Errno::OPNOTSUPP) if matches!(how, Alloc::Zero | Alloc::ZeroKeep) => {
            fallocate(fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len)?;
            if how == Alloc::Zero && fstat(fd)?.st_size < (at + len) as i64 {
                ftruncate(fd, at + len)?;
            }
            Ok(Seen::Done)
        }
        result => result.map(|()| Seen::Done),
    }
}

/// copy_file_range may copy less than it was asked for: it is called until nothing more comes.
fn copy(from: BorrowedFd<'_>, from_at: u64, to: BorrowedFd<'_>, to_at: u64, len: u64) -> Outcome {
    let (mut from_at, mut to_at) = (from_at, to_at);
    let mut total = 0;
    while total < len {
        match copy_file_range(from, Some(&mut from_at), to, Some(&mut to_at), (len - total) as usize) {
            Ok(0) => break,
            Ok(count) => total += count as u64,
            Err(error) if total == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(Seen::Count(total))
}

/// Maps what of the range lies within the file, and reads the same range through the handle as well.
fn map(
    fd: BorrowedFd<'_>,
    at: u64,
    len: usize,
    writable: bool,
    work: impl FnOnce(&Mapping, usize) -> Result<Vec<u8>, Errno>,
) -> Outcome {
    if kind(fd)? != FileType::RegularFile {
        return Ok(Seen::Idle);
    }
    let size = fstat(fd)?.st_size as u64;
    let len = len.min(size.saturating_sub(at) as usize);
    if len == 0 {
        return Ok(Seen::Count(0));
    }
    let mapping = Mapping::new(fd, at, len, writable)?;
    let mapped = work(&mapping, len)?;
    let Ok(Seen::Bytes(read)) = filled(len as u32, |buffer| pread(fd, buffer, at)) else {
        return Ok(Seen::Broken("a mapped range cannot be read".into()));
    };
    if mapped != read {
        let first = mapped.iter().zip(&read).position(|(a, b)| a != b);
        let text =
            format!("mapped and read bytes differ: {} and {} bytes, first at {first:?}", len, read.len());
        return Ok(Seen::Broken(text));
    }
    Ok(Seen::Bytes(mapped))
}

/// Which ranges are holes is each file system's own affair, but a hole reads as zeros and an answer lies within the file.
fn data_and_holes(fd: BorrowedFd<'_>, at: u64) -> Outcome {
    if kind(fd)? != FileType::RegularFile {
        return Ok(Seen::Idle);
    }
    let position = seek(fd, SeekFrom::Current(0))?;
    let size = fstat(fd)?.st_size as u64;
    let data = seek(fd, SeekFrom::Data(at));
    let hole = seek(fd, SeekFrom::Hole(at));
    seek(fd, SeekFrom::Start(position))?;
    if at >= size {
        return match (data, hole) {
            (Err(Errno::NXIO), Err(Errno::NXIO)) => Err(Errno::NXIO),
            other => Ok(Seen::Broken(format!("at {at} of {size}: {other:?} instead of ENXIO"))),
        };
    }
    let zero_until = match data {
        Ok(data) if (at..size).contains(&data) => data,
        Err(Errno::NXIO) => size,
        other => return Ok(Seen::Broken(format!("SEEK_DATA from {at} of {size}: {other:?}"))),
    };
    match hole {
        Ok(hole) if (at..=size).contains(&hole) && (hole == at) == (zero_until > at) => {}
        other => {
            let text = format!("SEEK_HOLE from {at} of {size}: {other:?}, SEEK_DATA {data:?}");
            return Ok(Seen::Broken(text));
        }
    }
    if is_zero(fd, at, zero_until) {
        return Ok(Seen::Done);
    }
    Ok(Seen::Broken(format!("data in what SEEK_DATA calls a hole, {at}..{zero_until} of {size}")))
}

/// Whether the ends of a range read as zeros. A handle that cannot read proves nothing.
fn is_zero(fd: BorrowedFd<'_>, from: u64, to: u64) -> bool {
    let looks = [(from, to.min(from + LOOK)), (from.max(to.saturating_sub(LOOK)), to)];
    looks.iter().all(|(from, to)| match filled((to - from) as u32, |buffer| pread(fd, buffer, *from)) {
        Ok(Seen::Bytes(bytes)) => bytes.len() as u64 == to - from && bytes.iter().all(|byte| *byte == 0),
        _ => true,
    })
}
