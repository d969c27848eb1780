//! The chart and the plain manifests: `cargo xtask manifests` writes `manifests/carafe.yaml` from the chart, and a step of
//! `cargo xtask test` checks what can be checked without a cluster.
//!
//! 1. `helm lint` and `helm template` for every file of `charts/carafe/ci`.
//! 2. A misspelt value at several depths is refused, which is what the schema is for.
//! 3. The manifests equal what the chart renders, so that neither is changed alone.
//!
//! `helm` is the one on the search path, or that of the test cluster. Where there is none the step says so and counts nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::step::Tally;
use crate::{cluster, sh};

const NAMESPACE: &str = "carafe-system";
/// What no installation may pass: a key that the chart does not know, at the top, in a component, in a list, in a map.
const MISSPELT: [&str; 5] = [
    "quikstart.enabled=true",
    "node.launchr=pods",
    "mountPods.classes.big.cachesize=1GiB",
    "fileSystems[0].name=a,fileSystems[0].secretName=b,fileSystems[0].storageClass=c",
    "node.launcher=pod",
];

/// What is done with the manifests.
#[derive(Debug, Args)]
pub(crate) struct ManifestsArgs {
    /// Only say whether they are what the chart renders.
    #[arg(long)]
    check: bool,
}

/// Writes the manifests, or compares them; says whether all is well.
pub(crate) fn manifests(root: &Path, arguments: &ManifestsArgs) -> Result<bool> {
    let helm = helm().context("helm is neither on the search path nor among the test cluster's programs")?;
    if arguments.check {
        return same(root, &helm).map(|()| true);
    }
    fs::write(file(root), rendered(root, &helm)?)?;
    println!("wrote {}", file(root).display());
    Ok(true)
}

/// The step of `cargo xtask test`.
pub(crate) fn check(root: &Path) -> Result<Tally> {
    let Some(helm) = helm() else {
        let note = "not run: helm is missing (`cargo xtask cluster up` builds it)".to_owned();
        return Ok(Tally { note, ..Tally::default() });
    };
    let chart = root.join("charts/carafe");
    let mut passed = 0;
    for values in value_sets(root)? {
        sh::capture(Command::new(&helm).arg("lint").arg("--strict").arg(&chart).arg("-f").arg(&values))?;
        sh::capture(template(&helm, root).arg("-f").arg(&values))?;
        passed += 2;
    }
    for wrong in MISSPELT {
        if sh::capture(template(&helm, root).args(["--set", wrong])).is_ok() {
            bail!("the chart takes the wrong value {wrong}");
        }
        passed += 1;
    }
    same(root, &helm)?;
    Ok(Tally { passed: passed + 1, failed: 0, note: String::new() })
}

fn same(root: &Path, helm: &Path) -> Result<()> {
    let had = fs::read_to_string(file(root)).with_context(|| format!("read {}", file(root).display()))?;
    if had != rendered(root, helm)? {
        bail!("manifests/carafe.yaml is not what the chart renders: run `cargo xtask manifests`");
    }
    Ok(())
}

/// What `kubectl apply` needs instead of helm: the namespace, then the chart with its defaults and snapshots.
fn rendered(root: &Path, helm: &Path) -> Result<String> {
    let chart = sh::capture(template(helm, root).args(["--no-hooks", "--set", "snapshots.enabled=always"]))?;
    let head = "# Rendered from charts/carafe by `cargo xtask manifests`: change the chart, not this file.\n";
    Ok(format!(
        "{head}apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n  labels: {{pod-security.kubernetes.io/enforce: privileged}}\n{}",
        chart.replace("app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl")
    ))
}

fn template(helm: &Path, root: &Path) -> Command {
    let mut command = Command::new(helm);
    command.arg("template").arg("carafe").arg(root.join("charts/carafe")).args(["-n", NAMESPACE]);
    // The test must not depend on the cluster that somebody happens to be connected to.
    command.env_remove("KUBECONFIG").args(["--kube-version", "1.30.0"]);
    command
}

fn value_sets(root: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(root.join("charts/carafe/ci"))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    if files.len() < 6 {
        bail!("charts/carafe/ci has {} sets of values, not six", files.len());
    }
    Ok(files)
}

fn file(root: &Path) -> PathBuf {
    root.join("manifests/carafe.yaml")
}

fn helm() -> Option<PathBuf> {
    let own = || cluster::home().map(|home| home.join("bin/helm")).filter(|file| file.is_file());
    sh::find("helm").or_else(own)
}
