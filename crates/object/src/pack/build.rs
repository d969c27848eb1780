//! Writing a pack.

use super::{MEMBERS_MAX, MemberInfo, NAME_LEN_MAX, PackMember, PackTrailer};
use crate::frames::FrameWriter;
use crate::keys::ObjectId;
use bytes::Bytes;
use carafe_types::{Generation, SessionUuid};

/// Where a member lies: what its extent has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Offset in the pack's payload in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// crc32c of the member's payload.
    pub crc: u32,
}

/// Why a member was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// The pack has [`MEMBERS_MAX`] members: start another one.
    #[error("the pack is full with {MEMBERS_MAX} members")]
    Full,
    /// The name is longer than [`NAME_LEN_MAX`].
    #[error("a name of {0} bytes is longer than {NAME_LEN_MAX}")]
    NameTooLong(usize),
}

/// Collects members and makes the object.
#[derive(Debug)]
pub struct PackBuilder {
    id: ObjectId,
    generation: Generation,
    frames: FrameWriter,
    members: Vec<PackMember>,
}

impl PackBuilder {
    /// An empty pack, the `n`th slice of `session`.
    pub fn new(session: SessionUuid, n: u64, generation: Generation) -> Self {
        let id = ObjectId::pack(session, n);
        PackBuilder { id, generation, frames: FrameWriter::new(&id, 0), members: Vec::new() }
    }

    /// The identity of the object that this makes.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Number of members so far.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are no members yet.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Bytes of payload so far.
    pub fn payload_len(&self) -> u64 {
        self.frames.payload_len()
    }

    /// Adds a member and says where it lies.
    ///
    /// # Errors
    /// [`PackError`]; the pack is as before then.
    pub fn add(&mut self, info: MemberInfo, payload: &[u8]) -> Result<Placed, PackError> {
        if self.members.len() == MEMBERS_MAX {
            return Err(PackError::Full);
        }
        if info.name.len() > NAME_LEN_MAX {
            return Err(PackError::NameTooLong(info.name.len()));
        }
        let offset = self.frames.payload_len();
        let placed = Placed { offset, length: payload.len() as u64, crc: crc32c::crc32c(payload) };
        self.frames.write(payload);
        self.members.push(PackMember { info, placed });
        Ok(placed)
    }

    /// The object.
    pub fn finish(self) -> Bytes {
        let payload_len = self.frames.payload_len();
        let mut object = self.frames.finish();
        let footer_offset = object.len();
        for member in &self.members {
            member.encode(&mut object);
        }
        let trailer = PackTrailer {
            session: self.id.session,
            n: self.id.n,
            generation: self.generation,
            payload_len,
            footer_offset: footer_offset as u64,
            footer_len: (object.len() - footer_offset) as u64,
            footer_crc: crc32c::crc32c(&object[footer_offset..]),
            members: self.members.len() as u32,
        };
        object.extend_from_slice(&trailer.encode());
        Bytes::from(object)
    }
}
