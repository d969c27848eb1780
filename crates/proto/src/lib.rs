//! The wire interfaces of Carafe, generated from `proto/`.
//!
//! One module a protobuf package: [`csi::v1`] is the Container Storage Interface, with clients and servers for its
//! Identity, Controller and Node services. A method that a server does not implement answers `UNIMPLEMENTED`.
//!
//! Requests that carry credentials print in `Debug` without them (`redact`), so that a log line or a panic message can
//! never show a password. [`connect`] opens a client's channel to a plugin's Unix socket.

mod connect;
mod redact;

pub use connect::{ConnectError, connect};

/// The Container Storage Interface.
pub mod csi {
    /// Package `csi.v1`, level 1.13. The specification documents every message and call.
    #[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated code")]
    pub mod v1 {
        tonic::include_proto!("csi.v1");
    }
}
