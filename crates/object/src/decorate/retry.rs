//! Trying again: transient failures are hidden, for a bounded time.
//!
//! **Why not the retry of the `object_store` library.** It was looked at and is switched off (one layer that retries is
//! predictable, two multiply their attempts):
//!
//! 1. It bounds the number of attempts and the time at which the last one starts, not when it ends.
//! 2. It repeats the signed request. When the credentials expire during an outage, all attempts after that fail for
//!    another reason than the outage. Here each attempt signs anew.
//! 3. It sees HTTP only: no directory, no fault injection, and nobody can count its attempts.
//! 4. It resumes a broken body, but not a broken listing. Here both.
//!
//! All requests are idempotent (objects are immutable and named by their writer), so each may be sent again although the
//! first one arrived and only its answer was lost. What is not transient is returned at once.

use crate::client::{ByteRange, ListStream, Listed, ObjectClient};
use crate::error::{ObjectError, Result};
use async_trait::async_trait;
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use bytes::Bytes;
use futures::{StreamExt, stream};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// How long and how often to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Wait before the second attempt. Doubles with each attempt, and gets up to as much again at random.
    pub first_delay: Duration,
    /// Longest wait between two attempts, without the random part.
    pub max_delay: Duration,
    /// When to give up, counted from the first attempt. An attempt under way then is abandoned.
    pub total: Duration,
}

impl Default for RetryPolicy {
    /// 50 ms, doubling to 5 s, for 2 minutes.
    fn default() -> Self {
        RetryPolicy::within(Duration::from_secs(120))
    }
}

impl RetryPolicy {
    /// The default delays, and `total` as given.
    pub fn within(total: Duration) -> Self {
        RetryPolicy { first_delay: Duration::from_millis(50), max_delay: Duration::from_secs(5), total }
    }

    fn delays(&self) -> ExponentialBackoff {
        ExponentialBuilder::new()
            .with_min_delay(self.first_delay)
            .with_max_delay(self.max_delay)
            .with_jitter()
            .without_max_times()
            .build()
    }
}

/// Tries again over `C`.
#[derive(Debug)]
pub struct Retry<C> {
    inner: Arc<C>,
    bucket: Arc<str>,
    policy: RetryPolicy,
    retries: Arc<AtomicU64>,
}

/// Shares the inner client and the counter.
impl<C> Clone for Retry<C> {
    fn clone(&self) -> Self {
        let (inner, bucket, retries) = (self.inner.clone(), self.bucket.clone(), self.retries.clone());
        Retry { inner, bucket, policy: self.policy, retries }
    }
}

impl<C: ObjectClient> Retry<C> {
    /// `bucket` is what errors call it.
    pub fn new(inner: C, bucket: &str, policy: RetryPolicy) -> Self {
        Retry { inner: Arc::new(inner), bucket: bucket.into(), policy, retries: Arc::default() }
    }

    /// Attempts so far that were not the first of their request.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    async fn persist<T, F>(&self, mut attempt: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut patience = Patience::new(self.policy);
        loop {
            let error = match timeout_at(patience.deadline, attempt()).await {
                Ok(Err(e)) if e.is_transient() => e,
                Ok(reply) => return reply,
                Err(_) => return Err(patience.out(&self.bucket)),
            };
            self.pause(&mut patience, error).await?;
        }
    }

    /// Waits before the next attempt, or gives the error back if there is no time for one.
    async fn pause(&self, patience: &mut Patience, error: ObjectError) -> Result<()> {
        let Some(delay) = patience.delays.next().filter(|d| Instant::now() + *d < patience.deadline) else {
            return Err(error);
        };
        tracing::warn!(bucket = %self.bucket, %error, ?delay, "request failed, trying again");
        patience.last = Some(error);
        self.retries.fetch_add(1, Ordering::Relaxed);
        sleep(delay).await;
        Ok(())
    }
}

/// The time that one request has left.
struct Patience {
    delays: ExponentialBackoff,
    total: Duration,
    deadline: Instant,
    last: Option<ObjectError>,
}

impl Patience {
    fn new(policy: RetryPolicy) -> Self {
        Patience {
            delays: policy.delays(),
            total: policy.total,
            deadline: Instant::now() + policy.total,
            last: None,
        }
    }

    /// The error when time is up during an attempt: the last one seen tells more than that.
    fn out(self, bucket: &str) -> ObjectError {
        self.last.unwrap_or_else(|| ObjectError::Unreachable {
            bucket: bucket.to_owned(),
            detail: format!("no answer within {:?}", self.total),
        })
    }
}

#[async_trait]
impl<C: ObjectClient> ObjectClient for Retry<C> {
    async fn put(&self, key: &str, body: Bytes) -> Result<()> {
        self.persist(|| self.inner.put(key, body.clone())).await
    }

    async fn get(&self, key: &str, range: ByteRange) -> Result<Bytes> {
        self.persist(|| self.inner.get(key, range.clone())).await
    }

    async fn head(&self, key: &str) -> Result<u64> {
        self.persist(|| self.inner.head(key)).await
    }

    async fn delete(&self, keys: &[String]) -> Result<u64> {
        self.persist(|| self.inner.delete(keys)).await
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> ListStream {
        let listing = Listing {
            retry: self.clone(),
            prefix: prefix.to_owned(),
            after: after.map(str::to_owned),
            current: None,
            patience: None,
        };
        stream::try_unfold(listing, |mut listing| async move {
            Ok(listing.next().await?.map(|item| (item, listing)))
        })
        .boxed()
    }
}

/// A listing that goes on behind the last key it gave. Needs a store that lists in order, as all cloud services do.
struct Listing<C> {
    retry: Retry<C>,
    prefix: String,
    after: Option<String>,
    current: Option<ListStream>,
    /// Of the outage under way; a key that arrives ends it.
    patience: Option<Patience>,
}

impl<C: ObjectClient> Listing<C> {
    async fn next(&mut self) -> Result<Option<Listed>> {
        loop {
            let deadline = self.patience.get_or_insert_with(|| Patience::new(self.retry.policy)).deadline;
            let current = self
                .current
                .get_or_insert_with(|| self.retry.inner.list(&self.prefix, self.after.as_deref()));
            let reply = timeout_at(deadline, current.next()).await;
            let mut patience = self.patience.take().expect("set above");
            match reply {
                Ok(Some(Err(e))) if e.is_transient() => {
                    self.retry.pause(&mut patience, e).await?;
                    self.current = None;
                    self.patience = Some(patience);
                }
                Ok(Some(Ok(item))) => {
                    self.after = Some(item.key.clone());
                    return Ok(Some(item));
                }
                Ok(end) => return end.transpose(),
                Err(_) => return Err(patience.out(&self.retry.bucket)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Verb;
    use crate::decorate::{Failing, Faults};
    use crate::store::StoreClient;
    use futures::TryStreamExt;

    fn client(total_s: u64) -> (Retry<Failing<StoreClient>>, Faults) {
        let (failing, faults) = Failing::new(StoreClient::memory());
        (Retry::new(failing, "memory:", RetryPolicy::within(Duration::from_secs(total_s))), faults)
    }

    fn lost() -> ObjectError {
        ObjectError::Unreachable { bucket: "memory:".into(), detail: "injected".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn transient_failures_are_hidden() {
        let (client, faults) = client(60);
        for verb in Verb::ALL {
            faults.fail_next(verb, 3, lost());
        }
        client.put("k", Bytes::from_static(b"v")).await.unwrap();
        assert_eq!(client.get("k", ByteRange::Whole).await.unwrap(), "v");
        assert_eq!(client.head("k").await.unwrap(), 1);
        assert_eq!(client.list("", None).try_collect::<Vec<_>>().await.unwrap().len(), 1);
        assert_eq!(client.delete(&["k".into()]).await.unwrap(), 1);
        assert_eq!(client.retries(), 15);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_is_asked_for_again() {
        let (client, faults) = client(60);
        faults.drop_replies(Verb::Put, 1);
        faults.drop_replies(Verb::Delete, 1);
        client.put("k", Bytes::from_static(b"v")).await.unwrap();
        assert_eq!(client.delete(&["k".into()]).await.unwrap(), 1);
        assert_eq!(client.retries(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_time_does_not_heal_is_returned_at_once() {
        let (client, faults) = client(60);
        let denied = ObjectError::Denied {
            bucket: "b".into(),
            verb: Verb::Put,
            target: "k".into(),
            detail: String::new(),
        };
        faults.fail_next(Verb::Put, 1, denied.clone());
        assert_eq!(client.put("k", Bytes::new()).await, Err(denied));
        assert_eq!(client.head("k").await, Err(ObjectError::NotFound { object: "k".into() }));
        assert_eq!(client.retries(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_ends_in_the_last_error_after_the_time_given() {
        let (client, faults) = client(10);
        faults.fail_next(Verb::Put, 1_000, lost());
        let start = Instant::now();
        assert_eq!(client.put("k", Bytes::new()).await, Err(lost()));
        assert!(start.elapsed() <= Duration::from_secs(10));
        // 50 ms doubling, with the random part: a handful, not a flood.
        assert!((4..=12).contains(&client.retries()), "{}", client.retries());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_hangs_is_abandoned_at_the_deadline() {
        let (client, faults) = client(10);
        faults.delay(Duration::from_secs(3600));
        let start = Instant::now();
        let e = client.get("k", ByteRange::Whole).await.unwrap_err();
        assert!(e.is_transient() && e.to_string().contains("no answer within 10s"), "{e}");
        let e = client.list("", None).try_collect::<Vec<_>>().await.unwrap_err();
        assert!(e.is_transient(), "{e}");
        assert_eq!(start.elapsed(), Duration::from_secs(20));
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_listing_goes_on_behind_the_last_key() {
        let (client, faults) = client(10);
        for i in 0..10 {
            client.put(&format!("k{i}"), Bytes::new()).await.unwrap();
        }
        faults.break_listing_after(4);
        let keys: Vec<_> = client.list("", None).map_ok(|o| o.key).try_collect().await.unwrap();
        assert_eq!(keys, (0..10).map(|i| format!("k{i}")).collect::<Vec<_>>());
        assert_eq!(client.retries(), 1);
    }
}
