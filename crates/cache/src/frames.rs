//! Geometry: a slice is cut into frames of 64 KiB (what is checked and fetched) and segments of 64 frames (what is evicted).
//!
//! A segment has 64 frames so that one `u64` says which are here; 4 MiB is also the size of a block in the bucket, so what is fetched
//! together is evicted together.

use std::ops::Range;

/// Bytes of a frame: the unit of checksums and of presence, the same as in block objects (metadata.md, 2).
pub const FRAME_BYTES: u64 = 64 << 10;

/// Largest slice. Far above any use; it bounds what a wrong offset can cost.
pub const MAX_SLICE_BYTES: u64 = 1 << 46;

/// Frames in a segment.
pub(crate) const SEGMENT_FRAMES: u64 = 64;

/// Bytes of a segment.
pub(crate) const SEGMENT_BYTES: u64 = FRAME_BYTES * SEGMENT_FRAMES;

/// Disks allocate in pages: what a frame costs is rounded up to this.
const PAGE_BYTES: u64 = 4096;

/// The part of a range that lies in one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Number of the segment in the slice.
    pub(crate) segment: u32,
    /// One bit for each frame touched.
    pub(crate) mask: u64,
}

/// Cuts `range` (end at most `MAX_SLICE_BYTES`) into segments.
pub(crate) fn spans(range: &Range<u64>) -> impl Iterator<Item = Span> + use<> {
    let (mut at, end) = (range.start, range.end);
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let segment = at / SEGMENT_BYTES;
        let base = segment * SEGMENT_BYTES;
        let stop = end.min(base + SEGMENT_BYTES);
        let (first, last) = ((at - base) / FRAME_BYTES, (stop - 1 - base) / FRAME_BYTES);
        at = stop;
        Some(Span { segment: segment as u32, mask: low_bits(last + 1) & !low_bits(first) })
    })
}

/// A mask of the `n` lowest bits, `n` up to 64.
pub(crate) fn low_bits(n: u64) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

/// The numbers of the bits that are set, ascending.
pub(crate) fn bits(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let bit = mask.trailing_zeros();
        mask &= mask - 1;
        Some(bit)
    })
}

/// Offset in the slice where a frame starts.
pub(crate) fn frame_start(segment: u32, frame: u32) -> u64 {
    u64::from(segment) * SEGMENT_BYTES + u64::from(frame) * FRAME_BYTES
}

/// The bytes of a frame, cut at the slice's end if that is known.
pub(crate) fn frame_range(segment: u32, frame: u32, len: Option<u64>) -> Range<u64> {
    let start = frame_start(segment, frame);
    let end = start + FRAME_BYTES;
    start..len.map_or(end, |len| end.min(len).max(start))
}

/// How many frames a segment can have in a slice of this length.
pub(crate) fn frames_in(segment: u32, len: Option<u64>) -> usize {
    let base = u64::from(segment) * SEGMENT_BYTES;
    let bytes = len.map_or(SEGMENT_BYTES, |len| len.saturating_sub(base).min(SEGMENT_BYTES));
    bytes.div_ceil(FRAME_BYTES) as usize
}

/// What the frames of `mask` occupy on disk: whole frames, and at the slice's end whole pages.
pub(crate) fn cost(segment: u32, mask: u64, len: Option<u64>) -> u64 {
    let whole = u64::from(mask.count_ones()) * FRAME_BYTES;
    let Some(last) = (mask != 0).then(|| 63 - mask.leading_zeros()) else { return 0 };
    let range = frame_range(segment, last, len);
    whole - FRAME_BYTES + (range.end - range.start).next_multiple_of(PAGE_BYTES)
}

/// The frames of `mask` as ranges of bytes; appended to `ranges`, joined where they touch.
pub(crate) fn push_frames(ranges: &mut Vec<Range<u64>>, segment: u32, mask: u64, len: Option<u64>) {
    for frame in bits(mask) {
        let range = frame_range(segment, frame, len);
        match ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => ranges.push(range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_over_a_segment_border_gives_two_spans() {
        let got: Vec<_> = spans(&(SEGMENT_BYTES - 1..SEGMENT_BYTES + FRAME_BYTES + 1)).collect();
        assert_eq!(got, [Span { segment: 0, mask: 1 << 63 }, Span { segment: 1, mask: 0b11 }]);
        assert_eq!(spans(&(5..5)).count(), 0);
    }

    #[test]
    fn the_last_frame_costs_whole_pages_only() {
        assert_eq!(cost(0, 0b11, Some(FRAME_BYTES + 1)), FRAME_BYTES + PAGE_BYTES);
        assert_eq!(cost(0, 0b11, None), 2 * FRAME_BYTES);
        assert_eq!(cost(0, 0, None), 0);
    }

    #[test]
    fn neighbouring_frames_are_joined() {
        let mut ranges = Vec::new();
        push_frames(&mut ranges, 0, 1 << 63, Some(SEGMENT_BYTES + 10));
        push_frames(&mut ranges, 1, 0b1, Some(SEGMENT_BYTES + 10));
        assert_eq!(ranges, vec![SEGMENT_BYTES - FRAME_BYTES..SEGMENT_BYTES + 10; 1]);
    }
}
