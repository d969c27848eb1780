//! ClickHouse keeps inserting while what is below its volume is killed: Redis, the S3 server, the mount's daemon, two at once.
//!
//! A round starts the writer of `e2e/workloads/roles.py`, kills and restarts things under it, and then verifies: no acknowledged
//! batch may be missing, and none torn. A dead daemon takes the writer's open files with it, so there the writer is killed too, as its node
//! would be; with a dead service the writer stays, waits or is refused, and goes on.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use carafe_testkit::{ChdbEnv, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Context;
use crate::bed::{Bed, Engine};
use crate::step::Tally;

/// How long the writer is left alone between two blows.
const QUIET: Duration = Duration::from_secs(3);
/// How long a killed service stays away.
const AWAY: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy)]
enum Victim {
    Redis,
    S3,
    Both,
    Daemon,
    DaemonAndRedis,
}

const ROUNDS: [Victim; 5] = [Victim::Redis, Victim::S3, Victim::Both, Victim::Daemon, Victim::DaemonAndRedis];

pub(super) fn on_redis_s3(_: &Context) -> Result<Tally> {
    let mut stage = Stage::new(Bed::start(Engine::RedisS3)?)?;
    let (mut tally, mut batches) = (Tally::default(), 0);
    for (round, victim) in ROUNDS.into_iter().enumerate() {
        match stage.play(round as u64, victim) {
            Ok(present) => (tally.passed, batches) = (tally.passed + 1, present),
            Err(error) => {
                println!("{victim:?}: {error:#}");
                tally.failed += 1;
                tally.note += &format!("{victim:?} ");
            }
        }
    }
    stage.bed.finish()?;
    tally.note += &format!("{batches} batches");
    Ok(tally)
}

struct Stage {
    bed: Bed,
    python: ChdbEnv,
    home: TempDir,
}

impl Stage {
    fn new(bed: Bed) -> Result<Self> {
        Ok(Self { bed, python: ChdbEnv::find()?, home: tempfile::tempdir()? })
    }

    /// One round; returns how many batches there are.
    fn play(&mut self, round: u64, victim: Victim) -> Result<u64> {
        println!("killing {victim:?} under an insert loop");
        let mut writer = Writer(self.role("insert", json!({"first": round * 1_000_000}))?);
        let acknowledged = || std::fs::metadata(self.acks()).map_or(0, |file| file.len());
        let before = acknowledged();
        wait_until("the first acknowledged batch", Duration::from_secs(60), || acknowledged() > before)?;
        for _ in 0..2 {
            std::thread::sleep(QUIET);
            if self.strike(victim, &mut writer)? {
                break;
            }
        }
        std::thread::sleep(QUIET);
        drop(writer);
        self.verify()
    }

    /// Kills and restarts; says whether the writer died with it.
    fn strike(&mut self, victim: Victim, writer: &mut Writer) -> Result<bool> {
        let redis = matches!(victim, Victim::Redis | Victim::Both | Victim::DaemonAndRedis);
        let s3 = matches!(victim, Victim::S3 | Victim::Both);
        let daemon = matches!(victim, Victim::Daemon | Victim::DaemonAndRedis);
        if daemon {
            self.bed.mount.kill9();
            writer.end();
        }
        if redis {
            self.bed.redis()?.kill();
        }
        if s3 {
            self.bed.s3()?.kill();
        }
        std::thread::sleep(AWAY);
        if redis {
            self.bed.redis()?.restart()?;
        }
        if s3 {
            self.bed.s3()?.restart()?;
        }
        if daemon {
            self.bed.mount.remount()?;
        }
        Ok(daemon)
    }

    fn verify(&self) -> Result<u64> {
        let output = self.role("verify", json!({}))?.wait_with_output()?;
        let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "verify: {}\n{out}\n{error}", output.status);
        let found: Value =
            serde_json::from_str(out.lines().last().unwrap_or_default()).context("read the verdict")?;
        println!("{found}");
        found["present"].as_u64().context("the verdict has a count")
    }

    fn acks(&self) -> PathBuf {
        self.home.path().join("acknowledged")
    }

    fn role(&self, role: &str, more: Value) -> Result<Child> {
        let mut arguments = json!({
            "state": self.home.path().join("engine"),
            "disk": self.bed.path().join("crash"),
            "acks": self.acks(),
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            arguments[name] = value.clone();
        }
        let mut command: Command = self.python.script("e2e/workloads/roles.py");
        command.arg(role).arg(arguments.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().context("start a role")
    }
}

/// The writer; it ends with its guard.
struct Writer(Child);

impl Writer {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}
