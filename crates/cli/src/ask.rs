//! Questions and orders to the daemon behind a mount, through attributes that are none (`carafe_fuse::Control`).

use crate::failure::{Exit, Failure, Outcome};
use crate::process::ProcessId;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Answers are at most this long (the kernel's bound for an attribute).
const ANSWER_MAX: usize = 64 << 10;

/// Question: which mount is this?
pub(crate) const MOUNT: &str = "mount";
/// Question: where does this file lie?
pub(crate) const INFO: &str = "info";
/// Question: what has this mount done so far?
pub(crate) const STATS: &str = "stats";
/// Order: store everything that was written.
pub(crate) const FLUSH: &str = "flush";
/// Order: drop what the local cache can fetch again.
pub(crate) const DROP_CACHE: &str = "drop-cache";

/// The answer to [`MOUNT`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MountReport {
    pub(crate) name: String,
    pub(crate) uuid: String,
    pub(crate) meta_url: String,
    pub(crate) bucket: String,
    pub(crate) version: String,
    /// The session's number in the store.
    pub(crate) session: u32,
    /// The process that serves, if it lives for this mount alone.
    pub(crate) process: Option<ProcessId>,
    /// The cache's directory; `None` for memory.
    pub(crate) cache_dir: Option<String>,
}

/// Why a question has no answer.
#[derive(Debug)]
pub(crate) enum AskError {
    /// The path is on no Carafe mount.
    NoMount,
    /// The daemon is gone.
    Dead,
    /// Anything else.
    Failed(Errno),
}

impl AskError {
    /// For a person who gave `path`.
    pub(crate) fn about(self, path: &Path) -> Failure {
        let path = path.display();
        match self {
            AskError::NoMount => Failure::new(Exit::Refused, format!("{path} is on no Carafe mount"))
                .next("`carafe mount META_URL DIR` mounts one; `findmnt -t fuse.carafe` lists them"),
            AskError::Dead => Failure::new(Exit::Failed, format!("the daemon that served {path} has died"))
                .next("`carafe umount` the mount point, then mount it again"),
            AskError::Failed(Errno::NOENT) => {
                Failure::new(Exit::Failed, format!("{path}: no such file or directory"))
            }
            AskError::Failed(e @ (Errno::ACCESS | Errno::PERM)) => {
                Failure::new(Exit::Denied, format!("{path}: {e}"))
            }
            AskError::Failed(e) => Failure::new(Exit::Failed, format!("{path}: {e}")),
        }
    }
}

/// Asks `what` of `path` (which is followed if it is a symlink).
pub(crate) fn ask<T: DeserializeOwned>(path: &Path, what: &str) -> Result<T, AskError> {
    let mut answer = vec![0u8; ANSWER_MAX];
    let len = rustix::fs::getxattr(path, format!("carafe.{what}"), answer.as_mut_slice()).map_err(refusal)?;
    serde_json::from_slice(&answer[..len]).map_err(|_| AskError::NoMount)
}

/// Gives the order `what` to the daemon that serves `path`.
pub(crate) fn order(path: &Path, what: &str) -> Result<(), AskError> {
    rustix::fs::setxattr(path, format!("carafe.{what}"), b"1", XattrFlags::empty()).map_err(refusal)
}

fn refusal(error: Errno) -> AskError {
    match error {
        Errno::NODATA | Errno::OPNOTSUPP => AskError::NoMount,
        Errno::NOTCONN => AskError::Dead,
        other => AskError::Failed(other),
    }
}

/// Turns the outcome of a request on a thread of its own (`in_time`) into one of this module.
pub(crate) fn in_time<T>(answer: Option<Result<T, AskError>>, path: &Path) -> Outcome<T> {
    match answer {
        Some(result) => result.map_err(|e| e.about(path)),
        None => Err(Failure::new(
            Exit::Failed,
            format!("the mount that holds {} does not answer", path.display()),
        )
        .next("look at its log; `carafe umount --force` takes it away without waiting")),
    }
}
