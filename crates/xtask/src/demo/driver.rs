//! The CSI driver as a process, and its volumes.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use carafe_testkit::{FileSystem, ServerProcess};

use crate::sh;

/// `carafe csi`, both services in one process. With the embedded engine the mount is inside it, since that engine has one process.
pub(super) struct Driver {
    process: ServerProcess,
    socket: PathBuf,
    home: PathBuf,
}

impl Driver {
    /// Starts the driver and waits for its socket.
    pub(super) fn start(fs: &FileSystem, home: &Path) -> Result<Self> {
        let socket = home.join("csi.sock");
        let mut command = fs.command()?;
        command.arg("csi").arg(format!("--endpoint=unix://{}", socket.display()));
        command.args(["--node-id", "demo-node", "--meta-url", &fs.meta_url]);
        command.arg("--base").arg(home.join("csi")).arg("--cache-dir").arg(home.join("cache"));
        command.args(["--linger", "0"]);
        let mut process = ServerProcess::spawn("carafe csi", command, &home.join("csi.log"))?;
        process.wait_ready(Duration::from_secs(30), || UnixStream::connect(&socket).is_ok())?;
        Ok(Self { process, socket, home: home.to_path_buf() })
    }

    /// Creates a volume, runs a program on it (`{volume}` in its arguments is the path), and deletes the volume.
    pub(super) fn volume(&self, name: &str, bytes: u64, program: &[OsString]) -> Result<()> {
        let mut command = Command::new(client()?);
        command.arg(&self.socket).arg(name).arg(bytes.to_string()).arg(self.home.join("node")).args(program);
        sh::run(&mut command).with_context(|| format!("the driver's log:\n{}", self.process.log_text()))
    }

    /// SIGTERM; the driver must end by itself.
    pub(super) fn stop(&mut self) -> Result<()> {
        let status = self.process.terminate(Duration::from_secs(60))?;
        anyhow::ensure!(status.success(), "carafe csi ended with {status}\n{}", self.process.log_text());
        Ok(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // After a failure: a daemon whose mount is gone ends by itself.
        self.process.kill();
        carafe_testkit::detach_below(&self.home);
    }
}

/// The gRPC client lies in the examples beside this program.
fn client() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let client = own.parent().context("a program lies in a directory")?.join("examples/csi_volume");
    anyhow::ensure!(client.exists(), "{} is missing: build it with --example csi_volume", client.display());
    Ok(client)
}
