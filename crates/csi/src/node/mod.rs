//! The Node service: volumes on this machine.
//!
//! A volume is *staged* once (its directory is bound to a path of the caller's) and *published* to each pod. Every call
//! reads the mount table first and may be repeated in any state: half done, done, done by a plugin that has died since,
//! on top of a mount whose daemon is gone. Taking mounts away asks neither daemon nor store.

mod attach;
mod detach;
mod inspect;

use crate::address::FsAddress;
use crate::call;
use crate::config::Config;
use crate::error::CsiError;
use crate::launcher::MountLauncher;
use crate::locks::Locks;
use crate::request::{self, VolumePath};
use carafe_proto::csi::v1::node_server::Node;
use carafe_proto::csi::v1::node_service_capability::{Rpc, Type, rpc};
use carafe_proto::csi::v1::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetCapabilitiesRequest,
    NodeGetCapabilitiesResponse, NodeGetInfoRequest, NodeGetInfoResponse, NodeGetVolumeStatsRequest,
    NodeGetVolumeStatsResponse, NodePublishVolumeRequest, NodePublishVolumeResponse, NodeServiceCapability,
    NodeStageVolumeRequest, NodeStageVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
    NodeUnstageVolumeRequest, NodeUnstageVolumeResponse,
};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use tonic::{Request, Response, Status};

const CAPABILITIES: [rpc::Type; 4] = [
    rpc::Type::StageUnstageVolume,
    rpc::Type::GetVolumeStats,
    rpc::Type::ExpandVolume,
    rpc::Type::SingleNodeMultiWriter,
];

/// What the calls of this service work with.
pub(crate) struct Core {
    node_id: String,
    file_systems: Vec<FsAddress>,
    volumes: VolumePath,
    launcher: Arc<dyn MountLauncher>,
    locks: Locks,
    statistics: inspect::LastKnown,
}

impl Core {
    /// The file system of a volume: from the secrets, else the configured one.
    fn address(&self, volume_id: &str, secrets: &HashMap<String, String>) -> Result<FsAddress, CsiError> {
        match (request::address(secrets)?, self.file_systems.as_slice()) {
            (Some(address), _) => Ok(address),
            (None, [only]) => Ok(only.clone()),
            (None, _) => Err(CsiError::NoFileSystem(format!("volume {volume_id}"))),
        }
    }
}

/// What calls on one target exclude each other by: pods of one volume come and go independently.
fn target_key(id: &str, target: &Path) -> String {
    format!("volume {id} at {target:?}")
}

pub(crate) struct NodeService(Arc<Core>);

impl NodeService {
    /// The service, if the configuration has a node.
    pub(crate) fn new(config: &Config) -> Option<Self> {
        let node = config.node.as_ref()?;
        Some(Self(Arc::new(Core {
            node_id: node.node_id.clone(),
            file_systems: config.file_systems.clone(),
            volumes: config.volumes.clone(),
            launcher: Arc::clone(&node.launcher),
            locks: Locks::default(),
            statistics: inspect::LastKnown::default(),
        })))
    }
}

#[tonic::async_trait]
impl Node for NodeService {
    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Result<Response<NodeStageVolumeResponse>, Status> {
        let (core, request) = (Arc::clone(&self.0), request.into_inner());
        let id = request.volume_id.clone();
        call::run("NodeStageVolume", &id, async move { core.stage(request).await }).await
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let (core, request) = (Arc::clone(&self.0), request.into_inner());
        let id = request.volume_id.clone();
        call::run("NodePublishVolume", &id, async move { core.publish(request).await }).await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let (core, request) = (Arc::clone(&self.0), request.into_inner());
        let id = request.volume_id.clone();
        call::run("NodeUnpublishVolume", &id, async move { core.unpublish(request).await }).await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Result<Response<NodeUnstageVolumeResponse>, Status> {
        let (core, request) = (Arc::clone(&self.0), request.into_inner());
        let id = request.volume_id.clone();
        call::run("NodeUnstageVolume", &id, async move { core.unstage(request).await }).await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Result<Response<NodeGetVolumeStatsResponse>, Status> {
        let request = request.into_inner();
        let id = request.volume_id.clone();
        call::look("NodeGetVolumeStats", &id, self.0.stats(request)).await
    }

    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Result<Response<NodeExpandVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request.volume_id.clone();
        call::look("NodeExpandVolume", &id, self.0.expand(request)).await
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        let capability = |rpc: &rpc::Type| NodeServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: (*rpc).into() })),
        };
        Ok(Response::new(NodeGetCapabilitiesResponse {
            capabilities: CAPABILITIES.iter().map(capability).collect(),
        }))
    }

    async fn node_get_info(
        &self,
        _: Request<NodeGetInfoRequest>,
    ) -> Result<Response<NodeGetInfoResponse>, Status> {
        let node_id = self.0.node_id.clone();
        Ok(Response::new(NodeGetInfoResponse { node_id, ..NodeGetInfoResponse::default() }))
    }
}
