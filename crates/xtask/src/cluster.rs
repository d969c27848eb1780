//! `cargo xtask cluster`: the one-node Kubernetes of `e2e/cluster`, and the images that end-to-end tests run on it.
//!
//! The scripts there do the work and are usable alone; this is the door that one finds first. `KUBECONFIG` is not looked at: these
//! tasks are about the cluster that they start.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use carafe_testkit::tools;
use clap::Subcommand;

use crate::sh;

/// What is done with the test cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterTask {
    /// Build what is missing (half an hour the first time), start the node, print what to put into the environment.
    Up,
    /// End the node and delete its state; built programs and images stay.
    Down {
        /// Keep the node's disks: the next `up` boots the same cluster, as after a power cut.
        #[arg(long)]
        keep: bool,
    },
    /// Say what runs.
    Status,
    /// Load image archives into the node; without any, make and load the images of `carafe`, its services and the ClickHouse engine.
    LoadImage { archives: Vec<PathBuf> },
}

/// Runs a task; says whether all went well.
pub(crate) fn cluster(root: &Path, task: &ClusterTask) -> Result<bool> {
    match task {
        ClusterTask::Up => up(root)?,
        ClusterTask::Down { keep: true } => sh::run(script(root, "down.sh").arg("--keep"))?,
        ClusterTask::Down { keep: false } => sh::run(&mut script(root, "down.sh"))?,
        ClusterTask::Status => return Ok(is_up(root)),
        ClusterTask::LoadImage { archives } if archives.is_empty() => load_images(root)?,
        ClusterTask::LoadImage { archives } => sh::run(script(root, "load-image.sh").args(archives))?,
    }
    Ok(true)
}

/// Starts the node; does nothing when it runs.
pub(crate) fn up(root: &Path) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!(
            "the test cluster needs root: run this as root, or set KUBECONFIG to another cluster for `cargo xtask e2e`"
        );
    }
    sh::run(&mut script(root, "deps.sh")).context("install what the test cluster needs")?;
    sh::run(&mut script(root, "up.sh")).context("start the test cluster")
}

/// Whether its programs have been built.
pub(crate) fn is_built() -> bool {
    home().is_some_and(|home| home.join(".built").is_file())
}

/// The folder of everything that is built and of the running node.
pub(crate) fn home() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/carafe-k8s"));
    std::env::var_os("CARAFE_K8S").map(PathBuf::from).or_else(home)
}

/// Whether a node runs and is ready; prints what runs.
pub(crate) fn is_up(root: &Path) -> bool {
    sh::run(&mut script(root, "status.sh")).is_ok()
}

/// Makes the images of this working tree and loads them into the node.
pub(crate) fn load_images(root: &Path) -> Result<()> {
    let mut make = Command::new(root.join("e2e/kubernetes/images.sh"));
    make.env("CARAFE_BIN", tools::carafe()?).env("CARAFE_WEED", tools::weed()?);
    make.env("CARAFE_REDIS_SERVER", tools::redis_server()?);
    sh::run(&mut make).context("make the images of the tests")
}

/// A script of the cluster's folder.
pub(crate) fn script(root: &Path, name: &str) -> Command {
    Command::new(root.join("e2e/cluster").join(name))
}
