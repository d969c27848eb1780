//! Mounts that this very process serves.

use super::{LaunchError, Refusal, ServingMount, Starter};
use crate::address::FsAddress;
use crate::mount::table::MountEntry;
use async_trait::async_trait;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;

type Mounting = Pin<Box<dyn Future<Output = Result<Box<dyn ServingMount>, Refusal>> + Send>>;
type Callback = Box<dyn Fn(FsAddress, PathBuf) -> Mounting + Send + Sync>;

/// A [`Starter`] that calls back into the binary, which knows how to build a file system.
///
/// The embedded engine needs it: one process has the store open, so the mount lives where the controller lives. Mounts
/// end with the process; a plugin that starts again finds its old ones dead and mounts anew.
pub struct InProcess {
    mount: Callback,
    fs_type: String,
}

impl InProcess {
    /// `mount` mounts the file system at an address on an empty directory and answers when it serves, or says why not. `fs_type` is what the mount table then shows, for example `fuse.carafe`.
    pub fn new<F>(
        fs_type: impl Into<String>,
        mount: impl Fn(FsAddress, PathBuf) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Box<dyn ServingMount>, Refusal>> + Send + 'static,
    {
        Self {
            mount: Box::new(move |address, point| Box::pin(mount(address, point))),
            fs_type: fs_type.into(),
        }
    }
}

#[async_trait]
impl Starter for InProcess {
    async fn start(&self, address: &FsAddress, point: &Path) -> Result<Box<dyn ServingMount>, LaunchError> {
        let file_system = address.public_url().to_string();
        (self.mount)(address.clone(), point.to_owned())
            .await
            .map_err(|Refusal { kind, reason }| LaunchError::Refused { kind, file_system, reason })
    }

    fn owns(&self, entry: &MountEntry) -> bool {
        entry.fs_type == self.fs_type
    }
}
