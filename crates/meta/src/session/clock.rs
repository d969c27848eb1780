//! The lease by this session's own clock, and the store's clock as estimated here.

use crate::store::LEASE;
use carafe_types::Timestamp;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The longest time for which the kernel may keep anything.
const TTL_MAX: Duration = Duration::from_secs(8);
/// What is kept back of the lease: a reply that is stuck for longer than this is not covered (`metadata.md`, 5).
const TTL_MARGIN: Duration = Duration::from_secs(2);

/// See the module. All in nanoseconds since `born`.
#[derive(Debug)]
pub(crate) struct Clocks {
    born: Instant,
    lease_end: AtomicU64,
    offset: AtomicI64,
    last: AtomicI64,
}

impl Clocks {
    pub(crate) fn new(store_now: Timestamp) -> Self {
        Clocks {
            born: Instant::now(),
            lease_end: AtomicU64::new(0),
            offset: AtomicI64::new(store_now.0),
            last: AtomicI64::new(0),
        }
    }

    fn since(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.born).as_nanos() as u64
    }

    /// A renewal that was *sent* at `sent` was answered.
    pub(crate) fn renewed(&self, sent: Instant, store_now: Timestamp) {
        self.lease_end.store(self.since(sent + LEASE), Ordering::Release);
        let offset = store_now.0 - self.since(Instant::now()) as i64;
        self.offset.store(offset, Ordering::Release);
    }

    /// A reply carried the store's clock. The quickest reply since the last renewal is nearest to the truth.
    pub(crate) fn heard(&self, store_now: Timestamp) {
        let offset = store_now.0 - self.since(Instant::now()) as i64;
        self.offset.fetch_max(offset, Ordering::AcqRel);
    }

    /// The lease is over until the next good renewal.
    pub(crate) fn end_lease(&self) {
        self.lease_end.store(0, Ordering::Release);
    }

    pub(crate) fn lease_left(&self) -> Duration {
        let end = self.lease_end.load(Ordering::Acquire);
        Duration::from_nanos(end.saturating_sub(self.since(Instant::now())))
    }

    /// How long the kernel may keep what is held alone.
    pub(crate) fn ttl(&self) -> Duration {
        self.lease_left().saturating_sub(TTL_MARGIN).min(TTL_MAX)
    }

    /// The store's clock, never going back.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.since(Instant::now()) as i64 + self.offset.load(Ordering::Acquire);
        Timestamp(now.max(self.last.fetch_max(now, Ordering::AcqRel)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_keeps_nothing_longer_than_the_lease_less_two_seconds() {
        let c = Clocks::new(Timestamp(0));
        assert_eq!(c.ttl(), Duration::ZERO);
        c.renewed(Instant::now(), Timestamp(5));
        assert!(c.ttl() <= TTL_MAX && c.ttl() > Duration::from_secs(7));
        c.renewed(Instant::now() - Duration::from_secs(5), Timestamp(5));
        assert!(c.ttl() <= Duration::from_secs(3), "counted from the send");
    }

    #[test]
    fn time_never_goes_back() {
        let c = Clocks::new(Timestamp(1_000_000_000_000));
        let a = c.now();
        c.renewed(Instant::now(), Timestamp(1));
        assert!(c.now() >= a);
    }
}
