//! Stage and publish: from "nothing mounted" (or anything else) to "the volume is mounted here".
//!
//! 1. What is on the target decides. Ours and alive: done. Ours and dead: the new mount goes *on top*, since taking the
//!    dead one away first would for a moment show a restarting container a bare directory on the node's disk. Not ours:
//!    refused, nobody knows whose data it is.
//! 2. A volume is published from its staging mount while that is alive, else from the file system, which is mounted when
//!    it is not: callers do publish without staging after a node's restart.
//! 3. An answer is given after the new mount was looked at: it must show the very directory that was opened.

use super::{Core, group, overlap, target_key};
use crate::error::CsiError;
use crate::launcher::Source;
use crate::mount::bind::{self, OpenError};
use crate::mount::probe::{self, Health};
use crate::mount::table::{MountEntry, MountTable};
use crate::mount::unmount;
use crate::request::{self, Attributes, VolumeContext, VolumePath, required};
use carafe_proto::csi::v1::{
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeStageVolumeRequest, NodeStageVolumeResponse,
};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long opening a volume's directory and binding it may take. The directory may have to be looked up in the store.
const BIND_MAX: Duration = Duration::from_secs(10);
/// Permission bits of the directories that are made to mount on. Under a publish target nobody shall write once it is not
/// mounted.
const STAGING_MODE: u32 = 0o750;
const TARGET_MODE: u32 = 0;

/// A mount to be made.
struct Made<'a> {
    target: &'a Path,
    attributes: Attributes,
    /// Permission bits of the target's directory.
    mode: u32,
    /// Who shall be able to write in the volume's directory.
    group: Option<u32>,
}

/// Where a volume's directory is to be opened.
enum Origin {
    /// The whole of what is mounted here is the volume.
    Staged(PathBuf),
    /// The directory in this mounted file system.
    Mounted { source: Source, directory: PathBuf },
}

impl Core {
    pub(super) async fn stage(
        &self,
        request: NodeStageVolumeRequest,
    ) -> Result<NodeStageVolumeResponse, CsiError> {
        let id = required("volume_id", &request.volume_id)?;
        let staging = request::absolute("staging_target_path", &request.staging_target_path)?;
        let access = request::access(request.volume_capability.as_ref())?;
        let context = VolumeContext::parse(id, &request.volume_context, &self.volumes)?;
        let address = self.address(id, &context, &access, &request.secrets)?;
        let path = context.path.clone();
        let _lock = self.locks.lock(format!("volume {id}"))?;
        let directory = self.launcher.directory(id, &path);
        if self.is_in_place(&staging, &directory, Attributes::default()).await? {
            return Ok(NodeStageVolumeResponse {});
        }
        let source = self.launcher.ensure(&address).await?;
        let directory = self.attach_apart(&source, id, &path).await?;
        let group = group::wanted(&access, &context);
        let made = Made { target: &staging, attributes: Attributes::default(), mode: STAGING_MODE, group };
        self.mount(id, Origin::Mounted { source, directory }, made).await?;
        Ok(NodeStageVolumeResponse {})
    }

    pub(super) async fn publish(
        &self,
        request: NodePublishVolumeRequest,
    ) -> Result<NodePublishVolumeResponse, CsiError> {
        let id = required("volume_id", &request.volume_id)?;
        let target = request::absolute("target_path", &request.target_path)?;
        let access = request::access(request.volume_capability.as_ref())?;
        let (mut attributes, single_target) = (access.attributes, access.single_target);
        attributes.read_only |= request.readonly;
        if request.staging_target_path.is_empty() {
            return Err(CsiError::NotStaged(id.to_owned()));
        }
        let staging = request::absolute("staging_target_path", &request.staging_target_path)?;
        let context = VolumeContext::parse(id, &request.volume_context, &self.volumes)?;
        let path = context.path.clone();
        let _lock = self.locks.lock(target_key(id, &target))?;
        // Two targets of a single writer at the same time must see each other; others need not wait for each other.
        let _single =
            single_target.then(|| self.locks.lock(format!("volume {id} (one pod at a time)"))).transpose()?;
        let directory = self.launcher.directory(id, &path);
        if self.is_in_place(&target, &directory, attributes).await? {
            return Ok(NodePublishVolumeResponse {});
        }
        if single_target {
            self.refuse_second_target(id, &directory, &staging, &target)?;
        }
        let origin = if self.is_in_place(&staging, &directory, Attributes::default()).await.unwrap_or(false) {
            Origin::Staged(staging)
        } else {
            let source =
                self.launcher.ensure(&self.address(id, &context, &access, &request.secrets)?).await?;
            let directory = self.attach_apart(&source, id, &path).await?;
            Origin::Mounted { source, directory }
        };
        let group = group::wanted(&access, &context);
        self.mount(id, origin, Made { target: &target, attributes, mode: TARGET_MODE, group }).await?;
        Ok(NodePublishVolumeResponse {})
    }

    /// Makes the volume reachable below `source`, unless its directory overlaps with that of a volume that is mounted already.
    async fn attach_apart(&self, source: &Source, id: &str, path: &VolumePath) -> Result<PathBuf, CsiError> {
        let directory = self.launcher.directory(id, path);
        overlap::refuse(id, &MountTable::read()?, &source.mount_point, &directory)?;
        Ok(self.launcher.attach(source, id, path).await?)
    }

    /// Whether the volume's directory is mounted at `point` as it shall be, and answers.
    async fn is_in_place(
        &self,
        point: &Path,
        directory: &Path,
        wanted: Attributes,
    ) -> Result<bool, CsiError> {
        let table = MountTable::read()?;
        let Some(entry) = table.top(point) else { return Ok(false) };
        let occupied = |what: String| Err(CsiError::Occupied { path: point.to_owned(), what });
        if !self.launcher.owns(entry) {
            return occupied(format!("a mount of {} ({})", entry.source, entry.fs_type));
        }
        match probe::health(point).await? {
            Health::Dead => return Ok(false),
            Health::Stalled => {
                let what = format!("the mount at {point:?}");
                return Err(CsiError::TimedOut { what, limit: probe::PATIENCE });
            }
            Health::Alive => {}
        }
        if !shows(entry, directory) {
            return occupied(format!("another directory, {:?}", entry.root));
        }
        if entry.read_only() != wanted.read_only {
            let mode = if entry.read_only() { "read-only" } else { "writable" };
            return occupied(format!("this volume, but {mode}"));
        }
        Ok(true)
    }

    /// Another mount of the volume besides its staging and this target makes a single writer's second publish an error.
    fn refuse_second_target(
        &self,
        id: &str,
        directory: &Path,
        staging: &Path,
        target: &Path,
    ) -> Result<(), CsiError> {
        let table = MountTable::read()?;
        let other = |entry: &&MountEntry| {
            entry.point != staging
                && entry.point != target
                && self.launcher.owns(entry)
                && shows(entry, directory)
        };
        match table.0.iter().find(other) {
            Some(entry) => Err(CsiError::PublishedElsewhere { id: id.to_owned(), path: entry.point.clone() }),
            None => Ok(()),
        }
    }

    /// Binds a volume's directory to a target, made if need be, and looks whether it is there.
    async fn mount(&self, id: &str, origin: Origin, wanted: Made<'_>) -> Result<(), CsiError> {
        let Made { target, attributes, mode, group } = wanted;
        let deadline = Instant::now() + BIND_MAX;
        let made = bind::make_point(target, mode)?;
        let (owned_id, owned_target) = (id.to_owned(), target.to_owned());
        let what = format!("mounting volume {id}");
        let result = probe::within(BIND_MAX, &what, move || {
            let directory = open(&owned_id, &origin)?;
            if let Some(group) = group {
                group::give(&directory, &owned_target, group)?;
            }
            if !bind::bind(&directory, &owned_target, attributes, deadline)? {
                return Err(CsiError::TimedOut {
                    what: format!("mounting volume {owned_id}"),
                    limit: BIND_MAX,
                });
            }
            verify(&owned_id, &directory, &owned_target)
        })
        .await;
        if result.is_err() && made {
            undo(target);
        }
        result
    }
}

/// Whether a mount shows a volume's directory: the root of its bind ends with it.
fn shows(entry: &MountEntry, directory: &Path) -> bool {
    entry.root.ends_with(directory)
}

/// Opens a volume's directory. The [`Source`] in `origin` keeps its mount alive until the bind refers to it.
fn open(id: &str, origin: &Origin) -> Result<OwnedFd, CsiError> {
    let (source, directory) = match origin {
        Origin::Staged(staging) => return Ok(bind::open_point(staging)?),
        Origin::Mounted { source, directory } => (source, directory.clone()),
    };
    bind::open_below(&source.mount_point, &directory).map_err(|error| match error {
        OpenError::Absent(errno) => {
            CsiError::NoDirectory { id: id.to_owned(), directory, reason: errno.to_string() }
        }
        OpenError::Unsafe(errno) => {
            CsiError::UnsafeDirectory { id: id.to_owned(), directory, reason: errno.to_string() }
        }
        OpenError::Other(error) => error.into(),
    })
}

/// Compares what `target` shows with what was opened.
fn verify(id: &str, directory: &OwnedFd, target: &Path) -> Result<(), CsiError> {
    let expected = bind::identity(directory, target)?;
    let found = bind::identity(&bind::open_point(target)?, target)?;
    if expected == found {
        return Ok(());
    }
    Err(CsiError::Defect(format!("{target:?} shows {found:?} instead of {expected:?} of volume {id}")))
}

/// Takes away what a failed mount has made. Failing at that is no news for the caller, who gets the first failure.
fn undo(target: &Path) {
    if let Err(error) = unmount::unmount_all(target).and_then(|()| unmount::remove_point(target)) {
        tracing::warn!(target = %target.display(), %error, "the remains of a failed mount could not be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bind_shows_a_volume_if_its_root_ends_with_the_whole_directory() {
        let line = b"9 1 0:5 /volumes/a /mnt rw - fuse.carafe carafe rw\n";
        let entry = MountTable::parse(line).unwrap().0.remove(0);
        assert!(shows(&entry, Path::new("volumes/a")));
        assert!(!shows(&entry, Path::new("volumes/b")) && !shows(&entry, Path::new("umes/a")));
    }
}
