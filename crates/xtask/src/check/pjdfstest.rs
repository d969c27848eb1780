//! The POSIX suite `pjdfstest`, as root: 398 tests.
//!
//! It needs more than a mount:
//!
//! 1. Two users of the system, and a second file system for EXDEV (`/dev/shm`).
//! 2. Leave to remount the file system read-only for EROFS. Some tests leave files open in the suite's process, and with these no remount
//!    succeeds, so the EROFS tests run in a process of their own; the count is over both runs.
//! 3. A `mount` that remounts by itself: for a type `fuse.NAME` mount(8) calls a helper, which would start the program NAME anew. The
//!    suite finds a `mount -i` first on its search path.
//!
//! 4. The highest link count, which the C library does not know of any FUSE file system: [`LINK_MAX`] is preloaded as the answer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use carafe_testkit::is_mounted;

use super::Context;
use crate::bed::{Bed, Engine};
use crate::setup::program;
use crate::sh;
use crate::step::Tally;

/// How many tests the pinned version has.
const TESTS: usize = 398;

/// How many names a file may have (`docs/semantics.md`).
const LINK_MAX: u32 = 65_000;

pub(super) fn on_redis_s3(_: &Context) -> Result<Tally> {
    on(Engine::RedisS3)
}

pub(super) fn on_embedded(_: &Context) -> Result<Tally> {
    on(Engine::Embedded)
}

fn on(engine: Engine) -> Result<Tally> {
    let bed = Bed::start(engine)?;
    let tally = run_on(bed.path())?;
    bed.finish()?;
    Ok(tally)
}

/// Runs the suite on a mounted directory.
pub(crate) fn run_on(dir: &Path) -> Result<Tally> {
    ensure!(rustix::process::geteuid().is_root(), "pjdfstest changes users: run as root");
    // Its EROFS tests remount the file system that the directory is on, read-only: never one that others use.
    ensure!(is_mounted(&dir.canonicalize()?), "{} is not a mount point", dir.display());
    let home = tempfile::tempdir()?;
    let second = tempfile::Builder::new().prefix("carafe-pjdfstest-").tempdir_in("/dev/shm")?;
    let path = search_path_with_plain_mount(home.path())?;
    let link_max = build_link_max(home.path())?;
    let mut verdicts = BTreeMap::new();
    for (remount, pattern) in [(false, None), (true, Some("erofs"))] {
        let config = home.path().join(format!("remount-{remount}.toml"));
        fs::write(&config, configuration(remount))?;
        let mut command = Command::new(program("pjdfstest"));
        command.arg("-c").arg(&config).arg("-p").arg(dir).arg("-s").arg(second.path()).args(pattern);
        // A failed test shows its reason; a backtrace of a stripped program says nothing.
        command.env("RUST_BACKTRACE", "0").env("PATH", &path).env("LD_PRELOAD", &link_max);
        let mut seen = 0;
        let result = sh::run_looking(&mut command, |line| {
            if let Some((name, verdict)) = verdict(line) {
                seen += 1;
                // The EROFS tests are skipped by the first run and counted by the second.
                verdicts.insert(name.to_owned(), verdict);
            }
        });
        if seen == 0 {
            result.context("pjdfstest ran no test")?;
            bail!("pjdfstest ran no test");
        }
    }
    count(&verdicts)
}

fn search_path_with_plain_mount(home: &Path) -> Result<OsString> {
    let real = sh::find("mount").context("there is no mount(8)")?;
    let script = home.join("mount");
    fs::write(&script, format!("#!/bin/sh\nexec {} -i \"$@\"\n", real.display()))?;
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths([home.to_path_buf()].into_iter().chain(std::env::split_paths(&path)))?)
}

/// The library that answers for the highest link count; see its source.
fn build_link_max(home: &Path) -> Result<PathBuf> {
    let (source, library) = (home.join("link_max.c"), home.join("link_max.so"));
    fs::write(&source, include_str!("link_max.c"))?;
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(format!("-DLINK_MAX_OF_CARAFE={LINK_MAX}"));
    sh::run(cc.arg(&source)).context("build the answer to pathconf")?;
    Ok(library)
}

fn configuration(remount: bool) -> String {
    // Kernel timestamps advance with the timer tick, up to 10 ms.
    format!(
        r#"[features]
posix_fallocate = {{}}
rename_ctime = {{}}
utime_now = {{}}
utimensat = {{}}
[settings]
naptime = 0.02
allow_remount = {remount}
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Skipped,
}

/// The verdict of a line such as `rename::erofs_named      ok`.
fn verdict(line: &str) -> Option<(&str, Verdict)> {
    let (name, word) = line.trim_end().split_once(' ')?;
    let verdict = match word.trim() {
        "ok" => Verdict::Passed,
        "FAILED" => Verdict::Failed,
        "skipped" => Verdict::Skipped,
        _ => return None,
    };
    name.contains("::").then_some((name, verdict))
}

fn count(verdicts: &BTreeMap<String, Verdict>) -> Result<Tally> {
    let of = |wanted| {
        verdicts.iter().filter(move |(_, verdict)| **verdict == wanted).map(|(name, _)| name.as_str())
    };
    let failed: Vec<&str> = of(Verdict::Failed).collect();
    let skipped: Vec<&str> = of(Verdict::Skipped).collect();
    ensure!(skipped.is_empty(), "skipped: {}", skipped.join(" "));
    ensure!(verdicts.len() == TESTS, "{} tests ran instead of {TESTS}", verdicts.len());
    let passed = of(Verdict::Passed).count();
    let note = format!("{passed} of {TESTS} passed {}", failed.join(" "));
    Ok(Tally { passed: passed as u64, failed: failed.len() as u64, note })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read_from_the_lines_of_the_suite() {
        assert_eq!(
            verdict("rename::erofs_named      FAILED"),
            Some(("rename::erofs_named", Verdict::Failed))
        );
        assert_eq!(verdict("open::o_trunc   ok"), Some(("open::o_trunc", Verdict::Passed)));
        assert_eq!(verdict("Summary: 3 failed, 0 skipped"), None);
    }
}
