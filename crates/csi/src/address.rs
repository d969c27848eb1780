//! How a file system is reached: its metadata URL and the credentials of store and bucket.
//!
//! Credentials are kept apart from the URL, so that the URL can be logged, hashed into a mount's name and given on a
//! command line, while passwords only ever travel in memory or in a child's environment.

use std::fmt;
use url::Url;

/// A value that no log, `Debug` or error may show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides `value`.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Static credentials of a bucket. Absent: the environment or the instance role decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketKeys {
    /// Access key id, or the account's name.
    pub access_key: String,
    /// Secret access key, or the account's key.
    pub secret_key: Secret,
    /// Session token of temporary credentials.
    pub session_token: Option<Secret>,
}

/// Where a file system's metadata is, and with which credentials it and its bucket are opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsAddress {
    meta_url: Url,
    meta_password: Option<Secret>,
    /// The bucket that the caller expects behind the metadata, without secrets; the file system itself knows its bucket,
    /// this one is only compared.
    pub bucket: Option<String>,
    /// Credentials of the bucket.
    pub bucket_keys: Option<BucketKeys>,
    /// What the configuration calls it, so that volumes can name it (`fileSystem`).
    pub name: Option<String>,
    /// How it is to be mounted, if not as usual. Mounts with different options are different mounts.
    pub options: MountOptions,
}

/// How a volume's file system is mounted, where that differs from what the plugin was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// The volume that shares its mount with no other.
    pub alone: Option<String>,
    /// Keep nothing on the node's disk.
    pub memory_only: bool,
    /// Bytes of the cache on disk.
    pub cache_size: Option<u64>,
    /// close() waits until the data is in the bucket.
    pub close_sync: bool,
    /// Uploads at once.
    pub upload_parallel: Option<u32>,
}

impl MountOptions {
    /// A text that differs whenever the options do; empty for the usual ones.
    pub fn digest_text(&self) -> String {
        if *self == Self::default() { String::new() } else { format!("{self:?}") }
    }
}

/// Why a metadata URL cannot be used. The URL itself is not shown: it may hold a password.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not a URL.
    #[error("not a URL ({0}): write it as redis://HOST:PORT/DB or embedded:///PATH")]
    NotUrl(url::ParseError),
    /// Two passwords.
    #[error("the URL has a password and `meta-password` gives another: give one of them")]
    TwoPasswords,
    /// The password cannot be decoded.
    #[error(
        "the password in the URL is not UTF-8 once its %-escapes are decoded: escape each of its bytes right"
    )]
    PasswordEncoding,
}

impl FsAddress {
    /// Takes a metadata URL apart: a password inside it moves out into a [`Secret`].
    ///
    /// # Errors
    /// When it is no URL, or names another password than `password`.
    pub fn new(meta_url: &str, password: Option<Secret>) -> Result<Self, AddressError> {
        let mut url = Url::parse(meta_url.trim()).map_err(AddressError::NotUrl)?;
        let inside = match url.password() {
            None => None,
            Some(escaped) => Some(Secret(unescape(escaped).ok_or(AddressError::PasswordEncoding)?)),
        };
        if inside.is_some() {
            // A URL that has a password also has an authority, the only case in which this could fail.
            let _ = url.set_password(None);
        }
        let meta_password = match (inside, password) {
            (Some(inside), Some(given)) if inside != given => return Err(AddressError::TwoPasswords),
            (inside, given) => inside.or(given),
        };
        Ok(Self {
            meta_url: url,
            meta_password,
            bucket: None,
            bucket_keys: None,
            name: None,
            options: MountOptions::default(),
        })
    }

    /// The metadata URL without its password: fit for logs and command lines.
    pub fn public_url(&self) -> &Url {
        &self.meta_url
    }

    /// The password of the metadata store.
    pub fn meta_password(&self) -> Option<&Secret> {
        self.meta_password.as_ref()
    }

    /// The metadata URL with its password put back: for the code that connects, never for display.
    pub fn url_with_password(&self) -> Secret {
        let mut url = self.meta_url.clone();
        if let Some(password) = &self.meta_password {
            // Without an authority (`embedded:///path`) there is no place for a password, and no use either.
            // The URL escapes what may not stand in it, but takes a `%` for an escape that was made already.
            let _ = url.set_password(Some(&password.reveal().replace('%', "%25")));
        }
        Secret(url.into())
    }
}

/// Decodes %-escapes; `None` if the result is not UTF-8.
fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = |range| tail.get(range).and_then(|h| std::str::from_utf8(h).ok());
        match (first, hex(0..2).and_then(|h| u8::from_str_radix(h, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                rest = &tail[2..];
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_the_url_is_taken_out_of_it_and_put_back_for_the_connection_alone() {
        let address = FsAddress::new("rediss://carafe:p%40ss%2f@redis:6380/3", None).unwrap();
        assert_eq!(address.public_url().as_str(), "rediss://carafe@redis:6380/3");
        assert_eq!(address.meta_password().unwrap().reveal(), "p@ss/");
        assert_eq!(address.url_with_password().reveal(), "rediss://carafe:p%40ss%2F@redis:6380/3");
        assert!(!format!("{address:?}").contains("ss/"), "{address:?}");
    }

    #[test]
    fn a_password_that_looks_escaped_stays_as_it_is() {
        let address = FsAddress::new("redis://host", Some(Secret::new("100%25 %41%"))).unwrap();
        let whole = FsAddress::new(address.url_with_password().reveal(), None).unwrap();
        assert_eq!(whole.meta_password().unwrap().reveal(), "100%25 %41%");
    }

    #[test]
    fn an_embedded_url_has_no_password() {
        let address = FsAddress::new("embedded:///var/lib/carafe/demo.redb", None).unwrap();
        assert_eq!(address.url_with_password().reveal(), "embedded:///var/lib/carafe/demo.redb");
    }

    #[test]
    fn two_different_passwords_are_refused_and_twice_the_same_is_not() {
        let both = |given: &str| FsAddress::new("redis://:one@host", Some(Secret::new(given)));
        assert_eq!(both("two"), Err(AddressError::TwoPasswords));
        assert_eq!(both("one").unwrap().public_url().as_str(), "redis://host");
    }

    #[test]
    fn an_error_never_shows_the_url() {
        let error = FsAddress::new("//user:hush@host", None).unwrap_err();
        assert!(!error.to_string().contains("hush"), "{error}");
    }
}
