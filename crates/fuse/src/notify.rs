//! Voiding what the kernel keeps.
//!
//! A notification may wait inside the kernel for a lock of a directory or a page that a request under way holds, and
//! that request may wait for this daemon. So nothing here may run on a thread that serves requests or that the runtime
//! needs: callers use a blocking thread of their own.
//!
//! `FUSE_NOTIFY_INC_EPOCH` (Linux 6.16) voids every name at once without taking a lock: names looked up before it count
//! as expired. `fuser` 0.18 does not know it; it is a bare header of 16 bytes.

use crate::attr::Nodes;
use crate::vfs::Invalidate;
use carafe_types::{EntryName, InodeNo};
use fuser::Notifier;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// `FUSE_NOTIFY_INC_EPOCH` of `linux/fuse.h`.
const INC_EPOCH: i32 = 8;

/// The kernel's copies of names, attributes and pages of one mount.
#[derive(Debug)]
pub(crate) struct KernelCaches {
    notifier: Notifier,
    device: OwnedFd,
    nodes: Nodes,
    /// Cleared once the kernel has said that it does not know the epoch.
    has_epoch: AtomicBool,
}

impl KernelCaches {
    pub(crate) fn new(notifier: Notifier, device: OwnedFd, nodes: Nodes) -> Self {
        KernelCaches { notifier, device, nodes, has_epoch: AtomicBool::new(true) }
    }

    fn inc_epoch(&self) -> io::Result<()> {
        rustix::io::write(&self.device, &epoch_message()).map(drop).map_err(io::Error::from)
    }

    fn told(what: &'static str, result: io::Result<()>) {
        match result {
            Ok(()) => {}
            // The mount is gone, and its caches with it.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENODEV | libc::ENOTCONN)) => {}
            Err(error) => tracing::warn!(what, %error, "the kernel refuses a notification"),
        }
    }
}

impl Invalidate for KernelCaches {
    fn inode(&self, ino: InodeNo) {
        // Offset 0 and length 0: attributes and all pages.
        Self::told("inode", self.notifier.inval_inode(self.nodes.node(ino), 0, 0));
    }

    fn attributes(&self, ino: InodeNo) {
        // A negative offset leaves the pages alone.
        Self::told("attributes", self.notifier.inval_inode(self.nodes.node(ino), -1, 0));
    }

    fn entry(&self, dir: InodeNo, name: &EntryName) {
        Self::told(
            "entry",
            self.notifier.inval_entry(self.nodes.node(dir), OsStr::from_bytes(name.as_bytes())),
        );
    }

    fn epoch(&self) -> bool {
        if !self.has_epoch.load(Ordering::Relaxed) {
            return false;
        }
        match self.inc_epoch() {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                tracing::info!(
                    "the kernel knows no epochs (Linux 6.16 does): names run out by their lifetimes"
                );
                self.has_epoch.store(false, Ordering::Relaxed);
                false
            }
            other => {
                Self::told("epoch", other);
                true
            }
        }
    }
}

/// `fuse_out_header`: length, code in the place of the error, 0 in the place of the request's number.
fn epoch_message() -> [u8; 16] {
    let mut message = [0u8; 16];
    message[0..4].copy_from_slice(&16u32.to_ne_bytes());
    message[4..8].copy_from_slice(&INC_EPOCH.to_ne_bytes());
    message
}
