//! Creating, deleting, checking and growing one volume.

use super::{Core, not_ours, source};
use crate::error::CsiError;
use crate::id::{SnapshotId, VolumeId};
use crate::request::{self, CONTEXT_PATH, Capacity, Settings, VolumeParameters, VolumePath, required};
use crate::store::{NewVolume, VolumeStore};
use carafe_proto::csi::v1::validate_volume_capabilities_response::Confirmed;
use carafe_proto::csi::v1::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerGetVolumeResponse,
    CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, DeleteVolumeResponse,
    ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse, Volume,
    controller_get_volume_response,
};
use carafe_types::record::{CopySource, VolumeRecord, VolumeState};
use std::collections::HashMap;

impl Core {
    pub(super) async fn create(
        &self,
        request: CreateVolumeRequest,
    ) -> Result<CreateVolumeResponse, CsiError> {
        let name = request::volume_name(&request.name)?;
        request::accesses(&request.volume_capabilities)?;
        let capacity = Capacity::parse(request.capacity_range.as_ref())?;
        let parameters = VolumeParameters::parse(&request.parameters)?;
        let settings = Settings::parse(&request.mutable_parameters)?;
        let source = source::wanted(request.volume_content_source.as_ref())?;
        let _lock = self.locks.lock(format!("volume {name:?}"))?;
        let what = format!("volume {name:?}");
        let file_system = parameters.file_system.as_deref();
        let store = self.resolver.for_new(&what, file_system, &request.secrets).await?;
        let source = source.map(|source| source.within(store.fs())).transpose()?;
        let id = VolumeId::new(store.fs(), name);
        let path = match &parameters.pattern {
            Some(pattern) => pattern.path(&request.parameters, self.claims.as_deref()).await?,
            None => VolumePath::of(&self.volumes, &id),
        };
        let new = NewVolume {
            path,
            id,
            name: name.to_owned(),
            capacity: capacity.choose(),
            inode_limit: settings.inode_limit.or(parameters.inode_limit),
            uid: parameters.uid,
            gid: parameters.gid,
            mode: parameters.mode,
            parameters: parameters.given,
            settings: settings.given,
            source,
            adopt: parameters.adopt,
        };
        self.source_fits(store.as_ref(), &new).await?;
        let record = store.create_volume(&new).await?;
        same_as_asked(&record, &new, capacity)?;
        Ok(CreateVolumeResponse { volume: Some(wire(&record)) })
    }

    /// A snapshot of a bigger volume than is asked for may fit today and not tomorrow's restore of the same claim.
    async fn source_fits(&self, store: &dyn VolumeStore, new: &NewVolume) -> Result<(), CsiError> {
        let least = match &new.source {
            Some(CopySource::Snapshot(id)) => {
                let id = SnapshotId::parse(id).ok_or_else(|| CsiError::NoSnapshot(id.clone()))?;
                let missing = || CsiError::NoSnapshot(id.to_string());
                store.get_snapshot(&id).await?.ok_or_else(missing)?.capacity
            }
            Some(CopySource::Volume(id)) => {
                let id = VolumeId::parse(id).ok_or_else(|| not_ours(id))?;
                store.get_volume(&id).await?.ok_or_else(|| not_ours(id.as_str()))?.capacity
            }
            None => return Ok(()),
        };
        match new.capacity {
            Some(capacity) if capacity < least => Err(CsiError::OutOfRange(format!(
                "{capacity} bytes are asked for, the source was made with {least}: ask for as much or more"
            ))),
            _ => Ok(()),
        }
    }

    /// Deletes a volume. An id that this driver cannot have made names a static volume, whose data is kept, or nothing.
    pub(super) async fn delete(
        &self,
        request: DeleteVolumeRequest,
    ) -> Result<DeleteVolumeResponse, CsiError> {
        let id = required("volume_id", &request.volume_id)?;
        let Some(id) = VolumeId::parse(id) else { return Ok(DeleteVolumeResponse {}) };
        let _lock = self.locks.lock(format!("volume {id}"))?;
        self.resolver.for_volume(&id, &request.secrets).await?.delete_volume(&id).await?;
        Ok(DeleteVolumeResponse {})
    }

    pub(super) async fn validate(
        &self,
        request: ValidateVolumeCapabilitiesRequest,
    ) -> Result<ValidateVolumeCapabilitiesResponse, CsiError> {
        let id = required("volume_id", &request.volume_id)?;
        if request.volume_capabilities.is_empty() {
            return Err(CsiError::Missing("volume_capabilities"));
        }
        let id = VolumeId::parse(id).ok_or_else(|| not_ours(id))?;
        let record = self.record(&id, &request.secrets).await?;
        Ok(match mismatch(&record, &request) {
            Some(message) => ValidateVolumeCapabilitiesResponse { confirmed: None, message },
            None => ValidateVolumeCapabilitiesResponse {
                confirmed: Some(Confirmed {
                    volume_context: request.volume_context,
                    volume_capabilities: request.volume_capabilities,
                    parameters: request.parameters,
                    mutable_parameters: request.mutable_parameters,
                }),
                message: String::new(),
            },
        })
    }

    pub(super) async fn expand(
        &self,
        request: ControllerExpandVolumeRequest,
    ) -> Result<ControllerExpandVolumeResponse, CsiError> {
        let id = required("volume_id", &request.volume_id)?;
        let range = request.capacity_range.as_ref().ok_or(CsiError::Missing("capacity_range"))?;
        let capacity = Capacity::parse(Some(range))?;
        if request.volume_capability.is_some() {
            request::access(request.volume_capability.as_ref())?;
        }
        let id = VolumeId::parse(id).ok_or_else(|| not_ours(id))?;
        let _lock = self.locks.lock(format!("volume {id}"))?;
        let store = self.resolver.for_volume(&id, &request.secrets).await?;
        let mut record = store.get_volume(&id).await?.ok_or_else(|| not_ours(id.as_str()))?;
        let wanted = capacity.expand(record.capacity)?;
        if wanted > record.capacity {
            record = store.expand_volume(&id, wanted).await?;
        }
        // The quota acts at once wherever the volume is mounted.
        Ok(ControllerExpandVolumeResponse {
            capacity_bytes: bytes(record.capacity),
            node_expansion_required: false,
        })
    }

    pub(super) async fn get(&self, id: &str) -> Result<ControllerGetVolumeResponse, CsiError> {
        required("volume_id", id)?;
        let id = VolumeId::parse(id).ok_or_else(|| not_ours(id))?;
        let record = self.record(&id, &HashMap::new()).await?;
        let status = controller_get_volume_response::VolumeStatus::default();
        Ok(ControllerGetVolumeResponse { volume: Some(wire(&record)), status: Some(status) })
    }

    pub(super) async fn record(
        &self,
        id: &VolumeId,
        secrets: &HashMap<String, String>,
    ) -> Result<VolumeRecord, CsiError> {
        let store = self.resolver.for_volume(id, secrets).await?;
        let record = store.get_volume(id).await?.filter(|record| record.state == VolumeState::Ready);
        record.ok_or_else(|| not_ours(id.as_str()))
    }
}

/// A volume as the wire has it.
pub(super) fn wire(record: &VolumeRecord) -> Volume {
    Volume {
        capacity_bytes: bytes(record.capacity),
        volume_id: record.id.clone(),
        volume_context: context(record),
        content_source: record.source.as_ref().map(source::wire),
        accessible_topology: Vec::new(),
    }
}

/// What node calls must know: where it lies, and which of its parameters concern its mount.
fn context(record: &VolumeRecord) -> HashMap<String, String> {
    // Parameters that were accepted once are read again without asking whether they still are.
    let given: HashMap<String, String> = record.parameters.clone().into_iter().collect();
    let mut context: HashMap<String, String> = VolumeParameters::parse(&given)
        .map(|parameters| parameters.context)
        .unwrap_or_default()
        .into_iter()
        .collect();
    context.insert(CONTEXT_PATH.to_owned(), record.path.clone());
    context
}

/// Capacities come from the wire as `i64`, so a larger one is damage; told as the largest.
pub(super) fn bytes(capacity: u64) -> i64 {
    i64::try_from(capacity).unwrap_or(i64::MAX)
}

/// Whether the registered volume is what a request for the same name asks for.
fn same_as_asked(record: &VolumeRecord, new: &NewVolume, capacity: Capacity) -> Result<(), CsiError> {
    if record.state == VolumeState::Deleting {
        return Err(CsiError::Busy(format!("volume {}, which is being deleted", record.id)));
    }
    let fits = capacity.is_met_by(record.capacity) || (new.adopt && capacity.is_within(record.capacity));
    let difference = if !fits {
        let asked = new.capacity.unwrap_or(0);
        format!("it has {} bytes, {asked} are asked", record.capacity)
    } else if record.parameters != new.parameters {
        format!("its parameters are {:?}, asked are {:?}", record.parameters, new.parameters)
    } else if record.source != new.source {
        format!("its source is {}, asked is {}", source::told(&record.source), source::told(&new.source))
    } else if record.name != new.name {
        format!("it is called {:?}", record.name)
    } else if record.state == VolumeState::Copying {
        return Err(CsiError::Busy(format!("volume {}, which is being copied", record.id)));
    } else {
        return Ok(());
    };
    Err(CsiError::Differs { id: record.id.clone(), name: new.name.clone(), difference })
}

/// Why a volume is not what the caller of `ValidateVolumeCapabilities` describes.
fn mismatch(record: &VolumeRecord, request: &ValidateVolumeCapabilitiesRequest) -> Option<String> {
    if let Err(error) = request::accesses(&request.volume_capabilities) {
        return Some(error.to_string());
    }
    match request.volume_context.get(CONTEXT_PATH) {
        Some(path) if path.trim_matches('/') != record.path => {
            return Some(format!("the volume lies at {:?}, not at {path:?}", record.path));
        }
        _ => {}
    }
    match VolumeParameters::parse(&request.parameters) {
        Err(error) => Some(error.to_string()),
        Ok(asked) if !asked.given.is_empty() && asked.given != record.parameters => {
            Some(format!("its parameters are {:?}, asked are {:?}", record.parameters, asked.given))
        }
        Ok(_) => None,
    }
}
