//! Frames: a payload that can be checked in any range, without the rest of the object.
//!
//! Object stores and disks do return wrong bytes: cut off, from another object, with a flipped bit. A checksum over a
//! whole 4 MiB block finds that only after 4 MiB were read, and a database reads 100 KB here and there. So:
//!
//! 1. The payload is cut in frames of 64 KiB ([`FRAME_DATA`]), each behind a head of 16 bytes: crc32c, length of its
//!    data, its index, version. A range of the payload is a range of whole frames ([`object_range_for`]) and is verified
//!    from these alone ([`decode_range`]).
//! 2. The checksum starts from the identity of the object ([`crate::ObjectId`]) and covers the index: a frame of another
//!    object, or of another place in this one, does not verify, although its data is intact.
//! 3. The head stands *before* the data, so a frame says itself where it ends. A reader who does not know how long the
//!    payload is (a file cut inside a block, a file in a pack) reads up to the next frame boundary and is right.
//! 4. A trailer at the end of a block object ([`BlockTrailer`]) says whose bytes these are, for `fsck --salvage`.
//!
//! Encoding copies the payload once, into the buffer that is sent. Decoding copies nothing as long as the caller takes
//! the pieces ([`decode_chunks`]).

mod decode;
mod encode;
mod trailer;

pub use decode::{decode_block, decode_chunks, decode_range};
pub(crate) use encode::FrameWriter;
pub use encode::{encode_block, encode_block_with};
pub(crate) use trailer::refused;
pub use trailer::{BLOCK_TRAILER_LEN, BlockTrailer, decode_trailer};

use std::ops::Range;

/// Bytes of payload in every frame but the last, which may have fewer (and at least 1).
pub const FRAME_DATA: u64 = 64 * 1024;

/// Bytes in front of each frame's data.
pub const FRAME_HEAD: u64 = 16;

/// Bytes that a full frame takes in the object.
pub const FRAME_LEN: u64 = FRAME_HEAD + FRAME_DATA;

/// The longest payload: 1 TiB, far above any block, low enough that no sum of lengths overflows.
pub const PAYLOAD_MAX: u64 = 1 << 40;

/// Version in each frame head.
pub const FRAME_VERSION: u8 = 1;

/// Bytes that the frames of a payload of this length take in the object.
pub fn frames_len(payload_len: u64) -> u64 {
    let payload_len = payload_len.min(PAYLOAD_MAX);
    payload_len + FRAME_HEAD * payload_len.div_ceil(FRAME_DATA)
}

/// Index of the frame that holds this byte of the payload.
pub fn frame_of(payload_offset: u64) -> u64 {
    payload_offset / FRAME_DATA
}

/// The bytes of the object to read for this range of the payload: whole frames, the first of them
/// [`frame_of`]`(payload.start)`.
///
/// With `payload_len` the range ends inside the object: read it as [`crate::ByteRange::Exact`]. Without, it may pass the
/// end of the last frame: read it as [`crate::ByteRange::UpTo`]; the decoder ignores what follows.
pub fn object_range_for(payload: Range<u64>, payload_len: Option<u64>) -> Range<u64> {
    let limit = payload_len.unwrap_or(PAYLOAD_MAX).min(PAYLOAD_MAX);
    let end = payload.end.min(limit);
    let start = frame_of(payload.start.min(end)) * FRAME_LEN;
    if payload.start >= end {
        return start..start;
    }
    let whole_frames = end.div_ceil(FRAME_DATA) * FRAME_LEN;
    start..whole_frames.min(payload_len.map_or(u64::MAX, frames_len))
}

#[cfg(test)]
mod tests;
