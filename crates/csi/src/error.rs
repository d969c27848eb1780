//! Everything that a CSI call can fail with. `status` holds the one table from here to gRPC codes.
//!
//! The text of an error ends in the event of a PVC or a pod, read by somebody who has only that: it says what happened,
//! to what, and what to do next.

use crate::launcher::LaunchError;
use crate::mount::MountError;
use crate::store::StoreError;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;
use uuid::Uuid;

/// Why a CSI call failed.
#[derive(Debug, Error)]
pub enum CsiError {
    /// A field that the specification requires is not set.
    #[error("the request has no {0}")]
    Missing(&'static str),
    /// A field has a value that can never be right.
    #[error("{field}: {reason}")]
    Invalid {
        /// The field, or the key in a map.
        field: String,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// Several faults of one map, told together, each a sentence.
    #[error("{}", .0.join("; "))]
    Faults(Vec<String>),
    /// No capacity satisfies the request.
    #[error("the capacity cannot be served: {0}")]
    OutOfRange(String),
    /// The name is in use for a volume that differs.
    #[error(
        "{id} exists under the name {name:?} but differs from what is asked ({difference}): delete it first, or \
         use another name"
    )]
    Differs {
        /// The volume or snapshot.
        id: String,
        /// Its name.
        name: String,
        /// Which property, there and asked.
        difference: String,
    },
    /// The registry has no such volume.
    #[error(
        "no volume {0} is registered: it was deleted, or belongs to a file system that is not configured here"
    )]
    NoVolume(String),
    /// The registry has the volume, but its directory cannot be found in the mounted file system.
    #[error("volume {id} has no directory {directory:?} in its file system: {reason}")]
    NoDirectory {
        /// The volume.
        id: String,
        /// Relative to the file system's root.
        directory: PathBuf,
        /// What the kernel said.
        reason: String,
    },
    /// The path on the way to a volume's directory has a symbolic link or leaves the file system.
    #[error(
        "the directory {directory:?} of volume {id} is reached through a symbolic link or another mount ({reason}): \
         name a path of plain directories"
    )]
    UnsafeDirectory {
        /// The volume.
        id: String,
        /// Relative to the file system's root.
        directory: PathBuf,
        /// What the kernel said.
        reason: String,
    },
    /// The directory lies around or inside that of another volume of the same mount.
    #[error(
        "the directory {directory:?} of volume {id} overlaps with {other:?}, which is mounted at {point:?}: name a path \
         beside it, or give the volume a mount of its own with the attribute \"isolation\": \"volume\""
    )]
    Overlap {
        /// The volume.
        id: String,
        /// Relative to the file system's root.
        directory: PathBuf,
        /// The other volume's, too.
        other: PathBuf,
        /// Where the other one is mounted.
        point: PathBuf,
    },
    /// Another call works on the same object.
    #[error("another call is at work on {0}: repeat this one when that one has ended")]
    Busy(String),
    /// The call needs a file system and nothing says which.
    #[error(
        "nothing says which file system {0} lies in: give the storage class a secret with the key `meta-url`, or start \
         the plugin with a file system"
    )]
    NoFileSystem(String),
    /// The secret leads to another file system than the one that the volume lies in.
    #[error(
        "volume {id} lies in file system {expected}, but the given secret leads to {found}: use the right secret"
    )]
    OtherFileSystem {
        /// The volume.
        id: String,
        /// From the id.
        expected: Uuid,
        /// From the store.
        found: Uuid,
    },
    /// A path pattern needs the claim and it cannot be read.
    #[error(
        "the path pattern needs labels or annotations of the claim {claim}, which cannot be read ({reason}): it will be tried \
         again; or use a pattern of names only"
    )]
    NoClaims {
        /// Namespace and name.
        claim: String,
        /// Why.
        reason: String,
    },
    /// Nothing is called so, or what was asked for lies elsewhere.
    #[error("no file system {name:?} is known here ({known}): correct `fileSystem`, or add it to the driver")]
    UnknownFileSystem {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The registry has no such snapshot.
    #[error(
        "no snapshot {0} is registered: it was deleted, or belongs to a file system that is not configured here"
    )]
    NoSnapshot(String),
    /// A list token that this driver did not make, or made for something else.
    #[error("the list token is not valid here: start the listing again without one")]
    BadToken,
    /// Something else is mounted where the volume shall go, or it is there with other properties.
    #[error("{path:?} already carries {what}: unpublish that first")]
    Occupied {
        /// The target.
        path: PathBuf,
        /// What is there.
        what: String,
    },
    /// A volume for a single writer is published at another path.
    #[error(
        "volume {id} allows one pod at a time (ReadWriteOncePod) and is published at {path:?}: unpublish it there first"
    )]
    PublishedElsewhere {
        /// The volume.
        id: String,
        /// The other target.
        path: PathBuf,
    },
    /// A call that needs the staging path does not name it.
    #[error("volume {0} is to be published but no staging path is given: stage it first")]
    NotStaged(String),
    /// Nothing of ours is mounted at the path.
    #[error("volume {id} is not mounted at {path:?} on this node: publish it first")]
    NotMounted {
        /// The volume.
        id: String,
        /// The path asked about.
        path: PathBuf,
    },
    /// A bounded wait ended.
    #[error("{what} took longer than {} s: it will be tried again; if it keeps failing, look at the mount's log", limit.as_secs())]
    TimedOut {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
    },
    /// From the metadata store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// From starting or asking the process that serves a file system.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// From the kernel's mount interface.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The task of this call ended without an answer: a defect here.
    #[error(
        "the call ended unexpectedly ({0}): this is a defect of the driver; please report it with the plugin's log"
    )]
    Defect(String),
}

impl CsiError {
    /// A field with a wrong value.
    pub(crate) fn invalid(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), reason: reason.into() }
    }
}
