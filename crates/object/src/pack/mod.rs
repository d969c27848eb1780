//! Packs: many small slices in one object, one PUT for all of them.
//!
//! In a typical wide part of a column store 79 % of the files have at most 4 KiB; an object for each would cost a request
//! for each. A pack is
//!
//! 1. the frames of the members' payloads, one after the other, so that a member is read by
//!    [`crate::object_range_for`] and [`crate::decode_range`] like any range of any block;
//! 2. a footer that says of each member which file it is: a bucket without its metadata store can still be salvaged
//!    ([`read_footer`]);
//! 3. a trailer of fixed length with place, length and checksum of the footer, found from the end of the object.

mod build;
mod footer;

pub use build::{PackBuilder, PackError, Placed};
pub use footer::{FooterRead, PackFooter, PackTrailer, read_footer};

use crate::error::{ObjectError, Result};

/// Length of the trailer of a pack.
pub const PACK_TRAILER_LEN: usize = 80;

/// Most members of a pack.
pub const MEMBERS_MAX: usize = 65_536;

/// Longest name of a member in bytes (NAME_MAX of Linux).
pub const NAME_LEN_MAX: usize = 255;

const MAGIC: [u8; 8] = *b"carafe-p";
const VERSION: u16 = 1;

/// Bytes of a member in the footer, without its name.
const MEMBER_FIXED: usize = 66;

/// Which file a member is, as the metadata store knew it when the pack was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberInfo {
    /// Inode of the file.
    pub inode: u64,
    /// Inode of a directory that holds it.
    pub parent: u64,
    /// Its name in there; empty if it has none left.
    pub name: Vec<u8>,
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Modification time in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Where in the file this payload starts, in bytes.
    pub file_offset: u64,
}

/// A member as the footer lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackMember {
    /// Which file it is.
    pub info: MemberInfo,
    /// Where it lies in the pack's payload, and its checksum.
    pub placed: Placed,
}

/// Checks a member's payload against the checksum in its extent or footer entry. `object` is the key, for the message.
///
/// # Errors
/// [`ObjectError::Corrupt`] if it does not match.
pub fn verify_member(payload: &[u8], placed: &Placed, object: &str) -> Result<()> {
    if payload.len() as u64 == placed.length && crc32c::crc32c(payload) == placed.crc {
        return Ok(());
    }
    let detail = format!("the member at {} does not match its checksum", placed.offset);
    Err(ObjectError::corrupt(object, detail))
}

#[cfg(test)]
mod tests;
