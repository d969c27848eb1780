//! How to mount.

use crate::control::Control;
use crate::stats::FuseStats;
use carafe_types::InodeNo;
use std::path::PathBuf;
use std::sync::Arc;

/// Everything that the kernel is told about a mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The mount point, an existing directory.
    pub dir: PathBuf,
    /// The file system's name: the mount table shows `carafe:<name>`.
    pub fs_name: String,
    /// Threads that read requests from the kernel, see `usual_threads`.
    pub threads: usize,
    /// The directory that is shown as the root of the mount.
    pub root: InodeNo,
    /// No changes (`MS_RDONLY`).
    pub read_only: bool,
    /// Honour device nodes (`dev`); off unless the administrator says so.
    pub dev: bool,
    /// Honour set-id bits (`suid`).
    pub suid: bool,
    /// Allow programs to be run from the mount.
    pub exec: bool,
    /// Only the user who mounts may use it. Otherwise every user may, within the permission bits.
    pub private: bool,
    /// What the kernel reads ahead of a sequential reader, KiB. The kernel's own default for FUSE is 128.
    pub read_ahead_kib: u32,
    /// Who answers `carafe info` and its like; `None` for nobody.
    pub control: Option<Arc<dyn Control>>,
    /// Where the requests of this mount are counted.
    pub stats: Arc<FuseStats>,
}

/// As many threads as there are processors for this process, 2 to 4. What has to wait goes to the runtime, so a few are enough; more than
/// there are processors cost: the kernel wakes them in turn, and each wake of a thread that has slept takes longer than most requests. Four
/// writers of small files on 2 processors: 1.1 to 1.5 times as fast with 2 threads as with 4.
pub(crate) fn usual_threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4)
}

impl MountOptions {
    /// Defaults for a mount of the file system `fs_name` at `dir`.
    pub fn new(dir: impl Into<PathBuf>, fs_name: impl Into<String>) -> Self {
        MountOptions {
            dir: dir.into(),
            fs_name: fs_name.into(),
            threads: usual_threads(),
            root: InodeNo::ROOT,
            read_only: false,
            dev: false,
            suid: false,
            exec: true,
            private: false,
            read_ahead_kib: 1024,
            control: None,
            stats: Arc::default(),
        }
    }

    /// The source that the mount table shows. A comma would end it in the option string of `fusermount3`.
    pub(crate) fn source(&self) -> String {
        format!("carafe:{}", self.fs_name.replace([',', '\\', '\n'], "_"))
    }
}
