//! The minimal core: five requests that every object store answers, and nothing else.
//!
//! A decorator implements [`ObjectClient`] over another [`ObjectClient`]; with five methods that stays small. What can
//! be built from the five ([`crate::Bucket`], [`crate::payload`]) is built on top, once.

use crate::error::Result;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

/// Most keys in one [`ObjectClient::delete`], the limit of S3's DeleteObjects.
pub const DELETE_BATCH: usize = 1000;

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Write a whole object.
    Put,
    /// Read an object or a range of it.
    Get,
    /// Ask for an object's size.
    Head,
    /// Delete up to [`DELETE_BATCH`] objects.
    Delete,
    /// List keys.
    List,
}

impl Verb {
    /// All of them, in the order of [`Verb::index`].
    pub const ALL: [Verb; 5] = [Verb::Put, Verb::Get, Verb::Head, Verb::Delete, Verb::List];

    /// Position in [`Verb::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verb::Put => "put",
            Verb::Get => "get",
            Verb::Head => "head",
            Verb::Delete => "delete",
            Verb::List => "list",
        })
    }
}

/// Which bytes of an object to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ByteRange {
    /// All of it.
    Whole,
    /// Exactly these bytes. An object that ends before them is [`crate::ObjectError::Corrupt`].
    Exact(Range<u64>),
    /// These bytes as far as the object has them, for a reader who does not know where it ends. An object that ends
    /// before the first of them is [`crate::ObjectError::Corrupt`].
    UpTo(Range<u64>),
    /// The last so many bytes, or all if there are fewer.
    Last(u64),
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The key, without the prefix of the bucket.
    pub key: String,
    /// Bytes in the object.
    pub size: u64,
    /// When it was written, by the clock of the object store.
    pub modified: SystemTime,
}

/// A listing under way. Memory does not grow with the number of objects.
pub type ListStream = BoxStream<'static, Result<Listed>>;

/// An object store as Carafe needs it: whole immutable objects, range reads, deletes and listings.
///
/// Keys are relative to the bucket's prefix, made of `a-z 0-9 . _ - /`. All methods are idempotent, which is what lets
/// a decorator send any of them again: objects are never rewritten with other content.
#[async_trait]
pub trait ObjectClient: fmt::Debug + Send + Sync + 'static {
    /// Writes the object; when this returns, it is durable and readable by everyone.
    async fn put(&self, key: &str, body: Bytes) -> Result<()>;

    /// Reads bytes of the object.
    async fn get(&self, key: &str, range: ByteRange) -> Result<Bytes>;

    /// Size of the object in bytes.
    async fn head(&self, key: &str) -> Result<u64>;

    /// Deletes the objects in one request where the store can, at most [`DELETE_BATCH`] of them. A missing object
    /// counts as deleted. Returns how many are gone; an error if any could not be deleted, the others are gone then.
    async fn delete(&self, keys: &[String]) -> Result<u64>;

    /// Lists keys below `prefix`, which ends at a `/` (`"d/0a"` lists `d/0a/x` and not `d/0ab`; empty lists all), from
    /// the first key greater than `after`.
    fn list(&self, prefix: &str, after: Option<&str>) -> ListStream;
}

#[async_trait]
impl<C: ObjectClient + ?Sized> ObjectClient for Arc<C> {
    async fn put(&self, key: &str, body: Bytes) -> Result<()> {
        (**self).put(key, body).await
    }

    async fn get(&self, key: &str, range: ByteRange) -> Result<Bytes> {
        (**self).get(key, range).await
    }

    async fn head(&self, key: &str) -> Result<u64> {
        (**self).head(key).await
    }

    async fn delete(&self, keys: &[String]) -> Result<u64> {
        (**self).delete(keys).await
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> ListStream {
        (**self).list(prefix, after)
    }
}
