//! The calls that safe wrappers lack: a shared mapping of a file, truncate by path, and close with its result.
#![expect(unsafe_code, reason = "these calls have no safe wrapper")]

use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use rustix::io::Errno;

const PAGE: u64 = 4_096;

/// A shared mapping of a range of a file that must lie within its size.
pub(crate) struct Mapping {
    base: *mut libc::c_void,
    mapped: usize,
    /// Where the range begins in the mapping.
    skip: usize,
    len: usize,
}

impl Mapping {
    pub(crate) fn new(fd: BorrowedFd<'_>, at: u64, len: usize, writable: bool) -> Result<Self, Errno> {
        let skip = (at % PAGE) as usize;
        let mapped = skip + len;
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a fresh mapping, chosen by the kernel; the arguments are checked by it.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                protection,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                (at - skip as u64) as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(last_error());
        }
        Ok(Self { base, mapped, skip, len })
    }

    pub(crate) fn load(&self) -> Vec<u8> {
        let mut out = vec![0; self.len];
        // SAFETY: the range lies in the mapping, and the caller has seen that it lies within the file.
        unsafe {
            let from = self.base.cast::<u8>().add(self.skip);
            std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), self.len);
        }
        out
    }

    pub(crate) fn store(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len, "the bytes fit the mapping");
        // SAFETY: as in `load`; the mapping is writable where this is called.
        unsafe {
            let to = self.base.cast::<u8>().add(self.skip);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    pub(crate) fn sync(&self) -> Result<(), Errno> {
        // SAFETY: base and length are those of the mapping.
        let result = unsafe { libc::msync(self.base, self.mapped, libc::MS_SYNC) };
        if result == 0 { Ok(()) } else { Err(last_error()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and length are those of the mapping, which nobody uses any more.
        unsafe { libc::munmap(self.base, self.mapped) };
    }
}

/// truncate(2).
pub(crate) fn truncate(path: &str, size: u64) -> Result<(), Errno> {
    let path = CString::new(path).map_err(|_| Errno::INVAL)?;
    // SAFETY: the path ends with a NUL.
    let result = unsafe { libc::truncate(path.as_ptr(), size as libc::off_t) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// close(2) with its result: on FUSE it tells whether what was written has been accepted.
pub(crate) fn close(fd: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the descriptor is owned, and given up here.
    let result = unsafe { libc::close(fd.into_raw_fd()) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).expect("a failed call sets errno")
}
