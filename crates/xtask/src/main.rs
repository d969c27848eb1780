//! Development tasks of the repository: `cargo xtask TASK`.
//!
//! `setup` installs what the other tasks run, `test` is what CI runs, `demo` shows the product to somebody new, `bench` compares it
//! with its rival. The rest runs single suites on a directory of any file system, to compare with.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the command line")]

mod bed;
mod bench;
mod chart;
mod check;
mod cluster;
mod demo;
mod e2e;
mod environment;
mod fsbench;
mod setup;
mod sh;
mod step;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// Development tasks of Carafe.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install what the other tasks run: services, the ClickHouse engine, test programs.
    Setup,
    /// Run everything that CI runs.
    Test(check::TestArgs),
    /// Show ClickHouse on a volume: format, CSI driver, load, query, compare, clean up.
    Demo(demo::DemoArgs),
    /// Measure Carafe and JuiceFS on the same Redis and the same S3 server.
    Bench(bench::BenchArgs),
    /// Measure a directory of any file system, with the caches as they are.
    Fsbench { dir: PathBuf },
    /// Start, end or look at the one-node Kubernetes of the end-to-end tests.
    #[command(subcommand)]
    Cluster(cluster::ClusterTask),
    /// Run the end-to-end scenarios on Kubernetes.
    E2e(e2e::E2eArgs),
    /// Write `manifests/carafe.yaml` from the chart.
    Manifests(chart::ManifestsArgs),
    /// Run a program on a fresh mount; `{volume}` in its arguments is the mount point.
    On {
        /// The embedded engine and a local folder, instead of Redis and S3.
        #[arg(long)]
        embedded: bool,
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<String>,
    },
    /// Run the POSIX suite pjdfstest on a directory that is a mount point, as root.
    Pjdfstest { dir: PathBuf },
    /// Run fsx on a directory.
    Fsx { dir: PathBuf },
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Says whether all went well.
fn run(task: Task) -> Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let root = root.context("this crate lies two levels below the root of the repository")?.to_path_buf();
    match task {
        Task::Setup => setup::setup(&root, setup::Scope::Tests).map(|()| true),
        Task::Test(arguments) => check::test(root, &arguments),
        Task::Demo(arguments) => demo::demo(&root, &arguments).map(|()| true),
        Task::Bench(arguments) => bench::bench(&root, &arguments).map(|()| true),
        Task::Cluster(task) => cluster::cluster(&root, &task),
        Task::E2e(arguments) => e2e::e2e(&root, &arguments),
        Task::Manifests(arguments) => chart::manifests(&root, &arguments),
        Task::Fsbench { dir } => bench::directory(&dir).map(|()| true),
        Task::On { embedded, program } => bed::run_on(embedded, &program).map(|()| true),
        Task::Pjdfstest { dir } => report(check::pjdfstest_on(&dir)?),
        Task::Fsx { dir } => report(check::fsx_on(&dir)?),
    }
}

fn report(tally: step::Tally) -> Result<bool> {
    println!("{}\n{} passed, {} failed", tally.note, tally.passed, tally.failed);
    Ok(tally.failed == 0)
}
