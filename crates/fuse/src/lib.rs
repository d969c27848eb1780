//! A Carafe mount as the Linux kernel sees it: the adapter from FUSE requests to [`carafe_vfs`].
//!
//! Everything that a mount *means* is decided in the vfs; here are only the kernel's words for it:
//!
//! - [`mount()`] negotiates with the kernel, serves, and unmounts;
//! - requests are polled where they are read and move to the runtime when they have to wait (`adapter`);
//! - failures become errno in one exhaustive table (`errno`);
//! - requests are counted by kind and outcome ([`FuseStats`]);
//! - what the kernel keeps is voided by notifications, for the vfs (`notify`);
//! - [`table`] reads the mount table, which answers even where a mount does not;
//! - [`Control`] carries questions of the command line to the daemon.
//!
//! What is absent: caches, clocks, retries, knowledge of the store or the bucket. `unsafe` is in `sys` alone.

mod adapter;
mod answer;
mod attr;
mod attrs;
mod control;
mod dirs;
mod errno;
mod files;
mod fs;
mod kernel;
mod killed;
mod locks;
mod mount;
mod names;
mod notify;
mod options;
mod stats;
#[expect(unsafe_code, reason = "reads the parts of a request that fuser does not pass on")]
mod sys;
pub mod table;
mod vfs;

pub use control::Control;
pub use mount::{MountError, Mounted, mount, unmount};
pub use options::MountOptions;
pub use stats::{FuseStats, OpStats};
