//! What a person is told when something fails: what happened, to what, and what to do next; and the exit code that a
//! script sees. This is the one table from errors to exit codes (`docs/cli.md`).

use carafe_cache::CacheError;
use carafe_fuse::MountError;
use carafe_meta::store::StoreError;
use carafe_object::ObjectError;
use carafe_types::FsError;
use carafe_types::record::DecodeError;
use std::fmt;
use std::process::ExitCode;

/// The exit codes of `carafe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// It was tried and failed.
    Failed = 1,
    /// The command line or a URL is wrong; nothing was tried.
    Usage = 2,
    /// The metadata store or the bucket cannot be reached, or is not there.
    Unreachable = 3,
    /// Wrong password, wrong key, missing right.
    Denied = 4,
    /// It ran to its end and found something wrong (`fsck`, `gc`).
    Findings = 5,
    /// It would be wrong to go on: something is there already, belongs to another file system, is too new or unfit.
    Refused = 6,
}

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    what: String,
    next: Option<String>,
}

/// The result of a verb.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Failure { exit, what: what.into(), next: None }
    }

    /// What to do next.
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Puts what was being done before what went wrong.
    pub(crate) fn during(mut self, doing: impl fmt::Display) -> Self {
        self.what = format!("{doing}: {}", self.what);
        self
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit as u8)
    }

    /// The parts, for the pipe between a background mount and who started it.
    pub(crate) fn into_parts(self) -> (u8, String, Option<String>) {
        (self.exit as u8, self.what, self.next)
    }

    /// Puts together what [`Failure::into_parts`] took apart.
    pub(crate) fn from_parts(exit: u8, what: String, next: Option<String>) -> Self {
        let exit = match exit {
            2 => Exit::Usage,
            3 => Exit::Unreachable,
            4 => Exit::Denied,
            5 => Exit::Findings,
            6 => Exit::Refused,
            _ => Exit::Failed,
        };
        Failure { exit, what, next }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        match &self.next {
            Some(next) => write!(f, "\n  next: {next}"),
            None => Ok(()),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let what = error.to_string();
        let (exit, next) = match &error {
            StoreError::Unreachable { .. } => {
                (Exit::Unreachable, Some("check address, port and network, and that the server runs"))
            }
            StoreError::Denied { .. } => {
                (Exit::Denied, Some("give the password in CARAFE_META_PASSWORD or by --meta-password-file"))
            }
            StoreError::BadUrl { .. } => (Exit::Usage, None),
            StoreError::Full(_) => (Exit::Failed, Some("raise `maxmemory` of the server, or delete files")),
            StoreError::Refusing(_) => {
                (Exit::Unreachable, Some("look at the server's log; try again when it takes writes"))
            }
            StoreError::AlreadyFormatted { .. } => {
                (Exit::Refused, Some("use another database or file, or `carafe destroy` it first"))
            }
            StoreError::NotFormatted => {
                (Exit::Refused, Some("check the URL, or `carafe format META_URL NAME --bucket URL`"))
            }
            StoreError::Damaged { source: DecodeError::Version { .. }, .. } => {
                (Exit::Refused, Some("upgrade carafe on this machine"))
            }
            StoreError::Damaged { .. } => {
                (Exit::Failed, Some("`carafe fsck META_URL` tells what else is damaged"))
            }
            StoreError::Fenced | StoreError::Generation | StoreError::Lost(_) | StoreError::Engine(_) => {
                (Exit::Failed, None)
            }
        };
        Failure { exit, what, next: next.map(str::to_owned) }
    }
}

impl From<ObjectError> for Failure {
    fn from(error: ObjectError) -> Self {
        let exit = match &error {
            ObjectError::NoBucket { .. } | ObjectError::Unreachable { .. } => Exit::Unreachable,
            ObjectError::Denied { .. } | ObjectError::WrongKey { .. } => Exit::Denied,
            ObjectError::FutureVersion { .. }
            | ObjectError::ForeignBucket { .. }
            | ObjectError::Unformatted { .. } => Exit::Refused,
            ObjectError::UnknownScheme { .. }
            | ObjectError::MissingBucketName { .. }
            | ObjectError::BadUrl { .. }
            | ObjectError::BadEndpoint { .. }
            | ObjectError::IncompleteKeys { .. } => Exit::Usage,
            ObjectError::NotFound { .. } | ObjectError::Corrupt { .. } | ObjectError::Other { .. } => {
                Exit::Failed
            }
        };
        Failure::new(exit, error.to_string())
    }
}

impl From<CacheError> for Failure {
    fn from(error: CacheError) -> Self {
        let exit = match &error {
            CacheError::Busy { .. } | CacheError::Layout { .. } => Exit::Refused,
            _ => Exit::Failed,
        };
        Failure::new(exit, error.to_string())
    }
}

impl From<MountError> for Failure {
    fn from(error: MountError) -> Self {
        let exit = match &error {
            MountError::Busy { .. } => Exit::Refused,
            MountError::NoDevice(e) if e.kind() == std::io::ErrorKind::PermissionDenied => Exit::Denied,
            MountError::Mount { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Exit::Denied
            }
            _ => Exit::Failed,
        };
        let what = error.to_string();
        let others = what.contains("user_allow_other");
        let failure = Failure::new(exit, what);
        if others {
            return failure.next("have root add that line, or mount for yourself alone with `-o private`");
        }
        failure
    }
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Self {
        let exit = if matches!(error, FsError::Unavailable(_)) { Exit::Unreachable } else { Exit::Failed };
        Failure::new(exit, error.to_string())
    }
}

impl From<carafe_vfs::VfsError> for Failure {
    fn from(error: carafe_vfs::VfsError) -> Self {
        match error {
            carafe_vfs::VfsError::Cache(e) => e.into(),
            carafe_vfs::VfsError::Meta(e) => Failure::from(e).during("opening the file system"),
        }
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        let exit = if matches!(error, DecodeError::Version { .. }) { Exit::Refused } else { Exit::Failed };
        Failure::new(exit, error.to_string())
    }
}

/// Adds what was being done to an error of the system.
pub(crate) fn io(doing: impl fmt::Display) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| {
        let exit = match error.kind() {
            std::io::ErrorKind::PermissionDenied => Exit::Denied,
            _ => Exit::Failed,
        };
        Failure::new(exit, format!("{doing}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_survives_the_pipe_of_a_background_mount() {
        let failure = Failure::from(StoreError::NotFormatted);
        let text = failure.to_string();
        let (exit, what, next) = failure.into_parts();
        let back = Failure::from_parts(exit, what, next);
        assert_eq!(back.to_string(), text);
        assert_eq!(back.exit, Exit::Refused);
        assert!(text.contains("next: "), "{text}");
    }

    #[test]
    fn a_wrong_password_and_a_dead_server_have_different_exit_codes() {
        let (address, reason) = ("127.0.0.1:1".to_owned(), "x".to_owned());
        let denied = StoreError::Denied { address: address.clone(), reason: reason.clone() };
        assert_eq!(Failure::from(denied).exit, Exit::Denied);
        assert_eq!(Failure::from(StoreError::Unreachable { address, reason }).exit, Exit::Unreachable);
    }
}
