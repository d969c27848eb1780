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
