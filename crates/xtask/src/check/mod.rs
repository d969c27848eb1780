//! `cargo xtask test`: everything that CI runs, in the order in which it is cheapest to fail.

mod cargo;
mod crash;
mod csi_sanity;
mod fsx;
mod leftovers;
mod pjdfstest;
mod workloads;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use crate::setup::{Scope, setup};
use crate::step::{Step, Tally, run_all};

pub(crate) use fsx::run_on as fsx_on;
pub(crate) use pjdfstest::run_on as pjdfstest_on;

/// What is tested.
#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Only the steps whose name contains this; when no step has such a name, the Rust tests whose name does.
    filter: Option<String>,
    /// Only formatting, lints and the Rust tests that start no server and mount nothing.
    #[arg(long)]
    quick: bool,
    /// List the steps and end.
    #[arg(long)]
    list: bool,
}

/// What the steps share.
pub(crate) struct Context {
    pub(crate) root: PathBuf,
    /// For nextest: only tests whose name contains it.
    pub(crate) test_filter: Option<String>,
    pub(crate) quick: bool,
}

const STEPS: &[Step<Context>] = &[
    Step::vital("setup", install),
    Step::new("fmt", cargo::fmt),
    Step::new("clippy", cargo::clippy),
    Step::new("chart", chart),
    Step::vital("build", cargo::build),
    Step::new("rust-tests", cargo::nextest),
    Step::new("csi-sanity-redis-s3", csi_sanity::on_redis_s3),
    Step::new("workloads-redis-s3", workloads::on_redis_s3),
    Step::new("workloads-embedded", workloads::on_embedded),
    Step::new("crash-redis-s3", crash::on_redis_s3),
    Step::new("pjdfstest-redis-s3", pjdfstest::on_redis_s3),
    Step::new("pjdfstest-embedded", pjdfstest::on_embedded),
    Step::new("kubernetes", kubernetes),
    Step::new("fsx-redis-s3", fsx::on_redis_s3),
    Step::new("fsx-embedded", fsx::on_embedded),
];

const QUICK: [&str; 5] = ["setup", "fmt", "clippy", "chart", "rust-tests"];

/// Runs the steps; says whether all went well.
pub(crate) fn test(root: PathBuf, arguments: &TestArgs) -> Result<bool> {
    if arguments.list {
        STEPS.iter().for_each(|step| println!("{}", step.name));
        return Ok(true);
    }
    let (steps, test_filter) = choose(arguments);
    if steps.is_empty() {
        bail!("no step is left: see `cargo xtask test --list`");
    }
    // Everything that the steps and their servers leave behind is below this directory, and goes with it.
    let scratch = leftovers::Scratch::new()?;
    let context = Context { root, test_filter, quick: arguments.quick };
    let good = run_all(&steps, &context);
    drop(scratch);
    Ok(good)
}

/// The steps to run, and the filter for the Rust tests.
fn choose(arguments: &TestArgs) -> (Vec<Step<Context>>, Option<String>) {
    // Chosen steps on a binary that somebody else has built need no build.
    let prebuilt = std::env::var_os("CARAFE_BIN").is_some();
    let wanted = |step: &Step<Context>| -> bool {
        let Some(filter) = &arguments.filter else { return true };
        step.name.contains(filter.as_str()) || (step.vital && !(prebuilt && step.name == "build"))
    };
    let names_a_step = |filter: &String| STEPS.iter().any(|step| step.name.contains(filter.as_str()));
    let for_tests = arguments.filter.clone().filter(|filter| !names_a_step(filter));
    let chosen = STEPS.iter().filter(|step| match (&for_tests, arguments.quick) {
        (Some(_), _) => step.vital || step.name == "rust-tests",
        (None, true) => QUICK.contains(&step.name) && wanted(step),
        (None, false) => wanted(step),
    });
    (chosen.copied().collect(), for_tests)
}

fn install(context: &Context) -> Result<Tally> {
    setup(&context.root, Scope::Tests)?;
    Ok(Tally::one())
}

fn chart(context: &Context) -> Result<Tally> {
    crate::chart::check(&context.root)
}

fn kubernetes(context: &Context) -> Result<Tally> {
    crate::e2e::short(&context.root)
}
