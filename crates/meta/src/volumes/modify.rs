//! Changing the settings of a volume during its life.
//!
//! They are kept in two records: the volume's, for who asks for the volume, and the quota's, which every session gets with each
//! renewal of its lease, so that mounts act on a change within seconds and need not ask.

use super::{VolumeError, counter, decode};
use crate::client::Client;
use crate::store::Key;
use crate::tx::{Op, Tx};
use carafe_types::FsError;
use carafe_types::record::{QuotaRecord, VolumeRecord};
use std::collections::BTreeMap;

impl Client {
    /// Puts `settings` over those of the record, and bounds the number of inodes if `inodes` says so. A bound below what
    /// the volume holds is refused.
    ///
    /// # Errors
    /// [`VolumeError::NotFound`], [`VolumeError::Damaged`]; [`FsError::NoSpace`]; store errors.
    pub async fn modify_volume(
        &self,
        id: &str,
        settings: &BTreeMap<String, String>,
        inodes: Option<u64>,
    ) -> Result<VolumeRecord, VolumeError> {
        self.writable()?;
        let record = self.run(|tx| modify(tx, id, settings, inodes)).await?;
        record.ok_or_else(|| VolumeError::NotFound(id.to_owned()))
    }
}

fn modify(
    tx: &mut Tx<'_>,
    id: &str,
    settings: &BTreeMap<String, String>,
    inodes: Option<u64>,
) -> Op<Option<VolumeRecord>> {
    let key = Key::Volume(id.to_owned());
    let Some(bytes) = tx.record(&key)? else { return Ok(None) };
    let mut record = decode(id, &bytes).map_err(|e| FsError::Io(e.to_string()))?;
    let before = record.settings.clone();
    record.settings.extend(settings.iter().map(|(name, value)| (name.clone(), value.clone())));
    if record.settings != before {
        tx.same(&key)?;
        tx.put(key, record.encode());
    }
    change_quota(tx, &record, inodes)?;
    Ok(Some(record))
}

/// The settings of a record into its quota, from where mounts hear of them.
pub(super) fn set_settings(tx: &mut Tx<'_>, record: &VolumeRecord) -> Op<()> {
    change_quota(tx, record, None)
}

/// Settings and, if told, the limit of inodes; what is left of it changes by the same number.
fn change_quota(tx: &mut Tx<'_>, record: &VolumeRecord, inodes: Option<u64>) -> Op<()> {
    let (key, mut quota) = quota_of(tx, record)?;
    let before = quota.clone();
    quota.settings.clone_from(&record.settings);
    if let Some(inodes) = inodes {
        tx.take_here(record.quota, 0, counter(quota.limits.inodes) - counter(Some(inodes)));
        quota.limits.inodes = Some(inodes);
    }
    if quota != before {
        tx.same(&key)?;
        tx.put(key, quota.encode());
    }
    Ok(())
}

/// The quota of a volume, and the key of its record.
pub(super) fn quota_of(tx: &mut Tx<'_>, record: &VolumeRecord) -> Op<(Key, QuotaRecord)> {
    let key = Key::Quota(record.quota);
    let bad = |what: String| {
        FsError::Io(format!("quota {} of volume {} {what}; run `carafe fsck`", record.quota.0, record.id))
    };
    let bytes = tx.record(&key)?.ok_or_else(|| bad("is gone".to_owned()))?;
    let quota = QuotaRecord::decode(&bytes).map_err(|e| bad(format!("is damaged ({e})")))?;
    Ok((key, quota))
}
