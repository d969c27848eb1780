//! copy_file_range without moving a byte: the target's extents name the source's slices.

use super::MAX_FILE_SIZE;
use super::write::{inline_charge, settle};
use crate::content::Edit;
use crate::store::Key;
use crate::tx::{Op, Tx};
use carafe_types::record::{Content, Extent};
use carafe_types::{FsError, InodeNo};

/// Extents that one call shares; a longer range is copied in part, as the system call allows.
const EXTENTS_A_CALL: usize = 200;

/// A range of a file, by its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) ino: InodeNo,
    pub(crate) offset: u64,
}

/// Copies at most `len` bytes; returns how many.
pub(crate) fn copy_range(tx: &mut Tx<'_>, from: Place, to: Place, len: u64) -> Op<u64> {
    tx.want_node(from.ino);
    tx.want_node(to.ino);
    let source = tx.file(from.ino)?;
    let mut target = tx.file(to.ino)?;
    let mut len = len.min(source.size.saturating_sub(from.offset));
    if len == 0 {
        return Ok(0);
    }
    let end = to.offset.checked_add(len).filter(|end| *end <= MAX_FILE_SIZE).ok_or(FsError::TooBig)?;
    if from.ino == to.ino && from.offset < end && to.offset < from.offset + len {
        return Err(FsError::Invalid("the ranges overlap").into());
    }
    let inline = |content: &Content| matches!(content, Content::Inline(_));
    if inline(&source.content) || inline(&target.content) {
        return Err(FsError::NotSupported.into());
    }
    let reading = Edit::open(tx, from.ino, &source, std::iter::once(from.offset..from.offset + len))?;
    let mut shared = reading.window(from.offset, from.offset + len);
    if let Some(rest) = shared.get(EXTENTS_A_CALL) {
        len = rest.offset - from.offset;
        shared.truncate(EXTENTS_A_CALL);
    }
    let old = (target.size, inline_charge(tx, &target));
    let mut edit = Edit::open(tx, to.ino, &target, std::iter::once(to.offset..to.offset + len))?;
    edit.remove(to.offset, to.offset + len);
    for e in shared {
        edit.overlay(Extent { offset: e.offset - from.offset + to.offset, ..e });
    }
    target.dataver += 1;
    target.content = edit.close(tx, target.dataver)?;
    target.size = target.size.max(to.offset + len);
    target.mtime = tx.world.now;
    target.ctime = target.mtime.max(target.ctime);
    settle(tx, &target, old, 0)?;
    tx.same(&Key::Inode(from.ino))?;
    tx.same(&Key::Inode(to.ino))?;
    tx.put_inode(to.ino, &target);
    Ok(len)
}
