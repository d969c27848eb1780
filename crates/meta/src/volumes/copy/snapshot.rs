//! Snapshots and volumes made from something: what callers ask for.

use super::super::create::check_id;
use super::super::{NewVolume, VolumeError};
use super::SNAPSHOTS;
use super::begin::{Origin, entry_name, throw_away};
use super::target::Target;
use crate::client::Client;
use crate::jobs::Scanner;
use crate::store::{Key, ScanRequest, Scanned};
use crate::tx::{Op, Tx};
use carafe_types::record::{CopySource, FORMAT_VERSION, Limits, SnapshotRecord, VolumeRecord, VolumeState};
use carafe_types::{FileKind, FsError, InodeNo, QuotaId, Timestamp};

/// A snapshot to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSnapshot {
    /// Its id, unique in the file system; the rules of a volume's id.
    pub id: String,
    /// The name that the caller gave.
    pub name: String,
    /// The id of the volume.
    pub source: String,
}

impl Client {
    /// Makes a snapshot and returns when it is whole. If a record with this id is there and ready, that is the answer,
    /// whatever it says.
    ///
    /// # Errors
    /// [`VolumeError::NotFound`] for the volume, [`VolumeError::Copying`] while another session makes it,
    /// [`VolumeError::Contended`]; [`FsError::NoSpace`]; store errors.
    pub async fn create_snapshot(&self, new: &NewSnapshot) -> Result<SnapshotRecord, VolumeError> {
        self.writable()?;
        check_id(&new.id)?;
        if let Some(there) = self.get_snapshot(&new.id).await?
            && there.state == VolumeState::Ready
        {
            return Ok(there);
        }
        let origin = self.origin(&CopySource::Volume(new.source.clone())).await?;
        let target = Target::Snapshot(SnapshotRecord {
            version: FORMAT_VERSION,
            id: new.id.clone(),
            name: new.name.clone(),
            source: new.source.clone(),
            root: InodeNo(0),
            quota: QuotaId(0),
            bytes: 0,
            capacity: origin.capacity,
            created: self.now(),
            state: VolumeState::Copying,
            copy: None,
        });
        match self.copied(target, &origin, Limits::default()).await? {
            Target::Snapshot(record) => Ok(record),
            Target::Volume(record) => Err(FsError::Io(format!("{} is a volume", record.id)).into()),
        }
    }

    /// Makes a volume with the content of a snapshot or of another volume and returns when it is whole. Its directory has
    /// owner and mode of the source's. If a record with this id is there and ready, that is the answer, whatever it says.
    ///
    /// # Errors
    /// As [`Client::create_snapshot`], and [`VolumeError::PathTaken`]; [`VolumeError::TooSmall`].
    pub async fn create_volume_from(
        &self,
        new: &NewVolume,
        source: &CopySource,
    ) -> Result<VolumeRecord, VolumeError> {
        self.writable()?;
        check_id(&new.id)?;
        match self.get_volume(&new.id).await? {
            Some(there) if there.state != VolumeState::Copying => return Ok(there),
            Some(_) => {}
            None => self.path_is_free(&new.path).await?,
        }
        let origin = self.origin(source).await?;
        if let Some(capacity) = new.capacity.filter(|capacity| *capacity < origin.bytes) {
            return Err(VolumeError::TooSmall { asked: capacity, needed: origin.bytes });
        }
        let limits = Limits { bytes: new.capacity, inodes: new.inode_limit };
        let record = new.record(InodeNo(0), QuotaId(0), self.now());
        let target = Target::Volume(VolumeRecord {
            source: Some(source.clone()),
            state: VolumeState::Copying,
            ..record
        });
        match self.copied(target, &origin, limits).await? {
            Target::Volume(record) => {
                self.void_above(record.root).await?;
                Ok(record)
            }
            Target::Snapshot(record) => Err(FsError::Io(format!("{} is a snapshot", record.id)).into()),
        }
    }

    async fn copied(&self, target: Target, origin: &Origin, limits: Limits) -> Result<Target, VolumeError> {
        match self.begin_copy(target, origin, limits).await? {
            Err(there) => Ok(there),
            Ok(job) => job.copy(origin).await,
        }
    }

    /// The record of a snapshot, if it is registered.
    ///
    /// # Errors
    /// [`VolumeError::Damaged`]; store errors.
    pub async fn get_snapshot(&self, id: &str) -> Result<Option<SnapshotRecord>, VolumeError> {
        let bytes = Scanner(self).record(Key::Snapshot(id.to_owned())).await?;
        bytes.map(|bytes| decode(id, &bytes)).transpose()
    }

    /// Records in the order of ids, behind `after`; fewer than `limit` are the last.
    ///
    /// # Errors
    /// As [`Client::get_snapshot`].
    pub async fn list_snapshots(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SnapshotRecord>, VolumeError> {
        let request = ScanRequest::Snapshots { after: after.map(str::to_owned), limit };
        let page = Scanner(self).page(&request).await?;
        let found = page.found.into_iter().filter_map(|found| match found {
            Scanned::Snapshot(id, bytes) => Some(decode(&id, &bytes)),
            _ => None,
        });
        found.collect()
    }

    /// Drops a snapshot's record and moves its tree into the trash, in one commit. One that is not registered is a success;
    /// one that is being made stops being made.
    ///
    /// # Errors
    /// [`VolumeError::Damaged`]; store errors.
    pub async fn delete_snapshot(&self, id: &str) -> Result<(), VolumeError> {
        self.writable()?;
        // A record that cannot be read is told by its name; inside a transaction only file-system errors pass.
        self.get_snapshot(id).await?;
        let now = self.now();
        Ok(self.run(|tx| delete(tx, id, now)).await?)
    }
}

fn decode(id: &str, bytes: &[u8]) -> Result<SnapshotRecord, VolumeError> {
    SnapshotRecord::decode(bytes).map_err(|source| VolumeError::Damaged { id: id.to_owned(), source })
}

fn delete(tx: &mut Tx<'_>, id: &str, now: Timestamp) -> Op<()> {
    let key = Key::Snapshot(id.to_owned());
    let Some(bytes) = tx.record(&key)? else { return Ok(()) };
    let record = decode(id, &bytes).map_err(|e| FsError::Io(e.to_string()))?;
    let name = entry_name(id).map_err(|e| FsError::Io(e.to_string()))?;
    tx.same(&key)?;
    if tx.name(SNAPSHOTS, &name)? == Some((FileKind::Directory, record.root)) {
        throw_away(tx, &name, record.root, id, now)?;
    }
    tx.frees();
    tx.delete(key);
    Ok(())
}
