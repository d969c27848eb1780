//! From a URL and options to an object store: what is where, with which key, over which connections.
//!
//! Everything is checked before the first request, and each mistake has its own error: these values come from a command
//! line, a Kubernetes secret or a StorageClass, and the person who reads the message is not the one who wrote the code.

mod build;
mod location;
mod options;

pub(crate) use build::build;
pub use location::{Location, Service};
pub use options::{BucketOptions, Secret};
