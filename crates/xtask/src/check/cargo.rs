//! The steps that are cargo's: format, lints, build, tests.

use std::process::Command;

use anyhow::{Result, bail};

use super::Context;
use crate::setup::program;
use crate::sh;
use crate::step::Tally;

pub(super) fn fmt(context: &Context) -> Result<Tally> {
    sh::run(&mut sh::cargo(&context.root, &["fmt", "--all", "--check"]))?;
    Ok(Tally::one())
}

pub(super) fn clippy(context: &Context) -> Result<Tally> {
    let arguments = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    sh::run(&mut sh::cargo(&context.root, &arguments))?;
    Ok(Tally::one())
}

/// Everything that the later steps run is built here, once, in the profile of the tests.
pub(super) fn build(context: &Context) -> Result<Tally> {
    sh::run(&mut sh::cargo(&context.root, &["build", "--quiet", "--workspace", "--all-targets"]))?;
    Ok(Tally::one())
}

pub(super) fn nextest(context: &Context) -> Result<Tally> {
    let mut command = Command::new(program("cargo-nextest"));
    command.args(["nextest", "run", "--workspace", "--no-fail-fast"]).current_dir(&context.root);
    if context.quick {
        command.args(["--profile", "quick"]);
    }
    if let Some(filter) = &context.test_filter {
        command.arg(filter);
    }
    command.env("CARGO_TERM_COLOR", "never");
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    let result = sh::run_looking(&mut command, |line| {
        if let Some((passed, failed)) = summary(line) {
            (tally.passed, tally.failed) = (passed, failed);
        } else if let Some(name) = line.trim_start().strip_prefix("FAIL [") {
            failures.extend(name.split_whitespace().last().map(str::to_owned));
        }
    });
    if tally.failed == 0 {
        result?;
    }
    if tally.passed + tally.failed == 0 {
        bail!("no test ran");
    }
    failures.sort();
    failures.dedup();
    tally.note = format!("{} passed {}", tally.passed, failures.join(" "));
    Ok(tally)
}

/// Passed and failed of nextest's line `Summary [ 1.2s] 5 tests run: 3 passed (1 slow), 1 failed, 1 timed out, 7 skipped`.
fn summary(line: &str) -> Option<(u64, u64)> {
    let (_, counts) = line.trim_start().strip_prefix("Summary [")?.split_once(" run: ")?;
    let (mut passed, mut failed) = (0, 0);
    for part in counts.split(", ") {
        let mut words = part.split_whitespace();
        let count: u64 = words.next()?.parse().ok()?;
        match words.next()? {
            "passed" => passed += count,
            "skipped" => {}
            _ => failed += count,
        }
    }
    Some((passed, failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_the_runner_is_understood() {
        let line =
            "     Summary [   1.203s] 6 tests run: 4 passed (1 slow), 1 failed, 1 timed out, 7 skipped";
        assert_eq!(summary(line), Some((4, 2)));
        assert_eq!(summary("     Summary [   0.1s] 2 tests run: 2 passed, 0 skipped"), Some((2, 0)));
        assert_eq!(summary("        PASS [   0.1s] a b"), None);
    }
}
