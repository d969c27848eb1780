//! The locks of one inode: `flock` and POSIX record locks of every session.

use super::DecodeError;
use crate::id::SessionNo;
use crate::varint::{Cursor, put_u64};

const VERSION: u8 = 1;

/// Which family of locks; the two do not see each other, as on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockKind {
    /// `flock(2)`
    Flock,
    /// `fcntl(2)`: F_SETLK and open file description locks
    Posix,
}

/// Shared or exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockType {
    /// F_RDLCK, LOCK_SH
    Shared,
    /// F_WRLCK, LOCK_EX
    Exclusive,
}

/// Who holds a lock: the kernel's owner value is unique only inside one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockOwner {
    /// The session. Locks of a dead session do not count.
    pub session: SessionNo,
    /// The kernel's lock owner.
    pub owner: u64,
}

/// One lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Family.
    pub kind: LockKind,
    /// Shared or exclusive.
    pub typ: LockType,
    /// First byte; 0 for flock.
    pub start: u64,
    /// Last byte, inclusive; `u64::MAX` for flock and "to the end".
    pub end: u64,
    /// Holder.
    pub by: LockOwner,
    /// Its process id as seen by its mount, for F_GETLK.
    pub pid: u32,
}

/// All locks of an inode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockRecord {
    /// In no particular order.
    pub held: Vec<Held>,
    /// Sessions to wake when a lock goes, each once.
    pub waiters: Vec<SessionNo>,
}

impl LockRecord {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_u64(&mut out, self.held.len() as u64);
        for l in &self.held {
            let posix = u64::from(l.kind == LockKind::Posix);
            let exclusive = u64::from(l.typ == LockType::Exclusive);
            put_u64(&mut out, posix | exclusive << 1);
            put_u64(&mut out, l.start);
            put_u64(&mut out, l.end);
            put_u64(&mut out, u64::from(l.by.session.0));
            put_u64(&mut out, l.by.owner);
            put_u64(&mut out, u64::from(l.pid));
        }
        put_u64(&mut out, self.waiters.len() as u64);
        self.waiters.iter().for_each(|s| put_u64(&mut out, u64::from(s.0)));
        out
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`DecodeError`] for anything that [`LockRecord::encode`] cannot have written.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut c = Cursor::new("lock", bytes);
        c.version(VERSION)?;
        let mut record = LockRecord::default();
        for _ in 0..c.u64()? {
            let flags = c.u64()?;
            let (start, end) = (c.u64()?, c.u64()?);
            if flags > 3 || start > end {
                return Err(c.bad("lock"));
            }
            record.held.push(Held {
                kind: if flags & 1 == 1 { LockKind::Posix } else { LockKind::Flock },
                typ: if flags & 2 == 2 { LockType::Exclusive } else { LockType::Shared },
                start,
                end,
                by: LockOwner { session: SessionNo(c.u32()?), owner: c.u64()? },
                pid: c.u32()?,
            });
        }
        for _ in 0..c.u64()? {
            record.waiters.push(SessionNo(c.u32()?));
        }
        c.end()?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_read_back_and_a_huge_count_is_no_allocation() {
        let by = LockOwner { session: SessionNo(3), owner: u64::MAX };
        let held =
            Held { kind: LockKind::Posix, typ: LockType::Exclusive, start: 5, end: u64::MAX, by, pid: 42 };
        let record = LockRecord { held: vec![held; 3], waiters: vec![SessionNo(1), SessionNo(2)] };
        assert_eq!(LockRecord::decode(&record.encode()), Ok(record));
        assert!(LockRecord::decode(&[1, 0xff, 0xff, 0xff, 0xff, 0x7f]).is_err());
    }
}
