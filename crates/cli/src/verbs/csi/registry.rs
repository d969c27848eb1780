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
use tokio::sync::Mutex;

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
        let bucket = bucket::open(&superblock, &secrets).await?;
        let role = "csi controller".to_owned();
        let allow_volatile = self.allow_volatile;
        let options = ClientOptions { role, allow_volatile, ..ClientOptions::default() };
        let client = Client::open(store, options).await?;
        self.janitors.sweep().await;
        self.janitors.0.lock().await.push((client.clone(), Janitor::start(client.clone(), bucket)));
        Ok(client)
    }
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
