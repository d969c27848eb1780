//! `carafe csi` from creation to deletion of a volume: with the embedded engine in its own process, with Redis and S3 by
//! child processes.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test ends where it fails, and says why")]

use carafe_csi::client::{CsiClient, mount_capability};
use carafe_proto::csi::v1::volume_capability::access_mode::Mode;
use carafe_proto::csi::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use carafe_proto::csi::v1::{
    CapacityRange, ControllerModifyVolumeRequest, CreateSnapshotRequest, CreateVolumeRequest,
    DeleteSnapshotRequest, DeleteVolumeRequest, NodePublishVolumeRequest, NodeStageVolumeRequest,
    NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, Volume, VolumeContentSource,
};
use carafe_testkit::{FileSystem, RedisServer, S3Server, detach_below, wait_until};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
        self.create_from(name, None).await
    }

    async fn create_from(&mut self, name: &str, source: Option<Type>) -> Volume {
        let request = CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: Some(CapacityRange { required_bytes: 16 * MIB, limit_bytes: 0 }),
            volume_capabilities: vec![mount_capability(Mode::MultiNodeMultiWriter)],
            volume_content_source: source.map(|source| VolumeContentSource { r#type: Some(source) }),
            ..Default::default()
        };
        self.client.controller.create_volume(request).await.unwrap().into_inner().volume.unwrap()
    }

    /// Stages and publishes it at `pods/<target>`.
    async fn publish(&mut self, volume: &Volume, target: &str) {
        let stage = NodeStageVolumeRequest {
            volume_id: volume.volume_id.clone(),
            staging_target_path: self.text(&format!("pods/staging-{}", volume.volume_id)),
            volume_capability: Some(mount_capability(Mode::MultiNodeMultiWriter)),
            volume_context: volume.volume_context.clone(),
            ..Default::default()
        };
        self.client.node.node_stage_volume(stage).await.unwrap();
        let publish = NodePublishVolumeRequest {
            volume_id: volume.volume_id.clone(),
            staging_target_path: self.text(&format!("pods/staging-{}", volume.volume_id)),
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
            staging_target_path: self.text(&format!("pods/staging-{}", volume.volume_id)),
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

/// Parts as ClickHouse makes them, until told to stop: two files in a temporary directory, then one rename.
fn write_parts(pod: PathBuf, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut n = 0_u64;
        while !stop.load(Ordering::SeqCst) {
            let tmp = pod.join(format!("tmp_{n}"));
            std::fs::create_dir(&tmp).unwrap();
            std::fs::write(tmp.join("data"), vec![n as u8; 10_000]).unwrap();
            std::fs::write(tmp.join("checksum"), format!("{n}")).unwrap();
            std::fs::rename(&tmp, pod.join(format!("part_{n}"))).unwrap();
            n += 1;
            std::fs::remove_dir_all(pod.join(format!("part_{}", n.saturating_sub(20)))).unwrap_or(());
        }
        n
    })
}

/// Every published part is whole. Returns how many there are.
fn whole_parts(pod: &Path) -> usize {
    let mut parts = 0;
    for entry in std::fs::read_dir(pod).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let Some(n) = name.strip_prefix("part_") else { continue };
        // One that is being removed has lost its first file already, and no other.
        if let Ok(data) = std::fs::read(entry.path().join("data")) {
            assert_eq!(data, vec![n.parse::<u64>().unwrap() as u8; 10_000], "{name}");
        }
        if let Ok(sum) = std::fs::read_to_string(entry.path().join("checksum")) {
            assert_eq!(sum, n, "{name}");
            parts += 1;
        }
    }
    parts
}

/// A snapshot under load, a restore, a clone: bytes of the cut, whole parts, apart from what follows.
async fn copies_hold_the_bytes_of_their_moment(fs: &FileSystem, mut driver: Driver) {
    let volume = driver.create("origin").await;
    driver.publish(&volume, "a").await;
    let pod = driver.path("pods/a");
    let first: Vec<u8> = (0..5_000_000_u32).map(|n| ((n * 7) >> 3) as u8).collect();
    std::fs::write(pod.join("big"), &first).unwrap();
    std::fs::write(pod.join("small"), "before").unwrap();
    std::fs::hard_link(pod.join("small"), pod.join("linked")).unwrap();
    std::os::unix::fs::symlink("small", pod.join("symlink")).unwrap();
    let mut open = std::fs::File::create(pod.join("open")).unwrap();
    open.write_all(b"written, not closed").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = write_parts(pod.clone(), stop.clone());
    tokio::time::sleep(Duration::from_millis(500)).await;
    let request = CreateSnapshotRequest {
        name: "cut".into(),
        source_volume_id: volume.volume_id.clone(),
        ..Default::default()
    };
    let cut = driver.client.controller.create_snapshot(request).await.unwrap().into_inner().snapshot.unwrap();
    assert!(cut.ready_to_use);
    let second = vec![9u8; 3_000_000];
    std::fs::write(pod.join("big"), &second).unwrap();
    std::fs::remove_file(pod.join("small")).unwrap();
    stop.store(true, Ordering::SeqCst);
    assert!(writer.join().unwrap() > 3);

    let snapshot_id = cut.snapshot_id.clone();
    let source = Some(Type::Snapshot(SnapshotSource { snapshot_id: snapshot_id.clone() }));
    let restored = driver.create_from("restored", source).await;
    let source = Some(Type::Volume(VolumeSource { volume_id: volume.volume_id.clone() }));
    let clone = driver.create_from("clone", source).await;
    drop(open);
    driver.unpublish(&volume, "a").await;
    let delete = DeleteVolumeRequest { volume_id: volume.volume_id.clone(), ..Default::default() };
    driver.client.controller.delete_volume(delete).await.unwrap();
    let delete = DeleteSnapshotRequest { snapshot_id, ..Default::default() };
    driver.client.controller.delete_snapshot(delete).await.unwrap();

    driver.publish(&restored, "b").await;
    driver.publish(&clone, "c").await;
    let (b, c) = (driver.path("pods/b"), driver.path("pods/c"));
    assert_eq!(std::fs::read(b.join("big")).unwrap(), first);
    for name in ["small", "linked", "symlink"] {
        assert_eq!(std::fs::read_to_string(b.join(name)).unwrap(), "before", "{name}");
    }
    assert_eq!(std::fs::read_to_string(b.join("open")).unwrap(), "written, not closed");
    assert!(whole_parts(&b) > 0);
    assert_eq!(std::fs::read(c.join("big")).unwrap(), second);
    assert!(!c.join("small").exists() && c.join("linked").exists());
    assert!(whole_parts(&c) > 0);
    std::fs::write(b.join("big"), "short").unwrap();
    assert_eq!(std::fs::read(c.join("big")).unwrap(), second, "the two are apart");

    // A setting acts on the mount that is there.
    let modify = ControllerModifyVolumeRequest {
        volume_id: restored.volume_id.clone(),
        mutable_parameters: [("closeSync".to_owned(), "true".to_owned())].into(),
        ..Default::default()
    };
    driver.client.controller.controller_modify_volume(modify).await.unwrap();
    driver.unpublish(&restored, "b").await;
    driver.unpublish(&clone, "c").await;
    assert!(Command::new("kill").arg(driver.process.id().to_string()).status().unwrap().success());
    wait_until("the driver to end", Duration::from_secs(30), || driver.process.try_wait().unwrap().is_some())
        .unwrap();
    fs.verb("fsck", &[]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_hold_the_bytes_of_their_moment_with_the_embedded_engine() {
    let dir = tempfile::tempdir().unwrap();
    let fs = FileSystem::embedded(dir.path()).unwrap();
    fs.format().unwrap();
    copies_hold_the_bytes_of_their_moment(&fs, Driver::start(&fs, dir).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_hold_the_bytes_of_their_moment_with_redis_and_s3() {
    let (redis, s3) = (RedisServer::start_durable().unwrap(), S3Server::start_with_bucket("csi").unwrap());
    let fs = FileSystem::on_redis_and_s3(&redis, &s3, "csi");
    fs.format().unwrap();
    copies_hold_the_bytes_of_their_moment(&fs, Driver::start(&fs, tempfile::tempdir().unwrap()).await).await;
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
