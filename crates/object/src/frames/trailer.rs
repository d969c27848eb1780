//! The end of a block object: whose bytes these are, so that `fsck --salvage` can rebuild files from the bucket alone.

use super::PAYLOAD_MAX;
use crate::error::{ObjectError, Result};
use crate::keys::ObjectId;
use crate::wire::{BadTrailer, Reader, open_trailer, seal_trailer};
use carafe_types::{Generation, InodeNo, SessionUuid};

/// Length of the trailer of a block object.
pub const BLOCK_TRAILER_LEN: usize = 80;

const MAGIC: [u8; 8] = *b"carafe-b";
const VERSION: u16 = 1;

/// What a block object says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockTrailer {
    /// The session that wrote it.
    pub session: SessionUuid,
    /// The slice, counted by that session.
    pub n: u64,
    /// Which block of the slice, counted from 0.
    pub block: u32,
    /// The generation of the metadata store that it was written under.
    pub generation: Generation,
    /// The file that it was written for. Later it may belong to others (clones), or to none.
    pub inode: InodeNo,
    /// Where in that file its payload starts, in bytes.
    pub file_offset: u64,
}

impl BlockTrailer {
    /// The identity of the object.
    pub fn id(&self) -> ObjectId {
        ObjectId::block(self.session, self.n, self.block)
    }

    pub(super) fn encode(&self, payload_len: u64) -> Vec<u8> {
        let mut body = Vec::with_capacity(BLOCK_TRAILER_LEN);
        body.extend_from_slice(&self.session.0);
        for field in [self.n, self.generation.0, self.inode.0, self.file_offset, payload_len] {
            body.extend_from_slice(&field.to_le_bytes());
        }
        body.extend_from_slice(&self.block.to_le_bytes());
        body.extend_from_slice(&[0; 4]);
        seal_trailer(body, VERSION, MAGIC)
    }

    fn decode(body: &[u8]) -> Option<(Self, u64)> {
        let mut fields = Reader::new(body);
        let session = SessionUuid(fields.array()?);
        let (n, generation, inode) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (file_offset, payload_len, block) = (fields.u64()?, fields.u64()?, fields.u32()?);
        let (generation, inode) = (Generation(generation), InodeNo(inode));
        Some((BlockTrailer { session, n, block, generation, inode, file_offset }, payload_len))
    }
}

/// The trailer at the end of `tail` (the last [`BLOCK_TRAILER_LEN`] bytes of an object, or more), and the length of the
/// payload. `object` is its key, for messages.
///
/// # Errors
/// [`ObjectError::Corrupt`] if it does not verify, [`ObjectError::FutureVersion`] if a newer Carafe wrote it.
pub fn decode_trailer(tail: &[u8], object: &str) -> Result<(BlockTrailer, u64)> {
    let body =
        open_trailer(tail, BLOCK_TRAILER_LEN, VERSION, MAGIC).map_err(|bad| refused(bad, object, VERSION))?;
    BlockTrailer::decode(body)
        .filter(|(_, payload_len)| *payload_len <= PAYLOAD_MAX)
        .ok_or_else(|| ObjectError::corrupt(object, "the trailer has impossible values"))
}

/// The error for a trailer that was not accepted.
pub(crate) fn refused(bad: BadTrailer, object: &str, known: u16) -> ObjectError {
    match bad {
        BadTrailer::Corrupt(detail) => ObjectError::corrupt(object, detail),
        BadTrailer::Future(found) => ObjectError::FutureVersion {
            what: format!("object {object}"),
            found: found.into(),
            known: known.into(),
        },
    }
}
