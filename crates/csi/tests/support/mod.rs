//! A whole plugin on a Unix socket, over the memory registry and a tmpfs as the file system. Needs root.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use carafe_csi::client::{CsiClient, mount_capability};
use carafe_csi::launcher::{LaunchError, LocalDirectory, ServingMount, Starter};
use carafe_csi::mount::table::{MountEntry, MountTable};
use carafe_csi::store::{MemoryFileSystems, MemoryStore};
use carafe_csi::{Config, FsAddress, MountLauncher, NodeConfig, SharedMounts, SharedOptions, listen, serve};
use carafe_proto::csi::v1::volume_capability::access_mode::Mode;
use carafe_proto::csi::v1::*;
use rustix::mount::{MountFlags, UnmountFlags};
use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

pub const URL: &str = "redis://twin/0";
pub const FS: Uuid = Uuid::from_u128(0xCAFE);

/// The file system type of [`mount_dead`].
pub const DEAD_TYPE: &str = "fuse.carafetest";

/// A local directory that also takes a dead FUSE mount for one of its own.
pub struct Twin(pub LocalDirectory);

#[tonic::async_trait]
impl Starter for Twin {
    async fn start(&self, address: &FsAddress, point: &Path) -> Result<Box<dyn ServingMount>, LaunchError> {
        self.0.start(address, point).await
    }

    fn owns(&self, entry: &MountEntry) -> bool {
        entry.fs_type == DEAD_TYPE || self.0.owns(entry)
    }
}

pub struct Plugin {
    pub client: CsiClient,
    pub dir: Arc<Scratch>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// A directory with everything of a test in it; what is mounted below it goes with it.
pub struct Scratch(TempDir);

impl Scratch {
    pub fn new() -> Arc<Self> {
        assert!(rustix::process::geteuid().is_root(), "these tests mount and need root");
        let scratch = Self(tempfile::tempdir().unwrap());
        for name in ["fs", "pods", "base"] {
            std::fs::create_dir(scratch.path(name)).unwrap();
        }
        let tmpfs = scratch.path("fs");
        rustix::mount::mount("carafe-twin", &tmpfs, "tmpfs", MountFlags::empty(), c"size=16m").unwrap();
        Arc::new(scratch)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    /// The mounts at `name`.
    pub fn mounts_at(&self, name: &str) -> usize {
        let point = self.path(name);
        MountTable::read().unwrap().0.iter().filter(|entry| entry.point == point).count()
    }

    /// The mounts at or below `name`.
    pub fn mounts_below(&self, name: &str) -> usize {
        let folder = self.path(name);
        MountTable::read().unwrap().0.iter().filter(|entry| entry.point.starts_with(&folder)).count()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let all = self.path("");
        for _ in 0..100 {
            let Ok(table) = MountTable::read() else { return };
            let Some(entry) = table.0.iter().rev().find(|entry| entry.point.starts_with(&all)) else {
                return;
            };
            let _ = rustix::mount::unmount(&entry.point, UnmountFlags::DETACH);
        }
    }
}

/// A launcher over the tmpfs of `dir` that ends idle mounts at once.
pub fn local_launcher(dir: &Scratch) -> Arc<dyn MountLauncher> {
    let options = SharedOptions { linger: Duration::ZERO, ..SharedOptions::new(dir.path("base")) };
    Arc::new(SharedMounts::new(Twin(LocalDirectory::new(dir.path("fs"))), options))
}

pub fn memory(dir: &Scratch) -> MemoryFileSystems {
    MemoryFileSystems::default()
        .with(URL, MemoryStore::new(FS).with_directory(dir.path("fs")).with_limit(1 << 40))
}

pub fn config(dir: &Scratch) -> Config {
    Config {
        file_systems: vec![FsAddress::new(URL, None).unwrap()],
        controller: Some(Arc::new(memory(dir))),
        node: Some(NodeConfig { node_id: "node-a".into(), launcher: local_launcher(dir) }),
        ..Config::new("0.0.0-test")
    }
}

impl Plugin {
    pub async fn start() -> Self {
        let dir = Scratch::new();
        let config = config(&dir);
        Self::with(dir, config).await
    }

    pub async fn with(dir: Arc<Scratch>, config: Config) -> Self {
        let socket = dir.path("csi.sock");
        let listener = listen(&socket).await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let shutdown = async {
                let _ = stopped.await;
            };
            serve(config, listener, shutdown).await.unwrap();
        });
        let client = CsiClient::connect(&socket).await.unwrap();
        Self { client, dir, stop: Some(stop), task }
    }

    /// Ends the plugin in good order.
    pub async fn stop(mut self) -> Arc<Scratch> {
        let _ = self.stop.take().unwrap().send(());
        drop(self.client);
        self.task.await.unwrap();
        self.dir
    }

    pub async fn create(&mut self, name: &str) -> Volume {
        self.client
            .controller
            .create_volume(create(name, 1 << 20))
            .await
            .unwrap()
            .into_inner()
            .volume
            .unwrap()
    }

    pub fn pod_path(&self, name: &str) -> String {
        self.dir.path("pods").join(name).to_str().unwrap().to_owned()
    }

    pub fn stage_request(&self, volume: &Volume) -> NodeStageVolumeRequest {
        NodeStageVolumeRequest {
            volume_id: volume.volume_id.clone(),
            staging_target_path: self.pod_path("staging"),
            volume_capability: Some(mount_capability(Mode::MultiNodeMultiWriter)),
            volume_context: volume.volume_context.clone(),
            ..Default::default()
        }
    }

    pub fn publish_request(&self, volume: &Volume, target: &str) -> NodePublishVolumeRequest {
        NodePublishVolumeRequest {
            volume_id: volume.volume_id.clone(),
            staging_target_path: self.pod_path("staging"),
            target_path: self.pod_path(target),
            volume_capability: Some(mount_capability(Mode::MultiNodeMultiWriter)),
            volume_context: volume.volume_context.clone(),
            ..Default::default()
        }
    }

    pub async fn stage(&mut self, volume: &Volume) -> Result<(), tonic::Status> {
        let request = self.stage_request(volume);
        self.client.node.node_stage_volume(request).await.map(drop)
    }

    pub async fn publish(&mut self, volume: &Volume, target: &str) -> Result<(), tonic::Status> {
        let request = self.publish_request(volume, target);
        self.client.node.node_publish_volume(request).await.map(drop)
    }

    pub async fn unpublish(&mut self, volume: &Volume, target: &str) -> Result<(), tonic::Status> {
        let request = NodeUnpublishVolumeRequest {
            volume_id: volume.volume_id.clone(),
            target_path: self.pod_path(target),
        };
        self.client.node.node_unpublish_volume(request).await.map(drop)
    }

    pub async fn unstage(&mut self, volume: &Volume) -> Result<(), tonic::Status> {
        let staging_target_path = self.pod_path("staging");
        let request = NodeUnstageVolumeRequest { volume_id: volume.volume_id.clone(), staging_target_path };
        self.client.node.node_unstage_volume(request).await.map(drop)
    }
}

pub fn create(name: &str, bytes: i64) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: bytes, limit_bytes: 0 }),
        volume_capabilities: vec![mount_capability(Mode::MultiNodeMultiWriter)],
        ..Default::default()
    }
}

pub fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A FUSE mount whose daemon is dead: every access is "Transport endpoint is not connected".
pub fn mount_dead(point: &Path) {
    let device = std::fs::File::options().read(true).write(true).open("/dev/fuse").unwrap();
    let data = format!("fd={},rootmode=40000,user_id=0,group_id=0\0", device.as_raw_fd());
    let data = std::ffi::CStr::from_bytes_with_nul(data.as_bytes()).unwrap();
    rustix::mount::mount("dead", point, DEAD_TYPE, MountFlags::empty(), data).unwrap();
    drop(device);
    assert!(std::fs::read_dir(point).is_err(), "nobody serves it");
}

/// Waits up to 5 s for something that happens in the background.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: not within 5 s");
}
