//! Where the bytes of one slice lie: a sparse file on the cache disk or chunks in memory. The rest of the crate does not care which.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};

use crate::memory::MemoryBytes;

/// Positional access to a slice's bytes.
#[derive(Clone, Copy)]
pub(crate) enum Store<'a> {
    /// A sparse file.
    Disk(&'a File),
    /// Chunks in memory.
    Memory(&'a MemoryBytes),
}

impl Store<'_> {
    /// Fills `buf`; fewer bytes than asked for mean that the file ends there.
    pub(crate) fn read_at(self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Store::Memory(bytes) => {
                bytes.read(buf, offset);
                Ok(buf.len())
            }
            Store::Disk(file) => read_full(file, buf, offset),
        }
    }

    /// Writes all of `data`.
    pub(crate) fn write_at(self, data: &[u8], offset: u64) -> io::Result<()> {
        match self {
            Store::Memory(bytes) => {
                bytes.write(data, offset);
                Ok(())
            }
            Store::Disk(file) => file.write_all_at(data, offset),
        }
    }

    /// Makes a hole, giving the space back. `Unsupported` where the disk's file system cannot.
    pub(crate) fn punch(self, range: Range<u64>) -> io::Result<()> {
        match self {
            Store::Memory(bytes) => bytes.punch(range),
            Store::Disk(file) => {
                let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(file, how, range.start, range.end - range.start)?;
            }
        }
        Ok(())
    }

    /// Cuts or extends (with a hole) to `len`.
    pub(crate) fn set_len(self, len: u64) -> io::Result<()> {
        match self {
            Store::Memory(bytes) => {
                bytes.truncate(len);
                Ok(())
            }
            // The usual case, and fstat(2) is much cheaper than a truncate that changes nothing.
            Store::Disk(file) if file.metadata()?.len() == len => Ok(()),
            Store::Disk(file) => file.set_len(len),
        }
    }
}

/// Reads until `buf` is full or the file ends; pread(2) may return less than asked for.
pub(crate) fn read_full(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}
