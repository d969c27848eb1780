//! The Controller service: the life of volumes.
//!
//! It keeps no state. Which file system a call means is told by its secrets, else by the configuration and the volume's
//! id (`resolve`); everything else is in that file system's registry.

mod list;
mod modify;
mod resolve;
mod snapshots;
mod source;
mod volumes;

use crate::call;
use crate::claims::Claims;
use crate::config::Config;
use crate::error::CsiError;
use crate::locks::Locks;
use crate::request::VolumePath;
use carafe_proto::csi::v1::controller_server::Controller;
use carafe_proto::csi::v1::controller_service_capability::{Rpc, Type, rpc};
use carafe_proto::csi::v1::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerGetCapabilitiesRequest,
    ControllerGetCapabilitiesResponse, ControllerGetVolumeRequest, ControllerGetVolumeResponse,
    ControllerModifyVolumeRequest, ControllerModifyVolumeResponse, ControllerServiceCapability,
    CreateSnapshotRequest, CreateSnapshotResponse, CreateVolumeRequest, CreateVolumeResponse,
    DeleteSnapshotRequest, DeleteSnapshotResponse, DeleteVolumeRequest, DeleteVolumeResponse,
    GetCapacityRequest, GetCapacityResponse, GetSnapshotRequest, GetSnapshotResponse, ListSnapshotsRequest,
    ListSnapshotsResponse, ListVolumesRequest, ListVolumesResponse, ValidateVolumeCapabilitiesRequest,
    ValidateVolumeCapabilitiesResponse,
};
use resolve::Resolver;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// What works without conditions.
const CAPABILITIES: [rpc::Type; 6] = [
    rpc::Type::CreateDeleteVolume,
    rpc::Type::ExpandVolume,
    rpc::Type::CloneVolume,
    rpc::Type::CreateDeleteSnapshot,
    rpc::Type::ModifyVolume,
    rpc::Type::SingleNodeMultiWriter,
];
/// What carries no secrets, and so works only with configured file systems.
const CAPABILITIES_IF_CONFIGURED: [rpc::Type; 5] = [
    rpc::Type::ListVolumes,
    rpc::Type::GetCapacity,
    rpc::Type::GetVolume,
    rpc::Type::ListSnapshots,
    rpc::Type::GetSnapshot,
];

/// What the calls of this service work with.
pub(crate) struct Core {
    resolver: Resolver,
    volumes: VolumePath,
    claims: Option<Arc<dyn Claims>>,
    locks: Locks,
}

pub(crate) struct ControllerService(Arc<Core>);

impl ControllerService {
    /// The service, if the configuration has a controller.
    pub(crate) fn new(config: &Config) -> Option<Self> {
        let file_systems = Arc::clone(config.controller.as_ref()?);
        let resolver = Resolver::new(file_systems, config.file_systems.clone());
        let (volumes, claims) = (config.volumes.clone(), config.claims.clone());
        Some(Self(Arc::new(Core { resolver, volumes, claims, locks: Locks::default() })))
    }
}

#[tonic::async_trait]
impl Controller for ControllerService {
    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let (core, request) = (Arc::clone(&self.0), request.into_inner());
        let name = request.name.clone();
        call::run("CreateVolume", &name, async move { core.create(request).await }).await
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        let (core, request) = (Arc::clone(&self.0), request.into_inner());
        let id = request.volume_id.clone();
        call::run("DeleteVolume", &id, async move { core.delete(request).await }).await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        let request = request.into_inner();
        let id = request.volume_id.clone();
        call::look("ValidateVolumeCapabilities", &id, self.0.validate(request)).await
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Result<Response<ControllerExpandVolumeResponse>, Status> {
        let (core, request) = (Arc::clone(&self.0), request.into_inner());
        let id = request.volume_id.clone();
        call::run("ControllerExpandVolume", &id, async move { core.expand(request).await }).await
    }

    async fn controller_get_volume(
        &self,
        request: Request<ControllerGetVolumeRequest>,
    ) -> Result<Response<ControllerGetVolumeResponse>, Status> {
        let id = request.into_inner().volume_id;
        call::look("ControllerGetVolume", &id, self.0.get(&id)).await
    }

    async fn controller_modify_volume(
        &self,
        request: Request<ControllerModifyVolumeRequest>,
    ) -> Result<Response<ControllerModifyVolumeResponse>, Status> {
        let (core, request) = (Arc::clone(&self.0), request.into_inner());
        let id = request.volume_id.clone();
        call::run("ControllerModifyVolume", &id, async move { core.modify(request).await }).await
    }

    async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Result<Response<CreateSnapshotResponse>, Status> {
        let (core, request) = (Arc::clone(&self.0), request.into_inner());
        let name = request.name.clone();
        call::run("CreateSnapshot", &name, async move { core.create_snapshot(request).await }).await
    }

    async fn delete_snapshot(
        &self,
        request: Request<DeleteSnapshotRequest>,
    ) -> Result<Response<DeleteSnapshotResponse>, Status> {
        let (core, request) = (Arc::clone(&self.0), request.into_inner());
        let id = request.snapshot_id.clone();
        call::run("DeleteSnapshot", &id, async move { core.delete_snapshot(request).await }).await
    }

    async fn list_snapshots(
        &self,
        request: Request<ListSnapshotsRequest>,
    ) -> Result<Response<ListSnapshotsResponse>, Status> {
        let request = request.into_inner();
        let token = request.starting_token.clone();
        call::look("ListSnapshots", &token, self.0.list_snapshots(request)).await
    }

    async fn get_snapshot(
        &self,
        request: Request<GetSnapshotRequest>,
    ) -> Result<Response<GetSnapshotResponse>, Status> {
        let request = request.into_inner();
        let id = request.snapshot_id.clone();
        call::look("GetSnapshot", &id, self.0.get_snapshot(request)).await
    }

    async fn list_volumes(
        &self,
        request: Request<ListVolumesRequest>,
    ) -> Result<Response<ListVolumesResponse>, Status> {
        let request = request.into_inner();
        let token = request.starting_token.clone();
        call::look("ListVolumes", &token, self.0.list(request)).await
    }

    async fn get_capacity(
        &self,
        request: Request<GetCapacityRequest>,
    ) -> Result<Response<GetCapacityResponse>, Status> {
        call::look("GetCapacity", "", self.0.capacity(request.into_inner())).await
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        let configured = if self.0.resolver.is_configured() { &CAPABILITIES_IF_CONFIGURED[..] } else { &[] };
        let capability = |rpc: &rpc::Type| ControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: (*rpc).into() })),
        };
        let capabilities = CAPABILITIES.iter().chain(configured).map(capability).collect();
        Ok(Response::new(ControllerGetCapabilitiesResponse { capabilities }))
    }
}

/// The error of a call that needs a volume of ours and names something else.
fn not_ours(id: &str) -> CsiError {
    CsiError::NoVolume(id.to_owned())
}
