//! How much space there is.

use super::{Client, StatFs};
use carafe_types::{FsResult, InodeNo, QuotaId};

impl Client {
    /// What `statfs` tells below a quota, from memory.
    pub fn statfs(&self, quota: QuotaId) -> StatFs {
        self.quotas.read().statfs(quota)
    }

    /// The nearest quota above an inode, to be asked once when a directory is mounted.
    ///
    /// # Errors
    /// ENOENT; store errors.
    pub async fn quota_of(&self, ino: InodeNo) -> FsResult<QuotaId> {
        self.getattr(ino).await.map(|found| found.attr.quota)
    }

    /// Bytes left of the budget for inline data, at the last renewal and with own changes.
    pub fn inline_left(&self) -> u64 {
        u64::try_from(self.quotas.read().inline_left).unwrap_or(0)
    }
}
