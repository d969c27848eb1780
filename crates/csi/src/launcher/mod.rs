//! Whatever serves a file system on this node: the thing between a CSI call and a FUSE mount.
//!
//! [`MountLauncher`] is what the node service sees. [`SharedMounts`] implements it for everything that can be started by a
//! local call (a [`Starter`]): one mount a file system at `<base>/mnt/<mount-id>`, shared by its volumes, adopted after a
//! restart of the plugin, ended when the mount table shows no reference to it. The starters are [`ChildProcess`], which
//! runs `carafe mount`, [`InProcess`], which calls back into the binary (the embedded engine has a single process), and
//! [`LocalDirectory`], the twin for tests. Mount pods will be another `MountLauncher`.

mod child;
mod in_process;
mod local;
mod mount_id;
mod shared;

pub use child::{ChildOptions, ChildProcess, ENVIRONMENT};
pub use in_process::InProcess;
pub use local::LocalDirectory;
pub use mount_id::MountId;
pub use shared::{SharedMounts, SharedOptions};

use crate::address::FsAddress;
use crate::mount::MountError;
use crate::mount::table::MountEntry;
use crate::request::VolumePath;
use async_trait::async_trait;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// A mounted file system. While this value lives, the mount does not end, though the mount table may not show a
/// reference to it yet.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where the root of the file system is mounted.
    pub mount_point: PathBuf,
    hold: Arc<()>,
}

impl Source {
    /// A source that lives as long as somebody has a clone of `hold`.
    pub fn new(mount_point: PathBuf, hold: Arc<()>) -> Self {
        Self { mount_point, hold }
    }

    /// How many hold this source or its like, the launcher's own `hold` included.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.hold)
    }
}

/// Why a file system is not served.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The program that serves it cannot be run.
    #[error("{program:?} cannot be started: {reason}")]
    CannotStart {
        /// The program.
        program: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// It ended before it served.
    #[error("the mount of {file_system} ended before it was ready ({status}): {log}")]
    Ended {
        /// What its exit code says.
        kind: RefusalKind,
        /// The metadata URL, without secrets.
        file_system: String,
        /// Its exit status.
        status: String,
        /// The last it said.
        log: String,
    },
    /// It said why it will not serve.
    #[error("{file_system} cannot be mounted: {reason}")]
    Refused {
        /// What sort of reason it is.
        kind: RefusalKind,
        /// The metadata URL, without secrets.
        file_system: String,
        /// Its words.
        reason: String,
    },
    /// It did not serve in time.
    #[error("the mount of {file_system} was not ready after {} s: {log}", limit.as_secs())]
    NotReady {
        /// The metadata URL, without secrets.
        file_system: String,
        /// How long it was waited for.
        limit: Duration,
        /// The last it said.
        log: String,
    },
    /// It is mounted and does not answer.
    #[error(
        "the mount at {mount_point:?} does not answer: it will be tried again; if it stays so, look at its log"
    )]
    Stalled {
        /// Where it is mounted.
        mount_point: PathBuf,
    },
    /// The mount table could not be read or changed.
    #[error(transparent)]
    Mount(#[from] MountError),
}

/// Why a file system will not be served, as far as it decides what the caller should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// Tried, and failed for a reason that may pass.
    Failed,
    /// The address can never work.
    Address,
    /// Store or bucket do not answer.
    Unreachable,
    /// A wrong password or key, a missing right.
    Credentials,
    /// There is something there that must not be mounted: another file system, a newer format, a policy that loses data.
    Unfit,
}

impl RefusalKind {
    /// From the documented exit codes of `carafe mount`; `None` is death by a signal.
    pub fn from_exit_code(code: Option<i32>) -> Self {
        match code {
            Some(2) => Self::Address,
            Some(3) => Self::Unreachable,
            Some(4) => Self::Credentials,
            Some(6) => Self::Unfit,
            _ => Self::Failed,
        }
    }
}

/// Why a file system is not mounted, in the words of who tried it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What the caller should do.
    pub kind: RefusalKind,
    /// A sentence: what happened, to what, what next. No secrets.
    pub reason: String,
}

/// Serves file systems on this node.
#[async_trait]
pub trait MountLauncher: Send + Sync {
    /// Makes sure that the file system at `address` is mounted and answers. Calls for the same file system at the same
    /// time wait for one mount.
    async fn ensure(&self, address: &FsAddress) -> Result<Source, LaunchError>;

    /// Makes a volume reachable below `source` and answers where, relative to it.
    async fn attach(
        &self,
        source: &Source,
        volume_id: &str,
        path: &VolumePath,
    ) -> Result<PathBuf, LaunchError> {
        let _ = source;
        Ok(self.directory(volume_id, path))
    }

    /// Where `attach` makes a volume reachable: what the mount table shows as the root of its binds.
    fn directory(&self, volume_id: &str, path: &VolumePath) -> PathBuf {
        let _ = volume_id;
        path.as_path().to_owned()
    }

    /// Whether a mount shows a file system that this launcher served, now or before the plugin was started.
    fn owns(&self, entry: &MountEntry) -> bool;

    /// Ends mounts that nothing refers to any more, once they have been idle for a while. Returns soon; the work goes on
    /// by itself.
    fn release(&self);

    /// Ends the mounts that nothing refers to, now, and waits for them. Mounts in use go on, if they can do so without
    /// this process.
    async fn shutdown(&self);
}

/// Mounts a file system at a given directory.
#[async_trait]
pub trait Starter: Send + Sync + 'static {
    /// Mounts the file system at `point`, an empty directory, and returns when it answers. Dropped before that, it leaves
    /// nothing behind.
    async fn start(&self, address: &FsAddress, point: &Path) -> Result<Box<dyn ServingMount>, LaunchError>;

    /// See [`MountLauncher::owns`].
    fn owns(&self, entry: &MountEntry) -> bool;

    /// The last that whoever serves `point`, or tries to, has said; for the error when it is not ready in time.
    fn last_words(&self, point: &Path) -> Option<String> {
        let _ = point;
        None
    }
}

/// What serves a mount.
#[async_trait]
pub trait ServingMount: Send {
    /// Waits, after the mount was unmounted, until everything that applications wrote is stored and whoever served it has
    /// ended. The error says what was lost.
    async fn ended(self: Box<Self>) -> Result<(), String>;
}
