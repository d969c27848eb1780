//! A scratch directory that takes everything with it: files, mounts and processes.
//!
//! A test that is ended by its time limit cannot run its guards. Its servers and daemons have inherited `TMPDIR`, which is the scratch
//! directory for everything that the steps start, and its name is unique: so they can be found by their environment and ended one by one.

use std::fs;
use std::path::Path;

use anyhow::Result;
use rustix::process::{Pid, Signal, getpid, kill_process};
use tempfile::TempDir;

pub(super) struct Scratch {
    dir: TempDir,
}

impl Scratch {
    /// Makes the directory and tells this process and its children to use it for temporary files.
    pub(super) fn new() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("carafe-test-").tempdir()?;
        // Users other than root must reach the mount points in it.
        fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        crate::environment::set("TMPDIR", dir.path().as_os_str());
        Ok(Self { dir })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for pid in processes_of(self.dir.path()) {
            println!("ending process {} that a test left behind", pid.as_raw_nonzero());
            let _ = kill_process(pid, Signal::KILL);
        }
        for dir in carafe_testkit::detach_below(self.dir.path()) {
            println!("unmounted {} that a test left behind", dir.display());
        }
    }
}

fn processes_of(dir: &Path) -> Vec<Pid> {
    let wanted = [b"TMPDIR=", dir.as_os_str().as_encoded_bytes()].concat();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != getpid().as_raw_nonzero().get())
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
        })
        .filter_map(Pid::from_raw)
        .collect()
}
