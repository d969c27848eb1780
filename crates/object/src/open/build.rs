//! The object store behind a location.
//!
//! 1. **One retry layer.** The library's own retry is switched off: see [`crate::decorate::retry`].
//! 2. **Static keys exclude the environment.** With keys in the options nothing is taken from `AWS_*`: a session token
//!    of the pod's role next to the keys of a secret would be refused by the service, with a message about neither.
//! 3. **Bounded waits.** 5 s to connect, 30 s without a byte, 60 s for a request; idle connections are kept for 90 s.

use super::{BucketOptions, Location, Service};
use crate::error::{ObjectError, Result};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
const KEEP_IDLE: Duration = Duration::from_secs(90);

/// Opens the location. Sends no request.
pub(crate) fn build(location: &Location, options: &BucketOptions) -> Result<Arc<dyn ObjectStore>> {
    match location {
        Location::Memory => Ok(Arc::new(InMemory::new())),
        Location::Directory(dir) => directory(dir, options),
        Location::Cloud { service: Service::S3, bucket, .. } => s3(bucket, location, options),
        Location::Cloud { service: Service::Google, bucket, .. } => google(bucket, location, options),
        Location::Cloud { service: Service::Azure, bucket, .. } => azure(bucket, location, options),
    }
}

fn directory(dir: &Path, options: &BucketOptions) -> Result<Arc<dyn ObjectStore>> {
    let missing =
        |detail: String| ObjectError::NoBucket { bucket: format!("file://{}", dir.display()), detail };
    if options.create {
        std::fs::create_dir_all(dir).map_err(|e| missing(e.to_string()))?;
    }
    let store = LocalFileSystem::new_with_prefix(dir).map_err(|e| missing(e.to_string()))?;
    // A put that returned is durable, as in any bucket; and slices that are gone leave no directories behind.
    Ok(Arc::new(store.with_fsync(true).with_automatic_cleanup(true)))
}

fn s3(bucket: &str, location: &Location, options: &BucketOptions) -> Result<Arc<dyn ObjectStore>> {
    let endpoint = options.endpoint()?;
    let mut builder = match options.keys()? {
        Some((access, secret)) => {
            AmazonS3Builder::new().with_access_key_id(access).with_secret_access_key(secret.expose())
        }
        None => AmazonS3Builder::from_env(),
    };
    if let Some(token) = &options.session_token {
        builder = builder.with_token(token.expose());
    }
    if let Some(region) = options.region.as_deref().filter(|region| !region.is_empty()) {
        builder = builder.with_region(region);
    }
    // A dot in the name breaks the wildcard certificate of bucket.s3.region.amazonaws.com.
    let path_style = options.path_style.unwrap_or(endpoint.is_some() || bucket.contains('.'));
    if let Some(endpoint) = &endpoint {
        builder = builder.with_endpoint(s3_endpoint(endpoint, bucket, path_style)?);
    }
    let address = builder.get_config_value(&AmazonS3ConfigKey::Endpoint).unwrap_or_default();
    let plain_http = address.starts_with("http://");
    let builder = builder
        .with_bucket_name(bucket)
        .with_virtual_hosted_style_request(!path_style)
        .with_client_options(connections(plain_http))
        // Not SHA-256 of each body, as its signature would be: that took 1 ms of processor for a MiB at the server (12.6
        // instead of 11.6, SeaweedFS), and nearly as much here. Under TLS nothing can change a body unseen. Over plain HTTP
        // a checksum goes along that costs next to nothing, for servers that check it.
        .with_unsigned_payload(true)
        .with_retry(no_retry());
    let builder = if plain_http { builder.with_checksum_algorithm(Checksum::CRC64NVME) } else { builder };
    Ok(Arc::new(builder.build().map_err(|e| unusable(location, &e))?))
}

/// The library wants the bucket in the host name already if it is to be there.
fn s3_endpoint(endpoint: &Url, bucket: &str, path_style: bool) -> Result<String> {
    let mut url = endpoint.clone();
    if !path_style {
        let host = format!("{bucket}.{}", endpoint.host_str().unwrap_or_default());
        url.set_host(Some(&host)).map_err(|e| ObjectError::BadEndpoint {
            endpoint: endpoint.to_string(),
            detail: format!("{host} is no host name ({e}); use path style"),
        })?;
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

fn google(bucket: &str, location: &Location, options: &BucketOptions) -> Result<Arc<dyn ObjectStore>> {
    let endpoint = options.endpoint()?;
    let mut builder = match &options.secret_key {
        Some(account) => GoogleCloudStorageBuilder::new().with_service_account_key(account.expose()),
        None => GoogleCloudStorageBuilder::from_env(),
    };
    if let Some(endpoint) = &endpoint {
        builder = builder.with_base_url(endpoint.as_str().trim_end_matches('/'));
    }
    let store = builder
        .with_bucket_name(bucket)
        .with_client_options(connections(is_http(&endpoint)))
        .with_retry(no_retry())
        .build()
        .map_err(|e| unusable(location, &e))?;
    Ok(Arc::new(store))
}

fn azure(container: &str, location: &Location, options: &BucketOptions) -> Result<Arc<dyn ObjectStore>> {
    let endpoint = options.endpoint()?;
    let mut builder = match options.keys()? {
        Some((account, key)) => {
            MicrosoftAzureBuilder::new().with_account(account).with_access_key(key.expose())
        }
        None => MicrosoftAzureBuilder::from_env(),
    };
    if let Some(endpoint) = &endpoint {
        builder = builder.with_endpoint(endpoint.as_str().trim_end_matches('/').to_owned());
    }
    let store = builder
        .with_container_name(container)
        .with_client_options(connections(is_http(&endpoint)))
        .with_retry(no_retry())
        .build()
        .map_err(|e| unusable(location, &e))?;
    Ok(Arc::new(store))
}

fn is_http(endpoint: &Option<Url>) -> bool {
    endpoint.as_ref().is_some_and(|url| url.scheme() == "http")
}

fn connections(plain_http: bool) -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(plain_http)
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_read_timeout(STALL_TIMEOUT)
        .with_timeout(REQUEST_TIMEOUT)
        .with_pool_idle_timeout(KEEP_IDLE)
}

fn no_retry() -> RetryConfig {
    RetryConfig { max_retries: 0, retry_timeout: REQUEST_TIMEOUT, backoff: BackoffConfig::default() }
}

fn unusable(location: &Location, e: &object_store::Error) -> ObjectError {
    let detail = e.to_string();
    if detail.contains("Account must be specified") {
        return ObjectError::IncompleteKeys { missing: "the access key (the name of the Azure account)" };
    }
    ObjectError::BadUrl { url: location.to_string(), detail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::Secret;

    fn open(url: &str, options: &BucketOptions) -> Result<Arc<dyn ObjectStore>> {
        build(&Location::parse(url)?, options)
    }

    #[test]
    fn the_bucket_moves_into_the_host_name_unless_path_style() {
        let endpoint = Url::parse("http://s3.local:9000/").unwrap();
        assert_eq!(s3_endpoint(&endpoint, "b", true).unwrap(), "http://s3.local:9000");
        assert_eq!(s3_endpoint(&endpoint, "b", false).unwrap(), "http://b.s3.local:9000");
        let number = Url::parse("http://127.0.0.1:9000").unwrap();
        assert!(matches!(s3_endpoint(&number, "b", false), Err(ObjectError::BadEndpoint { .. })));
    }

    #[test]
    fn every_service_opens_without_a_request() {
        let keys = BucketOptions {
            access_key: Some("account".into()),
            secret_key: Some(Secret::new("c2VjcmV0")),
            endpoint: Some("http://127.0.0.1:1".into()),
            ..BucketOptions::default()
        };
        assert!(open("s3://b/p", &keys).is_ok());
        assert!(open("az://b", &keys).is_ok());
        assert!(open("memory:", &BucketOptions::default()).is_ok());
        let account = r#"{"type":"service_account","private_key":"","private_key_id":"","client_email":""}"#;
        let google = BucketOptions { secret_key: Some(Secret::new(account)), ..BucketOptions::default() };
        if let Err(e) = open("gs://b", &google) {
            assert!(
                matches!(e, ObjectError::BadUrl { .. }),
                "an empty private key may be refused, and only so: {e}"
            );
        }
    }

    #[test]
    fn a_missing_directory_is_a_missing_bucket() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file://{}/not/there", dir.path().display());
        let e = open(&url, &BucketOptions::default()).unwrap_err();
        assert!(matches!(e, ObjectError::NoBucket { .. }), "{e}");
        let create = BucketOptions { create: true, ..BucketOptions::default() };
        assert!(open(&url, &create).is_ok());
    }
}
