//! Mounting, serving and unmounting.
//!
//! 1. Root mounts by itself, so that the mount table says `fuse.carafe` and `carafe:<name>`; everyone else through the
//!    setuid helper `fusermount3`, which `fuser` runs.
//! 2. The session's threads belong to `fuser`; one more thread waits for their end, so that [`Mounted::wait`] can be
//!    awaited beside signals.
//! 3. `umount` may wait for pages that this very daemon has to take, so it never runs on a thread that serves.

use crate::adapter::Adapter;
use crate::attr::Nodes;
use crate::killed;
use crate::notify::KernelCaches;
use crate::options::MountOptions;
use crate::table::{FS_TYPE, mounted_at};
use crate::vfs::Vfs;
use fuser::{Config, MountOption, Session, SessionACL};
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Why a directory could not be mounted or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// `/dev/fuse` is missing or may not be opened.
    #[error("cannot open /dev/fuse: {0}; load the kernel module `fuse`, or give the container the device")]
    NoDevice(#[source] io::Error),
    /// The kernel or `fusermount3` refuses.
    #[error("cannot mount on {dir}: {source}")]
    Mount {
        /// The mount point.
        dir: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Somebody uses it.
    #[error(
        "{dir} is busy: a process has a file open or its working directory there (`fuser -vm {dir}` names it)"
    )]
    Busy {
        /// The mount point.
        dir: PathBuf,
    },
    /// It cannot be unmounted for another reason.
    #[error("cannot unmount {dir}: {source}")]
    Unmount {
        /// The mount point.
        dir: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The threads that serve ended with an error.
    #[error("the session with the kernel ended: {0}")]
    Session(#[source] io::Error),
}

/// A live mount. Dropping it leaves the mount alone; call [`Mounted::unmount`].
#[derive(Debug)]
pub struct Mounted {
    dir: PathBuf,
    ended: oneshot::Receiver<io::Result<()>>,
}

/// Mounts `vfs` and begins to serve. When this returns, the kernel has answered: the first `stat` succeeds.
///
/// `runtime` runs whatever cannot be answered from memory at once.
///
/// # Errors
/// [`MountError::NoDevice`] and [`MountError::Mount`].
pub fn mount(vfs: Arc<Vfs>, runtime: Handle, options: &MountOptions) -> Result<Mounted, MountError> {
    let nodes = Nodes { root: options.root };
    let adapter = Adapter::new(vfs.clone(), runtime.clone(), nodes, options);
    let waiting = Arc::downgrade(adapter.waiting());
    let session = begin(adapter, options)?;
    let device = || {
        let clone = session.as_fd().try_clone_to_owned();
        clone.map_err(|source| MountError::Mount { dir: options.dir.clone(), source })
    };
    vfs.set_invalidator(Arc::new(KernelCaches::new(session.notifier(), device()?, nodes)));
    runtime.spawn(killed::watch(waiting, device()?));
    set_read_ahead(options);
    let (send, ended) = oneshot::channel();
    std::thread::Builder::new()
        .name("carafe-session".into())
        .spawn(move || {
            // Nobody may be listening any more: the process is ending then.
            let _ = send.send(session.run());
        })
        .map_err(MountError::Session)?;
    Ok(Mounted { dir: options.dir.clone(), ended })
}

impl Mounted {
    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Waits until the kernel has ended the session: after an unmount, once the last open file is closed.
    ///
    /// # Errors
    /// [`MountError::Session`] when it ended otherwise.
    pub async fn wait(&mut self) -> Result<(), MountError> {
        match (&mut self.ended).await {
            Ok(result) => result.map_err(MountError::Session),
            Err(_) => Err(MountError::Session(io::Error::other("a serving thread panicked"))),
        }
    }

    /// Takes the mount out of the tree; `lazily` also if it is busy: then it goes on serving what is open. Blocks, so
    /// call it outside the runtime's workers.
    ///
    /// # Errors
    /// As [`unmount`].
    pub fn unmount(&self, lazily: bool) -> Result<(), MountError> {
        unmount(&self.dir, lazily)
    }
}

/// Takes what is mounted on `dir` out of the tree. Needs root, or `fusermount3` and an own mount.
///
/// # Errors
/// [`MountError::Busy`] unless `lazily`, else [`MountError::Unmount`].
pub fn unmount(dir: &Path, lazily: bool) -> Result<(), MountError> {
    let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(dir, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::BUSY) => Err(MountError::Busy { dir: dir.to_owned() }),
        Err(rustix::io::Errno::PERM) => unmount_with_helper(dir, lazily),
        Err(e) => Err(MountError::Unmount { dir: dir.to_owned(), source: e.into() }),
    }
}

fn unmount_with_helper(dir: &Path, lazily: bool) -> Result<(), MountError> {
    let failed = |source| MountError::Unmount { dir: dir.to_owned(), source };
    let mut helper = Command::new("fusermount3");
    helper.arg(if lazily { "-uz" } else { "-u" }).arg("--").arg(dir);
    let output = helper.output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if text.contains("busy") {
        return Err(MountError::Busy { dir: dir.to_owned() });
    }
    Err(failed(io::Error::other(text)))
}

/// Mounts, and answers the kernel's INIT.
fn begin(adapter: Adapter, options: &MountOptions) -> Result<Session<Adapter>, MountError> {
    let failed = |source| MountError::Mount { dir: options.dir.clone(), source };
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").map_err(MountError::NoDevice)?;
    match mount_directly(&OwnedFd::from(device.try_clone().map_err(failed)?), options) {
        Ok(()) => {}
        Err(rustix::io::Errno::PERM) => return begin_with_helper(adapter, options),
        Err(e) => return Err(failed(e.into())),
    }
    Session::from_fd(adapter, device.into(), acl(options.private), config(options, Vec::new())).map_err(|e| {
        // Nothing is open yet, so the mount point goes at once.
        let _ = rustix::mount::unmount(&options.dir, UnmountFlags::DETACH);
        failed(e)
    })
}

fn mount_directly(device: &OwnedFd, options: &MountOptions) -> rustix::io::Result<()> {
    let mut flags = MountFlags::NOATIME;
    flags.set(MountFlags::RDONLY, options.read_only);
    flags.set(MountFlags::NODEV, !options.dev);
    flags.set(MountFlags::NOSUID, !options.suid);
    flags.set(MountFlags::NOEXEC, !options.exec);
    let who = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        who.0,
        who.1
    );
    if !options.private {
        data.push_str(",allow_other");
    }
    let data = CString::new(data).expect("the options are numbers and fixed words");
    rustix::mount::mount(options.source(), &options.dir, FS_TYPE, flags, data.as_c_str())
}

fn begin_with_helper(adapter: Adapter, options: &MountOptions) -> Result<Session<Adapter>, MountError> {
    let flag = |on, yes, no| if on { yes } else { no };
    let wanted = vec![
        MountOption::FSName(options.source()),
        MountOption::Subtype("carafe".into()),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
        flag(options.read_only, MountOption::RO, MountOption::RW),
        flag(options.dev, MountOption::Dev, MountOption::NoDev),
        flag(options.suid, MountOption::Suid, MountOption::NoSuid),
        flag(options.exec, MountOption::Exec, MountOption::NoExec),
    ];
    Session::new(adapter, &options.dir, &config(options, wanted))
        .map_err(|source| MountError::Mount { dir: options.dir.clone(), source })
}

fn config(options: &MountOptions, mount_options: Vec<MountOption>) -> Config {
    let mut config = Config::default();
    config.mount_options = mount_options;
    config.acl = acl(options.private);
    config.n_threads = Some(options.threads.max(1));
    // Requests of a cloned descriptor are aborted when the clone closes, which a takeover could not survive.
    config.clone_fd = false;
    config
}

fn acl(private: bool) -> SessionACL {
    if private { SessionACL::Owner } else { SessionACL::All }
}

/// Lets the kernel read further ahead than the 128 KiB of its default; the knob lies outside the FUSE protocol.
fn set_read_ahead(options: &MountOptions) {
    let knob = mounted_at(&options.dir)
        .ok()
        .flatten()
        .map(|m| PathBuf::from(format!("/sys/class/bdi/{}/read_ahead_kb", m.device)));
    let Some(knob) = knob else { return };
    if let Err(error) = std::fs::write(&knob, options.read_ahead_kib.to_string()) {
        tracing::debug!(knob = %knob.display(), %error, "the kernel's read-ahead stays at its default");
    }
}
