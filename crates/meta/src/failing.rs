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
        let error = self.0.lock().get_mut(&call).and_then(|plan| plan.refuse.pop_front());
        error.map_or(Ok(()), Err)
    }

    async fn after(&self, call: Call) -> Result<(), StoreError> {
        let error = self.0.lock().get_mut(&call).and_then(|plan| plan.lose.pop_front());
        error.map_or(Ok(()), Err)
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
