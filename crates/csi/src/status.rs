//! The one table from failures to gRPC codes.
//!
//! Callers act on the code alone: `Aborted`, `Unavailable` and `DeadlineExceeded` are tried again soon, `InvalidArgument`
//! and `AlreadyExists` are shown to the user, `FailedPrecondition` waits for somebody to change something. The matches
//! have no wildcard, so that a new failure cannot be forgotten.

use crate::error::CsiError;
use crate::launcher::{LaunchError, RefusalKind};
use crate::mount::MountError;
use crate::store::StoreError;
use tonic::{Code, Status};

impl From<CsiError> for Status {
    fn from(error: CsiError) -> Self {
        Status::new(code(&error), error.to_string())
    }
}

/// The gRPC code of a failure.
pub(crate) fn code(error: &CsiError) -> Code {
    match error {
        CsiError::Missing(_) | CsiError::Invalid { .. } | CsiError::Faults(_) => Code::InvalidArgument,
        CsiError::OutOfRange(_) => Code::OutOfRange,
        CsiError::Differs { .. } | CsiError::Occupied { .. } => Code::AlreadyExists,
        CsiError::NoVolume(_)
        | CsiError::NoSnapshot(_)
        | CsiError::NoDirectory { .. }
        | CsiError::NotMounted { .. } => Code::NotFound,
        CsiError::Busy(_) | CsiError::BadToken => Code::Aborted,
        CsiError::NoFileSystem(_)
        | CsiError::UnknownFileSystem { .. }
        | CsiError::NoClaims { .. }
        | CsiError::OtherFileSystem { .. }
        | CsiError::UnsafeDirectory { .. }
        | CsiError::Overlap { .. }
        | CsiError::NotStaged(_)
        | CsiError::PublishedElsewhere { .. } => Code::FailedPrecondition,
        CsiError::TimedOut { .. } => Code::DeadlineExceeded,
        CsiError::Store(error) => store(error),
        CsiError::Launch(error) => launch(error),
        CsiError::Mount(error) => mount(error),
        CsiError::Defect(_) => Code::Internal,
    }
}

fn store(error: &StoreError) -> Code {
    match error {
        StoreError::NotFound(_) => Code::NotFound,
        StoreError::PathTaken { .. } => Code::AlreadyExists,
        StoreError::Full(_) => Code::ResourceExhausted,
        StoreError::InUse { .. } | StoreError::Unusable(_) => Code::FailedPrecondition,
        StoreError::Refused(_) => Code::InvalidArgument,
        StoreError::TooSmall { .. } => Code::OutOfRange,
        StoreError::Contended(_) | StoreError::Copying { .. } => Code::Aborted,
        StoreError::Unavailable(_) => Code::Unavailable,
        StoreError::Unauthenticated(_) => Code::Unauthenticated,
        StoreError::Denied(_) => Code::PermissionDenied,
        StoreError::Damaged(_) => Code::DataLoss,
    }
}

fn launch(error: &LaunchError) -> Code {
    match error {
        LaunchError::NotReady { .. } | LaunchError::Stalled { .. } => Code::DeadlineExceeded,
        LaunchError::Ended { kind, .. } | LaunchError::Refused { kind, .. } => refusal(*kind),
        LaunchError::CannotStart { .. } => Code::FailedPrecondition,
        LaunchError::Mount(error) => mount(error),
    }
}

fn refusal(kind: RefusalKind) -> Code {
    match kind {
        RefusalKind::Failed | RefusalKind::Unreachable => Code::Unavailable,
        RefusalKind::Address => Code::InvalidArgument,
        RefusalKind::Credentials => Code::Unauthenticated,
        RefusalKind::Unfit => Code::FailedPrecondition,
    }
}

fn mount(error: &MountError) -> Code {
    match error {
        MountError::System { .. } | MountError::Table(_) => Code::Internal,
        MountError::NotEmpty(_) => Code::FailedPrecondition,
        MountError::BadPath { .. } => Code::InvalidArgument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_carries_the_whole_sentence() {
        let status = Status::from(CsiError::Missing("volume_id"));
        assert_eq!(
            (status.code(), status.message()),
            (Code::InvalidArgument, "the request has no volume_id")
        );
    }

    #[test]
    fn an_unreachable_store_is_tried_again_and_a_wrong_password_is_not() {
        assert_eq!(code(&StoreError::Unavailable(String::new()).into()), Code::Unavailable);
        assert_eq!(code(&StoreError::Unauthenticated(String::new()).into()), Code::Unauthenticated);
    }
}
