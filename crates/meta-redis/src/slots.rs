//! Slots: how a commit whose answer was lost is asked for again, and carried out once.
//!
//! As in NFS 4.1. A session has 256 slots; each commit takes a free one and a new operation number in it, and the server
//! keeps the reply of a slot's last operation beside the data, in the same step. Sent again, the commit finds its own
//! number and gets the reply that was kept. A late copy of an older commit finds a number that it does not expect and is
//! refused.
//!
//! What makes this exact:
//! 1. A commit that left nothing behind (a conflict) is not kept, since nothing is lost by asking anew. But if it was sent
//!    more than once, the slot is closed under its number, so that a copy still under way cannot land afterwards.
//! 2. A commit that was given up leaves its slot *doubtful*: the slot is closed by a script of its own before it serves
//!    again.

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many commits of a session may be under way.
pub(crate) const SLOTS: usize = 256;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) no: usize,
    /// The operation that the server keeps, if it has one.
    pub(crate) last: Option<u64>,
    /// The highest number that was used.
    used: u64,
    /// It is not known what the server keeps.
    pub(crate) doubtful: bool,
}

impl Slot {
    /// A number that was never used in this slot.
    pub(crate) fn next_op(&mut self) -> u64 {
        self.used += 1;
        self.used
    }
}

/// The slots of a session.
pub(crate) struct Slots {
    permits: Semaphore,
    free: Mutex<Vec<Slot>>,
}

impl Slots {
    /// `kept` are the operations that the server keeps, for a resumed session.
    pub(crate) fn new(kept: &[(usize, u64)]) -> Self {
        let slot = |no| {
            let last = kept.iter().find(|k| k.0 == no).map(|k| k.1);
            Slot { no, last, used: last.unwrap_or(0), doubtful: false }
        };
        // The lowest numbers serve most of the time, so a quiet session keeps few replies.
        let free = (0..SLOTS).rev().map(slot).collect();
        Slots { permits: Semaphore::new(SLOTS), free: Mutex::new(free) }
    }

    /// Waits for a free slot.
    pub(crate) async fn take(&self) -> Taken<'_> {
        let permit = self.permits.acquire().await.expect("the semaphore is never closed");
        let slot = self.free.lock().pop().expect("there is a free slot for each permit");
        Taken { slots: self, slot, _permit: permit }
    }
}

/// A slot in use; it is free again when this is dropped.
pub(crate) struct Taken<'a> {
    slots: &'a Slots,
    pub(crate) slot: Slot,
    _permit: SemaphorePermit<'a>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // Before the permit, which is dropped after this.
        self.slots.free.lock().push(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slot_serves_one_commit_at_a_time_and_numbers_are_not_used_twice() {
        let slots = Slots::new(&[(0, 7), (255, 9)]);
        let mut first = slots.take().await;
        assert_eq!((first.slot.no, first.slot.last, first.slot.next_op()), (0, Some(7), 8));
        assert_eq!(slots.take().await.slot.no, 1);
        drop(first);
        let mut again = slots.take().await;
        assert_eq!((again.slot.no, again.slot.next_op()), (0, 9), "an unanswered number stays used");
        let mut all = Vec::new();
        for _ in 1..SLOTS {
            all.push(slots.take().await);
        }
        assert!(tokio::time::timeout(std::time::Duration::from_millis(20), slots.take()).await.is_err());
    }
}
