//! Measures the calls of a store for metrics: how many, how long, how they ended. Atomics only, a round trip costs two looks
//! at the clock more.
//!
//! A refusal is an answer (wrong rights, no memory, a replica); a conflict is a commit that lost a race and is tried again
//! with fresh values. Neither is an outage: [`StoreStats::since_answer`] grows only while the store does not answer.

use crate::decorate::{Call, Layer, Layered};
use crate::store::{MetaStore, Outcome, StoreError};
use async_trait::async_trait;
use carafe_types::{Latencies, Latency};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Why calls failed as a whole, in the order of [`CallStats::errors`].
pub const FAILURES: [&str; 5] = ["unreachable", "refused", "fenced", "damaged", "failed"];
/// How commits ended, in the order of [`StoreSnapshot::commits`].
pub const OUTCOMES: [&str; 5] = ["done", "conflict", "held", "no_space", "no_inline_space"];

/// The figures of one store.
#[derive(Debug)]
pub struct StoreStats {
    born: Instant,
    calls: [Cells; Call::ALL.len()],
    commits: [AtomicU64; OUTCOMES.len()],
    /// Nanoseconds from `born` to the last answer.
    answered: AtomicU64,
}

#[derive(Debug, Default)]
struct Cells {
    latency: Latency,
    errors: [AtomicU64; FAILURES.len()],
}

/// Calls of one kind at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallStats {
    /// The kind.
    pub call: Call,
    /// How long they took; its count is that of all calls, failed ones included.
    pub latency: Latencies,
    /// Failed calls in the order of [`FAILURES`].
    pub errors: [u64; FAILURES.len()],
}

/// All figures at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSnapshot {
    /// In the order of [`Call::ALL`].
    pub calls: Vec<CallStats>,
    /// Commits that the store decided, in the order of [`OUTCOMES`].
    pub commits: [u64; OUTCOMES.len()],
}

impl Default for StoreStats {
    fn default() -> Self {
        StoreStats {
            born: Instant::now(),
            calls: Default::default(),
            commits: Default::default(),
            answered: AtomicU64::new(0),
        }
    }
}

impl StoreStats {
    /// The figures now.
    pub fn snapshot(&self) -> StoreSnapshot {
        let of = |call: Call| {
            let cells = &self.calls[call as usize];
            let errors = cells.errors.each_ref().map(|n| n.load(Relaxed));
            CallStats { call, latency: cells.latency.snapshot(), errors }
        };
        let commits = self.commits.each_ref().map(|n| n.load(Relaxed));
        StoreSnapshot { calls: Call::ALL.map(of).into(), commits }
    }

    /// How long ago the store answered last, with a refusal or otherwise; before its first answer, since the start.
    pub fn since_answer(&self) -> Duration {
        self.born.elapsed().saturating_sub(Duration::from_nanos(self.answered.load(Relaxed)))
    }
}

fn failure(error: &StoreError) -> usize {
    match error {
        StoreError::Unreachable { .. } => 0,
        StoreError::Denied { .. } | StoreError::Full(_) | StoreError::Refusing(_) => 1,
        StoreError::Fenced | StoreError::Generation | StoreError::Lost(_) => 2,
        StoreError::Damaged { .. } => 3,
        StoreError::BadUrl { .. }
        | StoreError::AlreadyFormatted { .. }
        | StoreError::NotFormatted
        | StoreError::Engine(_) => 4,
    }
}

#[async_trait]
impl Layer for Arc<StoreStats> {
    async fn before(&self, _: Call) -> Result<(), StoreError> {
        Ok(())
    }

    fn ended(&self, call: Call, took: Duration, error: Option<&StoreError>) {
        let cells = &self.calls[call as usize];
        cells.latency.record(took);
        if let Some(error) = error {
            cells.errors[failure(error)].fetch_add(1, Relaxed);
        }
        if !matches!(error, Some(StoreError::Unreachable { .. })) {
            self.answered.fetch_max(self.born.elapsed().as_nanos() as u64, Relaxed);
        }
    }

    fn decided(&self, outcome: &Outcome) {
        let place = match outcome {
            Outcome::Done(_) => 0,
            Outcome::Conflict(_) => 1,
            Outcome::Held(_) => 2,
            Outcome::NoSpace(_) => 3,
            Outcome::NoInlineSpace => 4,
        };
        self.commits[place].fetch_add(1, Relaxed);
    }
}

/// Measures the calls of `inner` into `stats`.
pub fn measured(inner: Arc<dyn MetaStore>, stats: Arc<StoreStats>) -> Arc<dyn MetaStore> {
    Arc::new(Layered::over(inner, stats))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failing::Failing;
    use crate::memory::MemoryStore;

    #[tokio::test]
    async fn calls_are_measured_and_an_outage_is_told_from_a_refusal() {
        let failing = Arc::new(Failing::new(Arc::new(MemoryStore::new())));
        let stats = Arc::new(StoreStats::default());
        let store = measured(failing, stats.clone());
        store.info().await.unwrap();
        let info = stats.snapshot().calls[Call::Info as usize];
        assert_eq!((info.call, info.latency.count(), info.errors), (Call::Info, 1, [0; 5]));
        assert!(stats.answered.load(Relaxed) > 0, "it answered");
        let layer: &dyn Layer = &stats;
        let before = stats.answered.load(Relaxed);
        let gone = StoreError::Unreachable { address: String::new(), reason: String::new() };
        layer.ended(Call::Load, Duration::ZERO, Some(&gone));
        assert_eq!(stats.answered.load(Relaxed), before, "no answer came");
        layer.ended(Call::Load, Duration::ZERO, Some(&StoreError::Full(String::new())));
        assert!(stats.answered.load(Relaxed) > before, "a refusal is an answer");
        assert_eq!(stats.snapshot().calls[Call::Load as usize].errors, [1, 1, 0, 0, 0]);
    }
}
