//! Giving a volume more room.

use super::modify::quota_of;
use super::{VolumeError, counter, decode};
use crate::client::Client;
use crate::store::Key;
use crate::tx::{Op, Tx};
use carafe_types::FsError;
use carafe_types::record::VolumeRecord;

impl Client {
    /// Raises a volume's limit to `capacity` bytes. One that is as high already, or none, stays. It counts at once, also for
    /// writers that are being refused.
    ///
    /// # Errors
    /// [`VolumeError::NotFound`], [`VolumeError::Damaged`]; store errors.
    pub async fn expand_volume(&self, id: &str, capacity: u64) -> Result<VolumeRecord, VolumeError> {
        self.writable()?;
        let record = self.run(|tx| expand(tx, id, capacity)).await?;
        record.ok_or_else(|| VolumeError::NotFound(id.to_owned()))
    }
}

fn expand(tx: &mut Tx<'_>, id: &str, capacity: u64) -> Op<Option<VolumeRecord>> {
    let key = Key::Volume(id.to_owned());
    let Some(bytes) = tx.record(&key)? else { return Ok(None) };
    let mut record = decode(id, &bytes).map_err(|e| FsError::Io(e.to_string()))?;
    if record.capacity == 0 || capacity <= record.capacity {
        return Ok(Some(record));
    }
    let (quota_key, mut quota) = quota_of(tx, &record)?;
    let more = counter(Some(capacity)) - counter(quota.limits.bytes);
    tx.same(&key)?;
    tx.same(&quota_key)?;
    quota.limits.bytes = Some(capacity);
    tx.take_here(record.quota, -more, 0);
    tx.put(quota_key, quota.encode());
    record.capacity = capacity;
    tx.put(key, record.encode());
    Ok(Some(record))
}
