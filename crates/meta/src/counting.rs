//! Counts calls: "this operation is one round trip" becomes an assertion.

use crate::decorate::{Call, Layer, Layered};
use crate::store::{MetaStore, StoreError};
use async_trait::async_trait;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// How often each call was made.
#[derive(Debug, Default)]
pub struct Counts(Mutex<HashMap<Call, u64>>);

impl Counts {
    /// How often since the last [`Counts::reset`].
    pub fn of(&self, call: Call) -> u64 {
        self.0.lock().get(&call).copied().unwrap_or(0)
    }

    /// Loads, scans, commits and changes of marks: what an operation waits for.
    pub fn round_trips(&self) -> u64 {
        [Call::Load, Call::Scan, Call::Commit, Call::Watch].into_iter().map(|c| self.of(c)).sum()
    }

    /// Counts from zero again.
    pub fn reset(&self) {
        self.0.lock().clear();
    }
}

#[async_trait]
impl Layer for Counts {
    async fn before(&self, call: Call) -> Result<(), StoreError> {
        *self.0.lock().entry(call).or_default() += 1;
        Ok(())
    }
}

/// A store that counts its calls.
pub type Counting = Layered<Counts>;

impl Counting {
    /// Counts the calls of `inner`.
    pub fn new(inner: Arc<dyn MetaStore>) -> Self {
        Layered::over(inner, Counts::default())
    }

    /// The counts.
    pub fn counts(&self) -> &Counts {
        self.layer()
    }
}
