//! Decorators over [`crate::ObjectClient`], one concern each.
//!
//! [`crate::Bucket`] puts them together as `Retry(Limited(Counting(store)))`. The order matters:
//!
//! - retry is outermost, so that a request that waits for its next attempt holds no place among the running ones;
//! - counting is innermost, so that every attempt is counted as the request to the service that it is.

pub mod counting;
pub mod failing;
pub mod limited;
pub mod retry;

pub use counting::{Counting, Counts, Snapshot, VerbCounts};
pub use failing::{Failing, Faults};
pub use limited::{LimitOptions, Limited};
pub use retry::{Retry, RetryPolicy};
