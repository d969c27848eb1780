//! What a cluster does to a volume, as one command: create, stage, publish, let a program use it, and take it all back.
//!
//! `csi_volume SOCKET NAME CAPACITY_BYTES WORK_DIR PROGRAM ARGUMENTS...`
//!
//! An argument `{volume}` becomes the path at which the volume is published. The secrets of the volume's file system come from the
//! environment, as the keys of a Kubernetes secret do: `META_URL`, `BUCKET_ACCESS_KEY`, `BUCKET_SECRET_KEY`; without the first the
//! driver's own file system is used. Each call is reported with its time. Whatever the program does, the volume is
//! unpublished, unstaged and deleted.

#![expect(clippy::print_stdout, reason = "a program for the command line")]

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use carafe_csi::client::{CsiClient, mount_capability};
use carafe_proto::csi::v1::volume_capability::access_mode::Mode;
use carafe_proto::csi::v1::{
    CapacityRange, CreateVolumeRequest, DeleteVolumeRequest, GetPluginInfoRequest, NodeGetInfoRequest,
    NodePublishVolumeRequest, NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest,
    Volume,
};

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [socket, name, capacity, work, program @ ..] = arguments.as_slice() else {
        anyhow::bail!("usage: csi_volume SOCKET NAME CAPACITY_BYTES WORK_DIR PROGRAM ARGUMENTS...");
    };
    ensure!(!program.is_empty(), "no program to run on the volume");
    let mut driver = Driver::connect(Path::new(socket), Path::new(work)).await?;
    let volume =
        driver.create(name, capacity.parse().context("the capacity is not a number of bytes")?).await?;
    let used = driver.attach_and_use(&volume, program).await;
    let detached = driver.detach(&volume).await;
    let deleted = driver.delete(&volume).await;
    used.and(detached).and(deleted)
}

struct Driver {
    client: CsiClient,
    secrets: HashMap<String, String>,
    staging: PathBuf,
    target: PathBuf,
}

impl Driver {
    async fn connect(socket: &Path, work: &Path) -> Result<Self> {
        let mut client = CsiClient::connect(socket).await?;
        let plugin = client.identity.get_plugin_info(GetPluginInfoRequest {}).await?.into_inner();
        let node = client.node.node_get_info(NodeGetInfoRequest {}).await?.into_inner();
        println!("driver {} {} on node {}", plugin.name, plugin.vendor_version, node.node_id);
        let (staging, target) = (work.join("staging"), work.join("pod/volume"));
        fs::create_dir_all(&staging)?;
        fs::create_dir_all(target.parent().expect("joined from two parts"))?;
        Ok(Self { client, secrets: secrets(), staging, target })
    }

    async fn create(&mut self, name: &str, bytes: i64) -> Result<Volume> {
        let request = CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: Some(CapacityRange { required_bytes: bytes, limit_bytes: 0 }),
            volume_capabilities: vec![mount_capability(Mode::MultiNodeMultiWriter)],
            secrets: self.secrets.clone(),
            ..CreateVolumeRequest::default()
        };
        let call = self.client.controller.create_volume(request);
        let volume = timed("CreateVolume", call).await?.into_inner().volume;
        volume.context("CreateVolume answered without a volume")
    }

    async fn attach_and_use(&mut self, volume: &Volume, program: &[String]) -> Result<()> {
        let capability = Some(mount_capability(Mode::MultiNodeMultiWriter));
        let stage = NodeStageVolumeRequest {
            volume_id: volume.volume_id.clone(),
            staging_target_path: text(&self.staging),
            volume_capability: capability.clone(),
            volume_context: volume.volume_context.clone(),
            secrets: self.secrets.clone(),
            ..NodeStageVolumeRequest::default()
        };
        timed("NodeStageVolume", self.client.node.node_stage_volume(stage)).await?;
        let publish = NodePublishVolumeRequest {
            volume_id: volume.volume_id.clone(),
            staging_target_path: text(&self.staging),
            target_path: text(&self.target),
            volume_capability: capability,
            volume_context: volume.volume_context.clone(),
            secrets: self.secrets.clone(),
            ..NodePublishVolumeRequest::default()
        };
        timed("NodePublishVolume", self.client.node.node_publish_volume(publish)).await?;
        self.use_it(volume, program)
    }

    fn use_it(&self, volume: &Volume, program: &[String]) -> Result<()> {
        let stat = rustix::fs::statvfs(&self.target)?;
        let total = stat.f_blocks * stat.f_frsize;
        println!("statfs tells {total} bytes, asked were {}", volume.capacity_bytes);
        ensure!(total == volume.capacity_bytes as u64, "statfs does not tell the quota");
        let target = text(&self.target);
        let mut words = program.iter().map(|word| word.replace("{volume}", &target));
        let mut command = std::process::Command::new(words.next().context("no program")?);
        let status = command.args(words).status().with_context(|| format!("start {}", program[0]))?;
        ensure!(status.success(), "{} ended with {status}", program[0]);
        Ok(())
    }

    async fn detach(&mut self, volume: &Volume) -> Result<()> {
        let volume_id = volume.volume_id.clone();
        let target_path = text(&self.target);
        let unpublish = NodeUnpublishVolumeRequest { volume_id: volume_id.clone(), target_path };
        timed("NodeUnpublishVolume", self.client.node.node_unpublish_volume(unpublish)).await?;
        let unstage = NodeUnstageVolumeRequest { volume_id, staging_target_path: text(&self.staging) };
        timed("NodeUnstageVolume", self.client.node.node_unstage_volume(unstage)).await?;
        ensure!(!self.target.exists(), "NodeUnpublishVolume has left {}", self.target.display());
        Ok(())
    }

    async fn delete(&mut self, volume: &Volume) -> Result<()> {
        let request =
            DeleteVolumeRequest { volume_id: volume.volume_id.clone(), secrets: self.secrets.clone() };
        timed("DeleteVolume", self.client.controller.delete_volume(request)).await?;
        Ok(())
    }
}

/// Reports how long a call took; one that fails names itself.
async fn timed<T>(name: &str, call: impl Future<Output = Result<T, tonic::Status>>) -> Result<T> {
    let start = Instant::now();
    let answer = call.await.with_context(|| name.to_owned())?;
    println!("{name}: {:.1} ms", start.elapsed().max(Duration::from_micros(100)).as_secs_f64() * 1e3);
    Ok(answer)
}

fn secrets() -> HashMap<String, String> {
    [("meta-url", "META_URL"), ("access-key", "BUCKET_ACCESS_KEY"), ("secret-key", "BUCKET_SECRET_KEY")]
        .into_iter()
        .filter_map(|(key, variable)| Some((key.to_owned(), env::var(variable).ok()?)))
        .collect()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
