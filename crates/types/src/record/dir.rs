//! The two halves of a directory's record.
//!
//! The *guard* is compared by every change inside the directory, so a directory that is removed or changes hands stops
//! them. The *tally* (times and number of subdirectories) is changed by all of them and compared by none, so that two
//! clients that create different names do not disturb each other.

use super::DecodeError;
use crate::attr::Timestamp;
use crate::id::{InodeNo, QuotaId};
use crate::varint::{Cursor, put_u64};

const VERSION: u8 = 1;
const DIRECTORY: u64 = 1; // FileKind::Directory in the kind bits, so that a guard never decodes as an inode
const XATTR: u64 = 1 << 3;
const QUOTA_ROOT: u64 = 1 << 4;

/// What every change inside a directory compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// `mode & 0o7777`.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The quota that new children are charged to.
    pub quota: QuotaId,
    /// The directory above; the root is its own parent.
    pub parent: InodeNo,
    /// When it was made; also its access time until one is set.
    pub btime: Timestamp,
    /// Last change of owner, mode or attributes, which the tally's times do not know.
    pub ctime: Timestamp,
    /// There is an `a` record.
    pub has_xattr: bool,
    /// `quota` begins here: the directory may be moved only with its whole usage.
    pub quota_root: bool,
}

impl Guard {
    /// The stored form: version, flags, mode, uid, gid, quota, parent, btime 8 bytes LE, ctime 8 bytes LE.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(40);
        let flags =
            DIRECTORY | if self.has_xattr { XATTR } else { 0 } | if self.quota_root { QUOTA_ROOT } else { 0 };
        out.push(VERSION);
        put_u64(&mut out, flags);
        put_u64(&mut out, u64::from(self.mode));
        put_u64(&mut out, u64::from(self.uid));
        put_u64(&mut out, u64::from(self.gid));
        put_u64(&mut out, u64::from(self.quota.0));
        put_u64(&mut out, self.parent.0);
        out.extend_from_slice(&self.btime.0.to_le_bytes());
        out.extend_from_slice(&self.ctime.0.to_le_bytes());
        out
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`DecodeError`] for anything that [`Guard::encode`] of this version cannot have written.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut c = Cursor::new("directory", bytes);
        c.version(VERSION)?;
        let flags = c.u64()?;
        if flags & !(XATTR | QUOTA_ROOT) != DIRECTORY {
            return Err(c.bad("flags"));
        }
        let mode = u16::try_from(c.u64()?).ok().filter(|m| m & !0o7777 == 0).ok_or_else(|| c.bad("mode"))?;
        let guard = Guard {
            mode,
            uid: c.u32()?,
            gid: c.u32()?,
            quota: QuotaId(c.u32()?),
            parent: InodeNo(c.u64()?),
            btime: Timestamp(i64::from_le_bytes(c.array()?)),
            ctime: Timestamp(i64::from_le_bytes(c.array()?)),
            has_xattr: flags & XATTR != 0,
            quota_root: flags & QUOTA_ROOT != 0,
        };
        c.end()?;
        Ok(guard)
    }
}

/// The times of a directory as the store keeps them, in decimal text since a store script writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirTimes {
    /// The last change inside, by the store's clock: `<seconds> <microseconds>`. Both mtime and ctime.
    Touched(Timestamp),
    /// Set by `utimensat`: `=<mtime ns> <ctime ns>`.
    Set {
        /// Last change of content.
        mtime: Timestamp,
        /// Last change of anything.
        ctime: Timestamp,
    },
}

impl DirTimes {
    /// The stored form of [`DirTimes::Set`]; of [`DirTimes::Touched`] the text that the store itself writes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            DirTimes::Touched(t) => {
                let (secs, nanos) = t.parts();
                format!("{secs} {}", nanos / 1000).into_bytes()
            }
            DirTimes::Set { mtime, ctime } => format!("={} {}", mtime.0, ctime.0).into_bytes(),
        }
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] when it is neither.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bad = || DecodeError::Invalid { what: "directory times", field: "text" };
        let text = std::str::from_utf8(bytes).map_err(|_| bad())?;
        let (set, text) = text.strip_prefix('=').map_or((false, text), |rest| (true, rest));
        let (a, b) = text.split_once(' ').ok_or_else(bad)?;
        let a: i64 = a.parse().map_err(|_| bad())?;
        let b: i64 = b.parse().map_err(|_| bad())?;
        if set {
            return Ok(DirTimes::Set { mtime: Timestamp(a), ctime: Timestamp(b) });
        }
        let micros = u32::try_from(b).ok().filter(|us| *us < 1_000_000).ok_or_else(bad)?;
        Ok(DirTimes::Touched(Timestamp::from_parts(a, micros * 1000)))
    }

    /// Last change of content.
    pub fn mtime(&self) -> Timestamp {
        match self {
            DirTimes::Touched(t) | DirTimes::Set { mtime: t, .. } => *t,
        }
    }

    /// Last change of anything.
    pub fn ctime(&self) -> Timestamp {
        match self {
            DirTimes::Touched(t) | DirTimes::Set { ctime: t, .. } => *t,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_reads_back_within_a_listpack_value() {
        let guard = Guard {
            mode: 0o1777,
            uid: u32::MAX,
            gid: 101,
            quota: QuotaId(9),
            parent: InodeNo(1 << 44),
            btime: Timestamp(1),
            ctime: Timestamp(-1),
            has_xattr: true,
            quota_root: true,
        };
        let bytes = guard.encode();
        assert!(bytes.len() <= 64);
        assert_eq!(Guard::decode(&bytes), Ok(guard));
        assert!(super::super::Inode::decode(&bytes).is_err(), "a guard is no inode");
    }

    #[test]
    fn times_read_back_and_nonsense_is_refused() {
        for t in [
            DirTimes::Touched(Timestamp(1_764_500_000_123_456_000)),
            DirTimes::Set { mtime: Timestamp(-5), ctime: Timestamp(7) },
        ] {
            assert_eq!(DirTimes::decode(&t.encode()), Ok(t));
        }
        for bad in [&b""[..], b"1", b"1 x", b"1 1000000", b"\xff 1", b"=1"] {
            assert!(DirTimes::decode(bad).is_err());
        }
    }
}
