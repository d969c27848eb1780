//! Extents: which range of which slice holds a range of a file.
//!
//! A file with one extent keeps it in its inode; with more, each 256 MiB of the file has one [`Segment`] record, and an
//! extent never crosses a segment's end. Who *owns* a slice is counted by segment records (an inode with one extent
//! counts as one), so that a change of one segment never reads the others.

use super::DecodeError;
use crate::id::{SessionNo, SliceId};
use crate::varint::{Cursor, put_u64};

const VERSION: u8 = 1;

/// The part of a file that one segment record describes: 256 MiB.
pub const SEGMENT_BYTES: u64 = 256 << 20;

/// How a slice lies in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExtentKind {
    /// The slice is one object for each block.
    Blocks,
    /// The slice is a pack: one object that holds many small files.
    Pack,
}

/// A range of a file and the range of a slice that holds its bytes.
///
/// The frames of the objects carry checksums, so an extent needs none of its own and can be cut without reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes, at least 1.
    pub len: u64,
    /// How the slice lies in the bucket.
    pub kind: ExtentKind,
    /// Which slice.
    pub slice: SliceId,
    /// First byte in the slice.
    pub slice_off: u64,
    /// Payload bytes of the whole slice: tells how many objects a deletion must name, and how long the last frame is.
    pub slice_len: u64,
}

/// A range of bytes of a file: `offset..offset + len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl Extent {
    /// One past the last byte in the file.
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// The part of this extent inside `from..to` of the file, if any.
    pub fn cut(&self, from: u64, to: u64) -> Option<Extent> {
        let start = self.offset.max(from);
        let end = self.end().min(to);
        (start < end).then(|| Extent {
            offset: start,
            len: end - start,
            slice_off: self.slice_off + (start - self.offset),
            ..*self
        })
    }

    /// Appends the fields; `base` is where the previous extent ended, so that dense lists stay small.
    pub(crate) fn put_after(&self, out: &mut Vec<u8>, base: u64) {
        let pack = u64::from(self.kind == ExtentKind::Pack);
        put_u64(out, (self.offset - base) << 1 | pack);
        put_u64(out, self.len);
        put_u64(out, u64::from(self.slice.session.0));
        put_u64(out, self.slice.n);
        put_u64(out, self.slice_off);
        put_u64(out, self.slice_len - (self.slice_off + self.len));
    }

    pub(crate) fn take_after(c: &mut Cursor<'_>, base: u64) -> Result<Extent, DecodeError> {
        let head = c.u64()?;
        let offset = base.checked_add(head >> 1).ok_or_else(|| c.bad("extent offset"))?;
        let kind = if head & 1 == 1 { ExtentKind::Pack } else { ExtentKind::Blocks };
        let len = c.u64()?;
        let slice = SliceId { session: SessionNo(c.u32()?), n: c.u64()? };
        let slice_off = c.u64()?;
        let after = c.u64()?;
        let slice_len = slice_off.checked_add(len).and_then(|n| n.checked_add(after));
        match (slice_len, offset.checked_add(len)) {
            (Some(slice_len), Some(_)) if len > 0 => {
                Ok(Extent { offset, len, kind, slice, slice_off, slice_len })
            }
            _ => Err(c.bad("extent length")),
        }
    }
}

/// The extents of 256 MiB of a file: sorted, never overlapping, each inside the segment. Offsets are file offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// In file order.
    pub extents: Vec<Extent>,
}

impl Segment {
    /// The segment that holds file offset `offset`.
    pub fn index_of(offset: u64) -> u64 {
        offset / SEGMENT_BYTES
    }

    /// The stored form of segment `index`.
    pub fn encode(&self, index: u64) -> Vec<u8> {
        let mut out = vec![VERSION];
        let mut base = index * SEGMENT_BYTES;
        for extent in &self.extents {
            extent.put_after(&mut out, base);
            base = extent.end();
        }
        out
    }

    /// Reads the stored form of segment `index`.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no sorted list of extents inside that segment.
    pub fn decode(index: u64, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut c = Cursor::new("segment", bytes);
        c.version(VERSION)?;
        let start = index.checked_mul(SEGMENT_BYTES).ok_or_else(|| c.bad("segment number"))?;
        let limit = start.saturating_add(SEGMENT_BYTES);
        let mut extents = Vec::new();
        let mut base = start;
        while !c.is_empty() {
            let extent = Extent::take_after(&mut c, base)?;
            if extent.end() > limit {
                return Err(c.bad("extent beyond its segment"));
            }
            base = extent.end();
            extents.push(extent);
        }
        Ok(Segment { extents })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list() -> impl Strategy<Value = Segment> {
        let one = (
            0u64..1000,
            1u64..100_000,
            any::<bool>(),
            any::<u32>(),
            any::<u64>(),
            0u64..1 << 40,
            0u64..1 << 40,
        );
        prop::collection::vec(one, 0..40).prop_map(|parts| {
            let mut base = 3 * SEGMENT_BYTES;
            let extents = parts
                .into_iter()
                .map(|(gap, len, pack, session, n, slice_off, after)| {
                    let offset = base + gap;
                    base = offset + len;
                    let kind = if pack { ExtentKind::Pack } else { ExtentKind::Blocks };
                    let slice = SliceId { session: SessionNo(session), n };
                    Extent { offset, len, kind, slice, slice_off, slice_len: slice_off + len + after }
                })
                .collect();
            Segment { extents }
        })
    }

    proptest! {
        #[test]
        fn a_segment_reads_back(segment in list()) {
            prop_assert_eq!(Segment::decode(3, &segment.encode(3)), Ok(segment));
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), index in any::<u64>()) {
            let _ = Segment::decode(index, &bytes);
            let _ = super::super::Inode::decode(&bytes);
            let _ = super::super::Guard::decode(&bytes);
        }
    }

    #[test]
    fn a_cut_moves_both_offsets() {
        let slice = SliceId { session: SessionNo(1), n: 1 };
        let e = Extent { offset: 100, len: 50, kind: ExtentKind::Blocks, slice, slice_off: 7, slice_len: 60 };
        assert_eq!(e.cut(110, 120), Some(Extent { offset: 110, len: 10, slice_off: 17, ..e }));
        assert_eq!(e.cut(0, 1 << 40), Some(e));
        assert_eq!(e.cut(150, 200), None);
    }
}
