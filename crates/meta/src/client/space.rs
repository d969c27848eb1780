//! How much space there is.

use super::{Client, StatFs};
use carafe_types::{FsResult, InodeNo, QuotaId};
use std::str::FromStr;

impl Client {
    /// What `statfs` tells below a quota, from memory.
    pub fn statfs(&self, quota: QuotaId) -> StatFs {
        self.quotas.read().statfs(quota)
    }

    /// A setting of the volume whose quota this is, as the last renewal told it; `None` if it is not set, or no `T`.
    pub fn setting<T: FromStr>(&self, quota: QuotaId, name: &str) -> Option<T> {
        self.quotas.read().setting(quota, name)?.parse().ok()
    }

    /// The nearest quota above an inode, to be asked once when a directory is mounted.
    ///
    /// # Errors
    /// ENOENT; store errors.
    pub async fn quota_of(&self, ino: InodeNo) -> FsResult<QuotaId> {
        let quota = self.getattr(ino).await?.attr.quota;
        // One that was made since the last renewal is asked for, so that `statfs` knows it at once.
        self.run(|tx| tx.chain(quota)).await?;
        Ok(quota)
    }

    /// Bytes left of the budget for inline data, at the last renewal and with own changes.
    pub fn inline_left(&self) -> u64 {
        u64::try_from(self.quotas.read().inline_left).unwrap_or(0)
    }
}
