//! `cargo xtask e2e`: the scenarios of `e2e/kubernetes` on a real cluster.
//!
//! With `KUBECONFIG` set they run on that cluster, whose nodes must be able to pull the images that `CARAFE_E2E_HELM_ARGS` names.
//! Without it they run on the cluster of `e2e/cluster`, with images made from this working tree; a cluster that this task
//! has started it ends, too.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::step::Tally;
use crate::{cluster, sh};

/// What `cargo xtask test` runs of them: a volume, its expansion, its access modes, the chart.
const SHORT: [&str; 4] = ["1", "20", "22", "26"];

/// What is run.
#[derive(Debug, Args)]
pub(crate) struct E2eArgs {
    /// Scenarios, by number or name; without any, all.
    scenarios: Vec<String>,
    /// List the scenarios and end.
    #[arg(long)]
    list: bool,
    /// Leave the cluster and the release running.
    #[arg(long)]
    keep: bool,
    /// Where the log goes.
    #[arg(long, value_name = "FILE", default_value = "target/e2e/e2e.log")]
    log: PathBuf,
}

/// The step of `cargo xtask test`: some scenarios, where the test cluster has been built already. Building it takes half an hour.
pub(crate) fn short(root: &Path) -> Result<Tally> {
    if !rustix::process::geteuid().is_root() || !cluster::is_built() {
        let note = "not run: the test cluster is not built (`cargo xtask cluster up`, as root)".to_owned();
        return Ok(Tally { note, ..Tally::default() });
    }
    let arguments = E2eArgs {
        scenarios: SHORT.map(str::to_owned).to_vec(),
        list: false,
        keep: false,
        log: "target/e2e/short.log".into(),
    };
    let good = scenarios(root, &arguments)?;
    let (passed, failed) = if good { (SHORT.len() as u64, 0) } else { (0, 1) };
    Ok(Tally {
        passed,
        failed,
        note: format!("scenarios {}, log {}", SHORT.join(" "), arguments.log.display()),
    })
}

/// Runs the scenarios; says whether all went well.
pub(crate) fn e2e(root: &Path, arguments: &E2eArgs) -> Result<bool> {
    if arguments.list {
        return sh::run(driver(root).arg("--list")).map(|()| true);
    }
    if is_own() {
        sh::run(&mut sh::cargo(root, &["build", "-p", "carafe-cli"]))?;
    }
    scenarios(root, arguments)
}

/// Whether the cluster is the project's own.
fn is_own() -> bool {
    std::env::var_os("KUBECONFIG").is_none()
}

/// With the binary that is built.
fn scenarios(root: &Path, arguments: &E2eArgs) -> Result<bool> {
    let own = is_own();
    let started = own && !cluster::is_up(root);
    if started {
        cluster::up(root)?;
    }
    let result = run(root, arguments, own);
    if started && !arguments.keep {
        sh::run(&mut cluster::script(root, "down.sh")).context("end the test cluster")?;
    }
    result
}

fn run(root: &Path, arguments: &E2eArgs, own: bool) -> Result<bool> {
    let log = root.join(&arguments.log);
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut command = driver(root);
    command.arg("--log").arg(&log);
    if own {
        cluster::load_images(root)?;
        command.arg("--own-cluster");
    }
    if arguments.keep {
        command.arg("--keep");
    }
    // The driver has printed what failed, and its table.
    Ok(sh::run(command.args(&arguments.scenarios)).is_ok())
}

fn driver(root: &Path) -> Command {
    let mut command = Command::new("python3");
    command.arg("-u").arg(root.join("e2e/kubernetes/run.py"));
    command
}
