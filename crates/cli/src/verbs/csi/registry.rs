//! How the controller reaches the registry of a file system: one metadata client for each.

use super::embedded::Embedded;
use super::secrets_of;
use crate::bucket;
use crate::failure::{Exit, Failure};
use crate::janitor::Janitor;
use crate::store::{self, MetaUrl};
use carafe_csi::FsAddress;
use carafe_csi::store::{Connect, StoreError};
use carafe_meta::{Client, ClientOptions};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How long a bucket may take to answer: less than a call has for store and bucket together, or the store would be blamed.
const BUCKET_LIMIT: Duration = Duration::from_secs(15);

/// Opens metadata clients for the controller.
pub(super) struct Connector {
    embedded: Arc<Embedded>,
    allow_volatile: bool,
    /// What frees deleted volumes in the background, by client. A mount may be the janitor as well: one of all works.
    janitors: Arc<Janitors>,
}

/// Janitors of the controller's own clients.
#[derive(Default)]
pub(super) struct Janitors(Mutex<Vec<(Arc<Client>, Janitor)>>);

impl Janitors {
    /// Ends the janitors of clients that nobody but their janitor knows any more.
    async fn sweep(&self) {
        let mut all = self.0.lock().await;
        for (client, janitor) in std::mem::take(&mut *all) {
            if client.is_closed() {
                janitor.end().await;
            } else {
                all.push((client, janitor));
            }
        }
    }

    /// Ends all of them, before their clients are closed.
    pub(super) async fn end(&self) {
        for (_, janitor) in self.0.lock().await.drain(..) {
            janitor.end().await;
        }
    }
}

#[async_trait::async_trait]
impl Connect for Connector {
    async fn connect(&self, address: &FsAddress) -> Result<Arc<Client>, StoreError> {
        self.client(address).await.map_err(refused)
    }
}

impl Connector {
    pub(super) fn new(embedded: Arc<Embedded>, allow_volatile: bool, janitors: Arc<Janitors>) -> Self {
        Connector { embedded, allow_volatile, janitors }
    }

    async fn client(&self, address: &FsAddress) -> Result<Arc<Client>, Failure> {
        let url = MetaUrl::parse(address.public_url().as_str())?;
        if url.is_embedded() {
            return Ok(self.embedded.volume(address).await?.client.clone());
        }
        let secrets = secrets_of(address);
        let store = store::connect(&url, &secrets, false).await?;
        let (info, superblock) = store::inspect(store.as_ref()).await?;
        store::check_fit(&info, self.allow_volatile)?;
        if let Some(expected) = address.bucket.as_ref().filter(|b| **b != superblock.bucket) {
            let what = format!("the bucket of this file system is {}, not {expected}", superblock.bucket);
            return Err(Failure::new(Exit::Refused, what));
        }
        // A volume that no node could mount is not to be promised.
        let opening = tokio::time::timeout(BUCKET_LIMIT, bucket::open(&superblock, &secrets));
        let endpoint = superblock.bucket_options.get(bucket::ENDPOINT);
        let bucket = opening.await.unwrap_or_else(|_| Err(bucket_is_silent(&superblock.bucket, endpoint)))?;
        let role = "csi controller".to_owned();
        let allow_volatile = self.allow_volatile;
        let options = ClientOptions { role, allow_volatile, ..ClientOptions::default() };
        let client = Client::open(store, options).await?;
        self.janitors.sweep().await;
        self.janitors.0.lock().await.push((client.clone(), Janitor::start(client.clone(), bucket)));
        Ok(client)
    }
}

/// `endpoint` is what was given to `format`, if anything was.
fn bucket_is_silent(bucket: &str, endpoint: Option<&String>) -> Failure {
    let endpoint = endpoint.map(|endpoint| format!(" at {endpoint}")).unwrap_or_default();
    let limit = BUCKET_LIMIT.as_secs();
    let what = format!(
        "bucket {bucket}{endpoint} did not answer within {limit} s: check the endpoint and the network"
    );
    Failure::new(Exit::Unreachable, what)
}

fn refused(failure: Failure) -> StoreError {
    let what = failure.to_string();
    match failure.exit() {
        Exit::Usage => StoreError::Refused(what),
        Exit::Denied => StoreError::Unauthenticated(what),
        Exit::Refused => StoreError::Unusable(what),
        Exit::Unreachable | Exit::Failed | Exit::Findings => StoreError::Unavailable(what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_a_silent_bucket_is_named_and_not_the_store() {
        let endpoint = "http://s3:8333".to_owned();
        let error = refused(bucket_is_silent("s3://b/p", Some(&endpoint)));
        let names_it = |what: &str| what.contains("bucket s3://b/p at http://s3:8333 did not answer");
        assert!(matches!(&error, StoreError::Unavailable(what) if names_it(what)), "{error}");
    }
}
