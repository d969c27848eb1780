//! fallocate: reserving, holes, zeroes.
//!
//! A quota charges `st_size`, holes included, so reserving space inside a file is nothing, and behind its end only a
//! matter of size. Zeroes are a hole.

use super::write::{inline_charge, settle};
use super::{MAX_FILE_SIZE, without_set_ids};
use crate::client::Ctx;
use crate::content::Edit;
use crate::store::Key;
use crate::tx::{Op, Tx};
use carafe_types::record::{Content, Inode};
use carafe_types::{Attr, FsError, InodeNo};
use std::ops::Range;

/// What to do with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Falloc {
    /// Make sure that writes to the range cannot fail for lack of space.
    Allocate {
        /// The size stays, also if the range ends behind it.
        keep_size: bool,
    },
    /// Let the range read as zeroes and free what was there. Never changes the size.
    PunchHole,
    /// As [`Falloc::PunchHole`], and the file may grow.
    ZeroRange {
        /// The size stays, also if the range ends behind it.
        keep_size: bool,
    },
}

/// Changes `range` of a file.
pub(crate) fn fallocate(
    tx: &mut Tx<'_>,
    ctx: &Ctx,
    ino: InodeNo,
    mode: Falloc,
    range: &Range<u64>,
) -> Op<Attr> {
    if range.start >= range.end {
        return Err(FsError::Invalid("empty range").into());
    }
    if range.end > MAX_FILE_SIZE {
        return Err(FsError::TooBig.into());
    }
    let mut inode = tx.file(ino)?;
    let old = (inode.size, inline_charge(tx, &inode));
    let (grows, zeroes) = match mode {
        Falloc::Allocate { keep_size } => (!keep_size, false),
        Falloc::PunchHole => (false, true),
        Falloc::ZeroRange { keep_size } => (!keep_size, true),
    };
    let size = if grows { inode.size.max(range.end) } else { inode.size };
    let hole = range.start.min(inode.size)..range.end.min(inode.size);
    let zeroes = zeroes && hole.start < hole.end;
    // Also a call that changes no byte moves the times, as on ext4.
    if zeroes || size != inode.size {
        inode.dataver += 1;
    }
    if zeroes {
        make_hole(tx, ino, &mut inode, &hole)?;
    }
    inode.size = size;
    inode.mtime = tx.world.now;
    inode.ctime = inode.mtime.max(inode.ctime);
    if ctx.uid != 0 {
        inode.mode = without_set_ids(inode.mode);
    }
    settle(tx, &inode, old, 0)?;
    tx.same(&Key::Inode(ino))?;
    tx.put_inode(ino, &inode);
    Ok(inode.attr(ino))
}

fn make_hole(tx: &mut Tx<'_>, ino: InodeNo, inode: &mut Inode, hole: &Range<u64>) -> Op<()> {
    if let Content::Inline(_) = inode.content {
        let Some(bytes) = tx.record(&Key::Content(ino))? else { return Ok(()) };
        let mut bytes = bytes.to_vec();
        let end = (bytes.len() as u64).min(hole.end) as usize;
        if (hole.start as usize) < end {
            bytes[hole.start as usize..end].fill(0);
        }
        inode.content = Content::Inline(crc32c::crc32c(&bytes));
        tx.put(Key::Content(ino), bytes);
        return Ok(());
    }
    let mut edit = Edit::open(tx, ino, inode, std::iter::once(hole.clone()))?;
    edit.remove(hole.start, hole.end);
    inode.content = edit.close(tx, inode.dataver)?;
    Ok(())
}
