//! What a bucket URL names.

use crate::error::{ObjectError, Result};
use std::fmt;
use std::path::PathBuf;
use url::Url;

/// The services that hold buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Amazon S3 and all that speak its protocol.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage; a bucket is a container.
    Azure,
}

impl Service {
    fn scheme(self) -> &'static str {
        match self {
            Service::S3 => "s3",
            Service::Google => "gs",
            Service::Azure => "az",
        }
    }
}

/// A parsed bucket URL. Shown, it is the URL again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A directory of this machine: for tests, demos, and network disks.
    Directory(PathBuf),
    /// A bucket of a service.
    Cloud {
        /// Which service.
        service: Service,
        /// Name of the bucket.
        bucket: String,
        /// What all keys start with, without slashes at its ends; may be empty.
        prefix: String,
    },
    /// Memory of this process. Each opening is a new, empty bucket.
    Memory,
}

impl Location {
    /// Parses `s3://bucket[/prefix]`, `gs://...`, `az://...`, `file:///directory` or `memory:`.
    ///
    /// # Errors
    /// [`ObjectError::UnknownScheme`], [`ObjectError::MissingBucketName`] or [`ObjectError::BadUrl`].
    pub fn parse(url: &str) -> Result<Self> {
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(bad(url, "a bucket url starts with s3://, gs://, az://, file:/// or memory:"));
        };
        let service = match scheme.to_ascii_lowercase().as_str() {
            "s3" => Service::S3,
            "gs" => Service::Google,
            "az" => Service::Azure,
            "file" => return parse_directory(url),
            "memory" if rest.trim_matches('/').is_empty() => return Ok(Location::Memory),
            "memory" => return Err(bad(url, "nothing follows memory:")),
            _ => return Err(ObjectError::UnknownScheme { scheme: scheme.to_owned() }),
        };
        let rest = rest.strip_prefix("//").ok_or_else(|| bad(url, "two slashes follow the scheme"))?;
        parse_cloud(url, service, rest)
    }

    /// What all keys start with; empty if nothing.
    pub fn prefix(&self) -> &str {
        match self {
            Location::Cloud { prefix, .. } => prefix,
            Location::Directory(_) | Location::Memory => "",
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Directory(dir) => write!(f, "file://{}", dir.display()),
            Location::Memory => f.write_str("memory:"),
            Location::Cloud { service, bucket, prefix } if prefix.is_empty() => {
                write!(f, "{}://{bucket}", service.scheme())
            }
            Location::Cloud { service, bucket, prefix } => {
                write!(f, "{}://{bucket}/{prefix}", service.scheme())
            }
        }
    }
}

fn parse_directory(url: &str) -> Result<Location> {
    let parsed = Url::parse(url).map_err(|e| bad(url, &e.to_string()))?;
    let absolute = "write file:///absolute/path";
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(bad(url, "a directory has no query and no fragment"));
    }
    parsed.to_file_path().map(Location::Directory).map_err(|()| bad(url, absolute))
}

fn parse_cloud(url: &str, service: Service, rest: &str) -> Result<Location> {
    if rest.contains('@') {
        return Err(bad(url, "credentials belong in the access key and secret key options"));
    }
    if rest.contains(['?', '#']) {
        return Err(bad(url, "a bucket url has no query and no fragment"));
    }
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() {
        return Err(ObjectError::MissingBucketName { scheme: service.scheme().to_owned() });
    }
    let prefix = prefix.trim_matches('/');
    if !plain(bucket) || bucket.starts_with('.') {
        return Err(bad(url, "the name of a bucket has letters, digits, '.', '-' and '_'"));
    }
    let good = |part: &str| plain(part) && part != "." && part != "..";
    if !prefix.is_empty() && !prefix.split('/').all(good) {
        return Err(bad(url, "each part of a prefix has letters, digits, '.', '-' and '_'"));
    }
    Ok(Location::Cloud { service, bucket: bucket.to_owned(), prefix: prefix.to_owned() })
}

/// Whether the text means the same in a key, a URL and a signature.
fn plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

fn bad(url: &str, detail: &str) -> ObjectError {
    // What stands before an '@' may be a password: never repeated.
    let shown = match url.rsplit_once('@') {
        Some((_, rest)) => format!("(hidden)@{rest}"),
        None => url.to_owned(),
    };
    ObjectError::BadUrl { url: shown, detail: detail.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_all_kinds_come_back_as_they_were() {
        for url in
            ["s3://b", "s3://b/a/deep/prefix", "gs://b_1/x", "az://container", "file:///tmp/x", "memory:"]
        {
            assert_eq!(Location::parse(url).unwrap().to_string(), url);
        }
        assert_eq!(Location::parse("s3://b/x/").unwrap().prefix(), "x");
        assert_eq!(Location::parse("S3://b/").unwrap().to_string(), "s3://b");
        let spaced = Location::parse("file:///a%20b").unwrap();
        assert_eq!(spaced, Location::Directory("/a b".into()));
    }

    #[test]
    fn each_mistake_has_its_own_error() {
        let parse = |url| Location::parse(url).unwrap_err();
        assert_eq!(parse("hdfs://b"), ObjectError::UnknownScheme { scheme: "hdfs".into() });
        assert_eq!(parse("s3://"), ObjectError::MissingBucketName { scheme: "s3".into() });
        assert_eq!(parse("s3:///prefix"), ObjectError::MissingBucketName { scheme: "s3".into() });
        for url in [
            "bucket",
            "s3:b",
            "s3://b?x=1",
            "s3://b/../x",
            "s3://b/a//x",
            "s3://b c",
            "file://relative",
            "memory:x",
        ] {
            assert!(matches!(parse(url), ObjectError::BadUrl { .. }), "{url}");
        }
    }

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        let e = Location::parse("s3://key:hunter2@bucket/x").unwrap_err();
        assert!(!format!("{e} {e:?}").contains("hunter2"), "{e:?}");
    }
}
