//! What is agreed with the kernel when a mount begins, each with its reason.

use fuser::{InitFlags, KernelConfig};

/// Largest write request, bytes: 256 pages, what the kernel allows without a sysctl.
const MAX_WRITE: u32 = 1 << 20;

/// Requests that the kernel keeps under way for nobody in particular (readahead, asynchronous direct I/O). A cold
/// sequential reader with 20 ms to the bucket needs dozens of them; 16, the default of `fuser`, holds it back.
const MAX_BACKGROUND: u16 = 256;

/// What this file system wants if the kernel knows it.
///
/// Wanted on purpose *not*:
/// - `WRITEBACK_CACHE`: a write must reach the daemon before the call returns, or quota and order are lost;
/// - `AUTO_INVAL_DATA`: it drops pages whenever the modification time moves, which every own write does;
/// - `EXPLICIT_INVAL_DATA`: it keeps the page at the old end of a file that another mount has made longer, and a reader
///   would see zeroes there; without it the kernel drops the pages when it sees another size;
/// - `ATOMIC_O_TRUNC`: the daemon would truncate before the kernel finds that the file is being executed, and what should be a
///   harmless ETXTBSY would empty a running program;
/// - `DONT_MASK`: the kernel applies the umask, since nobody sets default ACLs here (`POSIX_ACL` is not offered);
/// - `EXPORT_SUPPORT`: it promises lookups of `.` and `..` of inodes that the kernel has forgotten.
const WANTED: [(InitFlags, &str); 11] = [
    (InitFlags::FUSE_ASYNC_READ, "several reads of a file at once"),
    (InitFlags::FUSE_ASYNC_DIO, "several direct requests of a file at once"),
    (InitFlags::FUSE_BIG_WRITES, "writes above 4 KiB"),
    (InitFlags::FUSE_PARALLEL_DIROPS, "several lookups in a directory at once"),
    (InitFlags::FUSE_DO_READDIRPLUS, "names with attributes"),
    (InitFlags::FUSE_READDIRPLUS_AUTO, "only where attributes are used"),
    (InitFlags::FUSE_POSIX_LOCKS, "record locks between mounts"),
    (InitFlags::FUSE_FLOCK_LOCKS, "flock between mounts"),
    (InitFlags::FUSE_CACHE_SYMLINKS, "a symlink never changes"),
    (InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP, "mmap of a file that is also open with O_DIRECT"),
    // Without it each write first asks for the attribute security.capability. The bits are then ours to clear: at
    // write, truncate, fallocate, copy_file_range and chown.
    (InitFlags::FUSE_HANDLE_KILLPRIV_V2, "set-id bits are cleared by the daemon"),
];

/// Answers the kernel's INIT.
pub(crate) fn negotiate(config: &mut KernelConfig) {
    for (flag, why) in WANTED {
        if config.add_capabilities(flag).is_err() {
            tracing::info!(?flag, why, "the kernel does not offer this");
        }
    }
    if let Err(nearest) = config.set_max_write(MAX_WRITE) {
        tracing::warn!(wanted = MAX_WRITE, nearest, "the kernel refuses the size of write requests");
    }
    // The kernel takes the smaller of its own bound and this one; `fuser` begins with the kernel's.
    let _ = config.set_max_background(MAX_BACKGROUND);
    let _ = config.set_congestion_threshold(MAX_BACKGROUND / 4 * 3);
}
