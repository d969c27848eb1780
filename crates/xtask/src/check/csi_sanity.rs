//! `csi-sanity`: the conformance suite of the CSI project, against the real driver on a real store, a real bucket and FUSE mounts.
//!
//! The suite skips what a driver says it cannot do, so a lost capability would look like success. Only what this driver has no use
//! for may be skipped ([`MAY_BE_SKIPPED`]); any other skipped test is a failure, and so are fewer tests than are known.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use carafe_testkit::{FileSystem, RedisServer, S3Server, ServerProcess};
use serde::Deserialize;

use super::Context;
use crate::setup::program;
use crate::sh;
use crate::step::Tally;

const BUCKET: &str = "carafe-csi";
/// What this driver has no use for, by a part of the test's name: every node mounts a file system, so nothing is attached and there
/// is no topology; a group of volumes has no common moment; the health calls are off unless they are asked for.
const MAY_BE_SKIPPED: [(&str, &str); 7] = [
    ("ControllerPublishVolume", "attach"),
    ("ControllerUnpublishVolume", "attach"),
    ("Controller Service [Controller Server] volume lifecycle", "attach"),
    ("GroupController", "groups"),
    ("creating a snapshot with accessibility requirements", "topology"),
    ("VolumeHealth", "health"),
    ("NodeGetStorageHealth", "health"),
];
/// Tests that must have run: fewer means that the suite was cut short.
const RUN_AT_LEAST: u64 = 79;

pub(super) fn on_redis_s3(_: &Context) -> Result<Tally> {
    let home = tempfile::Builder::new().prefix("carafe-sanity-").tempdir()?;
    let redis = RedisServer::start_durable()?;
    let s3 = S3Server::start_with_bucket(BUCKET)?;
    let fs = FileSystem::on_redis_and_s3(&redis, &s3, BUCKET);
    fs.format()?;
    let mut driver = Driver::start(&fs, home.path())?;
    let tally = suite(&driver.socket, home.path());
    let log = driver.process.log_text();
    let stopped = driver.stop();
    let tally = tally.with_context(|| format!("the driver's log:\n{log}"))?;
    if tally.failed > 0 {
        println!("the driver's log:\n{log}");
    }
    stopped?;
    // The mounts end in their own time after the driver; what they hold must be sound all the same.
    fs.verb("fsck", &[])?;
    Ok(tally)
}

/// `carafe csi` with both services; each file system is mounted by a child process.
struct Driver {
    process: ServerProcess,
    socket: std::path::PathBuf,
    home: std::path::PathBuf,
}

impl Driver {
    fn start(fs: &FileSystem, home: &Path) -> Result<Self> {
        let socket = home.join("csi.sock");
        let mut command = fs.command()?;
        command.arg("csi").arg(format!("--endpoint=unix://{}", socket.display()));
        command.args(["--node-id", "sanity-node", "--meta-url", &fs.meta_url]);
        command.arg("--base").arg(home.join("csi")).arg("--cache-dir").arg(home.join("cache"));
        command.args(["--linger", "1"]);
        let mut process = ServerProcess::spawn("carafe csi", command, &home.join("csi.log"))?;
        process.wait_ready(Duration::from_secs(30), || UnixStream::connect(&socket).is_ok())?;
        Ok(Self { process, socket, home: home.to_path_buf() })
    }

    fn stop(&mut self) -> Result<()> {
        let status = self.process.terminate(Duration::from_secs(60))?;
        ensure!(status.success(), "carafe csi ended with {status}\n{}", self.process.log_text());
        Ok(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.process.kill();
        carafe_testkit::detach_below(&self.home);
    }
}

fn suite(socket: &Path, home: &Path) -> Result<Tally> {
    let report = home.join("report.json");
    let mutable = home.join("mutable.yaml");
    std::fs::write(&mutable, "closeSync: \"true\"\nreadAhead: 8Mi\n")?;
    let mut command = Command::new(program("csi-sanity"));
    command.arg("--csi.endpoint").arg(socket);
    command.arg("--csi.mountdir").arg(home.join("target")).arg("--csi.stagingdir").arg(home.join("staging"));
    command.arg("--csi.testvolumemutableparameters").arg(&mutable);
    command.args(["--csi.testvolumesize", "1073741824", "--csi.testvolumeexpandsize", "2147483648"]);
    command.arg("--ginkgo.json-report").arg(&report).args(["--ginkgo.no-color", "--ginkgo.succinct"]);
    // A failed test is a bad exit code too; the report says more.
    let ended = sh::run_looking(&mut command, |_| {});
    let text = std::fs::read(&report).with_context(|| match ended {
        Err(error) => format!("{error:#}"),
        Ok(()) => "csi-sanity left no report".to_owned(),
    })?;
    judge(&serde_json::from_slice::<Vec<Suite>>(&text).context("the report of csi-sanity")?)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    spec_reports: Vec<Spec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    leaf_node_text: String,
    state: String,
}

impl Spec {
    fn name(&self) -> String {
        let mut words = self.container_hierarchy_texts.clone().unwrap_or_default();
        words.push(self.leaf_node_text.clone());
        words.join(" ")
    }
}

fn judge(suites: &[Suite]) -> Result<Tally> {
    let (mut passed, mut pending, mut failures) = (0_u64, 0_u64, Vec::new());
    let mut skipped: BTreeMap<&str, u64> = BTreeMap::new();
    for spec in suites.iter().flat_map(|suite| &suite.spec_reports) {
        if spec.leaf_node_type != "It" {
            continue;
        }
        let name = spec.name();
        match spec.state.as_str() {
            "passed" => passed += 1,
            "pending" => pending += 1,
            "skipped" => match MAY_BE_SKIPPED.iter().find(|(part, _)| name.contains(part)) {
                Some((_, why)) => *skipped.entry(why).or_default() += 1,
                None => failures.push(format!("skipped: {name}")),
            },
            _ => failures.push(format!("{}: {name}", spec.state)),
        }
    }
    failures.iter().for_each(|failure| println!("csi-sanity {failure}"));
    let failed = failures.len() as u64;
    let why: Vec<String> = skipped.iter().map(|(why, count)| format!("{why} {count}")).collect();
    let skipped: u64 = skipped.values().sum();
    let note = format!(
        "{passed} passed, {failed} failed, {skipped} skipped ({}), {pending} disabled",
        why.join(", ")
    );
    println!("csi-sanity: {note}");
    ensure!(
        passed + failed >= RUN_AT_LEAST,
        "only {passed} tests of csi-sanity ran, {RUN_AT_LEAST} are known"
    );
    Ok(Tally { passed, failed, note })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(group: &str, state: &str) -> Spec {
        Spec {
            container_hierarchy_texts: Some(vec![group.to_owned()]),
            leaf_node_type: "It".to_owned(),
            leaf_node_text: "works".to_owned(),
            state: state.to_owned(),
        }
    }

    #[test]
    fn a_skipped_capability_is_a_failure_unless_the_driver_has_no_use_for_it() {
        let mut spec_reports: Vec<Spec> = (0..79).map(|_| spec("NodeService", "passed")).collect();
        spec_reports.push(spec("GroupController Service", "skipped"));
        let suites = [Suite { spec_reports }];
        assert_eq!(judge(&suites).unwrap().failed, 0);
        let [mut suite] = suites;
        suite.spec_reports.push(spec("CreateSnapshot", "skipped"));
        suite.spec_reports.push(spec("CreateVolume", "panicked"));
        assert_eq!(judge(&[suite]).unwrap().failed, 2);
        assert!(judge(&[Suite { spec_reports: Vec::new() }]).is_err());
    }
}
