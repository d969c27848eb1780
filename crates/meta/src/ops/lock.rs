//! flock and POSIX record locks: one record an inode, changed as a whole.

use crate::store::{Key, Message};
use crate::tx::{Op, Stop, Tx};
use carafe_types::record::{Held, LockKind, LockOwner, LockRecord, LockType};
use carafe_types::{FsError, InodeNo, SessionNo};

/// Locks of one inode; more is a program gone wrong (ENOLCK).
const MAX_LOCKS: usize = 4096;

/// A change that is asked for; `typ: None` unlocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) kind: LockKind,
    pub(crate) by: LockOwner,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) typ: Option<LockType>,
    pub(crate) pid: u32,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locked {
    Done,
    /// Another owner's lock is in the way.
    Blocked(Held),
}

/// The record as stored.
pub(crate) fn read(tx: &mut Tx<'_>, ino: InodeNo) -> Op<LockRecord> {
    match tx.record(&Key::Locks(ino))? {
        None => Ok(LockRecord::default()),
        Some(bytes) => LockRecord::decode(&bytes).map_err(|e| {
            Stop::Fail(FsError::Io(format!("the locks of inode {ino} are damaged ({e}); run `carafe fsck`")))
        }),
    }
}

/// The lock of another owner that conflicts, if any.
pub(crate) fn conflict(record: &LockRecord, change: &Change, typ: LockType) -> Option<Held> {
    let crosses = |h: &Held| h.start <= change.end && change.start <= h.end;
    let excludes = |h: &Held| typ == LockType::Exclusive || h.typ == LockType::Exclusive;
    let mut others = record.held.iter().filter(|h| h.kind == change.kind && h.by != change.by);
    others.find(|h| crosses(h) && excludes(h)).copied()
}

/// Takes, converts or drops a lock. `dead` sessions hold nothing, nor does who is `left_over` of a daemon that died. `wait`: who is
/// blocked is woken when something is released.
pub(crate) fn set(
    tx: &mut Tx<'_>,
    ino: InodeNo,
    change: &Change,
    dead: &dyn Fn(SessionNo) -> bool,
    left_over: &dyn Fn(&Held) -> bool,
    wait: bool,
) -> Op<Locked> {
    let mut record = read(tx, ino)?;
    record.held.retain(|h| !dead(h.by.session) && !left_over(h));
    record.waiters.retain(|s| !dead(*s));
    if let Some(other) = change.typ.and_then(|typ| conflict(&record, change, typ)) {
        if wait && !record.waiters.contains(&change.by.session) {
            record.waiters.push(change.by.session);
            put(tx, ino, &record)?;
        }
        return Ok(Locked::Blocked(other));
    }
    let before = record.held.clone();
    apply(&mut record.held, change);
    if record.held.len() > MAX_LOCKS {
        return Err(FsError::NoLocks.into());
    }
    if record.held == before {
        return Ok(Locked::Done);
    }
    if weaker(&before, &record.held, change.by) {
        wake(tx, ino, &mut record);
    }
    put(tx, ino, &record)?;
    Ok(Locked::Done)
}

/// Drops everything of an owner, or of all owners of a session.
pub(crate) fn release(tx: &mut Tx<'_>, ino: InodeNo, mine: &dyn Fn(&Held) -> bool) -> Op<bool> {
    let mut record = read(tx, ino)?;
    let before = record.held.len();
    record.held.retain(|h| !mine(h));
    if record.held.len() == before {
        return Ok(false);
    }
    wake(tx, ino, &mut record);
    put(tx, ino, &record)?;
    Ok(true)
}

/// Whether an owner has given anything up: then somebody who waits may go on.
fn weaker(before: &[Held], after: &[Held], by: LockOwner) -> bool {
    before.iter().filter(|h| h.by == by).any(|h| !after.contains(h))
}

fn wake(tx: &mut Tx<'_>, ino: InodeNo, record: &mut LockRecord) {
    for waiter in std::mem::take(&mut record.waiters) {
        tx.notify(waiter, Message::Unlocked(ino));
    }
}

fn put(tx: &mut Tx<'_>, ino: InodeNo, record: &LockRecord) -> Op<()> {
    tx.same(&Key::Locks(ino))?;
    if record.held.is_empty() && record.waiters.is_empty() {
        tx.delete(Key::Locks(ino));
    } else {
        tx.put(Key::Locks(ino), record.encode());
    }
    Ok(())
}

/// POSIX: the new range replaces what the owner had there, splits what reaches over, and joins what touches.
fn apply(held: &mut Vec<Held>, change: &Change) {
    let mut mine: Vec<Held> = Vec::new();
    held.retain(|h| {
        let own = h.kind == change.kind && h.by == change.by;
        if own {
            mine.push(*h);
        }
        !own
    });
    let mut rest: Vec<Held> = Vec::new();
    for h in mine {
        if h.end < change.start || h.start > change.end {
            rest.push(h);
            continue;
        }
        if h.start < change.start {
            rest.push(Held { end: change.start - 1, ..h });
        }
        if h.end > change.end {
            rest.push(Held { start: change.end + 1, ..h });
        }
    }
    if let Some(typ) = change.typ {
        let Change { kind, by, start, end, pid, .. } = *change;
        rest.push(Held { kind, typ, start, end, by, pid });
    }
    rest.sort_by_key(|h| h.start);
    for h in rest {
        match held.last_mut() {
            Some(last)
                if last.by == h.by
                    && last.kind == h.kind
                    && last.typ == h.typ
                    && last.end.checked_add(1) == Some(h.start) =>
            {
                last.end = h.end;
            }
            _ => held.push(h),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn owner(n: u64) -> LockOwner {
        LockOwner { session: SessionNo(1), owner: n }
    }

    fn change(by: u64, start: u64, end: u64, typ: Option<LockType>) -> Change {
        Change { kind: LockKind::Posix, by: owner(by), start, end, typ, pid: 1 }
    }

    #[test]
    fn an_unlock_in_the_middle_splits_and_a_lock_in_the_gap_joins() {
        let mut held = Vec::new();
        apply(&mut held, &change(1, 0, 99, Some(LockType::Exclusive)));
        apply(&mut held, &change(1, 40, 59, None));
        assert_eq!(held.iter().map(|h| (h.start, h.end)).collect::<Vec<_>>(), [(0, 39), (60, 99)]);
        apply(&mut held, &change(1, 40, 59, Some(LockType::Exclusive)));
        assert_eq!(held.iter().map(|h| (h.start, h.end)).collect::<Vec<_>>(), [(0, 99)]);
    }

    proptest! {
        /// Against one cell a byte.
        #[test]
        fn locks_are_what_a_table_of_bytes_says(
            steps in prop::collection::vec((0u64..3, 0u64..24, 0u64..24, 0u8..3), 0..60),
        ) {
            let mut record = LockRecord::default();
            let mut table = [[None::<LockType>; 24]; 3];
            for (by, a, b, what) in steps {
                let typ = [None, Some(LockType::Shared), Some(LockType::Exclusive)][usize::from(what)];
                let c = change(by, a.min(b), a.max(b), typ);
                let blocked = typ.is_some_and(|typ| (0..3).filter(|o| *o != by as usize).any(|o| {
                    (c.start..=c.end).any(|i| match table[o][i as usize] {
                        None => false,
                        Some(t) => t == LockType::Exclusive || typ == LockType::Exclusive,
                    })
                }));
                prop_assert_eq!(typ.and_then(|t| conflict(&record, &c, t)).is_some(), blocked);
                if !blocked {
                    apply(&mut record.held, &c);
                    (c.start..=c.end).for_each(|i| table[by as usize][i as usize] = typ);
                }
            }
            for (o, row) in table.iter().enumerate() {
                for (i, cell) in row.iter().enumerate() {
                    let at = |h: &&Held| h.by == owner(o as u64) && h.start <= i as u64 && i as u64 <= h.end;
                    prop_assert_eq!(record.held.iter().find(at).map(|h| h.typ), *cell);
                    prop_assert!(record.held.iter().filter(at).count() <= 1);
                }
            }
        }
    }
}
