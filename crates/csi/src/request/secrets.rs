//! The keys of the secrets that requests carry.
//!
//! | key | also accepted | meaning |
//! |---|---|---|
//! | `meta-url` | `metaurl`, `metaUrl` | metadata store: `redis://`, `rediss://`, `redis+unix://`, `embedded://` |
//! | `meta-password` | | its password, if not in the URL |
//! | `bucket` | | the bucket expected behind it; another one is refused |
//! | `access-key` | | bucket: access key id, or account |
//! | `secret-key` | | bucket: secret access key, or account key |
//! | `session-token` | | bucket: token of temporary credentials |
//!
//! `metaurl`, `access-key`, `secret-key` and `session-token` mean what they mean in a JuiceFS secret. Its `bucket` is an
//! HTTP endpoint and is not accepted as such: a Carafe bucket is `s3://NAME/PREFIX`, and endpoint and region are kept in
//! the file system since `carafe format`. No map, or an empty one, means that the plugin's own configuration decides.

use super::keys::{self, Key};
use crate::address::{AddressError, BucketKeys, FsAddress, Secret};
use crate::error::CsiError;
use std::collections::{BTreeMap, HashMap};

/// A key of the secrets map; the module's table says what each means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretKey {
    /// `meta-url`
    MetaUrl,
    /// `meta-password`
    MetaPassword,
    /// `bucket`
    Bucket,
    /// `access-key`
    AccessKey,
    /// `secret-key`
    SecretKey,
    /// `session-token`
    SessionToken,
}

impl Key for SecretKey {
    const MAP: &'static str = "secret key";
    const TABLE: &'static [(Self, &'static [&'static str])] = &[
        (Self::MetaUrl, &["meta-url", "metaurl", "metaUrl"]),
        (Self::MetaPassword, &["meta-password"]),
        (Self::Bucket, &["bucket"]),
        (Self::AccessKey, &["access-key"]),
        (Self::SecretKey, &["secret-key"]),
        (Self::SessionToken, &["session-token"]),
    ];
}

/// The file system that a request's secrets name; `None` if there are none.
///
/// # Errors
/// [`CsiError::Faults`] with every fault; values are never shown.
pub(crate) fn address(secrets: &HashMap<String, String>) -> Result<Option<FsAddress>, CsiError> {
    if secrets.is_empty() {
        return Ok(None);
    }
    let mut faults = Vec::new();
    let mut values = keys::parse::<SecretKey>(secrets, |_| false, &mut faults);
    let bucket_keys = bucket_keys(&mut values, &mut faults);
    let bucket = values.remove(&SecretKey::Bucket);
    let password = values.remove(&SecretKey::MetaPassword).map(Secret::new);
    let address = match values.remove(&SecretKey::MetaUrl).map(|url| FsAddress::new(&url, password)) {
        Some(Ok(mut address)) => {
            address.bucket = bucket;
            address.bucket_keys = bucket_keys;
            Some(address)
        }
        Some(Err(error)) => {
            faults.push(url_fault(&error));
            None
        }
        None => {
            faults.push("the secret has no key \"meta-url\"".to_owned());
            None
        }
    };
    keys::unless_faults(address, faults)
}

fn url_fault(error: &AddressError) -> String {
    format!("secret key \"meta-url\": {error}")
}

/// The bucket's credentials: both keys or none.
fn bucket_keys(values: &mut BTreeMap<SecretKey, String>, faults: &mut Vec<String>) -> Option<BucketKeys> {
    let access_key = values.remove(&SecretKey::AccessKey);
    let secret_key = values.remove(&SecretKey::SecretKey).map(Secret::new);
    let session_token = values.remove(&SecretKey::SessionToken).map(Secret::new);
    match (access_key, secret_key) {
        (Some(access_key), Some(secret_key)) => Some(BucketKeys { access_key, secret_key, session_token }),
        (None, None) if session_token.is_none() => None,
        _ => {
            faults.push("\"access-key\" and \"secret-key\" belong together: give both or neither".to_owned());
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Option<FsAddress>, CsiError> {
        address(&pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn no_secrets_leave_the_choice_to_the_configuration() {
        assert_eq!(parse(&[]).unwrap(), None);
    }

    #[test]
    fn a_complete_secret_becomes_an_address() {
        let pairs = [
            ("metaurl", "redis://:pw@r/1"),
            ("access-key", "AK"),
            ("secret-key", "SK"),
            ("bucket", "s3://b"),
        ];
        let address = parse(&pairs).unwrap().unwrap();
        assert_eq!(address.public_url().as_str(), "redis://r/1");
        assert_eq!(address.meta_password(), Some(&Secret::new("pw")));
        assert_eq!(address.bucket.as_deref(), Some("s3://b"));
        assert_eq!(address.bucket_keys.unwrap().access_key, "AK");
    }

    #[test]
    fn every_fault_of_a_secret_is_told_at_once_and_no_value_is_shown() {
        let error = parse(&[("meta-ulr", "redis://hush"), ("accesskey", "hush"), ("secret-key", "hush")])
            .unwrap_err();
        let text = error.to_string();
        for part in [r#""accesskey", "meta-ulr""#, r#"no key "meta-url""#, "belong together"] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
        assert!(!text.contains("hush"), "{text}");
    }

    #[test]
    fn a_key_in_two_spellings_is_refused() {
        assert!(
            parse(&[("metaurl", "redis://a"), ("meta-url", "redis://b")])
                .unwrap_err()
                .to_string()
                .contains("twice")
        );
    }
}
