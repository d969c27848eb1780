//! A server process with a log file, ended when it is dropped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process};

use crate::net::wait_until;

/// A child whose output goes to a file. Dropping it sends SIGKILL to this one process and waits for its end.
#[derive(Debug)]
pub struct ServerProcess {
    name: String,
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl ServerProcess {
    /// Starts `command`; its standard output and error are appended to `log`.
    ///
    /// # Errors
    /// If the program cannot be started or the log not opened.
    pub fn spawn(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        output_to(&mut command, log)?;
        let child = command.stdin(Stdio::null()).spawn();
        let child = child.with_context(|| format!("start {:?}", command.get_program()))?;
        Ok(Self::adopt(name, child, log))
    }

    /// Takes over a child whose output goes to `log`.
    pub(crate) fn adopt(name: &str, child: Child, log: &Path) -> Self {
        Self { name: name.to_owned(), child, log: log.to_path_buf(), ended: None }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory of the process in bytes, or 0 when it has ended.
    pub fn resident_bytes(&self) -> u64 {
        Self::resident_bytes_of(self.pid())
    }

    /// Resident memory of any process in bytes, or 0 when there is none with this id.
    pub fn resident_bytes_of(pid: u32) -> u64 {
        resident_bytes(pid).unwrap_or(0)
    }

    /// Whether the process still runs.
    pub fn is_running(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended.is_none()
    }

    /// Waits until `ready` is true.
    ///
    /// # Errors
    /// If the process ends first or `timeout` passes: the message has the end of the log.
    pub fn wait_ready(&mut self, timeout: Duration, mut ready: impl FnMut() -> bool) -> Result<()> {
        let mut alive = true;
        let waited = wait_until(&format!("{} to be ready", self.name), timeout, || {
            alive = self.is_running();
            !alive || ready()
        });
        if !alive {
            return Err(anyhow!(
                "{} ended at its start with {:?}\n{}",
                self.name,
                self.ended,
                self.log_tail()
            ));
        }
        waited.with_context(|| self.log_tail())
    }

    /// Sends `signal`; a process that has ended is left alone.
    pub fn signal(&mut self, signal: Signal) {
        if self.is_running()
            && let Some(pid) = Pid::from_raw(self.child.id() as i32)
        {
            // It may end between the question and the signal; it is not reaped before `is_running` asks again.
            let _ = kill_process(pid, signal);
        }
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.ended = self.ended.or_else(|| self.child.wait().ok());
    }

    /// SIGTERM, and after `grace` SIGKILL. Returns the status.
    ///
    /// # Errors
    /// If the process had to be killed.
    pub fn terminate(&mut self, grace: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM);
        self.wait_exit(grace)
    }

    /// Waits until the process has ended by itself; after `grace` it is killed.
    ///
    /// # Errors
    /// If the process had to be killed.
    pub fn wait_exit(&mut self, grace: Duration) -> Result<ExitStatus> {
        let waited = wait_until(&format!("{} to end", self.name), grace, || !self.is_running());
        self.kill();
        waited.with_context(|| self.log_tail())?;
        self.ended.ok_or_else(|| anyhow!("the status of {} is unknown", self.name))
    }

    /// What the process has written so far.
    pub fn log_text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    fn log_tail(&self) -> String {
        let text = self.log_text();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(30)..].join("\n");
        format!("the end of the log of {}:\n{tail}", self.name)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Standard output and error of a command are appended to `log`.
pub(crate) fn output_to(command: &mut Command, log: &Path) -> Result<()> {
    let out = File::options().create(true).append(true).open(log).context("open the log of a server")?;
    command.stdout(out.try_clone()?).stderr(out);
    Ok(())
}

/// Resident memory of a process in bytes, from `/proc`.
fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ends_at_its_start_is_reported_with_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo out of luck >&2; exit 3"]);
        let mut process = ServerProcess::spawn("sh", command, &dir.path().join("log")).unwrap();
        let error = process.wait_ready(Duration::from_secs(5), || false).unwrap_err();
        assert!(error.to_string().contains("out of luck"), "{error}");
    }

    #[test]
    fn killing_twice_is_harmless_and_leaves_no_process() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sleep");
        command.arg("100");
        let mut process = ServerProcess::spawn("sleep", command, &dir.path().join("log")).unwrap();
        assert!(process.is_running() && process.resident_bytes() > 0);
        process.kill();
        process.kill();
        assert!(!process.is_running());
    }
}
