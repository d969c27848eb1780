//! Attributes: of the inode itself, and extended ones.

use super::{Client, Ctx, Found, How};
use crate::ops::setattr::SetAttr;
use crate::ops::{lookup, setattr, xattr};
use bytes::Bytes;
use carafe_types::{FsError, FsResult, InodeNo};

pub use crate::ops::xattr::XattrMode;

impl Client {
    /// What `stat` tells.
    ///
    /// # Errors
    /// ENOENT when the inode is gone; store errors.
    pub async fn getattr(&self, ino: InodeNo) -> FsResult<Found> {
        let (attr, granted) = self.run_granted(How::default(), |tx| lookup::getattr(tx, ino)).await?;
        Ok(Self::found(attr, None, &granted))
    }

    /// Changes attributes; sets the size, with quota.
    ///
    /// # Errors
    /// ENOENT; EISDIR and EINVAL for a size of what has none; EFBIG; ENOSPC, EDQUOT; store errors.
    pub async fn setattr(&self, ctx: &Ctx, ino: InodeNo, set: &SetAttr) -> FsResult<Found> {
        self.writable()?;
        loop {
            let how = How { data: set.size.is_some(), ..How::queued(ino) };
            let ((attr, last), granted) =
                self.run_granted(how, |tx| setattr::setattr(tx, ctx, ino, set)).await?;
            if last {
                return Ok(Self::found(attr, None, &granted));
            }
        }
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// ENODATA; ENOENT; store errors.
    pub async fn getxattr(&self, ino: InodeNo, name: &[u8]) -> FsResult<Bytes> {
        let all = self.run(|tx| xattr::all(tx, ino)).await?;
        all.0.get(name).cloned().ok_or(FsError::NoAttribute)
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// EEXIST, ENODATA by `mode`; ERANGE for a name, E2BIG for a value that is too long; ENOSPC; store errors.
    pub async fn setxattr(&self, ino: InodeNo, name: &[u8], value: &[u8], mode: XattrMode) -> FsResult<()> {
        self.writable()?;
        let (name, value) = (Bytes::copy_from_slice(name), Bytes::copy_from_slice(value));
        self.run_queued(ino, |tx| xattr::set(tx, ino, &name, &value, mode)).await
    }

    /// The names of all extended attributes, in order.
    ///
    /// # Errors
    /// ENOENT; store errors.
    pub async fn listxattr(&self, ino: InodeNo) -> FsResult<Vec<Bytes>> {
        let all = self.run(|tx| xattr::all(tx, ino)).await?;
        Ok(all.0.into_keys().collect())
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// ENODATA; ENOENT; store errors.
    pub async fn removexattr(&self, ino: InodeNo, name: &[u8]) -> FsResult<()> {
        self.writable()?;
        let name = Bytes::copy_from_slice(name);
        self.run_queued(ino, |tx| xattr::remove(tx, ino, &name)).await
    }
}
