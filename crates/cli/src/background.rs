//! A mount in the background that has really been mounted when the command returns.
//!
//! The program starts itself again before any thread exists, in a session of its own, with a pipe as its standard
//! output. The child writes one line into it: that it serves, or why not. The parent exits with that.

use crate::failure::{Exit, Failure, Outcome, io};
use crate::log;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Tells the child that it is one. A variable, so that the child's command line is the one that a person would type.
const CHILD: &str = "CARAFE_BACKGROUND_CHILD";

/// What the child says.
#[derive(Serialize, Deserialize)]
enum Word {
    Ready,
    Failed { exit: u8, what: String, next: Option<String> },
}

/// Whether this process is the child of a `--background`.
pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Starts the child and waits for its word.
pub(crate) fn start(log_file: Option<PathBuf>) -> Outcome {
    let log_file = log_file.unwrap_or_else(log::background_file);
    let log = log::open(&log_file)?;
    let arguments: Vec<OsString> = std::env::args_os().skip(1).filter(|a| a != "--background").collect();
    let program = std::env::current_exe().map_err(io("cannot find the own program"))?;
    let mut child = Command::new(program)
        .args(arguments)
        .env(CHILD, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(io("cannot start the background process"))?;
    let pipe = child.stdout.take().expect("standard output is piped");
    let mut line = String::new();
    // A child that dies without a word leaves the line empty.
    let _ = BufReader::new(pipe).read_line(&mut line);
    match serde_json::from_str(&line) {
        Ok(Word::Ready) => Ok(()),
        Ok(Word::Failed { exit, what, next }) => Err(Failure::from_parts(exit, what, next)),
        Err(_) => Err(Failure::new(Exit::Failed, "the background process ended before it served")
            .next(format!("look at its log: {}", log_file.display()))),
    }
}

/// The child's side: a session of its own, so that no hang-up of a terminal reaches it.
pub(crate) fn detach() -> Outcome {
    rustix::process::setsid().map(drop).map_err(|e| io("cannot begin a session")(e.into()))?;
    // A background process must not keep a directory busy.
    std::env::set_current_dir("/").map_err(io("cannot go to /"))
}

/// Tells the parent that the mount serves, and lets go of the pipe.
pub(crate) fn tell_ready() -> Outcome {
    if is_child() {
        tell(&Word::Ready)?;
    }
    Ok(())
}

/// Tells the parent why there is no mount.
pub(crate) fn tell_failure(failure: Failure) -> Outcome {
    let (exit, what, next) = failure.into_parts();
    tell(&Word::Failed { exit, what, next })
}

fn tell(word: &Word) -> Outcome {
    let mut text = serde_json::to_vec(word).expect("plain fields always serialise");
    text.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&text).and_then(|()| out.flush()).map_err(io("the starting process is gone"))?;
    let null =
        std::fs::OpenOptions::new().write(true).open("/dev/null").map_err(io("cannot open /dev/null"))?;
    rustix::stdio::dup2_stdout(null).map_err(|e| io("cannot let go of the pipe")(e.into()))
}
