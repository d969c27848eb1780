//! Counting requests, bytes and time for metrics, with nothing but atomics on the path of a request.

use crate::client::{ByteRange, ListStream, ObjectClient, Verb};
use crate::error::Result;
use async_trait::async_trait;
use bytes::Bytes;
use carafe_types::{Latencies, Latency};
use futures::StreamExt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The counters of a bucket since it was opened.
#[derive(Debug, Default)]
pub struct Counts {
    verbs: [Cells; 5],
}

#[derive(Debug, Default)]
struct Cells {
    requests: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
    latency: Latency,
}

/// Counters of one verb at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerbCounts {
    /// Requests sent, each attempt counted. A listing counts as one, whatever its number of pages.
    pub requests: u64,
    /// Requests that ended in an error.
    pub errors: u64,
    /// Bytes of the bodies sent and received. For a delete or a listing: the number of keys.
    pub bytes: u64,
    /// Times of ended requests; without listings, which last as long as their reader.
    pub latency: Latencies,
}

/// Counters of all verbs at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// In the order of [`Verb::ALL`].
    pub verbs: [VerbCounts; 5],
    /// Requests that were attempts after a failure; filled in by [`crate::Bucket::snapshot`].
    pub retries: u64,
}

impl Snapshot {
    /// The counters of one verb.
    pub fn of(&self, verb: Verb) -> VerbCounts {
        self.verbs[verb.index()]
    }
}

impl Counts {
    /// The counters now. Not one moment for all of them: metrics do not need it.
    pub fn snapshot(&self) -> Snapshot {
        let load = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        let verbs = self.verbs.each_ref().map(|c| VerbCounts {
            requests: load(&c.requests),
            errors: load(&c.errors),
            bytes: load(&c.bytes),
            latency: c.latency.snapshot(),
        });
        Snapshot { verbs, retries: 0 }
    }

    fn of(&self, verb: Verb) -> &Cells {
        &self.verbs[verb.index()]
    }

    async fn count<T>(
        &self,
        verb: Verb,
        request: impl Future<Output = Result<T>>,
        bytes: impl FnOnce(&T) -> u64,
    ) -> Result<T> {
        let cells = self.of(verb);
        cells.requests.fetch_add(1, Ordering::Relaxed);
        let start = Instant::now();
        let reply = request.await;
        cells.latency.record(start.elapsed());
        match &reply {
            Ok(value) => cells.bytes.fetch_add(bytes(value), Ordering::Relaxed),
            Err(_) => cells.errors.fetch_add(1, Ordering::Relaxed),
        };
        reply
    }
}

/// Counts what goes through to `C`.
#[derive(Debug)]
pub struct Counting<C> {
    inner: C,
    counts: Arc<Counts>,
}

impl<C: ObjectClient> Counting<C> {
    /// Counts `inner` into `counts`.
    pub fn new(inner: C, counts: Arc<Counts>) -> Self {
        Counting { inner, counts }
    }
}

#[async_trait]
impl<C: ObjectClient> ObjectClient for Counting<C> {
    async fn put(&self, key: &str, body: Bytes) -> Result<()> {
        let len = body.len() as u64;
        self.counts.count(Verb::Put, self.inner.put(key, body), |()| len).await
    }

    async fn get(&self, key: &str, range: ByteRange) -> Result<Bytes> {
        self.counts.count(Verb::Get, self.inner.get(key, range), |bytes| bytes.len() as u64).await
    }

    async fn head(&self, key: &str) -> Result<u64> {
        self.counts.count(Verb::Head, self.inner.head(key), |_| 0).await
    }

    async fn delete(&self, keys: &[String]) -> Result<u64> {
        self.counts.count(Verb::Delete, self.inner.delete(keys), |gone| *gone).await
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> ListStream {
        let counts = self.counts.clone();
        counts.of(Verb::List).requests.fetch_add(1, Ordering::Relaxed);
        self.inner
            .list(prefix, after)
            .inspect(move |item| {
                let cells = counts.of(Verb::List);
                let cell = if item.is_ok() { &cells.bytes } else { &cells.errors };
                cell.fetch_add(1, Ordering::Relaxed);
            })
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreClient;
    use futures::TryStreamExt;

    #[tokio::test]
    async fn requests_bytes_and_errors_are_counted_by_verb() {
        let counts = Arc::new(Counts::default());
        let client = Counting::new(StoreClient::memory(), counts.clone());
        client.put("a", Bytes::from_static(b"12345")).await.unwrap();
        client.put("b", Bytes::from_static(b"1")).await.unwrap();
        client.get("a", ByteRange::Exact(1..3)).await.unwrap();
        client.get("none", ByteRange::Whole).await.unwrap_err();
        client.head("a").await.unwrap();
        client.list("", None).try_collect::<Vec<_>>().await.unwrap();
        client.delete(&["a".into(), "b".into()]).await.unwrap();
        let counts = counts.snapshot();
        let of = |verb| {
            let VerbCounts { requests, errors, bytes, .. } = counts.of(verb);
            (requests, errors, bytes)
        };
        assert_eq!(of(Verb::Put), (2, 0, 6));
        assert_eq!(of(Verb::Get), (2, 1, 2));
        assert_eq!(of(Verb::Head), (1, 0, 0));
        assert_eq!(of(Verb::List), (1, 0, 2));
        assert_eq!(of(Verb::Delete), (1, 0, 2));
    }
}
