//! The innermost [`ObjectClient`]: one request of ours is one request of the `object_store` library.
//!
//! 1. **Keys get the bucket's prefix here** and lose it in listings, so nothing above knows of it.
//! 2. **Short answers are errors.** The library cuts a range at the end of the object and returns less than was asked
//!    for. A torn object must not look like a short file: [`ByteRange::Exact`] is exact or [`ObjectError::Corrupt`].
//! 3. **Errors are told apart** in `classify`.

mod classify;

use crate::client::{ByteRange, ListStream, Listed, ObjectClient, Verb};
use crate::error::{ObjectError, Result};
use async_trait::async_trait;
use bytes::Bytes;
use classify::{Request, classify};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutPayload};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

/// An object store of the library, below a prefix.
#[derive(Clone)]
pub struct StoreClient {
    store: Arc<dyn ObjectStore>,
    bucket: Arc<str>,
    prefix: Arc<str>,
}

/// Says the bucket and nothing of the store inside, which holds credentials.
impl fmt::Debug for StoreClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreClient").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

impl StoreClient {
    /// `bucket` is what errors call it; `prefix` has no slashes at its ends and may be empty.
    pub fn new(store: Arc<dyn ObjectStore>, bucket: &str, prefix: &str) -> Self {
        StoreClient { store, bucket: bucket.into(), prefix: prefix.into() }
    }

    /// An empty bucket in the memory of this process: the memory twin.
    pub fn memory() -> Self {
        StoreClient::new(Arc::new(object_store::memory::InMemory::new()), "memory:", "")
    }

    fn path(&self, verb: Verb, key: &str) -> Result<Path> {
        let full = if self.prefix.is_empty() { key.to_owned() } else { format!("{}/{key}", self.prefix) };
        Path::parse(&full).map_err(|e| ObjectError::Other {
            bucket: self.bucket.to_string(),
            verb,
            target: key.to_owned(),
            detail: format!("not a possible key: {e}"),
        })
    }

    fn failed(&self, verb: Verb, target: &str, error: Error) -> ObjectError {
        classify(error, &Request { bucket: &self.bucket, verb, target })
    }

    async fn read(&self, key: &str, range: Option<GetRange>) -> Result<Bytes, Error> {
        let path =
            self.path(Verb::Get, key).map_err(|e| Error::Generic { store: "carafe", source: e.into() })?;
        self.store.get_opts(&path, GetOptions { range, ..GetOptions::default() }).await?.bytes().await
    }

    /// The bytes of `range` that the object has; an error if it ends before the first of them.
    async fn read_up_to(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let error = match self.read(key, Some(GetRange::Bounded(range.clone()))).await {
            Ok(bytes) => return Ok(bytes),
            Err(error) => self.failed(Verb::Get, key, error),
        };
        // Each store words "that is behind the end" differently (416, text, another text): the size decides.
        if matches!(error, ObjectError::Other { .. }) {
            let size = self.head(key).await?;
            if size <= range.start {
                return Err(too_short(key, &range, size));
            }
        }
        Err(error)
    }

    async fn read_last(&self, key: &str, n: u64) -> Result<Bytes> {
        if n == 0 {
            return Ok(Bytes::new());
        }
        match self.read(key, Some(GetRange::Suffix(n))).await {
            Ok(bytes) => Ok(bytes),
            // Azure has no suffix ranges.
            Err(Error::NotSupported { .. }) => {
                let size = self.head(key).await?;
                self.read_up_to(key, size.saturating_sub(n)..size).await
            }
            Err(error) => match self.failed(Verb::Get, key, error) {
                // An empty object has no last bytes; S3 says 416.
                e @ ObjectError::Other { .. } => {
                    if self.head(key).await? == 0 {
                        Ok(Bytes::new())
                    } else {
                        Err(e)
                    }
                }
                e => Err(e),
            },
        }
    }
}

fn too_short(key: &str, range: &Range<u64>, size: u64) -> ObjectError {
    ObjectError::corrupt(key, format!("has {size} bytes, bytes {}..{} wanted", range.start, range.end))
}

#[async_trait]
impl ObjectClient for StoreClient {
    async fn put(&self, key: &str, body: Bytes) -> Result<()> {
        let path = self.path(Verb::Put, key)?;
        match self.store.put(&path, PutPayload::from_bytes(body)).await {
            Ok(_) => Ok(()),
            Err(e) => Err(self.failed(Verb::Put, key, e)),
        }
    }

    async fn get(&self, key: &str, range: ByteRange) -> Result<Bytes> {
        match range {
            ByteRange::Whole => self.read(key, None).await.map_err(|e| self.failed(Verb::Get, key, e)),
            ByteRange::Last(n) => self.read_last(key, n).await,
            ByteRange::UpTo(range) => self.read_up_to(key, range).await,
            ByteRange::Exact(range) => {
                let bytes = self.read_up_to(key, range.clone()).await?;
                let got = bytes.len() as u64;
                if got == range.end.saturating_sub(range.start) {
                    return Ok(bytes);
                }
                Err(too_short(key, &range, range.start + got))
            }
        }
    }

    async fn head(&self, key: &str) -> Result<u64> {
        let path = self.path(Verb::Head, key)?;
        self.store.head(&path).await.map(|meta| meta.size).map_err(|e| self.failed(Verb::Head, key, e))
    }

    async fn delete(&self, keys: &[String]) -> Result<u64> {
        let paths = keys.iter().map(|key| self.path(Verb::Delete, key)).collect::<Result<Vec<_>>>()?;
        let mut replies = self.store.delete_stream(stream::iter(paths.into_iter().map(Ok)).boxed());
        let (mut gone, mut failed) = (0, None);
        // All replies are looked at: one key that may not be deleted does not keep the others.
        while let Some(reply) = replies.next().await {
            match reply {
                Ok(_) | Err(Error::NotFound { .. }) => gone += 1,
                Err(e) => failed = failed.or(Some(e)),
            }
        }
        let Some(error) = failed else { return Ok(gone) };
        let target = match keys {
            [key] => key.clone(),
            _ => format!("{} objects", keys.len()),
        };
        Err(self.failed(Verb::Delete, &target, error))
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> ListStream {
        let full = [&self.prefix, prefix]
            .iter()
            .map(|p| p.trim_matches('/'))
            .filter(|p| !p.is_empty())
            .collect::<Vec<_>>();
        let (root, after) = (Path::from(full.join("/")), after.map(|key| self.path(Verb::List, key)));
        let objects = match after {
            None => self.store.list(Some(&root)),
            Some(Ok(after)) => self.store.list_with_offset(Some(&root), &after),
            Some(Err(e)) => return stream::iter([Err(e)]).boxed(),
        };
        let (this, target) = (self.clone(), prefix.to_owned());
        let skip = if self.prefix.is_empty() { 0 } else { self.prefix.len() + 1 };
        objects
            .map_ok(move |meta| Listed {
                key: meta.location.as_ref().get(skip..).unwrap_or_default().to_owned(),
                size: meta.size,
                modified: SystemTime::from(meta.last_modified),
            })
            .map_err(move |e| this.failed(Verb::List, &target, e))
            .boxed()
    }
}

#[cfg(test)]
mod tests;
