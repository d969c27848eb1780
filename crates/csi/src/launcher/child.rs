//! Mounts served by child processes: `carafe mount META_URL DIR`.
//!
//! 1. Secrets go into the child's environment ([`ENVIRONMENT`]), which only root and the child's own user can read;
//!    a command line can be read by everybody.
//! 2. The child is ready when the mount table shows its mount and the mount answers. No agreement on output is needed, so
//!    what it says goes into a log file; its last lines end in the error, and so in the event of the pod.
//! 3. It has its own process group: an interrupt meant for the plugin does not reach it, and it goes on serving when the
//!    plugin ends. The next plugin adopts the mount (`shared`).
//! 4. It ends by being unmounted, never by a signal, so that it stores what was written. Only a child that is not ready
//!    in time is killed.

use super::shared::io;
use super::{LaunchError, RefusalKind, ServingMount, Starter};
use crate::address::{FsAddress, MountOptions, Secret};
use crate::mount::probe::{self, Health};
use crate::mount::table::{MountEntry, MountTable};
use crate::mount::unmount;
use async_trait::async_trait;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

/// The variables in which a child finds its secrets: metadata password, access key, secret key, session token.
pub const ENVIRONMENT: [&str; 4] =
    ["CARAFE_META_PASSWORD", "CARAFE_ACCESS_KEY", "CARAFE_SECRET_KEY", "CARAFE_SESSION_TOKEN"];

/// How often a child that is not ready yet is looked at.
const POLL: Duration = Duration::from_millis(20);
/// How much of a log ends in an error.
const LOG_TAIL_BYTES: u64 = 1500;

/// Settings of [`ChildProcess`].
#[derive(Clone, Debug)]
pub struct ChildOptions {
    /// The binary, usually this very one.
    pub program: PathBuf,
    /// What follows `mount META_URL DIR`, for example `--cache-dir`.
    pub arguments: Vec<OsString>,
    /// The folder for log files, one a mount.
    pub logs: PathBuf,
    /// The type that the mount table shows for its mounts.
    pub fs_type: String,
}

/// A [`Starter`] that runs a program.
#[derive(Debug)]
pub struct ChildProcess(ChildOptions);

impl ChildProcess {
    /// Runs `options.program`.
    pub fn new(options: ChildOptions) -> Self {
        Self(options)
    }

    fn log_path(&self, point: &Path) -> PathBuf {
        let name = point.file_name().unwrap_or_default();
        self.0.logs.join(name).with_extension("log")
    }

    fn spawn(&self, address: &FsAddress, point: &Path, log: &Path) -> Result<Child, LaunchError> {
        std::fs::create_dir_all(&self.0.logs).map_err(io("making", &self.0.logs))?;
        let out =
            OpenOptions::new().create(true).append(true).mode(0o600).open(log).map_err(io("opening", log))?;
        let err = out.try_clone().map_err(io("opening", log))?;
        let mut command = Command::new(&self.0.program);
        command.arg("mount").arg(address.public_url().as_str()).arg(point);
        command.args(arguments(&self.0.arguments, &address.options, point));
        command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
        set_secrets(&mut command, address);
        command
            .spawn()
            .map_err(|e| LaunchError::CannotStart { program: self.0.program.clone(), reason: e.to_string() })
    }
}

/// What the plugin was told about mounts, with what one mount's own options say instead. A mount with options of its own
/// also has a cache directory of its own: two mounts with different ideas of its size must not share one.
fn arguments(usual: &[OsString], own: &MountOptions, point: &Path) -> Vec<OsString> {
    let mut all = usual.to_vec();
    if *own == MountOptions::default() {
        return all;
    }
    if let Some(at) = all.iter().position(|argument| argument == "--cache-dir")
        && let Some(dir) = all.get_mut(at + 1)
    {
        let name = point.file_name().unwrap_or_default();
        *dir = Path::new(dir).join(name).into_os_string();
    }
    let mut set = |name: &str, value: String| {
        if let Some(at) = all.iter().position(|argument| argument == name) {
            all.drain(at..(at + 2).min(all.len()));
        }
        all.extend([name.into(), value.into()]);
    };
    if let Some(bytes) = own.cache_size {
        set("--cache-size", bytes.to_string());
    }
    if let Some(uploads) = own.upload_parallel {
        set("--upload-parallel", uploads.to_string());
    }
    for (wanted, flag) in [(own.memory_only, "--no-cache-disk"), (own.close_sync, "--close-sync")] {
        if wanted && !all.iter().any(|argument| argument == flag) {
            all.push(flag.into());
        }
    }
    all
}

/// Sets the variables of the secrets that are there, and removes the others: the plugin's own are not the child's.
fn set_secrets(command: &mut Command, address: &FsAddress) {
    let keys = address.bucket_keys.as_ref();
    let values = [
        address.meta_password().map(Secret::reveal),
        keys.map(|keys| keys.access_key.as_str()),
        keys.map(|keys| keys.secret_key.reveal()),
        keys.and_then(|keys| keys.session_token.as_ref()).map(Secret::reveal),
    ];
    for (name, value) in ENVIRONMENT.iter().zip(values) {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

#[async_trait]
impl Starter for ChildProcess {
    async fn start(&self, address: &FsAddress, point: &Path) -> Result<Box<dyn ServingMount>, LaunchError> {
        let log = self.log_path(point);
        let begin = std::fs::metadata(&log).map_or(0, |metadata| metadata.len());
        let mut starting =
            Starting { child: Some(self.spawn(address, point, &log)?), point: point.to_owned() };
        loop {
            if let Some((kind, status)) = starting.exited() {
                let file_system = address.public_url().to_string();
                return Err(LaunchError::Ended { kind, file_system, status, log: tail(&log, begin) });
            }
            if self.is_ready(point).await? {
                return Ok(Box::new(ChildMount(starting.finish())));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn owns(&self, entry: &MountEntry) -> bool {
        entry.fs_type == self.0.fs_type
    }

    fn last_words(&self, point: &Path) -> Option<String> {
        let text = tail(&self.log_path(point), 0);
        text.lines().last().map(str::to_owned)
    }
}

impl ChildProcess {
    async fn is_ready(&self, point: &Path) -> Result<bool, LaunchError> {
        let mounted = MountTable::read()?.top(point).is_some_and(|entry| self.owns(entry));
        Ok(mounted && matches!(probe::health(point).await, Ok(Health::Alive)))
    }
}

/// A child that is not ready. Dropped, it is killed and its mount taken away.
struct Starting {
    child: Option<Child>,
    point: PathBuf,
}

impl Starting {
    /// What its exit status says, if it ended.
    fn exited(&mut self) -> Option<(RefusalKind, String)> {
        match self.child.as_mut()?.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some((RefusalKind::from_exit_code(status.code()), status.to_string())),
            Err(error) => Some((RefusalKind::Failed, error.to_string())),
        }
    }

    fn finish(mut self) -> Option<Child> {
        self.child.take()
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        if let Err(error) = child.start_kill() {
            // It ended by itself, which is as good.
            tracing::debug!(%error, "a mount that was not ready could not be killed");
        }
        if let Err(error) = unmount::unmount_all(&self.point) {
            tracing::error!(%error, "a mount that was not ready could not be taken away");
        }
    }
}

struct ChildMount(Option<Child>);

#[async_trait]
impl ServingMount for ChildMount {
    async fn ended(self: Box<Self>) -> Result<(), String> {
        let Some(mut child) = self.0 else { return Ok(()) };
        match child.wait().await {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                Err(format!("the mount process ended with {status}: its log says what was not stored"))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// What was written to a log since `begin`, but its end only.
fn tail(log: &Path, begin: u64) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(log)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(begin.max(end.saturating_sub(LOG_TAIL_BYTES)).min(end)))?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    match read() {
        Ok(text) if text.is_empty() => "it said nothing".to_owned(),
        Ok(text) => text,
        Err(error) => format!("its log {log:?} cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_with_options_of_its_own_has_each_argument_once_and_its_own_cache() {
        let usual: Vec<OsString> =
            ["--cache-dir", "/c", "--cache-size", "5", "--close-sync"].map(Into::into).into();
        let point = Path::new("/base/mnt/m1");
        assert_eq!(arguments(&usual, &MountOptions::default(), point), usual);
        let own = MountOptions {
            cache_size: Some(7),
            close_sync: true,
            memory_only: true,
            upload_parallel: Some(3),
            alone: None,
        };
        let expected = [
            "--cache-dir",
            "/c/m1",
            "--close-sync",
            "--cache-size",
            "7",
            "--upload-parallel",
            "3",
            "--no-cache-disk",
        ];
        assert_eq!(arguments(&usual, &own, point), expected.map(OsString::from));
    }

    #[test]
    fn regression_the_last_line_of_a_mounts_log_tells_why_it_is_not_ready() {
        let dir = tempfile::tempdir().unwrap();
        let options = ChildOptions {
            program: "carafe".into(),
            arguments: Vec::new(),
            logs: dir.path().to_owned(),
            fs_type: "fuse.carafe".into(),
        };
        std::fs::write(dir.path().join("m1.log"), "opened\nbucket s3://b does not answer\n").unwrap();
        let child = ChildProcess::new(options);
        let said = child.last_words(Path::new("/base/mnt/m1"));
        assert_eq!(said.as_deref(), Some("bucket s3://b does not answer"));
    }
}
