//! Running programs: shown, checked, and with their output passed through.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Runs a command with the terminal's output; fails when it does.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    show(command);
    let status = command.stdin(Stdio::null()).status().with_context(|| not_started(command))?;
    if !status.success() {
        bail!("{} ended with {status}", name(command));
    }
    Ok(())
}

/// A program that runs longer hangs, for example on a mount that does not answer: it is ended, so that the table of results is printed.
const PATIENCE: Duration = Duration::from_secs(25 * 60);

/// Runs a command, passes its lines on as they come, and hands each to `look`. Both outputs go through one pipe.
pub(crate) fn run_looking(command: &mut Command, mut look: impl FnMut(&str)) -> Result<()> {
    show(command);
    let (reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| not_started(command))?;
    let ended = watch(&child);
    // The command keeps the writing ends: only without them does the pipe end with the child.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    for line in BufReader::new(reader).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        look(&line);
    }
    let status = child.wait()?;
    drop(ended);
    if !status.success() {
        bail!("{} ended with {status}", name(command));
    }
    Ok(())
}

/// Kills the child after [`PATIENCE`], unless the guard is dropped before.
fn watch(child: &Child) -> Sender<()> {
    let (guard, ended) = channel();
    let pid = Pid::from_child(child);
    std::thread::spawn(move || {
        if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            println!("ending a program after {} minutes", PATIENCE.as_secs() / 60);
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    guard
}

/// Runs a command quietly and returns its standard output; fails with its standard error.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| not_started(command))?;
    if !output.status.success() {
        bail!("{} ended with {}\n{}", name(command), output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where on the search path a program is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// `cargo` as it runs this program, at the root of the workspace.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    command
}

fn show(command: &Command) {
    let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    println!("$ {} {}", name(command), arguments.join(" "));
}

fn name(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn not_started(command: &Command) -> String {
    format!("{} cannot be started", command.get_program().to_string_lossy())
}
