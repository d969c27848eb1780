//! Taking over a volume that was left behind: its record gets a new id, everything else stays where it is.
//!
//! A PersistentVolume that was retained and deleted leaves its volume in the registry, under an id that nobody asks for any
//! more. A new volume that shall lie at the same path takes its directory, quota and content over in one commit.

use super::create::check_id;
use super::modify::set_settings;
use super::{NewVolume, VolumeError, decode};
use crate::client::Client;
use crate::store::Key;
use crate::tx::{Op, Tx};
use carafe_types::FsError;
use carafe_types::record::{VolumeRecord, VolumeState};

impl Client {
    /// Gives the volume that lies exactly at `new.path` the id, name, parameters and settings of `new`; its quota is raised
    /// to the new capacity and never lowered. `None` if no ready volume lies there. If a record with this id is there, that is
    /// the answer, whatever it says.
    ///
    /// # Errors
    /// [`VolumeError::Contended`], [`VolumeError::Damaged`]; store errors.
    pub async fn adopt_volume(&self, new: &NewVolume) -> Result<Option<VolumeRecord>, VolumeError> {
        self.writable()?;
        check_id(&new.id)?;
        if let Some(there) = self.get_volume(&new.id).await? {
            return Ok(Some(there));
        }
        let here = |record: &VolumeRecord| record.path == new.path && record.state == VolumeState::Ready;
        let Some(old) = self.find_volume(here).await? else { return Ok(None) };
        let Some(mut record) = self.run(|tx| adopt(tx, &old, new)).await? else {
            return Err(VolumeError::Contended(new.id.clone()));
        };
        if let Some(capacity) = new.capacity.filter(|capacity| *capacity > record.capacity) {
            record = self.expand_volume(&record.id, capacity).await?;
        }
        Ok(Some(record))
    }
}

/// `None`: one of the two records is not what was seen.
fn adopt(tx: &mut Tx<'_>, old: &VolumeRecord, new: &NewVolume) -> Op<Option<VolumeRecord>> {
    let (old_key, key) = (Key::Volume(old.id.clone()), Key::Volume(new.id.clone()));
    [&old_key, &key].iter().for_each(|key| tx.want_record((*key).clone()));
    tx.gather()?;
    if let Some(there) = tx.record(&key)? {
        return Ok(Some(decode(&new.id, &there).map_err(|e| FsError::Io(e.to_string()))?));
    }
    if tx.record(&old_key)?.as_deref() != Some(&old.encode()) {
        return Ok(None);
    }
    tx.same(&old_key)?;
    tx.same(&key)?;
    let record = VolumeRecord {
        capacity: old.capacity,
        source: old.source.clone(),
        ..new.record(old.root, old.quota, old.created)
    };
    set_settings(tx, &record)?;
    tx.delete(old_key);
    tx.put(key, record.encode());
    Ok(Some(record))
}
