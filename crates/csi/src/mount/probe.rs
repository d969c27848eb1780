//! Asking a mounted file system something, without being held up by it.

use super::MountError;
use crate::error::CsiError;
use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;
use std::path::Path;
use std::time::Duration;

/// How long a mount may take to answer a single question.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Whether somebody answers behind a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Somebody does.
    Alive,
    /// The connection is gone for ever ("Transport endpoint is not connected").
    Dead,
    /// No answer in time; it may come back.
    Stalled,
}

/// Asks the file system seen at `path` for the attributes of its root.
pub(crate) async fn health(path: &Path) -> Result<Health, CsiError> {
    let owned = path.to_owned();
    let asked = within(PATIENCE, "the mount", move || {
        // Forced, because attributes that the kernel has cached outlive the daemon.
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
        match rustix::fs::statx(CWD, &owned, flags, StatxFlags::INO) {
            Ok(_) => Ok(Health::Alive),
            Err(Errno::NOTCONN | Errno::CONNABORTED | Errno::SHUTDOWN | Errno::STALE) => Ok(Health::Dead),
            Err(errno) => Err(MountError::system("looking at", &owned)(errno).into()),
        }
    });
    match asked.await {
        Err(CsiError::TimedOut { .. }) => Ok(Health::Stalled),
        other => other,
    }
}

/// Runs `call` on a blocking thread and waits for it up to `limit`. A call that takes longer goes on without an audience;
/// one that changes something must look at its deadline itself.
pub(crate) async fn within<T: Send + 'static>(
    limit: Duration,
    what: &str,
    call: impl FnOnce() -> Result<T, CsiError> + Send + 'static,
) -> Result<T, CsiError> {
    match tokio::time::timeout(limit, tokio::task::spawn_blocking(call)).await {
        Ok(Ok(result)) => result,
        Ok(Err(panicked)) => Err(CsiError::Defect(panicked.to_string())),
        Err(_) => Err(CsiError::TimedOut { what: what.to_owned(), limit }),
    }
}
