//! `carafe csi` from creation to deletion of a volume: with the embedded engine in its own process, with Redis and S3 by
//! child processes.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test ends where it fails, and says why")]

use carafe_csi::client::{CsiClient, mount_capability};
use carafe_proto::csi::v1::volume_capability::access_mode::Mode;
use carafe_proto::csi::v1::{
    CapacityRange, CreateVolumeRequest, DeleteVolumeRequest, NodePublishVolumeRequest,
    NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, Volume,
};
use carafe_testkit::{FileSystem, RedisServer, S3Server, detach_below, wait_until};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const MIB: i64 = 1 << 20;

/// A driver and the directories of its pods.
struct Driver {
    dir: TempDir,
    process: Child,
    client: CsiClient,
}

impl Driver {
    async fn start(fs: &FileSystem, dir: TempDir) -> Self {
        let path = |name: &str| dir.path().join(name);
        let log = std::fs::File::create(path("csi.log")).unwrap();
        std::fs::create_dir_all(path("pods")).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_carafe"))
            .args(["csi", "--node-id", "node-1", "--linger", "1", "--meta-url", &fs.meta_url])
            .arg("--endpoint")
            .arg(format!("unix://{}", path("csi.sock").display()))
            .arg("--base")
            .arg(path("base"))
            .arg("--cache-dir")
            .arg(path("cache"))
            .envs(fs.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        wait_until("the socket", Duration::from_secs(20), || path("csi.sock").exists()).unwrap();
        let client = CsiClient::connect(&path("csi.sock")).await.unwrap();
        Driver { dir, process, client }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    async fn create(&mut self, name: &str) -> Volume {
        let request = CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: Some(CapacityRange { required_bytes: 16 * MIB, limit_bytes: 0 }),
            volume_capabilities: vec![mount_capability(Mode::MultiNodeMultiWriter)],
            ..Default::default()
        };
        self.client.controller.create_volume(request).await.unwrap().into_inner().volume.unwrap()
    }

    /// Stages and publishes it at `pods/<target>`.
    async fn publish(&mut self, volume: &Volume, target: &str) {
        let stage = NodeStageVolumeRequest {
            volume_id: volume.volume_id.clone(),
            staging_target_path: self.text("pods/staging"),
            volume_capability: Some(mount_capability(Mode::MultiNodeMultiWriter)),
            volume_context: volume.volume_context.clone(),
            ..Default::default()
        };
        self.client.node.node_stage_volume(stage).await.unwrap();
        let publish = NodePublishVolumeRequest {
            volume_id: volume.volume_id.clone(),
            staging_target_path: self.text("pods/staging"),
            target_path: self.text(&format!("pods/{target}")),
            volume_capability: Some(mount_capability(Mode::MultiNodeMultiWriter)),
            volume_context: volume.volume_context.clone(),
            ..Default::default()
        };
        self.client.node.node_publish_volume(publish).await.unwrap();
    }

    async fn unpublish(&mut self, volume: &Volume, target: &str) {
        let unpublish = NodeUnpublishVolumeRequest {
            volume_id: volume.volume_id.clone(),
            target_path: self.text(&format!("pods/{target}")),
        };
        self.client.node.node_unpublish_volume(unpublish).await.unwrap();
        let unstage = NodeUnstageVolumeRequest {
            volume_id: volume.volume_id.clone(),
            staging_target_path: self.text("pods/staging"),
        };
        self.client.node.node_unstage_volume(unstage).await.unwrap();
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("csi.log")).unwrap_or_default()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let tail: Vec<String> = self.log().lines().rev().take(30).map(str::to_owned).collect();
            for line in tail.iter().rev() {
                println!("{line}");
            }
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        detach_below(self.dir.path());
    }
}

/// One volume from creation to deletion, with its quota.
async fn lives_and_dies(mut driver: Driver) {
    let volume = driver.create("pvc-1").await;
    assert_eq!(volume.capacity_bytes, 16 * MIB);
    driver.publish(&volume, "a").await;
    let pod = driver.path("pods/a");
    std::fs::write(pod.join("file"), vec![1u8; 10 << 20]).unwrap();
    let stat = rustix::fs::statvfs(&pod).unwrap();
    assert_eq!(stat.f_blocks * stat.f_frsize, 16 << 20, "the volume's capacity");
    let full = std::fs::write(pod.join("too-much"), vec![1u8; 10 << 20]).unwrap_err();
    assert!(matches!(full.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT)), "{full}");
    driver.unpublish(&volume, "a").await;

    // The idle mount ends after its linger; the next pod gets another one with the same data.
    let mounts = driver.path("base/mnt");
    let gone =
        || std::fs::read_to_string("/proc/self/mounts").unwrap().contains(&mounts.display().to_string());
    wait_until("the idle mount to end", Duration::from_secs(30), || !gone()).unwrap();
    driver.publish(&volume, "b").await;
    assert_eq!(std::fs::read(driver.path("pods/b/file")).unwrap(), vec![1u8; 10 << 20]);
    driver.unpublish(&volume, "b").await;

    let delete = DeleteVolumeRequest { volume_id: volume.volume_id.clone(), ..Default::default() };
    driver.client.controller.delete_volume(delete.clone()).await.unwrap();
    driver.client.controller.delete_volume(delete).await.unwrap();
    let again = driver.create("pvc-1").await;
    driver.publish(&again, "c").await;
    assert_eq!(std::fs::read_dir(driver.path("pods/c")).unwrap().count(), 0, "a new volume is empty");
    driver.unpublish(&again, "c").await;

    assert!(Command::new("kill").arg(driver.process.id().to_string()).status().unwrap().success());
    wait_until("the driver to end", Duration::from_secs(30), || driver.process.try_wait().unwrap().is_some())
        .unwrap();
    assert!(driver.process.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_lives_and_dies_with_the_embedded_engine() {
    let dir = tempfile::tempdir().unwrap();
    let fs = FileSystem::embedded(dir.path()).unwrap();
    fs.format().unwrap();
    lives_and_dies(Driver::start(&fs, dir).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_lives_and_dies_with_redis_and_s3() {
    let (redis, s3) = (RedisServer::start_durable().unwrap(), S3Server::start_with_bucket("csi").unwrap());
    let fs = FileSystem::on_redis_and_s3(&redis, &s3, "csi");
    fs.format().unwrap();
    lives_and_dies(Driver::start(&fs, tempfile::tempdir().unwrap()).await).await;
}
