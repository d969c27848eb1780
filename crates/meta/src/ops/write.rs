//! Making written data visible: up to 500 files in one transaction.

use super::{MAX_FILE_SIZE, without_set_ids};
use crate::content::{Edit, extents};
use crate::store::Key;
use crate::tx::{Op, Tx};
use bytes::Bytes;
use carafe_types::record::{Content, Extent, Inode};
use carafe_types::{Attr, FsError, InodeNo, Timestamp};

/// Data of one file that is ready to be visible. What it names in the bucket is there.
#[derive(Clone, Debug)]
pub struct FileWrite {
    /// Which file.
    pub ino: InodeNo,
    /// The bytes.
    pub data: WriteData,
    /// The file reaches at least to here. With `exact` its size becomes this; with `append` it grows by this.
    pub size: u64,
    /// The size becomes `size`, also if it is larger now.
    pub exact: bool,
    /// When the last byte was written.
    pub mtime: Timestamp,
    /// Bytes of this session's reserve that were set aside for the growth (see [`crate::Client::reserve`]).
    pub charged: i64,
    /// Offsets of `data` count from the end of the file as it is when this is applied.
    pub append: bool,
    /// Clear the set-user-id and set-group-id bits, as a write without CAP_FSETID does.
    pub kill_setid: bool,
    /// Refuse with [`FsError::WouldBlock`] if the file has another `dataver` by now: read again, then write again.
    pub base: Option<u64>,
}

/// The bytes of a [`FileWrite`].
#[derive(Clone, Debug)]
pub enum WriteData {
    /// Put over what is there, in order. All extents of a slice of blocks are in one commit, and the slice is in no other.
    /// They must cover what the file holds inline, if it does: those bytes have no slice.
    Extents(Vec<Extent>),
    /// All bytes of the file, in the store itself.
    Inline(Bytes),
    /// Only size and times.
    None,
}

/// Bytes of the budget for inline data that a file uses: what it holds, or would if it were filled up to its size.
pub(crate) fn inline_charge(tx: &Tx<'_>, inode: &Inode) -> i64 {
    match inode.content {
        Content::Inline(_) => inode.size.min(tx.world.inline_max) as i64,
        _ => 0,
    }
}

/// Applies one write to the view; the caller has asked for the inode.
pub(crate) fn write_file(tx: &mut Tx<'_>, write: &FileWrite) -> Op<Attr> {
    let mut inode = tx.file(write.ino)?;
    if write.base.is_some_and(|base| base != inode.dataver) {
        return Err(FsError::WouldBlock.into());
    }
    let old = (inode.size, inline_charge(tx, &inode));
    let end = if write.append { inode.size.saturating_add(write.size) } else { write.size };
    let size = if write.exact { end } else { end.max(inode.size) };
    if size > MAX_FILE_SIZE {
        return Err(FsError::TooBig.into());
    }
    inode.dataver += 1;
    match &write.data {
        WriteData::Extents(list) => {
            let shift = if write.append { old.0 } else { 0 };
            write_extents(tx, write.ino, &mut inode, list, shift, size)?;
        }
        WriteData::Inline(bytes) => write_inline(tx, write.ino, &mut inode, bytes)?,
        WriteData::None if size < inode.size => {
            super::truncate::cut(tx, write.ino, &mut inode, size)?;
        }
        WriteData::None => {}
    }
    inode.size = size;
    inode.mtime = write.mtime;
    // When it was written, not when it happened to be committed: `stat` has shown that time already.
    inode.ctime = write.mtime.min(tx.world.now).max(inode.ctime);
    if write.kill_setid {
        inode.mode = without_set_ids(inode.mode);
    }
    settle(tx, &inode, old, write.charged)?;
    tx.same(&Key::Inode(write.ino))?;
    tx.put_inode(write.ino, &inode);
    Ok(inode.attr(write.ino))
}

/// Quota and inline budget follow the size. `old`: size and inline charge before. `charged`: what is reserved for it.
pub(crate) fn settle(tx: &mut Tx<'_>, inode: &Inode, old: (u64, i64), charged: i64) -> Op<()> {
    // What is unlinked was given back in full, and is charged no more.
    let grown = if inode.nlink > 0 { inode.size as i64 - old.0 as i64 } else { 0 };
    tx.use_reserve(inode.quota, charged)?;
    tx.take(inode.quota, grown - charged, 0)?;
    let inline = inline_charge(tx, inode);
    tx.take_inline(inline - old.1);
    Ok(())
}

fn write_extents(
    tx: &mut Tx<'_>,
    ino: InodeNo,
    inode: &mut Inode,
    list: &[Extent],
    shift: u64,
    size: u64,
) -> Op<()> {
    let moved: Vec<Extent> =
        list.iter().map(|e| Extent { offset: e.offset.saturating_add(shift), ..*e }).collect();
    if moved.iter().any(|e| e.len == 0 || e.offset.checked_add(e.len).is_none_or(|end| end > size)) {
        return Err(FsError::Invalid("extent beyond the end of the file").into());
    }
    if let Content::Inline(_) = inode.content {
        let held = tx.record(&Key::Content(ino))?.map_or(0, |b| b.len() as u64).min(size);
        let mut sorted = moved.clone();
        sorted.sort_by_key(|e| e.offset);
        if !extents::covers(&sorted, 0, held) {
            return Err(FsError::Invalid("extents do not cover the inline bytes").into());
        }
        tx.delete(Key::Content(ino));
        inode.content = Content::Empty;
    }
    let mut ranges: Vec<_> = moved.iter().map(|e| e.offset..e.end()).collect();
    if size < inode.size {
        ranges.push(size..inode.size);
    }
    let mut edit = Edit::open(tx, ino, inode, ranges)?;
    if size < inode.size {
        edit.remove(size, u64::MAX);
    }
    for e in &moved {
        edit.overlay_new(*e);
    }
    inode.content = edit.close(tx, inode.dataver)?;
    Ok(())
}

fn write_inline(tx: &mut Tx<'_>, ino: InodeNo, inode: &mut Inode, bytes: &Bytes) -> Op<()> {
    if bytes.len() as u64 > tx.world.inline_max {
        return Err(FsError::Invalid("too long to be inline").into());
    }
    if !matches!(inode.content, Content::Inline(_) | Content::Empty) {
        let mut edit = Edit::open(tx, ino, inode, std::iter::once(0..inode.size))?;
        edit.remove(0, u64::MAX);
        edit.close(tx, inode.dataver)?;
    }
    if bytes.is_empty() {
        if let Content::Inline(_) = inode.content {
            tx.delete(Key::Content(ino));
        }
        inode.content = Content::Empty;
    } else {
        tx.put(Key::Content(ino), bytes.to_vec());
        inode.content = Content::Inline(crc32c::crc32c(bytes));
    }
    Ok(())
}
