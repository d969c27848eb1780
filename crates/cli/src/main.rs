//! The binary `carafe`: parse, wire, run.
//!
//! One file a verb in [`verbs`]. What several of them need: [`volume`] puts store, bucket, cache and vfs together,
//! [`failure`] is the one table from errors to exit codes, [`secret`] keeps passwords off the process list.

mod args;
mod ask;
mod background;
mod bucket;
mod control;
mod failure;
mod janitor;
mod job;
mod kubernetes;
mod log;
mod mountpoint;
mod out;
mod process;
mod progress;
mod secret;
mod serve;
mod size;
mod store;
mod verbs;
mod volume;
mod when;

use args::{Cli, Verb};
use clap::Parser;
use failure::{Exit, Failure, Outcome};
use std::process::ExitCode;
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    let outcome = secret::hide_password().and_then(|()| run(&Cli::parse()));
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            let code = failure.exit_code();
            complain(failure);
            code
        }
    }
}

/// Standard error, and for a background mount also whoever started it.
#[expect(clippy::print_stderr, reason = "the one place where a failure is shown")]
fn complain(failure: Failure) {
    eprintln!("carafe: {failure}");
    if background::is_child() {
        // The starter may be gone; it was told on standard error above.
        let _ = background::tell_failure(failure);
    }
}

fn run(cli: &Cli) -> Outcome<ExitCode> {
    if let Verb::Mount(args) = &cli.verb
        && args.background
        && !background::is_child()
    {
        return background::start(cli.log.log_file.clone()).map(|()| ExitCode::SUCCESS);
    }
    cli.log.start(matches!(cli.verb, Verb::Mount(_) | Verb::Csi(_)))?;
    let json = cli.json;
    let done = match &cli.verb {
        Verb::Format(args) => runtime()?.block_on(verbs::format::run(args, json)),
        Verb::Mount(args) => verbs::mount::run(args, runtime()?),
        Verb::Umount(args) => verbs::umount::run(args),
        Verb::Status(args) => runtime()?.block_on(verbs::status::run(args, json)),
        Verb::Info(args) => verbs::info::run(args, json),
        Verb::Fsck(args) => return runtime()?.block_on(verbs::fsck::run(args, json)),
        Verb::Gc(args) => return runtime()?.block_on(verbs::gc::run(args, json)),
        Verb::Destroy(args) => runtime()?.block_on(verbs::destroy::run(args, json)),
        Verb::Bench(args) => verbs::bench::run(args, json),
        Verb::Cache(args) => verbs::cache::run(args),
        Verb::Csi(args) => runtime()?.block_on(verbs::csi::run(args)),
        Verb::UninstallCheck(args) => runtime()?.block_on(verbs::uninstall_check::run(args)),
        Verb::Completions(args) => verbs::docs::completions(args),
        Verb::Man(args) => verbs::docs::man(args),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// At least four workers: a few of them may sit in calls of a local disk that take their time.
fn runtime() -> Outcome<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.max(4))
        .thread_name("carafe-worker")
        .enable_all()
        .build()
        .map_err(|e| Failure::new(Exit::Failed, format!("cannot start the runtime: {e}")))
}
