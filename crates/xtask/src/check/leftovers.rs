//! A scratch directory that takes everything with it: files, mounts and processes.
//!
//! A test that is ended by its time limit cannot run its guards. Its servers and daemons name the scratch directory on their
//! command lines, since it is `TMPDIR` for everything that the steps start, and its name is unique: so they can be found and ended one by
//! one.

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
        for pid in processes_naming(self.dir.path()) {
            println!("ending process {} that a test left behind", pid.as_raw_nonzero());
            let _ = kill_process(pid, Signal::KILL);
        }
        for dir in carafe_testkit::detach_below(self.dir.path()) {
            println!("unmounted {} that a test left behind", dir.display());
        }
    }
}

fn processes_naming(dir: &Path) -> Vec<Pid> {
    let wanted = dir.as_os_str().as_encoded_bytes();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != getpid().as_raw_nonzero().get())
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(wanted.len()).any(|window| window == wanted)
        })
        .filter_map(Pid::from_raw)
        .collect()
}
