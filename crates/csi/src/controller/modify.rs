//! Changing the settings of a volume in use.

use super::{Core, not_ours};
use crate::error::CsiError;
use crate::id::VolumeId;
use crate::request::{Settings, required};
use carafe_proto::csi::v1::{ControllerModifyVolumeRequest, ControllerModifyVolumeResponse};

impl Core {
    pub(super) async fn modify(
        &self,
        request: ControllerModifyVolumeRequest,
    ) -> Result<ControllerModifyVolumeResponse, CsiError> {
        let id = required("volume_id", &request.volume_id)?;
        let settings = Settings::parse(&request.mutable_parameters)?;
        let id = VolumeId::parse(id).ok_or_else(|| not_ours(id))?;
        let _lock = self.locks.lock(format!("volume {id}"))?;
        let store = self.resolver.for_volume(&id, &request.secrets).await?;
        store.modify_volume(&id, &settings.given, settings.inode_limit).await?;
        Ok(ControllerModifyVolumeResponse {})
    }
}
