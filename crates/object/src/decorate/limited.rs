//! Bounded concurrency: a burst of uploads must not open a thousand connections, nor keep a reader waiting.
//!
//! Reads and writes have separate places, so that flushing gigabytes leaves room for the read that a query waits for. A
//! place is held while the request runs, not while retry waits. Listings are few (the collector's) and take no place.

use crate::client::{ByteRange, ListStream, ObjectClient};
use crate::error::Result;
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many requests run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOptions {
    /// Gets and heads. 0 counts as 1.
    pub reads: usize,
    /// Puts and deletes. 0 counts as 1.
    pub writes: usize,
}

impl Default for LimitOptions {
    /// 64 reads and 32 writes: enough to fill 10 Gbit/s with 4 MiB blocks at 100 ms each.
    fn default() -> Self {
        LimitOptions { reads: 64, writes: 32 }
    }
}

/// Lets at most so many requests through to `C`.
#[derive(Debug)]
pub struct Limited<C> {
    inner: C,
    reads: Semaphore,
    writes: Semaphore,
}

impl<C: ObjectClient> Limited<C> {
    /// Limits `inner`.
    pub fn new(inner: C, limits: LimitOptions) -> Self {
        let places = |n: usize| Semaphore::new(n.clamp(1, Semaphore::MAX_PERMITS));
        Limited { inner, reads: places(limits.reads), writes: places(limits.writes) }
    }
}

async fn place(places: &Semaphore) -> SemaphorePermit<'_> {
    places.acquire().await.expect("the semaphore is never closed")
}

#[async_trait]
impl<C: ObjectClient> ObjectClient for Limited<C> {
    async fn put(&self, key: &str, body: Bytes) -> Result<()> {
        let _place = place(&self.writes).await;
        self.inner.put(key, body).await
    }

    async fn get(&self, key: &str, range: ByteRange) -> Result<Bytes> {
        let _place = place(&self.reads).await;
        self.inner.get(key, range).await
    }

    async fn head(&self, key: &str) -> Result<u64> {
        let _place = place(&self.reads).await;
        self.inner.head(key).await
    }

    async fn delete(&self, keys: &[String]) -> Result<u64> {
        let _place = place(&self.writes).await;
        self.inner.delete(keys).await
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> ListStream {
        self.inner.list(prefix, after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decorate::{Failing, Faults};
    use crate::store::StoreClient;
    use futures::future::join_all;
    use std::time::Duration;
    use tokio::time::Instant;

    fn client(reads: usize, writes: usize) -> (Limited<Failing<StoreClient>>, Faults) {
        let (failing, faults) = Failing::new(StoreClient::memory());
        (Limited::new(failing, LimitOptions { reads, writes }), faults)
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_the_limit_run_at_once() {
        let (client, faults) = client(64, 4);
        faults.delay(Duration::from_secs(1));
        let start = Instant::now();
        let keys: Vec<_> = (0..20).map(|i| format!("k{i}")).collect();
        join_all(keys.iter().map(|key| client.put(key, Bytes::new()))).await;
        assert_eq!(start.elapsed(), Duration::from_secs(5), "20 puts of 1 s in 4 places");
    }

    #[tokio::test(start_paused = true)]
    async fn writers_do_not_keep_readers_waiting() {
        let (client, faults) = client(1, 1);
        client.put("k", Bytes::from_static(b"v")).await.unwrap();
        faults.delay(Duration::from_secs(1));
        let start = Instant::now();
        let writes = join_all((0..10).map(|_| client.put("w", Bytes::new())));
        let read = async {
            client.get("k", ByteRange::Whole).await.unwrap();
            start.elapsed()
        };
        assert_eq!(tokio::join!(writes, read).1, Duration::from_secs(1));
    }

    #[tokio::test]
    async fn a_limit_of_zero_still_works() {
        let (client, _) = client(0, 0);
        client.put("k", Bytes::new()).await.unwrap();
        assert_eq!(client.head("k").await.unwrap(), 0);
    }
}
