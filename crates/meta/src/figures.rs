//! What a client can tell about itself: its session, its keys, its quotas.

use crate::client::Client;
use crate::store::LEASE;
use carafe_types::{InodeNo, QuotaId};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Counted since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Calls to the store that are made again after a failure that passes.
    pub(crate) retries: AtomicU64,
    /// Messages of other sessions, or of the store, in the order of [`MESSAGES`].
    pub(crate) messages: [AtomicU64; MESSAGES.len()],
    /// Callers that wait for a lock now, and for how long all of them have waited (nanoseconds).
    pub(crate) lock_waiting: AtomicU64,
    pub(crate) lock_nanos: AtomicU64,
}

/// The kinds of messages, in the order of [`ClientStats::messages`].
pub const MESSAGES: [&str; 8] =
    ["share", "flush", "flushed", "unlocked", "yield", "return_reserve", "changed", "gap"];

/// A look at a client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientStats {
    /// The session's number in the store.
    pub session: u32,
    /// Keys that this session holds alone: memory answers for them.
    pub keys_alone: u64,
    /// Keys that it shares with others: the store is asked.
    pub keys_shared: u64,
    /// Values kept in memory.
    pub values: u64,
    /// How long ago the last good renewal of the lease was sent; not more than the lease.
    pub lease_age: Duration,
    /// Calls to the store that were made again.
    pub retries: u64,
    /// Messages heard, in the order of [`MESSAGES`].
    pub messages: [u64; MESSAGES.len()],
    /// Callers that wait for a lock now.
    pub lock_waiting: u64,
    /// How long callers have waited for locks altogether, ended waits only.
    pub lock_wait_time: Duration,
    /// Quotas as of the last renewal and with own changes.
    pub quotas: Vec<QuotaStats>,
}

/// A volume's quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaStats {
    /// Its number.
    pub id: QuotaId,
    /// The directory that it is about.
    pub root: InodeNo,
    /// Bytes used.
    pub used_bytes: u64,
    /// Bytes allowed.
    pub limit_bytes: Option<u64>,
    /// Inodes used.
    pub used_inodes: u64,
    /// Inodes allowed.
    pub limit_inodes: Option<u64>,
}

/// A wait for a lock, counted when it ends, also if the caller goes away.
pub(crate) struct LockWait<'a>(&'a Counters, Instant);

impl Counters {
    pub(crate) fn wait_for_lock(&self) -> LockWait<'_> {
        self.lock_waiting.fetch_add(1, Relaxed);
        LockWait(self, Instant::now())
    }
}

impl Drop for LockWait<'_> {
    fn drop(&mut self) {
        self.0.lock_waiting.fetch_sub(1, Relaxed);
        self.0.lock_nanos.fetch_add(self.1.elapsed().as_nanos() as u64, Relaxed);
    }
}

impl Client {
    /// A look at the session, for metrics.
    pub fn stats(&self) -> ClientStats {
        let (keys_alone, keys_shared, values) = self.cache.lock().figures();
        let c = &self.counters;
        ClientStats {
            session: self.session().no.0,
            keys_alone,
            keys_shared,
            values,
            lease_age: LEASE.saturating_sub(self.lease_left()),
            retries: c.retries.load(Relaxed),
            messages: c.messages.each_ref().map(|n| n.load(Relaxed)),
            lock_waiting: c.lock_waiting.load(Relaxed),
            lock_wait_time: Duration::from_nanos(c.lock_nanos.load(Relaxed)),
            quotas: self.quotas.read().figures(),
        }
    }
}
