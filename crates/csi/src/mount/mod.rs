//! The kernel's mount interface, as the node service needs it.
//!
//! 1. What is mounted is read from `/proc/self/mountinfo` and nowhere else ([`table`]): the kernel forgets nothing at a
//!    restart and cannot disagree with itself. References to a mount are counted there.
//! 2. A volume's directory belongs to its user, who may plant symbolic links. It is opened with `openat2` below the
//!    mounted file system, refusing links and other mounts, and cloned from that descriptor ([`bind`]); no path is
//!    resolved twice, so nothing can be swapped in between.
//! 3. A clone gets its attributes (read-only, ...) before it is attached: there is no moment in which a reader could write.
//! 4. The daemon behind a mount may be dead or stalled. Whatever asks it runs in a blocking thread with a deadline
//!    ([`probe`]); unmounting asks nobody ([`unmount`]).

pub(crate) mod bind;
pub(crate) mod probe;
mod sys;
pub mod table;
pub(crate) mod unmount;

use rustix::io::Errno;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why the mount table could not be read or changed.
#[derive(Debug, Error)]
pub enum MountError {
    /// A system call failed.
    #[error("{what} {path:?} failed: {errno}")]
    System {
        /// What was tried, as the beginning of a sentence.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        errno: Errno,
    },
    /// The mount table has a line that the kernel's documentation does not allow.
    #[error("/proc/self/mountinfo cannot be read: {0}")]
    Table(String),
    /// A mount point that is to be removed has content of its own on the node's disk.
    #[error(
        "{0:?} is not mounted any more but has files of its own: move them away, they were not written to the volume"
    )]
    NotEmpty(PathBuf),
    /// A mount point that cannot be one.
    #[error("{path:?} cannot be a mount point: {reason}")]
    BadPath {
        /// The path.
        path: PathBuf,
        /// Why.
        reason: &'static str,
    },
}

impl MountError {
    /// For `map_err`: names what was tried on which path.
    pub(crate) fn system(what: &'static str, path: &Path) -> impl FnOnce(Errno) -> Self {
        let path = path.to_owned();
        move |errno| Self::System { what, path, errno }
    }
}
