//! The CSI driver: Identity, Controller and Node services on a Unix socket.
//!
//! A container orchestrator asks for volumes and mounts over gRPC; this crate turns that into records of a file system's
//! registry and into bind mounts. What makes it more than a translation:
//!
//! 1. **Calls are repeated**, by callers that time out, restart or were replaced, in any state the last one left. So
//!    there is no state here: a volume is a record in its store under an id that is a function of its name ([`VolumeId`]),
//!    and what is mounted is what the kernel's mount table says ([`mount`]).
//! 2. **Calls overlap and are cut off.** One call at a time on an object, `Aborted` for the second (`locks`); a call that
//!    changes something runs to its end though its caller is gone (`call`).
//! 3. **Whatever is asked may be dead**: every question to a daemon or store is bounded, and taking mounts away asks
//!    nobody (`node`).
//! 4. **Volumes belong to users**, who plant symbolic links; their directories are opened without following any.
//! 5. **Errors are read in `kubectl describe`**: [`CsiError`] says what, to what and what next, and one table maps it to
//!    gRPC codes (`status`). Secrets are in no message, log or command line ([`address`]).
//!
//! The sides it needs are traits: [`store::FileSystems`] opens registries, [`MountLauncher`] serves file systems on the
//! node, and [`Claims`] reads labels for path patterns where there is somebody to ask. A binary makes a [`Config`] of them and calls [`serve`]:
//!
//! ```no_run
//! # async fn example(
//! #     file_systems: std::sync::Arc<dyn carafe_csi::store::FileSystems>,
//! #     launcher: std::sync::Arc<dyn carafe_csi::MountLauncher>,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! use carafe_csi::{Config, FsAddress, NodeConfig, listen, serve};
//!
//! let config = Config {
//!     file_systems: vec![FsAddress::new("embedded:///var/lib/carafe/demo.redb", None)?],
//!     controller: Some(file_systems),
//!     node: Some(NodeConfig { node_id: "node-1".into(), launcher }),
//!     ..Config::new(env!("CARGO_PKG_VERSION"))
//! };
//! let listener = listen("/run/carafe/csi.sock".as_ref()).await?;
//! serve(config, listener, async { tokio::signal::ctrl_c().await.unwrap_or(()) }).await?;
//! # Ok(())
//! # }
//! ```

pub mod address;
mod call;
pub mod claims;
pub mod client;
mod config;
mod controller;
mod error;
mod id;
mod identity;
pub mod launcher;
mod locks;
pub mod mount;
mod node;
mod request;
mod server;
mod status;
pub mod store;
mod token;

pub use address::{BucketKeys, FsAddress, MountOptions, Secret};
pub use claims::{Claim, Claims};
pub use config::{Config, NodeConfig};
pub use error::CsiError;
pub use id::{SnapshotId, VolumeId};
pub use identity::DRIVER_NAME;
pub use launcher::{ChildOptions, ChildProcess, InProcess, MountLauncher, SharedMounts, SharedOptions};
pub use request::{ContextKey, ParameterKey, SecretKey, SettingKey, VolumePath};
pub use server::{listen, serve};

/// For fuzzing: what happens to the bytes of a request, a list token or a mount table before anything acts on them.
#[doc(hidden)]
pub fn check_any_input(bytes: &[u8]) {
    request::check_any(bytes);
}
