//! `carafe completions SHELL` and `carafe man DIR`, made from the command line's own definition.

use crate::args::Cli;
use crate::failure::{Outcome, io};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::path::PathBuf;

/// Print a completion script for a shell
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// bash, zsh, fish, elvish or powershell
    shell: Shell,
}

/// Write man pages
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// The directory to write them into, for example /usr/local/share/man/man1
    dir: PathBuf,
}

pub(crate) fn completions(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "carafe", &mut script);
    crate::out::line(String::from_utf8_lossy(&script).trim_end())
}

pub(crate) fn man(args: &ManArgs) -> Outcome {
    std::fs::create_dir_all(&args.dir).map_err(io(format!("cannot make {}", args.dir.display())))?;
    clap_mangen::generate_to(Cli::command(), &args.dir)
        .map_err(io(format!("cannot write man pages into {}", args.dir.display())))
}
