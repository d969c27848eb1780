//! How a frozen layer goes up: inline, in a pack, or as a slice of blocks.

use crate::dirty::Buffer;
use crate::node::Claim;
use carafe_cache::CacheError;
use std::borrow::Cow;
use std::ops::Range;

/// A file with at most so many dirty bytes shares a pack; a larger one has blocks of its own.
pub(crate) const PACK_FILE_MAX: u64 = 4 << 20;

/// A pack is closed when it has this many bytes.
pub(crate) const PACK_BYTES: u64 = 4 << 20;

/// The most bytes of all files that are committed together inline.
pub(crate) const INLINE_SET_MAX: u64 = 16 << 10;

/// A layer in file order with more pieces than this is rewritten before it goes up as blocks, so that the file is not
/// in crumbs for ever.
pub(crate) const PIECES_MAX: usize = 64;

/// A layer of more separate runs than this has blocks of its own: a pack lists each run in its footer.
pub(crate) const RUNS_MAX: usize = 1000;

/// A claimed layer and how it goes up.
#[derive(Debug)]
pub(crate) struct Job {
    /// The right to flush it.
    pub(crate) claim: Claim,
    /// What the commit needs from the bucket.
    pub(crate) shape: Shape,
}

/// See [`Job`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Only the size or the times have changed.
    Size,
    /// Few bytes: inline or in a pack.
    Small,
    /// A slice of blocks.
    Blocks,
}

impl Job {
    /// Decides the shape.
    pub(crate) fn new(claim: Claim) -> Self {
        let layer = &claim.layer;
        let bytes = layer.map.bytes();
        let shape = match &layer.buf {
            _ if bytes == 0 => Shape::Size,
            _ if layer.map.len() > RUNS_MAX => Shape::Blocks,
            Buffer::Slice(slice) if slice.has_closed() || bytes > PACK_FILE_MAX => Shape::Blocks,
            _ => Shape::Small,
        };
        Job { claim, shape }
    }

    /// The bytes of a run of the file, all of them in the layer.
    ///
    /// # Errors
    /// The cache's, if the bytes lie in a slice and cannot be read: they are lost.
    pub(crate) fn read(&self, run: Range<u64>) -> Result<Cow<'_, [u8]>, CacheError> {
        let layer = &self.claim.layer;
        let mut pieces = layer.map.within(run.clone());
        let (first, second) = (pieces.next(), pieces.next());
        if let (Buffer::Memory(bytes), Some(only), None) = (&layer.buf, first, second)
            && only.len == run.end - run.start
        {
            return Ok(Cow::Borrowed(&bytes[only.at as usize..][..only.len as usize]));
        }
        let mut out = vec![0; (run.end - run.start) as usize];
        for piece in layer.map.within(run.clone()) {
            let into = &mut out[(piece.offset - run.start) as usize..][..piece.len as usize];
            match &layer.buf {
                Buffer::Memory(_) => drop(layer.copy_memory(&piece, into)),
                Buffer::Slice(slice) => slice.read(piece.at, into, true)?,
            }
        }
        Ok(Cow::Owned(out))
    }

    /// Bytes that go up.
    pub(crate) fn bytes(&self) -> u64 {
        self.claim.layer.map.bytes()
    }

    /// Whether the whole file can be put into the store: it is small, and all of it is here. A file that was inline
    /// before is, since its bytes were taken into the layer when that began.
    pub(crate) fn may_be_inline(&self, inline_max: u64) -> bool {
        let layer = &self.claim.layer;
        self.shape == Shape::Small
            && (!layer.append || layer.base == 0 || layer.own.is_some())
            && layer.slice().is_none()
            && layer.size <= inline_max
            && (self.claim.node.state().attr.size == 0 || layer.map.covers(0..layer.size))
    }
}
