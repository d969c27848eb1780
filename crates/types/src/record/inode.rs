//! The record of a file, symlink or special file.
//!
//! Layout (version 1; varints unless said): version, flags, mode, uid, gid, [nlink], size, mtime 8 bytes LE, ctime and
//! atime as signed deltas to mtime, quota, [parent], dataver, [rdev], content. Flags say which optional fields are
//! there, so that the usual file costs about 40 bytes.

use super::{DecodeError, Extent};
use crate::attr::{Attr, FileKind, Timestamp};
use crate::id::{InodeNo, QuotaId};
use crate::varint::{Cursor, put_i64, put_u64};

const VERSION: u8 = 1;
const NLINK: u64 = 1 << 3;
const PARENT: u64 = 1 << 4;
const RDEV: u64 = 1 << 5;
const XATTR: u64 = 1 << 6;
const CONTENT: u32 = 7; // two bits

/// A file, symlink or special file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Never [`FileKind::Directory`]: those have a [`super::Guard`].
    pub kind: FileKind,
    /// `mode & 0o7777`.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names of this inode; 0 for one that is unlinked but open.
    pub nlink: u32,
    /// Bytes; of a symlink the length of the target.
    pub size: u64,
    /// Device number of a device file.
    pub rdev: u32,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of anything.
    pub ctime: Timestamp,
    /// Last access, as set by `utimensat`.
    pub atime: Timestamp,
    /// The quota that this file is charged to.
    pub quota: QuotaId,
    /// The directory of (one of) its names, a hint. `None`: the directory whose number begins the bucket.
    pub parent: Option<InodeNo>,
    /// Raised by every change of content.
    pub dataver: u64,
    /// There is an `a` record.
    pub has_xattr: bool,
    /// Where the bytes are.
    pub content: Content,
}

/// Where a file's bytes are. What no extent covers reads as zeroes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing but holes, or no regular file. A symlink's target is in the `b` record.
    Empty,
    /// All `size` bytes are in the `b` record; their crc32c.
    Inline(u32),
    /// One extent.
    One(Extent),
    /// Extents in `x<ino>.<g>` records, one for each 256 MiB that has any.
    Many {
        /// The generation of those records; cutting a file to 0 begins a new one.
        g: u32,
    },
}

impl Inode {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        let content = match self.content {
            Content::Empty => 0u64,
            Content::Inline(_) => 1,
            Content::One(_) => 2,
            Content::Many { .. } => 3,
        };
        let mut flags = self.kind as u64 | content << CONTENT;
        let mut flag = |on: bool, bit: u64| flags |= if on { bit } else { 0 };
        flag(self.nlink != 1, NLINK);
        flag(self.parent.is_some(), PARENT);
        flag(self.rdev != 0, RDEV);
        flag(self.has_xattr, XATTR);
        out.push(VERSION);
        put_u64(&mut out, flags);
        put_u64(&mut out, u64::from(self.mode));
        put_u64(&mut out, u64::from(self.uid));
        put_u64(&mut out, u64::from(self.gid));
        if self.nlink != 1 {
            put_u64(&mut out, u64::from(self.nlink));
        }
        put_u64(&mut out, self.size);
        out.extend_from_slice(&self.mtime.0.to_le_bytes());
        put_i64(&mut out, self.ctime.0.wrapping_sub(self.mtime.0));
        put_i64(&mut out, self.atime.0.wrapping_sub(self.mtime.0));
        put_u64(&mut out, u64::from(self.quota.0));
        if let Some(parent) = self.parent {
            put_u64(&mut out, parent.0);
        }
        put_u64(&mut out, self.dataver);
        if self.rdev != 0 {
            put_u64(&mut out, u64::from(self.rdev));
        }
        match &self.content {
            Content::Empty => {}
            Content::Inline(crc) => out.extend_from_slice(&crc.to_le_bytes()),
            Content::One(extent) => extent.put_after(&mut out, 0),
            Content::Many { g } => put_u64(&mut out, u64::from(*g)),
        }
        out
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`DecodeError`] for anything that [`Inode::encode`] of this version cannot have written.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut c = Cursor::new("inode", bytes);
        c.version(VERSION)?;
        let flags = c.u64()?;
        let kind = FileKind::from_u8((flags & 7) as u8).filter(|k| *k != FileKind::Directory);
        let kind = kind.ok_or_else(|| c.bad("kind"))?;
        if flags >> (CONTENT + 2) != 0 {
            return Err(c.bad("flags"));
        }
        let mode = u16::try_from(c.u64()?).ok().filter(|m| m & !0o7777 == 0).ok_or_else(|| c.bad("mode"))?;
        let uid = c.u32()?;
        let gid = c.u32()?;
        let nlink = if flags & NLINK != 0 { c.u32()? } else { 1 };
        let size = c.u64()?;
        let mtime = i64::from_le_bytes(c.array()?);
        let ctime = mtime.wrapping_add(c.i64()?);
        let atime = mtime.wrapping_add(c.i64()?);
        let quota = QuotaId(c.u32()?);
        let parent = if flags & PARENT != 0 { Some(InodeNo(c.u64()?)) } else { None };
        let dataver = c.u64()?;
        let rdev = if flags & RDEV != 0 { c.u32()? } else { 0 };
        let content = match flags >> CONTENT & 3 {
            0 => Content::Empty,
            1 => Content::Inline(u32::from_le_bytes(c.array()?)),
            2 => Content::One(Extent::take_after(&mut c, 0)?),
            _ => Content::Many { g: c.u32()? },
        };
        c.end()?;
        Ok(Inode {
            kind,
            mode,
            uid,
            gid,
            nlink,
            size,
            rdev,
            mtime: Timestamp(mtime),
            ctime: Timestamp(ctime),
            atime: Timestamp(atime),
            quota,
            parent,
            dataver,
            has_xattr: flags & XATTR != 0,
            content,
        })
    }

    /// What `stat` tells.
    pub fn attr(&self, ino: InodeNo) -> Attr {
        Attr {
            ino,
            kind: self.kind,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            nlink: self.nlink,
            size: self.size,
            rdev: self.rdev,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            quota: self.quota,
            dataver: self.dataver,
        }
    }

    /// The directory of one of its names.
    pub fn parent_of(&self, ino: InodeNo) -> InodeNo {
        self.parent.unwrap_or_else(|| ino.bucket().inode(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{SessionNo, SliceId};
    use crate::record::ExtentKind;

    fn file() -> Inode {
        Inode {
            kind: FileKind::Regular,
            mode: 0o644,
            uid: 101,
            gid: 101,
            nlink: 1,
            size: 70_000,
            rdev: 0,
            mtime: Timestamp(1_764_500_000_123_456_789),
            ctime: Timestamp(1_764_500_000_123_999_789),
            atime: Timestamp(1_764_499_999_000_000_000),
            quota: QuotaId(12),
            parent: None,
            dataver: 3,
            has_xattr: false,
            content: Content::One(Extent {
                offset: 0,
                len: 70_000,
                kind: ExtentKind::Pack,
                slice: SliceId { session: SessionNo(4_000), n: 2_000_000 },
                slice_off: 1_000_000,
                slice_len: 3_000_000,
            }),
        }
    }

    #[test]
    fn the_usual_file_stays_compact_in_a_redis_hash() {
        let bytes = file().encode();
        assert!(bytes.len() <= 64, "{} bytes", bytes.len());
        assert_eq!(Inode::decode(&bytes), Ok(file()));
    }

    #[test]
    fn every_field_survives() {
        let device = Inode {
            kind: FileKind::BlockDevice,
            nlink: 0,
            rdev: 0x801,
            parent: Some(InodeNo(1 << 40)),
            has_xattr: true,
            content: Content::Empty,
            ..file()
        };
        assert_eq!(Inode::decode(&device.encode()), Ok(device));
        for content in [Content::Inline(0xdead_beef), Content::Many { g: 7 }] {
            let f = Inode { content, mtime: Timestamp(i64::MIN), ctime: Timestamp(i64::MAX), ..file() };
            assert_eq!(Inode::decode(&f.encode()), Ok(f));
        }
    }

    #[test]
    fn a_record_from_the_future_is_refused_by_name() {
        let mut bytes = file().encode();
        bytes[0] = 9;
        let e = Inode::decode(&bytes).unwrap_err();
        assert_eq!(e.to_string(), "inode record has version 9, this program knows 1: use a newer carafe");
    }

    #[test]
    fn every_truncation_is_an_error() {
        let bytes = file().encode();
        (0..bytes.len()).for_each(|n| assert!(Inode::decode(&bytes[..n]).is_err()));
    }
}
