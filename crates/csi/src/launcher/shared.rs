//! One mount a file system on this node, shared by its volumes.
//!
//! 1. *Who is mounted* is read from the mount table at every call, so a plugin that restarts adopts what is there.
//! 2. *Who refers to a mount* is read there too: its binds are the lines with the same device. Only the moment between
//!    "mounted" and "bound" is not visible there; [`Source`] holds the mount for so long.
//! 3. Starting and ending one mount exclude each other by a lock a mount. A mount that has just been unmounted may still
//!    be flushing; whoever wants it again waits for that, since two daemons of one plugin on one cache are pointless.
//! 4. A dead mount (its daemon is gone) is detached and replaced. A stalled one is not: it may come back.

use super::{LaunchError, MountId, MountLauncher, ServingMount, Source, Starter};
use crate::address::FsAddress;
use crate::error::CsiError;
use crate::mount::probe::{self, Health};
use crate::mount::table::{MountEntry, MountTable};
use crate::mount::{MountError, bind, unmount};
use async_trait::async_trait;
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Settings of [`SharedMounts`].
#[derive(Clone, Debug)]
pub struct SharedOptions {
    /// A directory of this plugin alone: mounts are at `mnt/<mount-id>` below it.
    pub base: PathBuf,
    /// How long a mount may take until it answers.
    pub ready_timeout: Duration,
    /// How long a mount without references lives on, for the pod that comes next.
    pub linger: Duration,
    /// How long `shutdown` and a new start wait for an unmounted file system to store what was written.
    pub flush_timeout: Duration,
}

impl SharedOptions {
    /// 100 s to get ready (within the 110 s that a call may take), 60 s of linger, 10 minutes to flush.
    pub fn new(base: impl Into<PathBuf>) -> Self {
        Self {
            base: base.into(),
            ready_timeout: Duration::from_secs(100),
            linger: Duration::from_secs(60),
            flush_timeout: Duration::from_secs(600),
        }
    }
}

/// A [`MountLauncher`] over a [`Starter`].
pub struct SharedMounts<S>(Arc<Inner<S>>);

struct Inner<S> {
    starter: S,
    options: SharedOptions,
    mounts: Mutex<BTreeMap<PathBuf, Arc<Slot>>>,
}

/// What is known of one mount besides the mount table.
#[derive(Default)]
struct Slot {
    /// Held while the mount is started or ended; what serves it, unless it was adopted.
    serving: tokio::sync::Mutex<Option<Box<dyn ServingMount>>>,
    /// Cloned into each [`Source`].
    hold: Arc<()>,
}

impl<S: Starter> SharedMounts<S> {
    /// A launcher whose mounts are below `options.base`.
    pub fn new(starter: S, options: SharedOptions) -> Self {
        Self(Arc::new(Inner { starter, options, mounts: Mutex::default() }))
    }
}

#[async_trait]
impl<S: Starter> MountLauncher for SharedMounts<S> {
    async fn ensure(&self, address: &FsAddress) -> Result<Source, LaunchError> {
        let limit = self.0.options.ready_timeout;
        let file_system = address.public_url().to_string();
        match tokio::time::timeout(limit, self.0.ensure(address)).await {
            Ok(result) => result,
            Err(_) => {
                let log = self.0.last_words(address).unwrap_or_else(|| {
                    "the mount before it may still be storing what was written".to_owned()
                });
                Err(LaunchError::NotReady { file_system, limit, log })
            }
        }
    }

    fn owns(&self, entry: &MountEntry) -> bool {
        self.0.starter.owns(entry)
    }

    fn release(&self) {
        let inner = Arc::clone(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(inner.options.linger).await;
            inner.end_unreferenced().await;
        });
    }

    async fn shutdown(&self) {
        self.0.end_unreferenced().await;
    }
}

impl<S: Starter> Inner<S> {
    fn slot(&self, point: &Path) -> Arc<Slot> {
        Arc::clone(self.mounts.lock().entry(point.to_owned()).or_default())
    }

    async fn ensure(&self, address: &FsAddress) -> Result<Source, LaunchError> {
        let folder = self.options.base.join("mnt");
        std::fs::create_dir_all(&folder).map_err(io("making", &folder))?;
        let point = self.point(address)?;
        let slot = self.slot(&point);
        let mut serving = slot.serving.lock().await;
        let source = Source::new(point.clone(), Arc::clone(&slot.hold));
        match self.look_at(&point).await? {
            Some(Health::Alive) => return Ok(source),
            Some(Health::Stalled) => return Err(LaunchError::Stalled { mount_point: point }),
            Some(Health::Dead) => {
                tracing::warn!(mount = %point.display(), "the mount is dead and will be replaced");
                unmount::unmount_all(&point)?;
                *serving = None;
            }
            None => {}
        }
        bind::make_point(&point, 0o700)?;
        *serving = Some(self.starter.start(address, &point).await?);
        match self.look_at(&point).await? {
            Some(Health::Alive) => Ok(source),
            _ => Err(LaunchError::Stalled { mount_point: point }),
        }
    }

    fn last_words(&self, address: &FsAddress) -> Option<String> {
        self.starter.last_words(&self.point(address).ok()?)
    }

    /// Where a file system is mounted, or would be.
    fn point(&self, address: &FsAddress) -> Result<PathBuf, MountError> {
        Ok(self.folder()?.join(MountId::of(address).as_str()))
    }

    /// The folder of the mounts as the mount table shows it.
    fn folder(&self) -> Result<PathBuf, MountError> {
        let folder = self.options.base.join("mnt");
        folder.canonicalize().map_err(io("resolving", &folder))
    }

    /// The health of what is mounted at `point`; `None` if nothing is.
    async fn look_at(&self, point: &Path) -> Result<Option<Health>, LaunchError> {
        if MountTable::read()?.top(point).is_none() {
            return Ok(None);
        }
        match probe::health(point).await {
            Ok(health) => Ok(Some(health)),
            Err(CsiError::Mount(error)) => Err(error.into()),
            Err(_) => Ok(Some(Health::Stalled)),
        }
    }

    /// Ends every mount of ours, adopted ones too, that nothing refers to, and waits for those that are ending already.
    async fn end_unreferenced(&self) {
        let points = match self.points() {
            Ok(points) => points,
            Err(error) => {
                tracing::error!(%error, "idle mounts cannot be found");
                return;
            }
        };
        for point in points {
            if let Err(error) = self.end_if_unreferenced(&point).await {
                tracing::error!(mount = %point.display(), %error, "an idle mount could not be ended");
            }
        }
    }

    /// Where something of ours is mounted, or was.
    fn points(&self) -> Result<BTreeSet<PathBuf>, MountError> {
        let mut points: BTreeSet<_> = self.mounts.lock().keys().cloned().collect();
        // No folder: nothing was ever mounted.
        if let Ok(folder) = self.folder() {
            let all = MountTable::read()?.0.into_iter().map(|entry| entry.point);
            points.extend(all.filter(|point| point.parent() == Some(&folder)));
        }
        Ok(points)
    }

    async fn end_if_unreferenced(&self, point: &Path) -> Result<(), MountError> {
        let slot = self.slot(point);
        let mut serving = slot.serving.lock().await;
        let table = MountTable::read()?;
        let held = Arc::strong_count(&slot.hold) > 1;
        if held || table.references(point).any(|entry| self.starter.owns(entry)) {
            return Ok(());
        }
        if table.top(point).is_some() && !unmount_idle(point).await? {
            tracing::info!(mount = %point.display(), "an idle mount is in use by a process and stays");
            return Ok(());
        }
        if let Some(serving) = serving.take() {
            self.wait_for_flush(point, serving).await;
        }
        unmount::remove_point(point)
    }

    async fn wait_for_flush(&self, point: &Path, serving: Box<dyn ServingMount>) {
        match tokio::time::timeout(self.options.flush_timeout, serving.ended()).await {
            Ok(Ok(())) => tracing::info!(mount = %point.display(), "the mount ended"),
            Ok(Err(reason)) => {
                tracing::error!(mount = %point.display(), reason, "the mount ended with an error")
            }
            Err(_) => {
                tracing::error!(mount = %point.display(), "the mount still stores what was written; not waiting")
            }
        }
    }
}

/// Unmounting writes back what applications mapped, so whoever serves the mount, maybe a task of this very runtime, has
/// work to do meanwhile.
async fn unmount_idle(point: &Path) -> Result<bool, MountError> {
    let point = point.to_owned();
    let defect = |e: tokio::task::JoinError| MountError::Table(e.to_string());
    tokio::task::spawn_blocking(move || unmount::unmount_idle(&point)).await.map_err(defect)?
}

/// For `map_err`: an I/O error as a mount error.
pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> MountError {
    let path = path.to_owned();
    move |e| MountError::System { what, path, errno: Errno::from_io_error(&e).unwrap_or(Errno::IO) }
}
