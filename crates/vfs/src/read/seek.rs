//! SEEK_DATA and SEEK_HOLE.

use crate::node::Node;
use crate::vfs::Vfs;
use carafe_types::{FsError, FsResult};

/// Segments of 256 MiB that are looked at before the answer is "data": a file of 2^62 bytes has too many to look at all,
/// and calling a hole data is allowed.
const SEGMENTS_MAX: u32 = 4096;

/// What to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekWhence {
    /// The next byte that is not in a hole.
    Data,
    /// The next byte in a hole; the end of the file counts as one.
    Hole,
}

impl Vfs {
    /// The first offset from `offset` on that is data or hole.
    ///
    /// # Errors
    /// `BeyondEnd` (ENXIO) if there is none before the end of the file.
    pub async fn lseek(&self, fh: u64, offset: u64, whence: SeekWhence) -> FsResult<u64> {
        let handle = self.handle(fh).await?;
        let node = &handle.node;
        if !node.state().is_dirty() {
            self.window(node, offset).await?;
        }
        let size = node.state().size();
        if offset >= size {
            return Err(FsError::BeyondEnd);
        }
        let mut at = offset;
        for _ in 0..SEGMENTS_MAX {
            let (data, upto) = self.nature_of(node, at, size).await?;
            match (whence, data) {
                (SeekWhence::Data, true) | (SeekWhence::Hole, false) => return Ok(at),
                _ => at = upto,
            }
            if at >= size {
                break;
            }
        }
        match whence {
            SeekWhence::Data if at >= size => Err(FsError::BeyondEnd),
            SeekWhence::Data => Ok(at),
            SeekWhence::Hole => Ok(size),
        }
    }

    /// Whether the byte at `at` is data, and up to where the answer stays the same at least.
    async fn nature_of(&self, node: &Node, at: u64, size: u64) -> FsResult<(bool, u64)> {
        let (mut data, mut upto, committed) = {
            let state = node.state();
            let layers = [state.dirty.as_ref(), state.frozen.as_deref()];
            let (mut data, mut upto) = (false, size);
            for piece in layers.into_iter().flatten().filter_map(|l| l.map.within(at..size).next()) {
                if piece.offset == at {
                    (data, upto) = (true, piece.end());
                } else if !data {
                    upto = upto.min(piece.offset);
                }
            }
            (data, upto, state.attr.size)
        };
        if !data && at < committed {
            let window = self.window(node, at).await?;
            upto = upto.min(window.range.end);
            if let Some(inline) = window.inline.as_ref().filter(|i| at < i.len() as u64) {
                (data, upto) = (true, inline.len() as u64);
            } else if let Some(extent) = window.within(at..upto).next() {
                if extent.offset == at {
                    (data, upto) = (true, extent.end());
                } else {
                    upto = extent.offset;
                }
            }
        }
        Ok((data, upto))
    }
}
