//! A mounted file system: the `carafe mount` daemon in the foreground, as a child.
//!
//! A mount point outlives its daemon: after SIGKILL it answers ENOTCONN until it is unmounted. So whatever happens to the
//! daemon, the guard detaches the mount point lazily before it waits for the process.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

use crate::filesystem::{FileSystem, ToolOutput};
use crate::net::wait_until;
use crate::process::ServerProcess;

const START: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(60);

/// How the file system is mounted. The default: a cache on disk of the daemon's default size, in the mount's own directory.
#[derive(Debug, Clone, Default)]
pub struct MountOptions {
    /// `--cache-size`, for example `100MiB`.
    pub cache_size: Option<String>,
    /// `--cache-dir`; without it a directory that lives as long as the guard, over `remount` too.
    pub cache_dir: Option<PathBuf>,
    /// `--no-cache-disk`.
    pub no_cache_disk: bool,
    /// Mount here, a directory that exists; without it in the mount's own directory.
    pub dir: Option<PathBuf>,
    /// Further arguments.
    pub extra: Vec<String>,
    /// Further variables.
    pub environment: Vec<(String, String)>,
}

/// A mount; dropping it unmounts and ends the daemon, without waiting for uploads. A test that needs the orderly end calls
/// [`unmount`](Self::unmount).
#[derive(Debug)]
pub struct Mount {
    fs: FileSystem,
    options: MountOptions,
    dir: PathBuf,
    home: TempDir,
    process: ServerProcess,
}

impl Mount {
    /// Starts the daemon and waits until the mount point answers.
    ///
    /// # Errors
    /// If it does not come up: the message has the end of its log.
    pub fn start(fs: FileSystem, options: MountOptions) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("carafe-mount-").tempdir()?;
        // Users other than root must reach the mount point through its parents.
        fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let dir = options.dir.clone().unwrap_or_else(|| home.path().join("mnt"));
        fs::create_dir_all(&dir)?;
        let dir = dir.canonicalize()?;
        let process = launch(&fs, &options, &dir, home.path())?;
        Ok(Self { fs, options, dir, home, process })
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The cache directory.
    pub fn cache_dir(&self) -> PathBuf {
        cache_dir(&self.options, self.home.path())
    }

    /// The file system that is mounted.
    pub fn file_system(&self) -> &FileSystem {
        &self.fs
    }

    /// The daemon.
    pub fn process(&mut self) -> &mut ServerProcess {
        &mut self.process
    }

    /// What the daemon has logged so far.
    pub fn log_text(&self) -> String {
        self.process.log_text()
    }

    /// SIGKILL for the daemon; the mount point stays, dead.
    pub fn kill9(&mut self) {
        self.process.kill();
    }

    /// Mounts again at the same place, with the same cache directory; what is left of the daemon before is ended first.
    ///
    /// # Errors
    /// If the daemon does not come up: the message has the end of its log.
    pub fn remount(&mut self) -> Result<()> {
        self.process.kill();
        detach(&self.dir);
        self.process = launch(&self.fs, &self.options, &self.dir, self.home.path())?;
        Ok(())
    }

    /// Removes what the cache directory holds, as the loss of the node's disk would. Only while the daemon is down.
    ///
    /// # Errors
    /// If the directory cannot be removed.
    pub fn lose_cache(&mut self) -> Result<()> {
        assert!(!self.process.is_running(), "the cache of a running daemon must not be taken away");
        let dir = self.cache_dir();
        if dir.exists() {
            fs::remove_dir_all(&dir).context("remove the cache directory")?;
        }
        fs::create_dir_all(&dir).context("make the cache directory")
    }

    /// `carafe umount`, and waits until the daemon has ended well.
    ///
    /// # Errors
    /// If one of the two does not end well.
    pub fn unmount(&mut self) -> Result<()> {
        self.fs.carafe(&["umount", &self.dir.display().to_string()])?.ok().context("carafe umount")?;
        let status = self.process.wait_exit(STOP)?;
        anyhow::ensure!(status.success(), "the daemon ended with {status}\n{}", self.log_text());
        anyhow::ensure!(!is_mounted(&self.dir), "{} is still mounted", self.dir.display());
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log_text();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            // The one place where a failed test shows what the daemon had to say.
            #[expect(clippy::print_stderr, reason = "shown by the test runner")]
            {
                eprintln!("log of carafe mount:\n{}", tail.join("\n"));
            }
        }
        detach(&self.dir);
        self.process.kill();
        detach(&self.dir);
    }
}

fn launch(fs: &FileSystem, options: &MountOptions, dir: &Path, home: &Path) -> Result<ServerProcess> {
    let mut command = fs.command()?;
    command.args(["mount", &fs.meta_url]).arg(dir);
    if options.no_cache_disk {
        command.arg("--no-cache-disk");
    } else {
        let cache = cache_dir(options, home);
        fs::create_dir_all(&cache)?;
        command.arg("--cache-dir").arg(cache);
    }
    if let Some(size) = &options.cache_size {
        command.args(["--cache-size", size]);
    }
    command.args(&options.extra).envs(options.environment.iter().map(|(name, value)| (name, value)));
    let mut process = ServerProcess::spawn("carafe mount", command, &home.join("mount.log"))?;
    process.wait_ready(START, || is_mounted(dir))?;
    // The first answer to a stat comes when the daemon serves.
    fs::metadata(dir).with_context(|| format!("stat the mount point {}", dir.display()))?;
    Ok(process)
}

fn cache_dir(options: &MountOptions, home: &Path) -> PathBuf {
    options.cache_dir.clone().unwrap_or_else(|| home.join("cache"))
}

/// Whether something is mounted on exactly this path. The path itself is not touched: a dead mount would not answer.
pub fn is_mounted(dir: &Path) -> bool {
    mount_points().iter().any(|point| point == dir)
}

/// Takes a mount point out of the tree, dead or alive, busy or not. Nothing mounted is fine.
pub fn detach(dir: &Path) {
    // Several mounts may lie over each other after a failed test.
    for _ in 0..4 {
        if !is_mounted(dir) {
            return;
        }
        if unmount(dir, UnmountFlags::DETACH).is_err() {
            // Without privileges the setuid helper may do it.
            let _ = ToolOutput::of(Command::new("fusermount3").arg("-uz").arg(dir));
        }
        let _ = wait_until("the mount point to go", Duration::from_secs(2), || !is_mounted(dir));
    }
}

/// Takes every mount point below a directory out of the tree, the innermost first; returns them.
pub fn detach_below(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = mount_points().into_iter().filter(|point| point.starts_with(dir)).collect();
    // The table is in the order of mounting: what comes later may lie inside what comes earlier.
    found.reverse();
    found.iter().for_each(|point| detach(point));
    found
}

fn mount_points() -> Vec<PathBuf> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(|field| PathBuf::from(std::ffi::OsString::from_vec(unescape(field))))
        .collect()
}

/// Undoes the octal escapes (`\040` for a space) of the kernel's mount table.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let code = (*first == b'\\').then(|| tail.get(..3)).flatten();
        let code = code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match code {
            Some(byte) => {
                out.push(byte);
                rest = &tail[3..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_mounted_and_a_plain_directory_is_not() {
        assert!(is_mounted(Path::new("/proc")));
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_mounted(dir.path()));
        detach(dir.path());
        assert!(dir.path().exists());
    }

    #[test]
    fn escapes_of_the_mount_table_are_undone() {
        assert_eq!(unescape(br"/a\040b\134c"), br"/a b\c");
        assert_eq!(unescape(br"/a\04"), br"/a\04");
    }
}
