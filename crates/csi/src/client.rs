//! A client of a plugin, for demos, tests and tools.

use carafe_proto::csi::v1::VolumeCapability;
use carafe_proto::csi::v1::controller_client::ControllerClient;
use carafe_proto::csi::v1::identity_client::IdentityClient;
use carafe_proto::csi::v1::node_client::NodeClient;
use carafe_proto::csi::v1::volume_capability::access_mode::Mode;
use carafe_proto::csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};
pub use carafe_proto::{ConnectError, connect};
use std::path::Path;
use tonic::transport::Channel;

/// The three services of a plugin, on one connection.
#[derive(Clone, Debug)]
pub struct CsiClient {
    /// Who it is.
    pub identity: IdentityClient<Channel>,
    /// The life of volumes.
    pub controller: ControllerClient<Channel>,
    /// Mounts.
    pub node: NodeClient<Channel>,
}

impl CsiClient {
    /// Connects to the plugin that listens at `socket`.
    ///
    /// # Errors
    /// When nobody listens there.
    pub async fn connect(socket: &Path) -> Result<Self, ConnectError> {
        let channel = connect(socket).await?;
        Ok(Self {
            identity: IdentityClient::new(channel.clone()),
            controller: ControllerClient::new(channel.clone()),
            node: NodeClient::new(channel),
        })
    }
}

/// The capability of a mounted volume in an access mode.
pub fn mount_capability(mode: Mode) -> VolumeCapability {
    VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume::default())),
        access_mode: Some(AccessMode { mode: mode.into() }),
    }
}
