//! `fsx`: random operations on one file, each read compared with what must be there.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::Context;
use crate::bed::{Bed, Engine};
use crate::setup::program;
use crate::sh;
use crate::step::Tally;

const OPERATIONS: u64 = 200_000;
const SEEDS: [u64; 3] = [1, 20_260, 987_654_321];

/// Everything the program can do is switched on; what makes a commit of its own comes seldom enough that a run ends in minutes. Mapped writes are not followed by an msync, so that reads meet pages which nobody has
/// written back; syncs come as operations of their own.
const CONFIGURATION: &str = "\
flen = 262144
nomsyncafterwrite = true
[weights]
close_open = 1
invalidate = 0.5
fsync = 0.1
fdatasync = 0.1
posix_fallocate = 0.5
punch_hole = 1
sendfile = 2
posix_fadvise = 1
copy_file_range = 0.5
truncate = 2
";

pub(super) fn on_redis_s3(_: &Context) -> Result<Tally> {
    on(Engine::RedisS3, &SEEDS)
}

pub(super) fn on_embedded(_: &Context) -> Result<Tally> {
    on(Engine::Embedded, &SEEDS[..1])
}

fn on(engine: Engine, seeds: &[u64]) -> Result<Tally> {
    let bed = Bed::start(engine)?;
    let tally = run_seeds(bed.path(), seeds)?;
    bed.finish()?;
    Ok(tally)
}

/// Runs all seeds on a directory.
pub(crate) fn run_on(dir: &Path) -> Result<Tally> {
    run_seeds(dir, &SEEDS)
}

/// One process a seed, all at the same time.
fn run_seeds(dir: &Path, seeds: &[u64]) -> Result<Tally> {
    let home = tempfile::tempdir()?;
    let config = home.path().join("fsx.toml");
    fs::write(&config, CONFIGURATION)?;
    let run = |seed: u64| -> Result<()> {
        let mut command = Command::new(program("fsx"));
        command.arg("-q").arg("-f").arg(&config).args([
            "-N",
            &OPERATIONS.to_string(),
            "-S",
            &seed.to_string(),
        ]);
        command.arg("-P").arg(home.path()).arg(dir.join(format!("fsx-{seed}")));
        let mut fine = false;
        sh::run_looking(&mut command, |line| fine |= line.contains("All operations completed A-OK!"))?;
        ensure!(fine, "fsx with seed {seed} did not say that all is well");
        Ok(())
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = seeds.iter().map(|seed| scope.spawn(move || run(*seed))).collect();
        runs.into_iter()
            .filter_map(|run| run.join().expect("no panic in a run").err())
            .map(|e| format!("{e:#}"))
            .collect()
    });
    let failed = failures.len() as u64;
    let note = format!("{} seeds of {OPERATIONS} operations {}", seeds.len(), failures.join("; "));
    Ok(Tally { passed: seeds.len() as u64 - failed, failed, note })
}
