//! What a plugin process is made of.

use crate::address::FsAddress;
use crate::claims::Claims;
use crate::identity::DRIVER_NAME;
use crate::launcher::MountLauncher;
use crate::request::VolumePath;
use crate::store::FileSystems;
use std::sync::Arc;

/// Settings and parts of a plugin.
pub struct Config {
    /// The driver's name.
    pub driver: String,
    /// The version that it tells.
    pub version: String,
    /// File systems that serve calls without secrets. Exactly one: it serves every call that names none. Several: a
    /// controller call finds its own by the volume's id.
    pub file_systems: Vec<FsAddress>,
    /// The folder in each file system that volumes are made in.
    pub volumes: VolumePath,
    /// Serve the Controller service, on these file systems.
    pub controller: Option<Arc<dyn FileSystems>>,
    /// Reads labels and annotations of claims, for path patterns; without it, patterns with such fail.
    pub claims: Option<Arc<dyn Claims>>,
    /// Serve the Node service.
    pub node: Option<NodeConfig>,
}

/// Settings of the Node service.
pub struct NodeConfig {
    /// The node's name, unique in the cluster.
    pub node_id: String,
    /// What serves file systems here.
    pub launcher: Arc<dyn MountLauncher>,
}

impl Config {
    /// A plugin that serves only Identity; add a controller, a node service or both.
    pub fn new(version: impl Into<String>) -> Self {
        Self {
            driver: DRIVER_NAME.to_owned(),
            version: version.into(),
            file_systems: Vec::new(),
            volumes: VolumePath::new("volumes").expect("a plain name is a valid path"),
            controller: None,
            claims: None,
            node: None,
        }
    }
}
