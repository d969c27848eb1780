//! Statistics and size of a published volume.
//!
//! The numbers come from `statfs`, which a Carafe mount answers from memory by the volume's quota. A mount that does not
//! answer in time gets the last known numbers: kubelet asks every minute and drops a volume's metrics on an error.

use super::Core;
use crate::error::CsiError;
use crate::mount::MountError;
use crate::mount::probe;
use crate::mount::table::MountTable;
use crate::request::{self, required};
use carafe_proto::csi::v1::volume_usage::Unit;
use carafe_proto::csi::v1::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    VolumeUsage,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long `statfs` may take.
const STATFS_MAX: Duration = Duration::from_secs(1);

/// What `statfs` says of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Statistics {
    bytes: Usage,
    inodes: Usage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Usage {
    total: u64,
    used: u64,
    available: u64,
}

impl Usage {
    fn wire(self, unit: Unit) -> VolumeUsage {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        VolumeUsage {
            total: number(self.total),
            used: number(self.used),
            available: number(self.available),
            unit: unit.into(),
        }
    }
}

/// The last numbers of each path, and which paths are being asked: one question at a time, so that a stalled mount ties
/// up one thread, not one a minute.
#[derive(Clone, Default)]
pub(super) struct LastKnown(Arc<Mutex<HashMap<PathBuf, Known>>>);

#[derive(Clone, Copy, Default)]
struct Known {
    asking: bool,
    statistics: Option<Statistics>,
}

impl LastKnown {
    /// Begins a question about `path`; `false` if one is under way.
    fn begin(&self, path: &Path) -> bool {
        !std::mem::replace(&mut self.0.lock().entry(path.to_owned()).or_default().asking, true)
    }

    /// Ends the question. A path that was forgotten meanwhile stays so.
    fn end(&self, path: &Path, answer: Option<Statistics>) {
        if let Some(known) = self.0.lock().get_mut(path) {
            known.asking = false;
            known.statistics = answer.or(known.statistics);
        }
    }

    fn last(&self, path: &Path) -> Option<Statistics> {
        self.0.lock().get(path).and_then(|known| known.statistics)
    }

    /// Drops what is known of a path that is not mounted any more.
    pub(super) fn forget(&self, path: &Path) {
        self.0.lock().remove(path);
    }

    /// The numbers of the file system at `path`: its answer, else the last one.
    async fn ask(&self, path: &Path) -> Result<Statistics, CsiError> {
        let late = || CsiError::TimedOut { what: format!("statfs of {path:?}"), limit: STATFS_MAX };
        if !self.begin(path) {
            return self.last(path).ok_or_else(late);
        }
        let (this, asked) = (self.clone(), path.to_owned());
        let question = move || {
            let answer = statfs(&asked);
            this.end(&asked, answer.as_ref().ok().copied());
            Ok(answer?)
        };
        match probe::within(STATFS_MAX, "statfs", question).await {
            Err(CsiError::TimedOut { .. }) => self.last(path).ok_or_else(late),
            other => other,
        }
    }
}

impl Core {
    pub(super) async fn stats(
        &self,
        request: NodeGetVolumeStatsRequest,
    ) -> Result<NodeGetVolumeStatsResponse, CsiError> {
        let id = required("volume_id", &request.volume_id)?;
        let path = self.published(id, &request.volume_path)?;
        let statistics = self.statistics.ask(&path).await?;
        let usage = vec![statistics.bytes.wire(Unit::Bytes), statistics.inodes.wire(Unit::Inodes)];
        Ok(NodeGetVolumeStatsResponse { usage })
    }

    /// The quota acts without a step on the node, so this only tells the size.
    pub(super) async fn expand(
        &self,
        request: NodeExpandVolumeRequest,
    ) -> Result<NodeExpandVolumeResponse, CsiError> {
        let id = required("volume_id", &request.volume_id)?;
        let path = self.published(id, &request.volume_path)?;
        if request.volume_capability.is_some() {
            request::access(request.volume_capability.as_ref())?;
        }
        let total = self.statistics.ask(&path).await?.bytes.total;
        Ok(NodeExpandVolumeResponse { capacity_bytes: i64::try_from(total).unwrap_or(i64::MAX) })
    }

    /// The path, if something of ours is mounted there. A path that cannot be a target has nothing mounted on it either,
    /// which is what these calls want to hear (`csi-sanity` asks about `some/path`).
    fn published(&self, id: &str, path: &str) -> Result<PathBuf, CsiError> {
        let text = required("volume_path", path)?;
        let path = request::absolute("volume_path", text).unwrap_or_else(|_| PathBuf::from(text));
        let table = MountTable::read()?;
        if table.top(&path).is_some_and(|entry| self.launcher.owns(entry)) {
            return Ok(path);
        }
        self.statistics.forget(&path);
        Err(CsiError::NotMounted { id: id.to_owned(), path })
    }
}

fn statfs(path: &Path) -> Result<Statistics, MountError> {
    let told = rustix::fs::statvfs(path).map_err(MountError::system("statfs of", path))?;
    let bytes = |blocks: u64| blocks.saturating_mul(told.f_frsize);
    Ok(Statistics {
        bytes: Usage {
            total: bytes(told.f_blocks),
            used: bytes(told.f_blocks.saturating_sub(told.f_bfree)),
            available: bytes(told.f_bavail),
        },
        inodes: Usage {
            total: told.f_files,
            used: told.f_files.saturating_sub(told.f_ffree),
            available: told.f_favail,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Usage = Usage { total: 10, used: 4, available: 6 };

    #[test]
    fn a_path_that_is_being_asked_is_not_asked_again_and_the_last_answer_stays() {
        let (known, path) = (LastKnown::default(), Path::new("/mnt"));
        assert!(known.begin(path) && !known.begin(path));
        let statistics = Statistics { bytes: SOME, inodes: SOME };
        known.end(path, Some(statistics));
        assert!(known.begin(path));
        known.end(path, None);
        assert_eq!(known.last(path), Some(statistics));
        known.forget(path);
        assert_eq!(known.last(path), None);
    }

    #[test]
    fn numbers_beyond_what_the_wire_holds_are_told_as_the_largest() {
        let usage = Usage { total: u64::MAX, ..SOME }.wire(Unit::Bytes);
        assert_eq!((usage.total, usage.used, usage.unit), (i64::MAX, 4, i32::from(Unit::Bytes)));
    }
}
