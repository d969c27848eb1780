//! Which file system a call is about.
//!
//! 1. The secrets of the request, if there are any. They must lead to the file system that the volume's id names: a secret
//!    that was changed to another file system would make "delete" a silent success that leaks the data.
//! 2. Else the configured file systems: the one that the id names, or the only one.
//! 3. Else `FailedPrecondition`, which says what to add. Never "nothing to do".

use crate::address::FsAddress;
use crate::error::CsiError;
use crate::id::{SnapshotId, VolumeId};
use crate::request;
use crate::store::{FileSystems, VolumeStore};
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

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

    /// The file system for a new volume, by the secrets, by `file_system` (a name or uuid), or the only one; `name` is for
    /// the message.
    pub(super) async fn for_new(
        &self,
        name: &str,
        file_system: Option<&str>,
        secrets: &HashMap<String, String>,
    ) -> Result<Arc<dyn VolumeStore>, CsiError> {
        let address = match (request::address(secrets)?, file_system, self.configured.as_slice()) {
            (Some(address), None, _) => address,
            (Some(address), Some(wanted), _) => return self.called(wanted, &[address]).await,
            (None, Some(wanted), configured) => return self.called(wanted, configured).await,
            (None, None, [only]) => only.clone(),
            (None, None, _) => return Err(CsiError::NoFileSystem(name.to_owned())),
        };
        Ok(self.file_systems.open(&address).await?)
    }

    /// The one of these that the configuration, or itself, calls `wanted`. One that cannot be reached might be it.
    async fn called(&self, wanted: &str, among: &[FsAddress]) -> Result<Arc<dyn VolumeStore>, CsiError> {
        if let Some(address) = among.iter().find(|address| address.name.as_deref() == Some(wanted)) {
            return Ok(self.file_systems.open(address).await?);
        }
        let (mut known, mut failure) = (Vec::new(), None);
        for address in among {
            match self.file_systems.open(address).await {
                Ok(store) if store.name() == wanted || store.fs().to_string() == wanted => return Ok(store),
                Ok(store) => known.push(address.name.clone().unwrap_or_else(|| store.name())),
                Err(error) => failure = Some(error.into()),
            }
        }
        let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
        Err(failure.unwrap_or(CsiError::UnknownFileSystem { name: wanted.to_owned(), known }))
    }

    /// The file system of an existing snapshot.
    pub(super) async fn for_snapshot(
        &self,
        id: &SnapshotId,
        secrets: &HashMap<String, String>,
    ) -> Result<Arc<dyn VolumeStore>, CsiError> {
        self.for_id(id.as_str(), id.fs(), "snapshot", secrets).await
    }

    /// The file system of an existing volume.
    pub(super) async fn for_volume(
        &self,
        id: &VolumeId,
        secrets: &HashMap<String, String>,
    ) -> Result<Arc<dyn VolumeStore>, CsiError> {
        self.for_id(id.as_str(), id.fs(), "volume", secrets).await
    }

    async fn for_id(
        &self,
        id: &str,
        fs: Uuid,
        what: &str,
        secrets: &HashMap<String, String>,
    ) -> Result<Arc<dyn VolumeStore>, CsiError> {
        let Some(address) = request::address(secrets)? else {
            return self.configured_for(id, fs, what).await;
        };
        let store = self.file_systems.open(&address).await?;
        if store.fs() == fs {
            return Ok(store);
        }
        Err(CsiError::OtherFileSystem { id: id.to_owned(), expected: fs, found: store.fs() })
    }

    /// The configured file system with this uuid. One that cannot be reached might be it, so its failure is the answer
    /// unless another one is found.
    async fn configured_for(&self, id: &str, fs: Uuid, what: &str) -> Result<Arc<dyn VolumeStore>, CsiError> {
        let mut failure = None;
        for address in &self.configured {
            match self.file_systems.open(address).await {
                Ok(store) if store.fs() == fs => return Ok(store),
                Ok(_) => {}
                Err(error) => failure = Some(error.into()),
            }
        }
        Err(failure.unwrap_or_else(|| CsiError::NoFileSystem(format!("{what} {id}"))))
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
