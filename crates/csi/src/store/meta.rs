//! The registry over a real metadata store.
//!
//! What a call means is in `carafe_meta::volumes`; here are the two edges of it: every call ends in a bounded time (a caller
//! of CSI repeats what it gave up on, and every call may be repeated), and errors become those of this crate, once.

use super::copies::Copies;
use super::{FileSystems, NewSnapshot, NewVolume, StoreError, VolumeStore};
use crate::address::FsAddress;
use crate::id::{SnapshotId, VolumeId};
use async_trait::async_trait;
use carafe_meta::Client;
use carafe_meta::volumes::{self, VolumeError};
use carafe_types::FsError;
use carafe_types::record::{SnapshotRecord, VolumeRecord};
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use uuid::Uuid;

/// How long a call may take. The sidecars give up after a minute by default.
const LIMIT: Duration = Duration::from_secs(30);

/// The registry of one file system.
#[derive(Debug)]
pub struct MetaVolumes {
    client: Arc<Client>,
    copies: Copies,
}

impl MetaVolumes {
    /// The registry that `client` reaches.
    pub fn new(client: Arc<Client>) -> Self {
        Self { client, copies: Copies::default() }
    }

    async fn bounded<T, E: Into<VolumeError>>(
        &self,
        call: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(LIMIT, call).await {
            Ok(answer) => answer.map_err(|e| translate(e.into())),
            Err(_) => {
                let limit = LIMIT.as_secs();
                Err(StoreError::Unavailable(format!("the metadata store did not answer within {limit} s")))
            }
        }
    }
}

#[async_trait]
impl VolumeStore for MetaVolumes {
    fn fs(&self) -> Uuid {
        self.client.superblock().uuid
    }

    fn name(&self) -> String {
        self.client.superblock().name.clone()
    }

    async fn create_volume(&self, new: &NewVolume) -> Result<VolumeRecord, StoreError> {
        let adopt = new.adopt;
        let source = new.source.clone();
        let new = volumes::NewVolume {
            id: new.id.to_string(),
            name: new.name.clone(),
            path: new.path.as_str().to_owned(),
            capacity: new.capacity,
            inode_limit: new.inode_limit,
            uid: new.uid,
            gid: new.gid,
            mode: (new.mode & 0o7777) as u16,
            parameters: new.parameters.clone(),
            settings: new.settings.clone(),
        };
        if adopt && let Some(adopted) = self.bounded(self.client.adopt_volume(&new)).await? {
            return Ok(adopted);
        }
        let Some(source) = source else { return self.bounded(self.client.create_volume(&new)).await };
        let (client, id) = (Arc::clone(&self.client), new.id.clone());
        let copying = async move { client.create_volume_from(&new, &source).await };
        match self.copies.run(&id, copying).await {
            Some(made) => made.map_err(translate),
            None => {
                let record = self.bounded(self.client.get_volume(&id)).await?;
                let percent = record.and_then(|record| record.copy).map_or(0, |job| job.percent());
                Err(StoreError::Copying { id, percent })
            }
        }
    }

    async fn delete_volume(&self, id: &VolumeId) -> Result<(), StoreError> {
        self.bounded(self.client.delete_volume(id.as_str())).await
    }

    async fn get_volume(&self, id: &VolumeId) -> Result<Option<VolumeRecord>, StoreError> {
        self.bounded(self.client.get_volume(id.as_str())).await
    }

    async fn list_volumes(&self, after: Option<&str>, limit: usize) -> Result<Vec<VolumeRecord>, StoreError> {
        self.bounded(self.client.list_volumes(after, limit)).await
    }

    async fn expand_volume(&self, id: &VolumeId, capacity: u64) -> Result<VolumeRecord, StoreError> {
        self.bounded(self.client.expand_volume(id.as_str(), capacity)).await
    }

    async fn modify_volume(
        &self,
        id: &VolumeId,
        settings: &BTreeMap<String, String>,
        inodes: Option<u64>,
    ) -> Result<VolumeRecord, StoreError> {
        self.bounded(self.client.modify_volume(id.as_str(), settings, inodes)).await
    }

    async fn create_snapshot(&self, new: &NewSnapshot) -> Result<SnapshotRecord, StoreError> {
        let new = volumes::NewSnapshot {
            id: new.id.to_string(),
            name: new.name.clone(),
            source: new.source.to_string(),
        };
        let (client, id) = (Arc::clone(&self.client), new.id.clone());
        let copying = async move { client.create_snapshot(&new).await };
        match self.copies.run(&id, copying).await {
            Some(made) => made.map_err(translate),
            None => {
                let record = self.bounded(self.client.get_snapshot(&id)).await?;
                let percent = record.and_then(|record| record.copy).map_or(0, |job| job.percent());
                Err(StoreError::Copying { id, percent })
            }
        }
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<(), StoreError> {
        self.bounded(self.client.delete_snapshot(id.as_str())).await
    }

    async fn get_snapshot(&self, id: &SnapshotId) -> Result<Option<SnapshotRecord>, StoreError> {
        self.bounded(self.client.get_snapshot(id.as_str())).await
    }

    async fn list_snapshots(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SnapshotRecord>, StoreError> {
        self.bounded(self.client.list_snapshots(after, limit)).await
    }

    async fn available_bytes(&self) -> Result<Option<u64>, StoreError> {
        self.bounded(self.client.available_bytes()).await
    }
}

fn translate(e: VolumeError) -> StoreError {
    match e {
        VolumeError::NotFound(id) => StoreError::NotFound(id),
        VolumeError::PathTaken { path, by } => StoreError::PathTaken { path, by },
        VolumeError::Invalid(reason) => StoreError::Refused(reason),
        VolumeError::NotReady(id) => StoreError::Copying { id, percent: 0 },
        VolumeError::Copying { id, percent } => StoreError::Copying { id, percent },
        VolumeError::TooSmall { asked, needed } => StoreError::TooSmall { asked, needed },
        VolumeError::Contended(id) => StoreError::Contended(format!("volume {id}")),
        VolumeError::Damaged { id, source } => {
            StoreError::Damaged(format!("the record of volume {id} ({source})"))
        }
        VolumeError::Fs(e) => translate_fs(e),
    }
}

fn translate_fs(e: FsError) -> StoreError {
    match e {
        FsError::NoSpace(_) | FsError::QuotaExceeded | FsError::TooManyLinks => {
            StoreError::Full(e.to_string())
        }
        FsError::Stale => StoreError::Unusable(e.to_string()),
        FsError::ReadOnly | FsError::NotPermitted | FsError::AccessDenied => {
            StoreError::Denied(e.to_string())
        }
        FsError::Invalid(_) | FsError::NameTooLong | FsError::Loop | FsError::CrossQuota => {
            StoreError::Refused(e.to_string())
        }
        FsError::Io(reason) => StoreError::Damaged(reason),
        FsError::Unavailable(reason) => StoreError::Unavailable(reason),
        FsError::Fenced(_) => StoreError::Unavailable(e.to_string()),
        // What is left are names that came or went under the call: the next one sees how it is.
        FsError::NotFound
        | FsError::Exists
        | FsError::NotDirectory
        | FsError::IsDirectory
        | FsError::NotEmpty
        | FsError::TooBig
        | FsError::NoAttribute
        | FsError::BeyondEnd
        | FsError::Range
        | FsError::AttributeTooBig
        | FsError::WouldBlock
        | FsError::Deadlock
        | FsError::NoLocks
        | FsError::BadHandle
        | FsError::NotSupported => StoreError::Contended(format!("the volume's directory ({e})")),
    }
}

/// Connects to file systems for [`MetaFileSystems`]; a binary knows the engines.
#[async_trait]
pub trait Connect: Send + Sync {
    /// A client of the file system at `address`.
    ///
    /// # Errors
    /// As [`FileSystems::open`].
    async fn connect(&self, address: &FsAddress) -> Result<Arc<Client>, StoreError>;
}

/// A connection, and the address with the credentials that made it.
type Slot = Arc<Mutex<Option<(FsAddress, Arc<MetaVolumes>)>>>;

/// File systems by their address, each connected once.
pub struct MetaFileSystems<C> {
    connector: C,
    /// One slot a URL, so that a dead file system keeps no other one waiting.
    slots: Mutex<HashMap<String, Slot>>,
}

impl<C: Connect> MetaFileSystems<C> {
    /// None yet.
    pub fn new(connector: C) -> Self {
        Self { connector, slots: Mutex::default() }
    }

    /// Forgets all connections; returns their clients, for whoever has opened them to close.
    pub async fn take_all(&self) -> Vec<Arc<Client>> {
        let mut clients = Vec::new();
        for (_, slot) in self.slots.lock().await.drain() {
            clients.extend(slot.lock().await.take().map(|(_, volumes)| Arc::clone(&volumes.client)));
        }
        clients
    }
}

#[async_trait]
impl<C: Connect> FileSystems for MetaFileSystems<C> {
    async fn open(&self, address: &FsAddress) -> Result<Arc<dyn VolumeStore>, StoreError> {
        let url = address.public_url().to_string();
        let slot = self.slots.lock().await.entry(url.clone()).or_default().clone();
        let mut slot = slot.lock().await;
        // With other credentials it is asked anew: a wrong password must not pass because a right one came before.
        if let Some((_, volumes)) = slot.as_ref().filter(|(known, _)| known == address) {
            return Ok(volumes.clone());
        }
        let connecting = tokio::time::timeout(LIMIT, self.connector.connect(address));
        let client = connecting.await.unwrap_or_else(|_| {
            Err(StoreError::Unavailable(format!("{url} did not answer within {} s", LIMIT.as_secs())))
        })?;
        let volumes = Arc::new(MetaVolumes::new(client));
        if let Some((_, old)) = slot.replace((address.clone(), Arc::clone(&volumes)))
            && !Arc::ptr_eq(&old.client, &volumes.client)
        {
            old.client.close().await;
        }
        Ok(volumes)
    }
}
