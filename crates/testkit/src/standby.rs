//! A server that is about to start.
//!
//! A test whose threads hold files open on a mount cannot start a process while that mount waits for the very server which is to be
//! started: the new process inherits the open files, closes them when it becomes the server, and closing waits for the mount. So
//! the process is made beforehand, while all is well, and becomes the server on a word.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::process::{ServerProcess, output_to};

/// A process that waits to become a server; it ends when this is dropped.
#[derive(Debug)]
pub struct Standby {
    name: String,
    child: Option<Child>,
    log: std::path::PathBuf,
}

impl Standby {
    /// Prepares `command`; its output will be appended to `log`.
    pub(crate) fn prepare(name: &str, command: &Command, log: &Path) -> Result<Self> {
        let mut waiting = Command::new("sh");
        waiting
            .args(["-c", "read word && exec \"$0\" \"$@\""])
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => waiting.env(name, value),
                None => waiting.env_remove(name),
            };
        }
        if let Some(dir) = command.get_current_dir() {
            waiting.current_dir(dir);
        }
        output_to(&mut waiting, log)?;
        let child = waiting.stdin(Stdio::piped()).spawn().with_context(|| format!("prepare {name}"))?;
        Ok(Self { name: name.to_owned(), child: Some(child), log: log.to_path_buf() })
    }

    /// Lets the process become the server.
    pub(crate) fn go(mut self) -> Result<ServerProcess> {
        let mut child = self.child.take().context("a standby starts once")?;
        let mut word = child.stdin.take().context("its standard input is a pipe")?;
        let told = word.write_all(b"go\n").with_context(|| format!("start {}", self.name));
        let process = ServerProcess::adopt(&self.name, child, &self.log);
        told.map(|()| process)
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
