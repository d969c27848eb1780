//! The options of a bucket that are not in its URL.

use crate::decorate::{LimitOptions, RetryPolicy};
use crate::error::{ObjectError, Result};
use std::fmt;
use url::Url;

/// A value that no log and no error shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(value: impl Into<String>) -> Self {
        Secret(value.into())
    }

    /// The secret itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Secret(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// How to reach a bucket. The default is: public endpoint of the service, credentials from the environment or the
/// instance role.
#[derive(Clone, Debug, Default)]
pub struct BucketOptions {
    /// Address of an S3-compatible service, for example `http://minio:9000`. Plain HTTP is used iff it says so.
    pub endpoint: Option<String>,
    /// Region; without one that of the environment, else `us-east-1`, which self-hosted services ignore.
    pub region: Option<String>,
    /// Whether the bucket stands in the path (`host/bucket/key`) rather than in the host name. By default so iff an
    /// endpoint is set: self-hosted services rarely have a DNS name for each bucket.
    pub path_style: Option<bool>,
    /// S3: access key id. Azure: name of the account.
    pub access_key: Option<String>,
    /// S3: secret access key. Azure: key of the account. Google: JSON of a service account (no access key then).
    pub secret_key: Option<Secret>,
    /// S3: session token of temporary keys.
    pub session_token: Option<Secret>,
    /// Make the directory of a `file://` bucket if it does not exist.
    pub create: bool,
    /// How long and how often a failed request is tried again.
    pub retry: RetryPolicy,
    /// How many requests run at once.
    pub limits: LimitOptions,
}

impl BucketOptions {
    /// The endpoint, checked.
    pub(super) fn endpoint(&self) -> Result<Option<Url>> {
        let Some(text) = self.endpoint.as_deref().filter(|text| !text.is_empty()) else { return Ok(None) };
        // Text before an '@' may be a password: never repeated.
        let shown = text.rsplit('@').next().unwrap_or_default().to_owned();
        let bad =
            |detail: &str| ObjectError::BadEndpoint { endpoint: shown.clone(), detail: detail.to_owned() };
        if text.contains('@') {
            return Err(bad("credentials belong in the access key and secret key options"));
        }
        let url =
            Url::parse(text).map_err(|e| bad(&format!("{e}; write http://host:port or https://host")))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(bad("write http://host:port or https://host"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad("an endpoint has no query and no fragment"));
        }
        Ok(Some(url))
    }

    /// Static S3 or Azure keys, or nothing if the environment is to give them.
    pub(super) fn keys(&self) -> Result<Option<(&str, &Secret)>> {
        let given = |s: &&str| !s.is_empty();
        let access = self.access_key.as_deref().filter(given);
        let secret = self.secret_key.as_ref().filter(|s| !s.expose().is_empty());
        match (access, secret) {
            (Some(access), Some(secret)) => Ok(Some((access, secret))),
            (None, None) if self.session_token.is_some() => {
                Err(ObjectError::IncompleteKeys { missing: "the access key" })
            }
            (None, None) => Ok(None),
            (None, Some(_)) => Err(ObjectError::IncompleteKeys { missing: "the access key" }),
            (Some(_), None) => Err(ObjectError::IncompleteKeys { missing: "the secret key" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_endpoint(endpoint: &str) -> BucketOptions {
        BucketOptions { endpoint: Some(endpoint.into()), ..BucketOptions::default() }
    }

    #[test]
    fn debug_never_shows_a_secret() {
        let options = BucketOptions {
            access_key: Some("AKID".into()),
            secret_key: Some(Secret::new("hunter2")),
            session_token: Some(Secret::new("hunter2")),
            ..BucketOptions::default()
        };
        let text = format!("{options:?} {:#?}", options);
        assert!(text.contains("AKID") && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn endpoints_are_checked_before_any_request() {
        assert_eq!(with_endpoint("").endpoint().unwrap(), None);
        assert!(with_endpoint("http://127.0.0.1:9000").endpoint().unwrap().is_some());
        for bad in ["localhost:9000", "ftp://host", "http://", "just words", "https://host/?x=1"] {
            let e = with_endpoint(bad).endpoint().unwrap_err();
            assert!(matches!(e, ObjectError::BadEndpoint { .. }), "{bad}: {e}");
        }
        let e = with_endpoint("http://me:hunter2@host").endpoint().unwrap_err();
        assert!(!format!("{e} {e:?}").contains("hunter2"), "{e:?}");
    }

    #[test]
    fn half_a_pair_of_keys_is_refused() {
        let mut options = BucketOptions { access_key: Some("a".into()), ..BucketOptions::default() };
        assert_eq!(options.keys(), Err(ObjectError::IncompleteKeys { missing: "the secret key" }));
        options.access_key = None;
        options.session_token = Some(Secret::new("t"));
        assert_eq!(options.keys(), Err(ObjectError::IncompleteKeys { missing: "the access key" }));
        assert_eq!(BucketOptions::default().keys(), Ok(None));
    }
}
