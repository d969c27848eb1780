//! The ClickHouse workloads of `e2e/workloads` on mounts.
//!
//! On Redis and S3 they get what only this program can give: commands that stop and resume the Redis server, and, for those that need
//! it, a second mount. Only for those: a directory that two mounts know is asked about in the store each time, so a store
//! that is stopped would stop it too.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use carafe_testkit::ChdbEnv;

use super::Context;
use crate::bed::{Bed, Engine};
use crate::sh;
use crate::step::Tally;

const ALL: std::ops::RangeInclusive<u32> = 1..=21;
/// Workloads of two mounts, which the embedded engine has not.
const TWO_MOUNTS: [u32; 2] = [14, 15];
/// The workload of a table engine that needs the Redis server.
const BESIDE_REDIS: u32 = 19;

pub(super) fn on_redis_s3(_: &Context) -> Result<Tally> {
    let mut bed = Bed::start(Engine::RedisS3)?;
    let redis = bed.redis()?;
    let (port, pid) = (redis.port(), redis.process().pid());
    let mut alone = driver(bed.path())?;
    alone.arg("--redis").arg(format!("127.0.0.1:{port}"));
    alone.arg("--hook-store-stop").arg(format!("kill -STOP {pid}"));
    alone.arg("--hook-store-start").arg(format!("kill -CONT {pid}"));
    let mut tally = run(alone, ALL.filter(|number| !TWO_MOUNTS.contains(number)))?;
    let mut second = bed.mount.file_system().mount()?;
    let mut both = driver(bed.path())?;
    both.arg("--dir2").arg(second.path());
    tally.add(run(both, TWO_MOUNTS)?);
    second.unmount()?;
    bed.finish()?;
    Ok(tally)
}

pub(super) fn on_embedded(_: &Context) -> Result<Tally> {
    let bed = Bed::start(Engine::Embedded)?;
    let tally = run(driver(bed.path())?, ALL.filter(|number| *number != BESIDE_REDIS))?;
    bed.finish()?;
    Ok(tally)
}

fn driver(dir: &Path) -> Result<Command> {
    let mut command = ChdbEnv::find()?.script("e2e/workloads/run.py");
    let state = tempfile::Builder::new().prefix("carafe-clickhouse-").tempdir()?.keep();
    command.arg("--dir").arg(dir).arg("--state").arg(state);
    Ok(command)
}

fn run(mut command: Command, numbers: impl IntoIterator<Item = u32>) -> Result<Tally> {
    command.args(numbers.into_iter().map(|number| number.to_string()));
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
