//! Data: where it is, and making it visible.

use super::{Client, Ctx, How};
use crate::ops::copy::Place;
use crate::ops::fallocate::Falloc;
use crate::ops::read::FileContent;
use crate::ops::write::{FileWrite, WriteData};
use crate::ops::{copy, fallocate, read, write};
use crate::store::WatchKey;
use carafe_types::{Attr, FsError, FsResult, InodeNo};
use std::ops::Range;

/// Files in one transaction.
const FILES_A_COMMIT: usize = 500;

impl Client {
    /// What a range of a file consists of.
    ///
    /// # Errors
    /// ENOENT; EISDIR; EIO for damaged records; store errors.
    pub async fn content(&self, ino: InodeNo, range: Range<u64>) -> FsResult<FileContent> {
        let op = |tx: &mut crate::tx::Tx<'_>| read::content(tx, ino, range.clone());
        let (mut found, granted) = self.run_granted(How::default(), op).await?;
        found.sole = granted.sole(&WatchKey::Bucket(ino.bucket()));
        Ok(found)
    }

    /// Makes written data of up to 500 files visible in one transaction: all of it or none.
    ///
    /// # Errors
    /// ENOENT for a file that is gone; [`FsError::WouldBlock`] when a file has another `base` by now;
    /// [`FsError::Invalid`] when extents do not cover inline bytes; [`FsError::NotSupported`] when the budget for inline
    /// data is used up: upload it instead; EFBIG; ENOSPC, EDQUOT for what was not reserved; [`FsError::Fenced`] for slices
    /// of a session that was taken for dead; store errors.
    pub async fn commit_writes(&self, writes: &[FileWrite]) -> FsResult<Vec<Attr>> {
        self.writable()?;
        if writes.len() > FILES_A_COMMIT {
            return Err(FsError::Invalid("more than 500 files in one transaction"));
        }
        self.only_own_slices(writes)?;
        let queue = writes.iter().map(|w| w.ino).collect();
        let how = How { data: true, queue, ..How::default() };
        let op = |tx: &mut crate::tx::Tx<'_>| {
            writes.iter().for_each(|w| tx.want_node(w.ino));
            writes.iter().map(|w| write::write_file(tx, w)).collect()
        };
        self.run_granted(how, op).await.map(|(attrs, _)| attrs)
    }

    /// Slices of an earlier session are lost with it: GC may have taken their objects.
    pub(crate) fn only_own_slices(&self, writes: &[FileWrite]) -> FsResult<()> {
        let me = self.session().no;
        let foreign = writes.iter().any(|w| match &w.data {
            WriteData::Extents(list) => list.iter().any(|e| e.slice.session != me),
            _ => false,
        });
        if foreign {
            Err(FsError::Fenced("this data was written by a session that is dead".to_owned()))
        } else {
            Ok(())
        }
    }

    /// Reserves space, makes holes, writes zeroes.
    ///
    /// # Errors
    /// EINVAL for an empty range or no regular file; EFBIG; ENOSPC, EDQUOT; store errors.
    pub async fn fallocate(
        &self,
        ctx: &Ctx,
        ino: InodeNo,
        mode: Falloc,
        offset: u64,
        len: u64,
    ) -> FsResult<Attr> {
        self.writable()?;
        let range = offset..offset.checked_add(len).ok_or(FsError::TooBig)?;
        self.run_queued(ino, |tx| fallocate::fallocate(tx, ctx, ino, mode, &range)).await
    }

    /// Copies a range by sharing its slices. Both files must have been flushed. Returns how many bytes were copied,
    /// which may be less than asked for.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] when either file is inline: copy the bytes; EINVAL for overlapping ranges; EFBIG; ENOSPC,
    /// EDQUOT; store errors.
    pub async fn copy_range(
        &self,
        src: InodeNo,
        src_off: u64,
        dst: InodeNo,
        dst_off: u64,
        len: u64,
    ) -> FsResult<u64> {
        self.writable()?;
        let (from, to) = (Place { ino: src, offset: src_off }, Place { ino: dst, offset: dst_off });
        let how = How { queue: vec![src, dst], ..How::default() };
        let op = |tx: &mut crate::tx::Tx<'_>| copy::copy_range(tx, from, to, len);
        self.run_granted(how, op).await.map(|(copied, _)| copied)
    }
}
