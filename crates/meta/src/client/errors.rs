//! Store errors as what a caller of a file system sees. The one place where they are translated.

use crate::store::StoreError;
use carafe_types::FsError;

/// Whether waiting may help: the store may come back.
pub(crate) fn is_passing(e: &StoreError) -> bool {
    matches!(e, StoreError::Unreachable { .. } | StoreError::Refusing(_) | StoreError::Denied { .. })
}

/// The error for a caller, once nothing else can be done.
pub(crate) fn to_fs(e: StoreError) -> FsError {
    match e {
        StoreError::Full(_) => FsError::NoSpace(e.to_string()),
        StoreError::Fenced => FsError::Fenced(e.to_string()),
        StoreError::Generation => FsError::Stale,
        StoreError::Unreachable { .. } | StoreError::Refusing(_) | StoreError::Denied { .. } => {
            FsError::Unavailable(e.to_string())
        }
        StoreError::BadUrl { .. }
        | StoreError::AlreadyFormatted { .. }
        | StoreError::NotFormatted
        | StoreError::Lost(_)
        | StoreError::Damaged { .. }
        | StoreError::Engine(_) => FsError::Io(e.to_string()),
    }
}
