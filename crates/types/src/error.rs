//! The ways in which a file system call can fail. The crate `fuse` holds the one table from here to errno.

use crate::name::NameError;

/// The result of a file system call.
pub type FsResult<T> = Result<T, FsError>;

/// A failed file system call. The names are those of errno where there is one, since that is what users know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FsError {
    /// ENOENT
    #[error("no such file or directory")]
    NotFound,
    /// EEXIST
    #[error("file exists")]
    Exists,
    /// ENOTDIR
    #[error("not a directory")]
    NotDirectory,
    /// EISDIR
    #[error("is a directory")]
    IsDirectory,
    /// ENOTEMPTY
    #[error("directory not empty")]
    NotEmpty,
    /// EPERM
    #[error("operation not permitted")]
    NotPermitted,
    /// EACCES
    #[error("permission denied")]
    AccessDenied,
    /// EINVAL, with what is invalid
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// ENAMETOOLONG
    #[error("file name too long")]
    NameTooLong,
    /// ELOOP
    #[error("too many levels of symbolic links")]
    Loop,
    /// EMLINK
    #[error("too many links")]
    TooManyLinks,
    /// EXDEV: the two places have different quotas
    #[error("source and target lie under different quotas")]
    CrossQuota,
    /// EFBIG
    #[error("file too large")]
    TooBig,
    /// ENOSPC: the volume or the store is full
    #[error("no space left: {0}")]
    NoSpace(String),
    /// EDQUOT: a quota inside the volume is used up
    #[error("quota exceeded")]
    QuotaExceeded,
    /// ENODATA: no such extended attribute, or no data behind that offset (ENXIO for lseek)
    #[error("no such attribute")]
    NoAttribute,
    /// ENXIO: lseek past the end
    #[error("offset beyond the end of the file")]
    BeyondEnd,
    /// ERANGE: the value does not fit the caller's buffer
    #[error("value too large for the buffer")]
    Range,
    /// E2BIG
    #[error("attribute value too large")]
    AttributeTooBig,
    /// EAGAIN: a lock is held by another owner
    #[error("lock is held by another owner")]
    WouldBlock,
    /// EDEADLK
    #[error("waiting for this lock would deadlock")]
    Deadlock,
    /// ENOLCK
    #[error("no locks available")]
    NoLocks,
    /// EBADF
    #[error("bad file handle")]
    BadHandle,
    /// ESTALE: the file system was replaced by a restore
    #[error("the file system was restored from a backup; mount it again")]
    Stale,
    /// EOPNOTSUPP
    #[error("operation not supported")]
    NotSupported,
    /// EROFS
    #[error("read-only file system")]
    ReadOnly,
    /// EIO, with what was lost or damaged; the text goes to the log
    #[error("input/output error: {0}")]
    Io(String),
    /// EIO after the session was fenced: it was taken for dead, and unflushed data is lost
    #[error("the session of this mount was fenced: {0}")]
    Fenced(String),
    /// EIO after a bounded wait: store or bucket cannot be reached
    #[error("unavailable: {0}")]
    Unavailable(String),
}

impl From<NameError> for FsError {
    fn from(e: NameError) -> Self {
        match e {
            NameError::Empty => FsError::NotFound,
            NameError::TooLong(_) => FsError::NameTooLong,
            NameError::Invalid => FsError::Invalid("name"),
        }
    }
}
