//! Reading frames: nothing is given to the caller before the checksum of its frame matched.

use super::{
    BLOCK_TRAILER_LEN, BlockTrailer, FRAME_DATA, FRAME_HEAD, FRAME_LEN, FRAME_VERSION, decode_trailer,
    frame_of, frames_len,
};
use crate::error::{ObjectError, Result};
use crate::keys::ObjectId;
use crate::wire::Reader;
use bytes::{Bytes, BytesMut};
use std::ops::Range;

/// The bytes `payload` of the payload of `id`, verified, as one piece.
///
/// `bytes` are bytes of the object from the start of frame `first_frame` on, as [`super::object_range_for`] says; what
/// lies behind the last frame that is needed is ignored. Copies only if the range spans frames.
///
/// # Errors
/// [`ObjectError::Corrupt`] if a frame that the range touches does not verify or is not there.
pub fn decode_range(id: &ObjectId, bytes: &Bytes, first_frame: u64, payload: Range<u64>) -> Result<Bytes> {
    let mut chunks = decode_chunks(id, bytes, first_frame, payload)?;
    if chunks.len() <= 1 {
        return Ok(chunks.pop().unwrap_or_default());
    }
    let mut joined = BytesMut::with_capacity(chunks.iter().map(Bytes::len).sum());
    chunks.iter().for_each(|chunk| joined.extend_from_slice(chunk));
    Ok(joined.freeze())
}

/// As [`decode_range`], but the pieces as they lie in `bytes`, one for each frame, not copied.
///
/// # Errors
/// As [`decode_range`].
pub fn decode_chunks(
    id: &ObjectId,
    bytes: &Bytes,
    first_frame: u64,
    payload: Range<u64>,
) -> Result<Vec<Bytes>> {
    let mut chunks = Vec::new();
    let seed = id.seed();
    let mut at = payload.start;
    while at < payload.end {
        let index = frame_of(at);
        let frame = index
            .checked_sub(first_frame)
            .and_then(|frames| frames.checked_mul(FRAME_LEN))
            .and_then(|start| usize::try_from(start).ok())
            .filter(|start| *start < bytes.len())
            .ok_or_else(|| corrupt(id, index, "is not among the bytes read"))?;
        let data = verify(&bytes[frame..], index, seed).map_err(|detail| corrupt(id, index, detail))?;
        // The frame's place in the payload and in `bytes`.
        let base = index * FRAME_DATA;
        let data_end = base.saturating_add(data as u64);
        if data_end < payload.end && (data as u64) < FRAME_DATA {
            return Err(corrupt(
                id,
                index,
                format!("is the last and ends at {data_end}, bytes up to {} wanted", payload.end),
            ));
        }
        let data_start = frame + FRAME_HEAD as usize;
        let end = data_end.min(payload.end);
        chunks.push(bytes.slice(data_start + (at - base) as usize..data_start + (end - base) as usize));
        at = end;
    }
    Ok(chunks)
}

/// A whole block object, verified to the last bit: its trailer and its payload in pieces. For `fsck`.
///
/// # Errors
/// [`ObjectError::Corrupt`] if anything does not verify, if it is another object than `id`, or if bytes are left over;
/// [`ObjectError::FutureVersion`] if it was written by a newer Carafe.
pub fn decode_block(id: &ObjectId, object: &Bytes) -> Result<(BlockTrailer, Vec<Bytes>)> {
    let (trailer, payload_len) = decode_trailer(object, &id.key())?;
    if trailer.id() != *id {
        return Err(ObjectError::corrupt(id.key(), format!("holds {}", trailer.id())));
    }
    if frames_len(payload_len) + BLOCK_TRAILER_LEN as u64 != object.len() as u64 {
        let detail = format!("{} bytes do not fit a payload of {payload_len}", object.len());
        return Err(ObjectError::corrupt(id.key(), detail));
    }
    Ok((trailer, decode_chunks(id, object, 0, 0..payload_len)?))
}

/// Length of the data of the frame at the start of `bytes`, if it is frame `index` of the object behind `seed`.
fn verify(bytes: &[u8], index: u64, seed: u32) -> Result<usize, String> {
    let mut head = Reader::new(bytes);
    let (Some(crc), Some(data_len), Some(found), Some(version)) =
        (head.u32(), head.u32(), head.u32(), head.u8())
    else {
        return Err("is cut off in its head".into());
    };
    if data_len == 0 || u64::from(data_len) > FRAME_DATA {
        return Err(format!("states a length of {data_len}"));
    }
    let end = (FRAME_HEAD as usize) + data_len as usize;
    let Some(covered) = bytes.get(4..end) else {
        return Err(format!("is cut off: {} of {end} bytes", bytes.len()));
    };
    if crc32c::crc32c_append(seed, covered) != crc {
        return Err(format!("does not match its checksum (head says frame {found}, version {version})"));
    }
    if version != FRAME_VERSION || u64::from(found) != index {
        return Err(format!("is frame {found} of version {version}"));
    }
    Ok(data_len as usize)
}

fn corrupt(id: &ObjectId, frame: u64, detail: impl AsRef<str>) -> ObjectError {
    ObjectError::corrupt(id.key(), format!("frame {frame} {}", detail.as_ref()))
}
