//! A store that fails on demand: before a call, after it was executed, or by being slow.

use crate::decorate::{Call, Layer, Layered};
use crate::store::{MetaStore, StoreError};
use async_trait::async_trait;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// What is to go wrong.
#[derive(Debug, Default)]
pub struct Faults(Mutex<HashMap<Call, Plan>>);

#[derive(Debug, Default)]
struct Plan {
    refuse: VecDeque<StoreError>,
    lose: VecDeque<StoreError>,
    delay: Duration,
    end: Option<End>,
}

/// How a caller's world ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// After so many calls; the last one happens without an answer if `true`.
    After(usize, bool),
    /// The call under way is the last one.
    Unanswered,
    Ended,
}

impl End {
    fn error() -> StoreError {
        StoreError::Engine("failing twin: the end of this caller".to_owned())
    }
}

impl Faults {
    /// The next `times` calls fail with `error` and do nothing.
    pub fn fail_next(&self, call: Call, times: usize, error: StoreError) {
        self.0.lock().entry(call).or_default().refuse.extend(std::iter::repeat_n(error, times));
    }

    /// The next `times` calls happen, and their callers hear that the store cannot be reached.
    pub fn lose_answers(&self, call: Call, times: usize) {
        let error = StoreError::Unreachable { address: "failing twin".into(), reason: "answer lost".into() };
        self.0.lock().entry(call).or_default().lose.extend(std::iter::repeat_n(error, times));
    }

    /// Every such call waits this long before it is made.
    pub fn delay(&self, call: Call, by: Duration) {
        self.0.lock().entry(call).or_default().delay = by;
    }

    /// As if the caller died: `calls` more happen, and no later one. With `unanswered` the one after these happens, too,
    /// and its caller does not hear of it.
    pub fn end_after(&self, call: Call, calls: usize, unanswered: bool) {
        self.0.lock().entry(call).or_default().end = Some(End::After(calls, unanswered));
    }

    /// No more faults.
    pub fn heal(&self) {
        self.0.lock().clear();
    }
}

#[async_trait]
impl Layer for Faults {
    async fn before(&self, call: Call) -> Result<(), StoreError> {
        let delay = self.0.lock().get(&call).map_or(Duration::ZERO, |plan| plan.delay);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let mut plans = self.0.lock();
        let Some(plan) = plans.get_mut(&call) else { return Ok(()) };
        plan.end = match plan.end {
            Some(End::After(0, false) | End::Unanswered | End::Ended) => Some(End::Ended),
            Some(End::After(0, true)) => Some(End::Unanswered),
            Some(End::After(more, unanswered)) => Some(End::After(more - 1, unanswered)),
            None => None,
        };
        if plan.end == Some(End::Ended) {
            return Err(End::error());
        }
        plan.refuse.pop_front().map_or(Ok(()), Err)
    }

    async fn after(&self, call: Call) -> Result<(), StoreError> {
        let mut plans = self.0.lock();
        let Some(plan) = plans.get_mut(&call) else { return Ok(()) };
        if plan.end == Some(End::Unanswered) {
            return Err(End::error());
        }
        plan.lose.pop_front().map_or(Ok(()), Err)
    }
}

/// A store that fails on demand.
pub type Failing = Layered<Faults>;

impl Failing {
    /// Works like `inner` until told otherwise.
    pub fn new(inner: Arc<dyn MetaStore>) -> Self {
        Layered::over(inner, Faults::default())
    }

    /// What is to go wrong.
    pub fn faults(&self) -> &Faults {
        self.layer()
    }
}
