//! The memory twin of the registry.
//!
//! With a directory it also makes and removes the volumes' directories there, so that a whole driver runs on it (the
//! directory stands in for the mounted file system). It keeps no quota and copies no content:
//! that is what real file systems are for.

use super::{FileSystems, NewSnapshot, NewVolume, StoreError, VolumeStore};
use crate::address::FsAddress;
use crate::id::{SnapshotId, VolumeId};
use async_trait::async_trait;
use carafe_types::record::{CopySource, FORMAT_VERSION, SnapshotRecord, VolumeRecord, VolumeState};
use carafe_types::{InodeNo, QuotaId, Timestamp};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;

/// A registry in memory.
#[derive(Debug)]
pub struct MemoryStore {
    fs: Uuid,
    directory: Option<PathBuf>,
    limit: Option<u64>,
    volumes: Mutex<BTreeMap<String, VolumeRecord>>,
    snapshots: Mutex<BTreeMap<String, SnapshotRecord>>,
}

impl MemoryStore {
    /// An empty registry of the file system `fs`.
    pub fn new(fs: Uuid) -> Self {
        Self { fs, directory: None, limit: None, volumes: Mutex::default(), snapshots: Mutex::default() }
    }

    /// Also makes and removes directories below `directory`.
    pub fn with_directory(self, directory: impl Into<PathBuf>) -> Self {
        Self { directory: Some(directory.into()), ..self }
    }

    /// The file system holds `bytes` and counts each volume in full.
    pub fn with_limit(self, bytes: u64) -> Self {
        Self { limit: Some(bytes), ..self }
    }

    fn source_is_there(
        &self,
        volumes: &BTreeMap<String, VolumeRecord>,
        new: &NewVolume,
    ) -> Result<(), StoreError> {
        let there = match &new.source {
            None => return Ok(()),
            Some(CopySource::Volume(id)) => volumes.contains_key(id),
            Some(CopySource::Snapshot(id)) => self.snapshots.lock().contains_key(id),
        };
        let id = new.source.as_ref().map_or("", CopySource::id);
        if there { Ok(()) } else { Err(StoreError::NotFound(id.to_owned())) }
    }

    fn make_directory(&self, new: &NewVolume) -> Result<(), StoreError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let path = directory.join(new.path.as_path());
        let failed = |e: std::io::Error| StoreError::Unavailable(format!("{path:?}: {e}"));
        std::fs::create_dir_all(&path).map_err(failed)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(new.mode)).map_err(failed)?;
        chown(&path, Some(new.uid), Some(new.gid)).map_err(failed)
    }

    fn remove_directory(&self, record: &VolumeRecord) -> Result<(), StoreError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let path = directory.join(&record.path);
        match std::fs::remove_dir_all(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(StoreError::Unavailable(format!("{path:?}: {e}")))
            }
            _ => Ok(()),
        }
    }
}

/// The record of a new volume; the number is made up.
fn record(new: &NewVolume, number: u32) -> VolumeRecord {
    VolumeRecord {
        version: FORMAT_VERSION,
        id: new.id.to_string(),
        name: new.name.clone(),
        path: new.path.as_str().to_owned(),
        root: InodeNo(u64::from(number) * 64),
        quota: QuotaId(number),
        capacity: new.capacity.unwrap_or(0),
        parameters: new.parameters.clone(),
        created: Timestamp(0),
        state: VolumeState::Ready,
        source: new.source.clone(),
        copy: None,
        settings: new.settings.clone(),
    }
}

/// The records that a new volume's path would lie in or around, or be.
fn overlaps(path: &str, other: &str) -> bool {
    let inside =
        |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    inside(path, other) || inside(other, path)
}

#[async_trait]
impl VolumeStore for MemoryStore {
    fn fs(&self) -> Uuid {
        self.fs
    }

    fn name(&self) -> String {
        "twin".to_owned()
    }

    async fn create_volume(&self, new: &NewVolume) -> Result<VolumeRecord, StoreError> {
        let mut volumes = self.volumes.lock();
        if let Some(there) = volumes.get(new.id.as_str()) {
            return Ok(there.clone());
        }
        self.source_is_there(&volumes, new)?;
        if new.adopt
            && let Some(old) = volumes.values().find(|old| old.path == new.path.as_str()).cloned()
        {
            volumes.remove(&old.id);
            let capacity = old.capacity.max(new.capacity.unwrap_or(0));
            let record = VolumeRecord { capacity, root: old.root, quota: old.quota, ..record(new, 0) };
            volumes.insert(record.id.clone(), record.clone());
            return Ok(record);
        }
        if let Some(other) = volumes.values().find(|other| overlaps(new.path.as_str(), &other.path)) {
            let by = format!("volume {}", other.id);
            return Err(StoreError::PathTaken { path: new.path.as_str().to_owned(), by });
        }
        self.make_directory(new)?;
        let record = record(new, volumes.len() as u32 + 1);
        volumes.insert(record.id.clone(), record.clone());
        Ok(record)
    }

    async fn delete_volume(&self, id: &VolumeId) -> Result<(), StoreError> {
        let mut volumes = self.volumes.lock();
        if let Some(record) = volumes.get(id.as_str()) {
            self.remove_directory(record)?;
            volumes.remove(id.as_str());
        }
        Ok(())
    }

    async fn get_volume(&self, id: &VolumeId) -> Result<Option<VolumeRecord>, StoreError> {
        Ok(self.volumes.lock().get(id.as_str()).cloned())
    }

    async fn list_volumes(&self, after: Option<&str>, limit: usize) -> Result<Vec<VolumeRecord>, StoreError> {
        let volumes = self.volumes.lock();
        let behind = volumes.iter().filter(|(id, _)| after.is_none_or(|after| id.as_str() > after));
        Ok(behind.take(limit).map(|(_, record)| record.clone()).collect())
    }

    async fn expand_volume(&self, id: &VolumeId, capacity: u64) -> Result<VolumeRecord, StoreError> {
        let mut volumes = self.volumes.lock();
        let record = volumes.get_mut(id.as_str()).ok_or_else(|| StoreError::NotFound(id.to_string()))?;
        record.capacity = record.capacity.max(capacity);
        Ok(record.clone())
    }

    async fn modify_volume(
        &self,
        id: &VolumeId,
        settings: &BTreeMap<String, String>,
        _: Option<u64>,
    ) -> Result<VolumeRecord, StoreError> {
        let mut volumes = self.volumes.lock();
        let record = volumes.get_mut(id.as_str()).ok_or_else(|| StoreError::NotFound(id.to_string()))?;
        record.settings.extend(settings.clone());
        Ok(record.clone())
    }

    async fn create_snapshot(&self, new: &NewSnapshot) -> Result<SnapshotRecord, StoreError> {
        let mut snapshots = self.snapshots.lock();
        if let Some(there) = snapshots.get(new.id.as_str()) {
            return Ok(there.clone());
        }
        let volumes = self.volumes.lock();
        let missing = || StoreError::NotFound(new.source.to_string());
        let source = volumes.get(new.source.as_str()).ok_or_else(missing)?;
        let record = SnapshotRecord {
            version: FORMAT_VERSION,
            id: new.id.to_string(),
            name: new.name.clone(),
            source: source.id.clone(),
            root: InodeNo(0),
            quota: QuotaId(0),
            bytes: 0,
            capacity: source.capacity,
            created: Timestamp(0),
            state: VolumeState::Ready,
            copy: None,
        };
        snapshots.insert(record.id.clone(), record.clone());
        Ok(record)
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<(), StoreError> {
        self.snapshots.lock().remove(id.as_str());
        Ok(())
    }

    async fn get_snapshot(&self, id: &SnapshotId) -> Result<Option<SnapshotRecord>, StoreError> {
        Ok(self.snapshots.lock().get(id.as_str()).cloned())
    }

    async fn list_snapshots(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SnapshotRecord>, StoreError> {
        let snapshots = self.snapshots.lock();
        let behind = snapshots.iter().filter(|(id, _)| after.is_none_or(|after| id.as_str() > after));
        Ok(behind.take(limit).map(|(_, record)| record.clone()).collect())
    }

    async fn available_bytes(&self) -> Result<Option<u64>, StoreError> {
        let used: u64 = self.volumes.lock().values().map(|volume| volume.capacity).sum();
        Ok(self.limit.map(|limit| limit.saturating_sub(used)))
    }
}

/// File systems in memory, by the text of their metadata URL.
#[derive(Debug, Default)]
pub struct MemoryFileSystems(BTreeMap<String, Arc<MemoryStore>>);

impl MemoryFileSystems {
    /// Adds a file system at a metadata URL.
    pub fn with(mut self, public_url: &str, store: MemoryStore) -> Self {
        self.0.insert(public_url.to_owned(), Arc::new(store));
        self
    }
}

#[async_trait]
impl FileSystems for MemoryFileSystems {
    async fn open(&self, address: &FsAddress) -> Result<Arc<dyn VolumeStore>, StoreError> {
        match self.0.get(address.public_url().as_str()) {
            Some(store) => Ok(Arc::clone(store) as Arc<dyn VolumeStore>),
            None => Err(StoreError::Unavailable(format!("nobody answers at {}", address.public_url()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_memory_twin_conforms() {
        super::super::conformance::run(&MemoryStore::new(Uuid::from_u128(7))).await;
    }

    #[test]
    fn paths_overlap_if_one_is_the_other_or_lies_in_it() {
        assert!(overlaps("a/b", "a/b") && overlaps("a", "a/b") && overlaps("a/b", "a"));
        assert!(!overlaps("a/bc", "a/b") && !overlaps("a/b", "a/c"));
    }
}
