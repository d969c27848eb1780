//! The registry of volumes: directories with a quota, known by an id.
//!
//! A volume is a record under its id, the directory that the record names, and a quota that begins there. Each change is
//! one commit, so there is never a record without its directory or the other way round:
//!
//! - *Create* makes record, directory and quota together; only plain directories above are made before, one by one, and a
//!   repeated call finds them. The id is compared in the commit: of two callers one makes the volume, both get its record.
//! - *No volume lies in another.* The commit compares every directory above (none is a volume's) and that the name is free
//!   (so none lies below). Paths of records are compared too: an administrator may have moved a volume, and its path must
//!   not lead its pods into another one.
//! - *Delete* renames the directory into the trash and drops the record together; what it held is purged later
//!   ([`crate::jobs::purge_trash`]) and counts until then.
//! - *Copies* (snapshots, volumes made from something) are trees of their own that share slices (`copy`).
//! - *Expand* raises the limit and what is left by the same number, so usage is exact at every moment.

mod adopt;
mod copy;
mod create;
mod delete;
mod error;
mod expand;
mod modify;
mod path;

pub use copy::{NewSnapshot, SNAPSHOTS};
pub use create::NewVolume;
pub use error::VolumeError;

use crate::client::Client;
use crate::format::UNLIMITED;
use crate::jobs::Scanner;
use crate::store::{Key, ScanRequest, Scanned, WatchKey};
use carafe_types::record::{QuotaRecord, VolumeRecord};
use carafe_types::{FsError, FsResult, QuotaId};

impl Client {
    /// The record of a volume, if it is registered.
    ///
    /// # Errors
    /// [`VolumeError::Damaged`]; store errors.
    pub async fn get_volume(&self, id: &str) -> Result<Option<VolumeRecord>, VolumeError> {
        let bytes = Scanner(self).record(Key::Volume(id.to_owned())).await?;
        bytes.map(|bytes| decode(id, &bytes)).transpose()
    }

    /// Records in the order of ids, behind `after`; fewer than `limit` are the last.
    ///
    /// # Errors
    /// As [`Client::get_volume`].
    pub async fn list_volumes(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<VolumeRecord>, VolumeError> {
        let request = ScanRequest::Volumes { after: after.map(str::to_owned), limit };
        let page = Scanner(self).page(&request).await?;
        let volume =
            |found| if let Scanned::Volume(id, bytes) = found { Some(decode(&id, &bytes)) } else { None };
        page.found.into_iter().filter_map(volume).collect()
    }

    /// Bytes that the file system can still take: its limit less what is used; `None` if it has no limit.
    ///
    /// # Errors
    /// Store errors.
    pub async fn available_bytes(&self) -> FsResult<Option<u64>> {
        let page = Scanner(self).page(&ScanRequest::Quotas).await?;
        let root = page.found.into_iter().find_map(|found| match found {
            Scanned::Quota(QuotaId::ROOT, state) => Some(state),
            _ => None,
        });
        let state =
            root.ok_or_else(|| FsError::Io("the root quota is gone; run `carafe fsck`".to_owned()))?;
        let record = QuotaRecord::decode(&state.record)
            .map_err(|e| FsError::Io(format!("the root quota is damaged ({e}); run `carafe fsck`")))?;
        let free = state.left_bytes.saturating_add(state.reserved);
        Ok(record.limits.bytes.map(|_| u64::try_from(free).unwrap_or(0)))
    }

    /// What this client changed is not what its own mount's kernel was told: no request of that kernel did it.
    async fn void_own(&self, keys: &[WatchKey]) {
        if let Some(hooks) = self.hooks() {
            for key in keys {
                hooks.share(*key).await;
            }
        }
    }
}

fn decode(id: &str, bytes: &[u8]) -> Result<VolumeRecord, VolumeError> {
    VolumeRecord::decode(bytes).map_err(|source| VolumeError::Damaged { id: id.to_owned(), source })
}

/// What a counter starts from: the limit, or as good as no limit.
fn counter(limit: Option<u64>) -> i64 {
    limit.map_or(UNLIMITED, |n| i64::try_from(n).unwrap_or(UNLIMITED).min(UNLIMITED))
}
