//! A bucket: what the rest of Carafe asks for objects.

use crate::client::{ByteRange, DELETE_BATCH, ListStream, ObjectClient};
use crate::decorate::{Counting, Counts, LimitOptions, Limited, Retry, RetryPolicy, Snapshot};
use crate::error::Result;
use crate::open::{BucketOptions, Location, build};
use crate::store::StoreClient;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Bulk deletes under way at once in [`Bucket::delete_many`].
const DELETES_AT_ONCE: usize = 4;

/// An open bucket. Cheap to clone; clones share connections, limits and counters.
#[derive(Clone)]
pub struct Bucket {
    name: Arc<str>,
    /// One attempt for a request, limited and counted.
    once: Arc<dyn ObjectClient>,
    client: Arc<Retry<Arc<dyn ObjectClient>>>,
    counts: Arc<Counts>,
}

/// The URL, and nothing that could hold a secret.
impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.name).finish()
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Bucket {
    /// Opens `s3://bucket[/prefix]`, `gs://...`, `az://...`, `file:///directory` or `memory:`.
    ///
    /// Checks all it can without a request; [`Bucket::check`] does the rest.
    ///
    /// # Errors
    /// A URL, an endpoint or credentials that cannot be used; a directory that does not exist.
    pub fn open(url: &str, options: &BucketOptions) -> Result<Self> {
        let location = Location::parse(url)?;
        let store = build(&location, options)?;
        let name = location.to_string();
        let client = StoreClient::new(store, &name, location.prefix());
        Ok(Bucket::over(client, &name, options.retry, options.limits))
    }

    /// An empty bucket in the memory of this process.
    pub fn memory() -> Self {
        Bucket::over(StoreClient::memory(), "memory:", RetryPolicy::default(), LimitOptions::default())
    }

    /// A bucket over any client, for tests with a failing one. `name` is what errors call it.
    pub fn over(client: impl ObjectClient, name: &str, retry: RetryPolicy, limits: LimitOptions) -> Self {
        let counts = Arc::new(Counts::default());
        let once: Arc<dyn ObjectClient> =
            Arc::new(Limited::new(Counting::new(client, counts.clone()), limits));
        let client = Arc::new(Retry::new(once.clone(), name, retry));
        Bucket { name: name.into(), once, client, counts }
    }

    /// The URL of the bucket, without secrets.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bucket as a client that tries again, for what is built on [`ObjectClient`].
    pub fn client(&self) -> Arc<dyn ObjectClient> {
        self.client.clone()
    }

    /// A client for the same bucket with another patience.
    pub(crate) fn with_policy(&self, policy: RetryPolicy) -> impl ObjectClient + use<> {
        Retry::new(self.once.clone(), &self.name, policy)
    }

    /// Writes a whole object. When this returns it is durable.
    ///
    /// # Errors
    /// As the service says; transient failures only after [`BucketOptions::retry`] has run out.
    pub async fn put(&self, key: &str, body: Bytes) -> Result<()> {
        self.client.put(key, body).await
    }

    /// Reads a whole object.
    ///
    /// # Errors
    /// As [`Bucket::put`]; [`crate::ObjectError::NotFound`] if there is none.
    pub async fn get(&self, key: &str) -> Result<Bytes> {
        self.client.get(key, ByteRange::Whole).await
    }

    /// Reads exactly these bytes of an object.
    ///
    /// # Errors
    /// As [`Bucket::get`]; [`crate::ObjectError::Corrupt`] if the object is shorter.
    pub async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        self.client.get(key, ByteRange::Exact(range)).await
    }

    /// Reads these bytes as far as the object has them; see [`ByteRange::UpTo`].
    ///
    /// # Errors
    /// As [`Bucket::get`]; [`crate::ObjectError::Corrupt`] if the object has none of them.
    pub async fn get_up_to(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        self.client.get(key, ByteRange::UpTo(range)).await
    }

    /// Reads the last `n` bytes of an object, or all if there are fewer.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub async fn get_last(&self, key: &str, n: u64) -> Result<Bytes> {
        self.client.get(key, ByteRange::Last(n)).await
    }

    /// Size of an object in bytes.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub async fn head(&self, key: &str) -> Result<u64> {
        self.client.head(key).await
    }

    /// Deletes any number of objects, 1000 a request where the service can. A missing object counts as deleted.
    ///
    /// # Errors
    /// As [`Bucket::put`]; some of the objects may be gone then, and the call may be made again.
    pub async fn delete_many(&self, keys: &[String]) -> Result<u64> {
        stream::iter(keys.chunks(DELETE_BATCH).map(|batch| self.client.delete(batch)))
            .buffer_unordered(DELETES_AT_ONCE)
            .try_fold(0, |sum, gone| async move { Ok(sum + gone) })
            .await
    }

    /// Lists the objects below `prefix`, which ends at a `/` (written or not); all if it is empty.
    pub fn list(&self, prefix: &str) -> ListStream {
        self.client.list(prefix, None)
    }

    /// Requests, bytes, errors and retries since the bucket was opened.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { retries: self.client.retries(), ..self.counts.snapshot() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Verb;
    use crate::decorate::Failing;
    use crate::error::ObjectError;

    #[tokio::test]
    async fn many_keys_are_deleted_in_batches() {
        let bucket = Bucket::memory();
        let keys: Vec<_> = (0..2_500).map(|i| format!("d/{i}")).collect();
        for key in &keys[..10] {
            bucket.put(key, Bytes::new()).await.unwrap();
        }
        assert_eq!(bucket.delete_many(&keys).await, Ok(2_500));
        assert_eq!(bucket.snapshot().of(Verb::Delete).requests, 3);
        assert_eq!(bucket.list("").try_collect::<Vec<_>>().await.unwrap(), []);
        assert_eq!(bucket.delete_many(&[]).await, Ok(0));
    }

    #[tokio::test(start_paused = true)]
    async fn retries_are_counted_next_to_requests() {
        let (client, faults) = Failing::new(StoreClient::memory());
        let bucket = Bucket::over(client, "twin", RetryPolicy::default(), LimitOptions::default());
        let lost = ObjectError::Unreachable { bucket: "twin".into(), detail: String::new() };
        faults.fail_next(Verb::Put, 2, lost);
        bucket.put("k", Bytes::new()).await.unwrap();
        let snapshot = bucket.snapshot();
        assert_eq!(
            (snapshot.retries, snapshot.of(Verb::Put).requests, snapshot.of(Verb::Put).errors),
            (2, 3, 2)
        );
    }

    #[test]
    fn debug_shows_the_url_only() {
        assert_eq!(format!("{:?}", Bucket::memory()), r#"Bucket("memory:")"#);
    }
}
