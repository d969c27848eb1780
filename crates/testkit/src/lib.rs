//! Real parts for the tests of every crate: a Redis server, an S3 server, a proxy that adds latency and faults, a mounted
//! `carafe`, and the ClickHouse engine.
//!
//! A test that talks to a fake proves what its author believed. These guards start the real programs on loopback, on free
//! ports, with their data in temporary directories, and end them by process id when they are dropped.
//!
//! 1. Programs are found in a fixed order ([`tools`]); a missing one is an error that names the command which installs it.
//! 2. Two test processes may choose the same port at once: a server that exits at its start is tried again on another
//!    port ([`net`], [`process`]).
//! 3. Tests run in a process group of their own and the children stay in it, so a runner that ends the group of a test
//!    that hangs also ends its servers.
//! 4. A killed daemon leaves a dead mount point: [`Mount`] detaches it lazily, whatever state it is in.
//!
//! Everything here blocks; from an async test call it directly (a server takes seconds to start) or through
//! `tokio::task::spawn_blocking`.

mod chdb;
mod filesystem;
mod mount;
pub mod net;
mod process;
mod proxy;
mod redis;
mod resp;
mod s3;
mod standby;
pub mod tools;

pub use chdb::ChdbEnv;
pub use filesystem::{FileSystem, ToolOutput};
pub use mount::{Mount, MountOptions, detach, detach_below, is_mounted};
pub use net::{free_port, wait_until};
pub use process::ServerProcess;
pub use proxy::{LatencyProxy, Traffic};
pub use redis::{RedisOptions, RedisServer};
pub use resp::{Reply, RespClient};
pub use s3::{S3Client, S3Keys, S3Server};
pub use standby::Standby;
