//! Unpublish and unstage: unmount until nothing is mounted, remove the directory, done.
//!
//! No daemon, store, bucket or API server is asked, and a volume that was never mounted is a success: a pod must be able
//! to go, whatever has died before it.

use super::{Core, target_key};
use crate::error::CsiError;
use crate::mount::unmount;
use crate::request::{self, required};
use carafe_proto::csi::v1::{
    NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse, NodeUnstageVolumeRequest,
    NodeUnstageVolumeResponse,
};
use std::path::Path;

impl Core {
    pub(super) async fn unpublish(
        &self,
        request: NodeUnpublishVolumeRequest,
    ) -> Result<NodeUnpublishVolumeResponse, CsiError> {
        let id = required("volume_id", &request.volume_id)?;
        let target = request::absolute("target_path", &request.target_path)?;
        let _lock = self.locks.lock(target_key(id, &target))?;
        take_away(&target).await?;
        self.statistics.forget(&target);
        self.launcher.release();
        Ok(NodeUnpublishVolumeResponse {})
    }

    pub(super) async fn unstage(
        &self,
        request: NodeUnstageVolumeRequest,
    ) -> Result<NodeUnstageVolumeResponse, CsiError> {
        let id = required("volume_id", &request.volume_id)?;
        let staging = request::absolute("staging_target_path", &request.staging_target_path)?;
        let _lock = self.locks.lock(format!("volume {id}"))?;
        take_away(&staging).await?;
        self.statistics.forget(&staging);
        self.launcher.release();
        Ok(NodeUnstageVolumeResponse {})
    }
}

async fn take_away(point: &Path) -> Result<(), CsiError> {
    let point = point.to_owned();
    let call = move || -> Result<(), CsiError> {
        unmount::unmount_all(&point)?;
        Ok(unmount::remove_point(&point)?)
    };
    tokio::task::spawn_blocking(call).await.map_err(|panicked| CsiError::Defect(panicked.to_string()))?
}
