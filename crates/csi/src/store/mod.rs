//! The store side of the driver: a registry of volumes in each file system.
//!
//! The controller keeps nothing in memory: whether a volume exists, where, how big and of whom is a record in the
//! metadata store of its file system. [`VolumeStore`] is that registry, one object a file system; [`FileSystems`] opens
//! them. [`MetaVolumes`] and [`MetaFileSystems`] are the real ones, [`MemoryStore`] is the twin that unit tests and
//! `csi-sanity` run on; [`conformance`] is what every implementation must pass.

pub mod conformance;
mod memory;
mod meta;

pub use memory::{MemoryFileSystems, MemoryStore};
pub use meta::{Connect, MetaFileSystems, MetaVolumes};

use crate::address::FsAddress;
use crate::id::VolumeId;
use crate::request::VolumePath;
use async_trait::async_trait;
use carafe_types::record::VolumeRecord;
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
}

/// Why the registry did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// No record under that id.
    #[error("no volume {0} is registered: it was deleted, or never created")]
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

    /// Makes a volume in one step: record, directory with owner and mode, quota. If a record with this id is there, that
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

    /// Bytes that new volumes can still take: the file system's limit less what is used; `None` if it has no limit.
    async fn available_bytes(&self) -> Result<Option<u64>, StoreError>;
}

/// Opens file systems by their address.
#[async_trait]
pub trait FileSystems: Send + Sync {
    /// Connects to the file system at `address`, or gives out a connection that is there. Answers within seconds.
    async fn open(&self, address: &FsAddress) -> Result<Arc<dyn VolumeStore>, StoreError>;
}
