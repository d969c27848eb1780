//! Which file system a call is about.
//!
//! 1. The secrets of the request, if there are any. They must lead to the file system that the volume's id names: a secret
//!    that was changed to another file system would make "delete" a silent success that leaks the data.
//! 2. Else the configured file systems: the one that the id names, or the only one.
//! 3. Else `FailedPrecondition`, which says what to add. Never "nothing to do".

use crate::address::FsAddress;
use crate::error::CsiError;
use crate::id::VolumeId;
use crate::request;
use crate::store::{FileSystems, VolumeStore};
use std::collections::HashMap;
use std::sync::Arc;

pub(super) struct Resolver {
    file_systems: Arc<dyn FileSystems>,
    configured: Vec<FsAddress>,
}

impl Resolver {
    pub(super) fn new(file_systems: Arc<dyn FileSystems>, configured: Vec<FsAddress>) -> Self {
        Self { file_systems, configured }
    }

    /// Whether calls without secrets can be served.
    pub(super) fn is_configured(&self) -> bool {
        !self.configured.is_empty()
    }

    /// The file system for a new volume; `name` is for the message.
    pub(super) async fn for_new(
        &self,
        name: &str,
        secrets: &HashMap<String, String>,
    ) -> Result<Arc<dyn VolumeStore>, CsiError> {
        let address = match (request::address(secrets)?, self.configured.as_slice()) {
            (Some(address), _) => address,
            (None, [only]) => only.clone(),
            (None, _) => return Err(CsiError::NoFileSystem(name.to_owned())),
        };
        Ok(self.file_systems.open(&address).await?)
    }

    /// The file system of an existing volume.
    pub(super) async fn for_volume(
        &self,
        id: &VolumeId,
        secrets: &HashMap<String, String>,
    ) -> Result<Arc<dyn VolumeStore>, CsiError> {
        let Some(address) = request::address(secrets)? else { return self.configured_for(id).await };
        let store = self.file_systems.open(&address).await?;
        if store.fs() == id.fs() {
            return Ok(store);
        }
        Err(CsiError::OtherFileSystem { id: id.to_string(), expected: id.fs(), found: store.fs() })
    }

    /// The configured file system that `id` names. One that cannot be reached might be it, so its failure is the answer
    /// unless another one is found.
    async fn configured_for(&self, id: &VolumeId) -> Result<Arc<dyn VolumeStore>, CsiError> {
        let mut failure = None;
        for address in &self.configured {
            match self.file_systems.open(address).await {
                Ok(store) if store.fs() == id.fs() => return Ok(store),
                Ok(_) => {}
                Err(error) => failure = Some(error.into()),
            }
        }
        Err(failure.unwrap_or_else(|| CsiError::NoFileSystem(format!("volume {id}"))))
    }

    /// Every configured file system, in the order of their uuid; two addresses of the same one count once.
    pub(super) async fn all(&self) -> Result<Vec<Arc<dyn VolumeStore>>, CsiError> {
        let mut stores = Vec::with_capacity(self.configured.len());
        for address in &self.configured {
            stores.push(self.file_systems.open(address).await?);
        }
        stores.sort_by_key(|store| store.fs());
        stores.dedup_by_key(|store| store.fs());
        Ok(stores)
    }
}
