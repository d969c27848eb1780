//! Why the registry did not do what it was asked.

use carafe_types::FsError;
use carafe_types::record::DecodeError;

/// A failed call of the registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// No record under that id.
    #[error("no volume {0} is registered")]
    NotFound(String),
    /// The path of a new volume is in use.
    #[error("the path {path:?} is taken by {by}")]
    PathTaken {
        /// The path that was asked for.
        path: String,
        /// What is there: a volume or a directory.
        by: String,
    },
    /// The id or path can never be a volume's.
    #[error("{0}")]
    Invalid(String),
    /// What shall be copied is being made itself.
    #[error("{0} is still being copied; try again")]
    NotReady(String),
    /// Another session makes it.
    #[error("{id} is being copied, {percent} % are done; try again")]
    Copying {
        /// What is made.
        id: String,
        /// How far it is.
        percent: u64,
    },
    /// The content does not fit.
    #[error("{asked} bytes are asked, the source holds {needed}")]
    TooSmall {
        /// The capacity that was asked for.
        asked: u64,
        /// The bytes of the source.
        needed: u64,
    },
    /// Others kept changing the same records.
    #[error("others are changing volume {0}; try again")]
    Contended(String),
    /// The record cannot be read.
    #[error("the record of volume {id} is damaged ({source}); run `carafe fsck`")]
    Damaged {
        /// Whose record.
        id: String,
        /// How.
        source: DecodeError,
    },
    /// From the file system below.
    #[error(transparent)]
    Fs(#[from] FsError),
}
