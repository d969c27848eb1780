//! Writing frames: one pass, one copy, checksums computed while the data is still in the CPU's cache.

use super::{BlockTrailer, FRAME_DATA, FRAME_HEAD, FRAME_VERSION, frames_len};
use crate::keys::ObjectId;
use bytes::Bytes;

/// The object for one block: the frames of the payload, then the trailer.
///
/// The payload may come in pieces of any size (as a writer's dirty ranges do); they are joined in order.
pub fn encode_block<'a>(
    payload: impl IntoIterator<Item = &'a [u8], IntoIter: Clone>,
    trailer: &BlockTrailer,
) -> Bytes {
    let pieces = payload.into_iter();
    let payload_len = pieces.clone().map(|piece| piece.len() as u64).sum();
    let mut frames =
        FrameWriter::new(&trailer.id(), frames_len(payload_len) as usize + super::BLOCK_TRAILER_LEN);
    pieces.for_each(|piece| frames.write(piece));
    let mut object = frames.finish();
    object.extend_from_slice(&trailer.encode(payload_len));
    Bytes::from(object)
}

/// As [`encode_block`], for a payload of `len` bytes that still lies elsewhere: `fill` gets a place in the payload and the room of one
/// frame, and puts the bytes there. So they are moved once, and the checksum finds them in the processor's cache.
///
/// `room` is used for the object if it is large enough; whatever is in it is lost.
///
/// # Errors
/// The first one of `fill`.
pub fn encode_block_with<E>(
    len: u64,
    trailer: &BlockTrailer,
    mut room: Vec<u8>,
    mut fill: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let id = trailer.id();
    let frames = frames_len(len) as usize;
    // Not cleared before: every byte below is written, and clearing 4 MiB takes as long as checking them.
    room.resize(frames + super::BLOCK_TRAILER_LEN, 0);
    let mut at = 0;
    for (index, frame) in room[..frames].chunks_mut((FRAME_HEAD + FRAME_DATA) as usize).enumerate() {
        let data = &mut frame[FRAME_HEAD as usize..];
        fill(at, data)?;
        at += data.len() as u64;
        seal_frame(frame, id.seed(), index as u32);
    }
    room[frames..].copy_from_slice(&trailer.encode(len));
    Ok(room)
}

/// Fills in the head of a frame. The checksum goes over everything behind it.
fn seal_frame(frame: &mut [u8], seed: u32, index: u32) {
    let data_len = (frame.len() - FRAME_HEAD as usize) as u32;
    frame[4..8].copy_from_slice(&data_len.to_le_bytes());
    frame[8..12].copy_from_slice(&index.to_le_bytes());
    frame[12..16].copy_from_slice(&[FRAME_VERSION, 0, 0, 0]);
    let crc = crc32c::crc32c_append(seed, &frame[4..]);
    frame[..4].copy_from_slice(&crc.to_le_bytes());
}

/// Cuts what is written to it into frames.
#[derive(Debug)]
pub(crate) struct FrameWriter {
    out: Vec<u8>,
    /// Where the open frame's head stands in `out`; none while no frame is open.
    open: Option<usize>,
    index: u32,
    seed: u32,
    payload_len: u64,
}

impl FrameWriter {
    /// A writer of the frames of `id`, with room for `capacity` bytes of object.
    pub(crate) fn new(id: &ObjectId, capacity: usize) -> Self {
        FrameWriter {
            out: Vec::with_capacity(capacity),
            open: None,
            index: 0,
            seed: id.seed(),
            payload_len: 0,
        }
    }

    /// Bytes of payload written so far.
    pub(crate) fn payload_len(&self) -> u64 {
        self.payload_len
    }

    pub(crate) fn write(&mut self, mut data: &[u8]) {
        self.payload_len += data.len() as u64;
        while !data.is_empty() {
            let head = *self.open.get_or_insert_with(|| {
                let at = self.out.len();
                self.out.extend_from_slice(&[0; FRAME_HEAD as usize]);
                at
            });
            let room = head + (FRAME_HEAD + FRAME_DATA) as usize - self.out.len();
            let (now, later) = data.split_at(room.min(data.len()));
            self.out.extend_from_slice(now);
            data = later;
            if now.len() == room {
                self.seal();
            }
        }
    }

    /// Seals the open frame and gives all frames.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.seal();
        self.out
    }

    /// Fills in the head of the open frame.
    fn seal(&mut self) {
        let Some(head) = self.open.take() else { return };
        seal_frame(&mut self.out[head..], self.seed, self.index);
        self.index += 1;
    }
}
