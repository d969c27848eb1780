//! Where the log goes, and in which form.

use crate::failure::{Outcome, io};
use clap::Args;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tracing_subscriber::EnvFilter;

/// What every command knows about its log.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogArgs {
    /// What to log: off, error, warn, info, debug, trace, or a filter such as `carafe_vfs=debug,info`
    #[arg(long, global = true, value_name = "FILTER", env = "CARAFE_LOG", default_value = "info")]
    log: String,

    /// Append the log to this file instead of standard error
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,

    /// Log one JSON object a line
    #[arg(long, global = true)]
    log_json: bool,
}

impl LogArgs {
    /// Begins to log. Commands that end at once log warnings only: their report is on standard output.
    pub(crate) fn start(&self, serving: bool) -> Outcome {
        let level = if serving || self.log != "info" { self.log.as_str() } else { "warn" };
        // `fuser` logs what the kernel may well ask for, and the HTTP stack every connection.
        let filter = EnvFilter::new(format!("{level},fuser=error,hyper=warn,h2=warn,tower=warn"));
        let builder = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
        match (&self.log_file, self.log_json) {
            (Some(file), as_json) => {
                let file = open(file)?;
                let builder = builder.with_writer(file).with_ansi(false);
                if as_json { builder.json().init() } else { builder.init() }
            }
            (None, true) => builder.with_writer(std::io::stderr).json().init(),
            (None, false) => builder.with_writer(std::io::stderr).with_ansi(is_terminal()).init(),
        }
        Ok(())
    }
}

fn is_terminal() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stderr())
}

/// Paths may show up in a log, so it is for its owner alone.
pub(crate) fn open(file: &Path) -> Outcome<std::fs::File> {
    let mut how = OpenOptions::new();
    how.create(true).append(true).mode(0o600);
    how.open(file).map_err(io(format!("cannot open the log file {}", file.display())))
}

/// Where a background mount logs unless told otherwise: `/var/log/carafe.log` for root, else
/// `$XDG_STATE_HOME/carafe/carafe.log` (`~/.local/state`).
pub(crate) fn background_file() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/log/carafe.log");
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|h| Path::new(&h).join(".local/state"));
    let folder = state.or_else(home).unwrap_or_else(std::env::temp_dir).join("carafe");
    // If it cannot be made, opening the file says so.
    let _ = std::fs::create_dir_all(&folder);
    folder.join("carafe.log")
}
