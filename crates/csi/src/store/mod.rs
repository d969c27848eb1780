//! The store side of the driver: a registry of volumes in each file system.
//!
//! The controller keeps nothing in memory: whether a volume exists, where, how big and of whom is a record in the
//! metadata store of its file system. [`VolumeStore`] is that registry, one object a file system; [`FileSystems`] opens
//! them. [`MetaVolumes`] and [`MetaFileSystems`] are the real ones, [`MemoryStore`] is the twin that unit tests and
//! `csi-sanity` run on; [`conformance`] is what every implementation must pass.

pub mod conformance;
mod copies;
mod memory;
mod meta;

pub use memory::{MemoryFileSystems, MemoryStore};
pub use meta::{Connect, MetaFileSystems, MetaVolumes};

use crate::address::FsAddress;
use crate::id::{SnapshotId, VolumeId};
use crate::request::VolumePath;
use async_trait::async_trait;
use carafe_types::record::{CopySource, SnapshotRecord, VolumeRecord};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;
use uuid::Uuid;

/// A volume to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVolume {
    /// Its id, a function of file system and name.
    pub id: VolumeId,
    /// The name that the caller gave.
    pub name: String,
    /// Where its directory goes; missing directories above it are made, owned by root.
    pub path: VolumePath,
    /// Its quota in bytes; `None` is no quota.
    pub capacity: Option<u64>,
    /// How many inodes it may hold; `None` is no limit.
    pub inode_limit: Option<u64>,
    /// Owner of the directory.
    pub uid: u32,
    /// Group of the directory.
    pub gid: u32,
    /// Permission bits of the directory, not cut by any umask.
    pub mode: u32,
    /// The parameters as given, for the record.
    pub parameters: BTreeMap<String, String>,
    /// What may be changed later, for the record.
    pub settings: BTreeMap<String, String>,
    /// What it is a copy of; `None`: it begins empty.
    pub source: Option<CopySource>,
    /// A volume that lies at this very path is taken over.
    pub adopt: bool,
}

/// A snapshot to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSnapshot {
    /// Its id, a function of file system and name.
    pub id: SnapshotId,
    /// The name that the caller gave.
    pub name: String,
    /// Of which volume.
    pub source: VolumeId,
}

/// Why the registry did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// No record under that id.
    #[error("nothing is registered as {0}: it was deleted, or never created")]
    NotFound(String),
    /// The directory of a new volume exists, or lies in or around another volume.
    #[error("the path {path:?} is taken by {by}: choose another path")]
    PathTaken {
        /// The path that was asked for.
        path: String,
        /// The volume or directory that is there.
        by: String,
    },
    /// The file system or the store has no room for the record.
    #[error("no room: {0}")]
    Full(String),
    /// The volume is mounted, or something depends on it.
    #[error("volume {id} is in use by {by}: end that first")]
    InUse {
        /// The volume.
        id: String,
        /// Who uses it.
        by: String,
    },
    /// The store or file system cannot serve: not formatted, a version from the future, a wrong eviction policy.
    #[error("the file system cannot be used: {0}")]
    Unusable(String),
    /// The address or request can never work, for example an unknown URL scheme.
    #[error("{0}")]
    Refused(String),
    /// A copy is under way; the same call again tells how far it is, and in the end that it is done.
    #[error("{id} is being copied, {percent} % are done: it will be tried again")]
    Copying {
        /// What is made.
        id: String,
        /// How much is done.
        percent: u64,
    },
    /// The content of a source does not fit.
    #[error("{asked} bytes are asked for, the source holds {needed}: ask for more")]
    TooSmall {
        /// The capacity that was asked for.
        asked: u64,
        /// The bytes of the source.
        needed: u64,
    },
    /// Other clients kept changing the same records.
    #[error("others are changing {0}: it will be tried again")]
    Contended(String),
    /// Store or bucket cannot be reached now.
    #[error("cannot be reached: {0}")]
    Unavailable(String),
    /// A wrong password or user.
    #[error("the credentials were refused: {0}")]
    Unauthenticated(String),
    /// The credentials are right, and not enough.
    #[error("not permitted: {0}")]
    Denied(String),
    /// A record cannot be read.
    #[error("damaged: {0}; `carafe fsck` tells what else is")]
    Damaged(String),
}

/// The registry of volumes of one file system.
///
/// Every call answers within a bounded time, and may be repeated after any failure.
#[async_trait]
pub trait VolumeStore: Send + Sync {
    /// The uuid of the file system.
    fn fs(&self) -> Uuid;

    /// The name of the file system, as given at its making.
    fn name(&self) -> String;

    /// Makes a volume: record, directory with owner and mode, quota, and the content of its source. Answers when all of it
    /// is there, or [`StoreError::Copying`] after some seconds; then the copying goes on. If a record with this id is there, that
    /// is the answer, whatever it says: the caller compares.
    async fn create_volume(&self, new: &NewVolume) -> Result<VolumeRecord, StoreError>;

    /// Moves the volume's directory into the trash and drops the record; its content is purged later. A volume that is
    /// not there is a success.
    async fn delete_volume(&self, id: &VolumeId) -> Result<(), StoreError>;

    /// The record of a volume; `None` if there is none.
    async fn get_volume(&self, id: &VolumeId) -> Result<Option<VolumeRecord>, StoreError>;

    /// Up to `limit` records in the order of their ids, beginning behind the id `after`. Fewer than `limit` are the last.
    async fn list_volumes(&self, after: Option<&str>, limit: usize) -> Result<Vec<VolumeRecord>, StoreError>;

    /// Raises a volume's quota to `capacity` bytes and answers its record. A quota that is as high already stays.
    async fn expand_volume(&self, id: &VolumeId, capacity: u64) -> Result<VolumeRecord, StoreError>;

    /// Puts settings over those of the record, and bounds the number of inodes if `inodes` says so.
    async fn modify_volume(
        &self,
        id: &VolumeId,
        settings: &BTreeMap<String, String>,
        inodes: Option<u64>,
    ) -> Result<VolumeRecord, StoreError>;

    /// Makes a snapshot, as `create_volume` makes a volume with a source.
    async fn create_snapshot(&self, new: &NewSnapshot) -> Result<SnapshotRecord, StoreError>;

    /// Drops a snapshot. One that is not there is a success.
    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<(), StoreError>;

    /// The record of a snapshot; `None` if there is none.
    async fn get_snapshot(&self, id: &SnapshotId) -> Result<Option<SnapshotRecord>, StoreError>;

    /// As `list_volumes`.
    async fn list_snapshots(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SnapshotRecord>, StoreError>;

    /// Bytes that new volumes can still take: the file system's limit less what is used; `None` if it has no limit.
    async fn available_bytes(&self) -> Result<Option<u64>, StoreError>;
}

/// Opens file systems by their address.
#[async_trait]
pub trait FileSystems: Send + Sync {
    /// Connects to the file system at `address`, or gives out a connection that is there. Answers within seconds.
    async fn open(&self, address: &FsAddress) -> Result<Arc<dyn VolumeStore>, StoreError>;
}
