//! The Node service: volumes on this machine.
//!
//! A volume is *staged* once (its directory is bound to a path of the caller's) and *published* to each pod. Every call
//! reads the mount table first and may be repeated in any state: half done, done, done by a plugin that has died since,
//! on top of a mount whose daemon is gone. Taking mounts away asks neither daemon nor store.

mod attach;
mod detach;
mod group;
mod inspect;
mod overlap;

use crate::address::FsAddress;
use crate::call;
use crate::config::Config;
use crate::error::CsiError;
use crate::launcher::MountLauncher;
use crate::locks::Locks;
use crate::request::{self, Access, VolumeContext, VolumePath};
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

const CAPABILITIES: [rpc::Type; 5] = [
    rpc::Type::StageUnstageVolume,
    rpc::Type::GetVolumeStats,
    rpc::Type::ExpandVolume,
    rpc::Type::SingleNodeMultiWriter,
    rpc::Type::VolumeMountGroup,
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
    /// The file system of a volume: from the secrets, else the configured one that its context names, else the only one.
    /// With the options that the volume's mount shall have.
    fn address(
        &self,
        volume_id: &str,
        context: &VolumeContext,
        access: &Access,
        secrets: &HashMap<String, String>,
    ) -> Result<FsAddress, CsiError> {
        let configured = self.file_systems.as_slice();
        let mut address = match (request::address(secrets)?, context.file_system.as_deref(), configured) {
            (Some(address), _, _) => address,
            (None, Some(name), _) => self.called(name)?,
            (None, None, [only]) => only.clone(),
            (None, None, _) => return Err(CsiError::NoFileSystem(format!("volume {volume_id}"))),
        };
        address.options = context.options.clone();
        address.options.close_sync |= access.options.close_sync;
        address.options.memory_only |= access.options.memory_only;
        address.options.cache_size = access.options.cache_size.or(address.options.cache_size);
        address.options.upload_parallel = access.options.upload_parallel.or(address.options.upload_parallel);
        Ok(address)
    }

    /// A node does not ask stores for their names: a single file system that the configuration does not name is believed to
    /// be the one.
    fn called(&self, name: &str) -> Result<FsAddress, CsiError> {
        match self.file_systems.as_slice() {
            [only] if only.name.is_none() => Ok(only.clone()),
            all => {
                let found = all.iter().find(|address| address.name.as_deref() == Some(name)).cloned();
                found.ok_or_else(|| {
                    let known: Vec<_> = all.iter().filter_map(|address| address.name.as_deref()).collect();
                    let known =
                        if known.is_empty() { "none has a name".to_owned() } else { known.join(", ") };
                    CsiError::UnknownFileSystem { name: name.to_owned(), known }
                })
            }
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
