//! Reading the end of a pack: the trailer, then the footer that lists the members.
//!
//! Both are untrusted. Memory is bounded by the bytes given: the number of members is compared with the length of the
//! footer before anything is allocated for it.

use super::{
    MAGIC, MEMBER_FIXED, MEMBERS_MAX, MemberInfo, NAME_LEN_MAX, PACK_TRAILER_LEN, PackMember, Placed, VERSION,
};
use crate::error::{ObjectError, Result};
use crate::frames::{PAYLOAD_MAX, frames_len, refused};
use crate::keys::ObjectId;
use crate::wire::{Reader, open_trailer, seal_trailer};
use carafe_types::{Generation, SessionUuid};

/// The last [`PACK_TRAILER_LEN`] bytes of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackTrailer {
    /// The session that wrote it.
    pub session: SessionUuid,
    /// The pack, counted by that session together with its slices.
    pub n: u64,
    /// The generation of the metadata store that it was written under.
    pub generation: Generation,
    /// Bytes of payload in all members.
    pub payload_len: u64,
    /// Where the footer starts in the object.
    pub footer_offset: u64,
    /// Length of the footer in bytes.
    pub footer_len: u64,
    /// crc32c of the footer.
    pub footer_crc: u32,
    /// Number of members.
    pub members: u32,
}

/// A pack without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackFooter {
    /// Its trailer.
    pub trailer: PackTrailer,
    /// Its members, in the order of their payloads.
    pub members: Vec<PackMember>,
}

/// What [`read_footer`] made of a tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FooterRead {
    /// The footer.
    Footer(PackFooter),
    /// The footer is longer than the tail: call again with this many bytes from the end of the object.
    NeedTail(u64),
}

/// The footer of a pack from the last bytes of the object. `object` is its key, for messages.
///
/// # Errors
/// [`ObjectError::Corrupt`] if it does not verify, [`ObjectError::FutureVersion`] if a newer Carafe wrote it.
pub fn read_footer(tail: &[u8], object: &str) -> Result<FooterRead> {
    let body =
        open_trailer(tail, PACK_TRAILER_LEN, VERSION, MAGIC).map_err(|bad| refused(bad, object, VERSION))?;
    let trailer = PackTrailer::decode(body)
        .filter(PackTrailer::is_plausible)
        .ok_or_else(|| ObjectError::corrupt(object, "the trailer has impossible values"))?;
    let need = trailer.footer_len + PACK_TRAILER_LEN as u64;
    let Some(start) = (tail.len() as u64).checked_sub(need) else { return Ok(FooterRead::NeedTail(need)) };
    let footer = &tail[start as usize..tail.len() - PACK_TRAILER_LEN];
    if crc32c::crc32c(footer) != trailer.footer_crc {
        return Err(ObjectError::corrupt(object, "the checksum of the footer does not match"));
    }
    let members = trailer
        .decode_members(footer)
        .ok_or_else(|| ObjectError::corrupt(object, "the footer is malformed"))?;
    Ok(FooterRead::Footer(PackFooter { trailer, members }))
}

impl PackTrailer {
    /// The identity of the object.
    pub fn id(&self) -> ObjectId {
        ObjectId::pack(self.session, self.n)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(PACK_TRAILER_LEN);
        body.extend_from_slice(&self.session.0);
        for field in [self.n, self.generation.0, self.payload_len, self.footer_offset, self.footer_len] {
            body.extend_from_slice(&field.to_le_bytes());
        }
        body.extend_from_slice(&self.footer_crc.to_le_bytes());
        body.extend_from_slice(&self.members.to_le_bytes());
        seal_trailer(body, VERSION, MAGIC)
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let mut fields = Reader::new(body);
        Some(PackTrailer {
            session: SessionUuid(fields.array()?),
            n: fields.u64()?,
            generation: Generation(fields.u64()?),
            payload_len: fields.u64()?,
            footer_offset: fields.u64()?,
            footer_len: fields.u64()?,
            footer_crc: fields.u32()?,
            members: fields.u32()?,
        })
    }

    /// Whether the lengths fit each other; bounds all that is read or allocated because of them.
    fn is_plausible(&self) -> bool {
        let members = self.members as usize;
        members <= MEMBERS_MAX
            && self.payload_len <= PAYLOAD_MAX
            && self.footer_offset == frames_len(self.payload_len)
            && self.footer_len >= (members * MEMBER_FIXED) as u64
            && self.footer_len <= (members * (MEMBER_FIXED + NAME_LEN_MAX)) as u64
    }

    fn decode_members(&self, footer: &[u8]) -> Option<Vec<PackMember>> {
        let mut fields = Reader::new(footer);
        let mut members = Vec::with_capacity(self.members as usize);
        for _ in 0..self.members {
            let member = PackMember::decode(&mut fields)?;
            if member.placed.offset.checked_add(member.placed.length)? > self.payload_len {
                return None;
            }
            members.push(member);
        }
        fields.is_empty().then_some(members)
    }
}

impl PackMember {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (info, placed) = (&self.info, &self.placed);
        for field in [placed.offset, placed.length, info.inode, info.parent, info.file_offset] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&info.mtime_ns.to_le_bytes());
        for field in [info.mode, info.uid, info.gid] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&placed.crc.to_le_bytes());
        out.extend_from_slice(&(info.name.len() as u16).to_le_bytes());
        out.extend_from_slice(&info.name);
    }

    fn decode(fields: &mut Reader<'_>) -> Option<Self> {
        let (offset, length) = (fields.u64()?, fields.u64()?);
        let (inode, parent, file_offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let mtime_ns = fields.i64()?;
        let (mode, uid, gid, crc) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
        let name_len = usize::from(fields.u16()?);
        let name = fields.bytes(name_len).filter(|name| name.len() <= NAME_LEN_MAX)?.to_vec();
        let info = MemberInfo { inode, parent, name, mode, uid, gid, mtime_ns, file_offset };
        Some(PackMember { info, placed: Placed { offset, length, crc } })
    }
}
