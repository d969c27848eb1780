//! File systems of the embedded engine inside the driver: opened once, mounted whenever a pod needs them.
//!
//! The store's file has one process, and in that process one client: two would each believe to be alone. So controller and
//! mount share it, and it stays open as long as the driver runs.

use super::secrets_of;
use crate::failure::{Failure, Outcome};
use crate::serve;
use crate::volume::{Volume, VolumeArgs};
use carafe_csi::FsAddress;
use carafe_csi::launcher::{Refusal, RefusalKind, ServingMount};
use carafe_fuse::{MountOptions, Mounted};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The open file systems by their URL.
pub(super) struct Embedded {
    args: VolumeArgs,
    open: Mutex<HashMap<String, Arc<Volume>>>,
}

impl Embedded {
    pub(super) fn new(args: VolumeArgs) -> Self {
        Embedded { args, open: Mutex::default() }
    }

    /// The file system at `address`, opened if this is the first to ask.
    pub(super) async fn volume(&self, address: &FsAddress) -> Outcome<Arc<Volume>> {
        let url = address.public_url().to_string();
        let mut open = self.open.lock().await;
        if let Some(volume) = open.get(&url) {
            return Ok(volume.clone());
        }
        let role = "csi driver".to_owned();
        let volume = Volume::open(&url, &secrets_of(address), &self.args, role, false).await?;
        let volume = Arc::new(volume);
        open.insert(url, volume.clone());
        Ok(volume)
    }

    /// Mounts it at `point`.
    pub(super) async fn mount(
        self: Arc<Self>,
        address: FsAddress,
        point: PathBuf,
    ) -> Result<Box<dyn ServingMount>, Refusal> {
        let mounting = async {
            let volume = self.volume(&address).await?;
            let options = MountOptions::new(point, volume.superblock.name.clone());
            let mounted = serve::mount(volume.clone(), options, false).await?;
            Ok::<_, Failure>(Serving { volume, mounted })
        };
        match mounting.await {
            Ok(serving) => Ok(Box::new(serving)),
            Err(failure) => {
                let kind = RefusalKind::from_exit_code(Some(i32::from(failure.exit() as u8)));
                Err(Refusal { kind, reason: failure.to_string() })
            }
        }
    }

    /// Stores everything and ends the sessions.
    pub(super) async fn close(&self) -> Outcome {
        let mut result = Ok(());
        for (_, volume) in self.open.lock().await.drain() {
            result = result.and(volume.close().await);
        }
        result
    }
}

struct Serving {
    volume: Arc<Volume>,
    mounted: Mounted,
}

#[async_trait::async_trait]
impl ServingMount for Serving {
    async fn ended(mut self: Box<Self>) -> Result<(), String> {
        self.mounted.wait().await.map_err(|e| e.to_string())?;
        self.volume.vfs.sync().await.map_err(|e| e.to_string())
    }
}
