//! What can go wrong with a bucket, told apart by what the caller has to do next.
//!
//! The same outage looks different on every service: a missing bucket is a 404 on one verb and a 403 on another. The
//! kinds here are the ones that lead to different actions: look elsewhere ([`ObjectError::NotFound`]), fix the
//! configuration ([`ObjectError::NoBucket`], [`ObjectError::WrongKey`], [`ObjectError::Denied`]), wait
//! ([`ObjectError::Unreachable`], the only transient one), or call `fsck` ([`ObjectError::Corrupt`]).

use crate::client::Verb;

/// The result of everything in this crate that can fail.
pub type Result<T, E = ObjectError> = std::result::Result<T, E>;

/// Why a bucket could not be opened, or a request to it failed. Cloneable, so that callers who share one request can
/// share its error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The object does not exist.
    #[error("object {object} does not exist in the bucket")]
    NotFound {
        /// Key of the object, without the prefix of the bucket.
        object: String,
    },

    /// The bucket (container, directory) does not exist.
    #[error("bucket {bucket} does not exist: create it, or correct the url ({detail})")]
    NoBucket {
        /// The bucket as in its URL.
        bucket: String,
        /// What the service said.
        detail: String,
    },

    /// The key is known, but has no right to do this.
    #[error(
        "{verb} of {target} in {bucket} is denied: give the key the rights to get, put, list and delete ({detail})"
    )]
    Denied {
        /// The bucket as in its URL.
        bucket: String,
        /// What was tried.
        verb: Verb,
        /// Key or prefix that it was tried on.
        target: String,
        /// What the service said.
        detail: String,
    },

    /// The access key is unknown, its secret does not fit, or its token has expired.
    #[error(
        "the access key for {bucket} is refused: check access key, secret key and session token ({detail})"
    )]
    WrongKey {
        /// The bucket as in its URL.
        bucket: String,
        /// What the service said.
        detail: String,
    },

    /// No useful answer: no connection, a timeout, a broken reply, or the service is overloaded. The only kind worth
    /// trying again.
    #[error("bucket {bucket} does not answer: check the endpoint and the network ({detail})")]
    Unreachable {
        /// The bucket as in its URL.
        bucket: String,
        /// The last failure seen.
        detail: String,
    },

    /// The object is there, but is not what was written: a bad checksum, a wrong length, another object's bytes.
    #[error("object {object} is corrupt: {detail}")]
    Corrupt {
        /// Key of the object, without the prefix of the bucket.
        object: String,
        /// What is wrong with it.
        detail: String,
    },

    /// Written by a newer Carafe.
    #[error("{what} has format version {found}, this build reads up to {known}: upgrade carafe")]
    FutureVersion {
        /// Key of the object.
        what: String,
        /// The version that it has.
        found: u32,
        /// The newest version that this build reads.
        known: u32,
    },

    /// The bucket holds another file system.
    #[error("the bucket belongs to file system {found}, not to {wanted}: use another bucket or prefix")]
    ForeignBucket {
        /// Name and uuid of the file system that the bucket belongs to.
        found: String,
        /// Name or uuid of the file system that asked.
        wanted: String,
    },

    /// The bucket holds no file system.
    #[error("{bucket} holds no file system: format it first, or correct the url")]
    Unformatted {
        /// The bucket as in its URL.
        bucket: String,
    },

    /// The URL has a scheme that names no kind of bucket.
    #[error("unknown bucket scheme {scheme:?}: use s3://, gs://, az://, file:/// or memory:")]
    UnknownScheme {
        /// What stands before the colon.
        scheme: String,
    },

    /// The URL names no bucket.
    #[error("{scheme}:// lacks the name of the bucket: write {scheme}://bucket or {scheme}://bucket/prefix")]
    MissingBucketName {
        /// Scheme of the URL.
        scheme: String,
    },

    /// The URL cannot be understood.
    #[error("bad bucket url {url:?}: {detail}")]
    BadUrl {
        /// The URL, without anything that could be a secret.
        url: String,
        /// What is wrong with it.
        detail: String,
    },

    /// The endpoint cannot be understood.
    #[error("bad endpoint {endpoint:?}: {detail}")]
    BadEndpoint {
        /// The endpoint, without anything that could be a secret.
        endpoint: String,
        /// What is wrong with it.
        detail: String,
    },

    /// Only part of the credentials was given.
    #[error(
        "incomplete credentials: {missing} is missing; give both keys, or none to use the environment or the instance role"
    )]
    IncompleteKeys {
        /// The option that is missing.
        missing: &'static str,
    },

    /// Anything else; the text is what the service or the client library said.
    #[error("{verb} of {target} in {bucket} failed: {detail}")]
    Other {
        /// The bucket as in its URL.
        bucket: String,
        /// What was tried.
        verb: Verb,
        /// Key or prefix that it was tried on.
        target: String,
        /// What the service said.
        detail: String,
    },
}

impl ObjectError {
    /// Whether the same request may succeed later without anyone changing anything.
    pub fn is_transient(&self) -> bool {
        matches!(self, ObjectError::Unreachable { .. })
    }

    /// A `Corrupt` in one line, for decoders.
    pub(crate) fn corrupt(object: impl Into<String>, detail: impl Into<String>) -> Self {
        ObjectError::Corrupt { object: object.into(), detail: detail.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unreachable_bucket_is_worth_a_retry() {
        let (bucket, detail) = ("s3://b".to_owned(), String::new());
        assert!(ObjectError::Unreachable { bucket: bucket.clone(), detail: detail.clone() }.is_transient());
        assert!(!ObjectError::NotFound { object: "k".into() }.is_transient());
        assert!(!ObjectError::WrongKey { bucket: bucket.clone(), detail: detail.clone() }.is_transient());
        assert!(!ObjectError::NoBucket { bucket, detail }.is_transient());
        assert!(!ObjectError::corrupt("k", "bad").is_transient());
    }

    #[test]
    fn messages_carry_what_happened_to_what_and_what_to_do() {
        let e = ObjectError::Denied {
            bucket: "s3://b".into(),
            verb: Verb::Put,
            target: "d/00/x".into(),
            detail: "AccessDenied".into(),
        };
        let text = e.to_string();
        for part in ["put", "d/00/x", "s3://b", "rights", "AccessDenied"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
