//! How the controller reaches the registry of a file system: one metadata client for each.

use super::embedded::Embedded;
use super::secrets_of;
use crate::bucket;
use crate::failure::{Exit, Failure};
use crate::store::{self, MetaUrl};
use carafe_csi::FsAddress;
use carafe_csi::store::{Connect, StoreError};
use carafe_meta::{Client, ClientOptions};
use std::sync::Arc;

/// Opens metadata clients for the controller.
pub(super) struct Connector {
    pub(super) embedded: Arc<Embedded>,
    pub(super) allow_volatile: bool,
}

#[async_trait::async_trait]
impl Connect for Connector {
    async fn connect(&self, address: &FsAddress) -> Result<Arc<Client>, StoreError> {
        self.client(address).await.map_err(refused)
    }
}

impl Connector {
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
        bucket::open(&superblock, &secrets).await?;
        let role = "csi controller".to_owned();
        let allow_volatile = self.allow_volatile;
        let options = ClientOptions { role, allow_volatile, ..ClientOptions::default() };
        Ok(Client::open(store, options).await?)
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
