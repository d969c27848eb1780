//! The failing twin: a client whose next failures are written down beforehand, for the tests of everything above.

use crate::client::{ByteRange, ListStream, ObjectClient, Verb};
use crate::error::{ObjectError, Result};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// The failures to come; shared with the [`Failing`] client that has them.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    next: [VecDeque<Fault>; 5],
    delay: Duration,
    flip_reads: usize,
    break_listing_after: Option<usize>,
}

#[derive(Clone, Debug)]
enum Fault {
    /// The request is not sent.
    Fail(ObjectError),
    /// The request is sent, its answer is lost.
    DropReply,
}

impl Faults {
    /// The next `times` requests of `verb` fail with `error` and do nothing.
    pub fn fail_next(&self, verb: Verb, times: usize, error: ObjectError) {
        self.0.lock().next[verb.index()].extend(std::iter::repeat_n(Fault::Fail(error), times));
    }

    /// The next `times` requests of `verb` are done, but look as if the connection had broken before the answer.
    pub fn drop_replies(&self, verb: Verb, times: usize) {
        self.0.lock().next[verb.index()].extend(std::iter::repeat_n(Fault::DropReply, times));
    }

    /// Each request from now on takes so much longer.
    pub fn delay(&self, delay: Duration) {
        self.0.lock().delay = delay;
    }

    /// The next `times` gets that return bytes have a flipped bit in the middle.
    pub fn flip_reads(&self, times: usize) {
        self.0.lock().flip_reads += times;
    }

    /// The next listing breaks after so many keys.
    pub fn break_listing_after(&self, keys: usize) {
        self.0.lock().break_listing_after = Some(keys);
    }

    /// No more failures and no delay.
    pub fn heal(&self) {
        *self.0.lock() = Plan::default();
    }

    fn take(&self, verb: Verb) -> (Duration, Option<Fault>) {
        let mut plan = self.0.lock();
        (plan.delay, plan.next[verb.index()].pop_front())
    }

    async fn apply<T>(&self, verb: Verb, request: impl Future<Output = Result<T>>) -> Result<T> {
        let (delay, fault) = self.take(verb);
        if !delay.is_zero() {
            sleep(delay).await;
        }
        match fault {
            None => request.await,
            Some(Fault::Fail(error)) => Err(error),
            Some(Fault::DropReply) => {
                request.await?;
                Err(lost())
            }
        }
    }

    fn flip(&self, bytes: Bytes) -> Bytes {
        let mut plan = self.0.lock();
        if plan.flip_reads == 0 || bytes.is_empty() {
            return bytes;
        }
        plan.flip_reads -= 1;
        let mut bytes = bytes.to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        Bytes::from(bytes)
    }
}

fn lost() -> ObjectError {
    ObjectError::Unreachable { bucket: "failing".into(), detail: "injected: the answer was lost".into() }
}

/// Fails over `C` as its [`Faults`] say.
#[derive(Debug)]
pub struct Failing<C> {
    inner: C,
    faults: Faults,
}

impl<C: ObjectClient> Failing<C> {
    /// A client that works, and the handle that makes it fail.
    pub fn new(inner: C) -> (Self, Faults) {
        let faults = Faults::default();
        (Failing { inner, faults: faults.clone() }, faults)
    }
}

#[async_trait]
impl<C: ObjectClient> ObjectClient for Failing<C> {
    async fn put(&self, key: &str, body: Bytes) -> Result<()> {
        self.faults.apply(Verb::Put, self.inner.put(key, body)).await
    }

    async fn get(&self, key: &str, range: ByteRange) -> Result<Bytes> {
        let bytes = self.faults.apply(Verb::Get, self.inner.get(key, range)).await?;
        Ok(self.faults.flip(bytes))
    }

    async fn head(&self, key: &str) -> Result<u64> {
        self.faults.apply(Verb::Head, self.inner.head(key)).await
    }

    async fn delete(&self, keys: &[String]) -> Result<u64> {
        self.faults.apply(Verb::Delete, self.inner.delete(keys)).await
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> ListStream {
        let (delay, fault) = self.faults.take(Verb::List);
        let whole = self.inner.list(prefix, after);
        let items = match (fault, self.faults.0.lock().break_listing_after.take()) {
            (Some(Fault::Fail(error)), _) => stream::iter([Err(error)]).boxed(),
            (Some(Fault::DropReply), _) => stream::iter([Err(lost())]).boxed(),
            (None, Some(keys)) => whole.take(keys).chain(stream::iter([Err(lost())])).boxed(),
            (None, None) => whole,
        };
        stream::once(async move {
            sleep(delay).await;
            items
        })
        .flatten()
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreClient;
    use futures::TryStreamExt;

    #[tokio::test]
    async fn a_failed_request_does_nothing_and_a_dropped_reply_does_all() {
        let (client, faults) = Failing::new(StoreClient::memory());
        faults.fail_next(Verb::Put, 1, lost());
        assert!(client.put("k", Bytes::new()).await.is_err());
        assert!(client.head("k").await.is_err());
        faults.drop_replies(Verb::Put, 1);
        assert!(client.put("k", Bytes::new()).await.is_err());
        assert_eq!(client.head("k").await, Ok(0));
    }

    #[tokio::test]
    async fn flipped_bits_and_broken_listings_come_once() {
        let (client, faults) = Failing::new(StoreClient::memory());
        client.put("k", Bytes::from_static(b"abc")).await.unwrap();
        faults.flip_reads(1);
        assert_eq!(client.get("k", ByteRange::Whole).await.unwrap(), "acc");
        assert_eq!(client.get("k", ByteRange::Whole).await.unwrap(), "abc");
        faults.break_listing_after(1);
        assert!(client.list("", None).try_collect::<Vec<_>>().await.is_err());
        assert_eq!(client.list("", None).try_collect::<Vec<_>>().await.unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn delays_hold_until_healed() {
        let (client, faults) = Failing::new(StoreClient::memory());
        faults.delay(Duration::from_secs(5));
        let start = tokio::time::Instant::now();
        client.put("k", Bytes::new()).await.unwrap();
        faults.heal();
        client.head("k").await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(5));
    }
}
