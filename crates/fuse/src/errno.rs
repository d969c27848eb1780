//! The one table from failures to errno. Exhaustive on purpose: a new kind of failure does not compile until it has a
//! number here.

use carafe_types::FsError;
use fuser::Errno;

/// What the application sees in `errno`.
pub(crate) fn errno(error: &FsError) -> Errno {
    match error {
        FsError::NotFound => Errno::ENOENT,
        FsError::Exists => Errno::EEXIST,
        FsError::NotDirectory => Errno::ENOTDIR,
        FsError::IsDirectory => Errno::EISDIR,
        FsError::NotEmpty => Errno::ENOTEMPTY,
        FsError::NotPermitted => Errno::EPERM,
        FsError::AccessDenied => Errno::EACCES,
        FsError::Invalid(_) => Errno::EINVAL,
        FsError::NameTooLong => Errno::ENAMETOOLONG,
        FsError::Loop => Errno::ELOOP,
        FsError::TooManyLinks => Errno::EMLINK,
        FsError::CrossQuota => Errno::EXDEV,
        FsError::TooBig => Errno::EFBIG,
        FsError::NoSpace(_) => Errno::ENOSPC,
        FsError::QuotaExceeded => Errno::EDQUOT,
        FsError::NoAttribute => Errno::ENODATA,
        FsError::BeyondEnd => Errno::ENXIO,
        FsError::Range => Errno::ERANGE,
        FsError::AttributeTooBig => Errno::E2BIG,
        FsError::WouldBlock => Errno::EAGAIN,
        FsError::Deadlock => Errno::EDEADLK,
        FsError::NoLocks => Errno::ENOLCK,
        FsError::BadHandle => Errno::EBADF,
        FsError::Stale => Errno::ESTALE,
        FsError::NotSupported => Errno::EOPNOTSUPP,
        FsError::ReadOnly => Errno::EROFS,
        FsError::Io(_) | FsError::Fenced(_) | FsError::Unavailable(_) => Errno::EIO,
    }
}

/// The name of an errno that [`errno`] or a call gives; `other` for the rest.
pub(crate) fn name(errno: i32) -> &'static str {
    macro_rules! names {
        ($($name:ident),*) => {
            match errno {
                $(libc::$name => stringify!($name),)*
                _ => "other",
            }
        };
    }
    names!(
        E2BIG,
        EACCES,
        EAGAIN,
        EBADF,
        EDEADLK,
        EDQUOT,
        EEXIST,
        EFBIG,
        EINVAL,
        EIO,
        EISDIR,
        ELOOP,
        EMLINK,
        ENAMETOOLONG,
        ENODATA,
        ENOENT,
        ENOLCK,
        ENOSPC,
        ENOTDIR,
        ENOTEMPTY,
        ENXIO,
        EOPNOTSUPP,
        EPERM,
        ERANGE,
        EROFS,
        ESTALE,
        EXDEV,
        EINTR
    )
}

/// The errno of a failed call; what an errno cannot say goes to the log.
pub(crate) fn report(call: &'static str, error: &FsError) -> Errno {
    match error {
        FsError::Io(_) | FsError::Fenced(_) | FsError::Unavailable(_) => {
            tracing::error!(call, %error, "a file system call failed with EIO");
        }
        FsError::NoSpace(_) => tracing::warn!(call, %error, "a file system call failed with ENOSPC"),
        _ => tracing::debug!(call, %error, "a file system call failed"),
    }
    errno(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_plain_call_is_ever_interrupted() {
        let all = [
            FsError::NotFound,
            FsError::Io("x".into()),
            FsError::Fenced("x".into()),
            FsError::Unavailable("x".into()),
            FsError::WouldBlock,
            FsError::NotSupported,
        ];
        assert!(all.iter().all(|e| errno(e).code() != libc::EINTR && errno(e).code() != libc::ENOSYS));
    }

    #[test]
    fn everything_that_is_lost_or_out_of_reach_is_eio() {
        for e in [FsError::Io("a".into()), FsError::Fenced("b".into()), FsError::Unavailable("c".into())] {
            assert_eq!(errno(&e).code(), libc::EIO);
        }
    }
}
