//! Gates: while one stands in the store, nothing that is charged to its quota changes.
//!
//! Who copies a volume needs that it stands still. Every commit that changes an inode of a volume compares that the gate of
//! its quota is absent ([`crate::tx::Tx::finish`]), so closing a gate is one commit, and from that commit on no other one
//! lands inside: writers see a lost race and wait here. A gate has an end, renewed by whoever holds it; one that was left
//! standing by a process that died is taken away by the first writer that finds it expired. The holder compares its gate in
//! each of its own commits, so what it copied under a gate that was taken away is never used.

use super::Client;
use crate::store::{Check, Commit, Key, Write};
use bytes::Bytes;
use carafe_types::{QuotaId, SessionNo, Timestamp};
use std::time::Duration;

/// How long a gate stands without being renewed.
const LEASE: Duration = Duration::from_secs(15);
/// Clocks are estimates: a gate is taken away this long after its end.
const GRACE: Duration = Duration::from_secs(2);
/// The pause of a writer before it tries again.
const PAUSE: Duration = Duration::from_millis(10);

/// Who closed a gate, and until when by the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    session: SessionNo,
    until: Timestamp,
}

impl Gate {
    /// A gate that `session` closes now.
    pub(crate) fn new(session: SessionNo, now: Timestamp) -> Self {
        Gate { session, until: later(now, LEASE) }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        format!("{} {}", self.session.0, self.until.0).into_bytes()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (session, until) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
        Some(Gate { session: SessionNo(session.parse().ok()?), until: Timestamp(until.parse().ok()?) })
    }

    /// Whether nobody holds the gate any more; nonsense is a gate that nobody holds.
    pub(crate) fn is_over(bytes: &[u8], now: Timestamp) -> bool {
        Self::decode(bytes).is_none_or(|gate| later(gate.until, GRACE) < now)
    }
}

/// A moment of the store's clock after another one.
pub(crate) fn later(at: Timestamp, by: Duration) -> Timestamp {
    Timestamp(at.0.saturating_add(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX)))
}

impl Client {
    /// A commit found this gate closed: waits a little, or takes it away if it was left standing.
    pub(crate) async fn wait_at_gate(&self, quota: QuotaId, gate: &Bytes) {
        if Gate::is_over(gate, self.now()) {
            tracing::warn!(
                quota = quota.0,
                "a gate was left standing by a copy that ended; it is taken away"
            );
            self.take_gate_away(quota, gate).await;
        }
        self.sleep(PAUSE).await;
    }

    /// Takes a gate away if it is still this one. When the store cannot be asked it is left to its end.
    pub(crate) async fn take_gate_away(&self, quota: QuotaId, gate: &Bytes) {
        let key = Key::Gate(quota);
        let commit = Commit {
            checks: vec![Check::Same(key.clone(), Some(gate.clone()))],
            writes: vec![Write::Delete(key)],
            frees: true,
            ..Commit::default()
        };
        if let Err(error) = self.store.commit(&self.session(), &commit).await {
            tracing::debug!(%error, quota = quota.0, "a gate stands until its end");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_over_some_seconds_after_its_end_and_nonsense_is_over() {
        let now = Timestamp(1_764_500_000_000_000_000);
        let gate = Gate::new(SessionNo(4), now);
        assert_eq!(Gate::decode(&gate.encode()), Some(gate));
        assert!(!Gate::is_over(&gate.encode(), later(now, LEASE)));
        assert!(Gate::is_over(&gate.encode(), later(now, LEASE + GRACE + GRACE)));
        assert!(Gate::is_over(b"?", now) && Gate::is_over(b"1 x", now));
    }
}
