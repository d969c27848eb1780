//! The Identity service: who this plugin is.

use crate::config::Config;
use carafe_proto::csi::v1::identity_server::Identity;
use carafe_proto::csi::v1::plugin_capability::{Service, Type, VolumeExpansion, service, volume_expansion};
use carafe_proto::csi::v1::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    PluginCapability, ProbeRequest, ProbeResponse,
};
use std::collections::HashMap;
use tonic::{Request, Response, Status};

/// The name under which Kubernetes knows this driver.
pub const DRIVER_NAME: &str = "csi.carafe.dev";

pub(crate) struct IdentityService {
    driver: String,
    version: String,
    controller: bool,
}

impl IdentityService {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            driver: config.driver.clone(),
            version: config.version.clone(),
            controller: config.controller.is_some(),
        }
    }
}

#[tonic::async_trait]
impl Identity for IdentityService {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        let (name, vendor_version) = (self.driver.clone(), self.version.clone());
        Ok(Response::new(GetPluginInfoResponse { name, vendor_version, manifest: HashMap::new() }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let mut capabilities = Vec::new();
        if self.controller {
            let controller = Service { r#type: service::Type::ControllerService.into() };
            let online = VolumeExpansion { r#type: volume_expansion::Type::Online.into() };
            capabilities.push(PluginCapability { r#type: Some(Type::Service(controller)) });
            capabilities.push(PluginCapability { r#type: Some(Type::VolumeExpansion(online)) });
        }
        Ok(Response::new(GetPluginCapabilitiesResponse { capabilities }))
    }

    /// Never asks a store: a store that is down must not get its plugin restarted.
    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}
