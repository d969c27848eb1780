//! The ClickHouse workloads of `e2e/workloads` on mounts.
//!
//! On Redis and S3 they get what only this program can give: a second mount of the same file system, and commands that stop and resume
//! the Redis server.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use carafe_testkit::ChdbEnv;

use super::Context;
use crate::bed::{Bed, Engine};
use crate::sh;
use crate::step::Tally;

/// Workloads that need a second mount, which the embedded engine has not.
const ONE_MOUNT_ONLY: [&str; 2] = ["15", "19"];

pub(super) fn on_redis_s3(_: &Context) -> Result<Tally> {
    let mut bed = Bed::start(Engine::RedisS3)?;
    let mut second = bed.mount.file_system().mount()?;
    let redis = bed.redis()?;
    let (port, pid) = (redis.port(), redis.process().pid());
    let mut command = driver(bed.path())?;
    command.arg("--dir2").arg(second.path());
    command.arg("--redis").arg(format!("127.0.0.1:{port}"));
    command.arg("--hook-store-stop").arg(format!("kill -STOP {pid}"));
    command.arg("--hook-store-start").arg(format!("kill -CONT {pid}"));
    let tally = run(command)?;
    second.unmount()?;
    bed.finish()?;
    Ok(tally)
}

pub(super) fn on_embedded(_: &Context) -> Result<Tally> {
    let bed = Bed::start(Engine::Embedded)?;
    let mut command = driver(bed.path())?;
    command.args(
        (1..=21).map(|number| number.to_string()).filter(|number| !ONE_MOUNT_ONLY.contains(&number.as_str())),
    );
    let tally = run(command)?;
    bed.finish()?;
    Ok(tally)
}

fn driver(dir: &Path) -> Result<Command> {
    let mut command = ChdbEnv::find()?.script("e2e/workloads/run.py");
    let state = tempfile::Builder::new().prefix("carafe-clickhouse-").tempdir()?.keep();
    command.arg("--dir").arg(dir).arg("--state").arg(state);
    Ok(command)
}

fn run(mut command: Command) -> Result<Tally> {
    let mut tally = Tally::default();
    let (mut failures, mut skipped) = (Vec::new(), 0);
    let result = sh::run_looking(&mut command, |line| {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("ok"), Some(_)) => tally.passed += 1,
            (Some("FAIL"), Some(name)) => failures.push(name.to_owned()),
            (Some("skip"), Some(_)) => skipped += 1,
            _ => {}
        }
    });
    tally.failed = failures.len() as u64;
    if tally.failed == 0 {
        result?;
    }
    if tally.passed == 0 && tally.failed == 0 {
        bail!("no workload ran");
    }
    tally.note = format!("{} passed, {skipped} skipped {}", tally.passed, failures.join(" "));
    Ok(tally)
}
