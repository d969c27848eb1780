//! Cutting files, in pieces that each leave a sound file.
//!
//! What goes must be released slice by slice. A transaction is bounded, so a file with very many slices is cut from its
//! end in several: each makes the file shorter, and a crash between two leaves a file of a length between the old and
//! the new one.

use super::write::{inline_charge, settle};
use super::{MAX_FILE_SIZE, without_set_ids};
use crate::content::{Edit, read_index};
use crate::store::Key;
use crate::tx::{Op, Tx};
use carafe_types::record::{Content, Inode, SEGMENT_BYTES};
use carafe_types::{FsError, InodeNo};

/// Segments that are read for one cut.
const SEGMENTS_A_CUT: usize = 32;
/// Slices that are released in one cut.
const SLICES_A_CUT: usize = 300;

/// How far a file can be cut towards `size` in one transaction.
pub(crate) fn reach(tx: &mut Tx<'_>, ino: InodeNo, inode: &Inode, size: u64) -> Op<u64> {
    let Content::Many { g } = inode.content else { return Ok(size) };
    if size >= inode.size {
        return Ok(size);
    }
    let index = read_index(tx, ino, g)?;
    let last_first: Vec<u64> =
        index.within(size / SEGMENT_BYTES, u64::MAX - 1).rev().take(SEGMENTS_A_CUT).collect();
    let reach = match last_first.last() {
        Some(lowest) if last_first.len() == SEGMENTS_A_CUT => size.max(lowest * SEGMENT_BYTES),
        _ => size,
    };
    let edit = Edit::open(tx, ino, inode, std::iter::once(reach..inode.size))?;
    let mut slices = std::collections::BTreeSet::new();
    for e in edit.window(reach, inode.size).iter().rev() {
        slices.insert(e.slice);
        if slices.len() > SLICES_A_CUT {
            return Ok(e.end());
        }
    }
    Ok(reach)
}

/// Drops what lies behind `size`. Size, times and version are the caller's.
pub(crate) fn cut(tx: &mut Tx<'_>, ino: InodeNo, inode: &mut Inode, size: u64) -> Op<()> {
    if let Content::Inline(_) = inode.content {
        let Some(bytes) = tx.record(&Key::Content(ino))? else { return Ok(()) };
        if bytes.len() as u64 > size {
            let rest = bytes.slice(..size as usize);
            if rest.is_empty() {
                tx.delete(Key::Content(ino));
                inode.content = Content::Empty;
            } else {
                inode.content = Content::Inline(crc32c::crc32c(&rest));
                tx.put(Key::Content(ino), rest.to_vec());
            }
        }
        return Ok(());
    }
    let mut edit = Edit::open(tx, ino, inode, std::iter::once(size..inode.size))?;
    edit.remove(size, u64::MAX);
    inode.content = edit.close(tx, inode.dataver)?;
    Ok(())
}

/// One step of setting the size. Returns whether it was the last.
pub(crate) fn resize(
    tx: &mut Tx<'_>,
    ino: InodeNo,
    inode: &mut Inode,
    size: u64,
    kill_setid: bool,
) -> Op<bool> {
    if size > MAX_FILE_SIZE {
        return Err(FsError::TooBig.into());
    }
    let step = reach(tx, ino, inode, size)?;
    let old = (inode.size, inline_charge(tx, inode));
    let now = tx.world.now;
    inode.dataver += 1;
    if step < inode.size {
        tx.frees();
        cut(tx, ino, inode, step)?;
    }
    inode.size = step;
    inode.mtime = now;
    inode.ctime = now.max(inode.ctime);
    if kill_setid {
        inode.mode = without_set_ids(inode.mode);
    }
    settle(tx, inode, old, 0)?;
    Ok(step == size)
}
