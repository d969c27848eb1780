//! `mount_setattr(2)`, the one call of the mount interface that has no safe wrapper.

#![expect(unsafe_code, reason = "a system call without a safe wrapper in rustix 1.1")]

use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets attributes of the mount at `fd` (a clone that is not attached yet) and cuts it from its propagation group, so
/// that what happens at its source later does not reach it.
pub(super) fn set_private_attributes(
    fd: BorrowedFd<'_>,
    set: MountAttrFlags,
    clear: MountAttrFlags,
) -> Result<(), Errno> {
    let attributes = libc::mount_attr {
        attr_set: set.bits().into(),
        attr_clr: clear.bits().into(),
        propagation: libc::MS_PRIVATE,
        userns_fd: 0,
    };
    // SAFETY: the path is a string literal with its terminator, and the kernel only reads `attributes`, whose size is
    // given; both live until the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}
