//! The name of a directory entry, valid by construction.

use bytes::Bytes;
use std::fmt;

/// 1 to 255 bytes without `/` and NUL, and neither `.` nor `..`. Any encoding: POSIX names are bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryName(Bytes);

/// Why bytes are no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// POSIX: the empty path resolves to ENOENT.
    #[error("a name may not be empty")]
    Empty,
    /// Longer than NAME_MAX = 255 bytes: ENAMETOOLONG.
    #[error("name of {0} bytes is longer than 255")]
    TooLong(usize),
    /// Holds `/` or NUL, or is `.` or `..`: EINVAL.
    #[error("a name may not hold '/' or NUL nor be '.' or '..'")]
    Invalid,
}

impl EntryName {
    /// The longest name in bytes (NAME_MAX of Linux).
    pub const MAX_LEN: usize = 255;

    /// Checks and copies `name`.
    ///
    /// # Errors
    /// [`NameError`], which [`crate::FsError`] turns into the errno that POSIX wants.
    pub fn new(name: &[u8]) -> Result<Self, NameError> {
        Self::check(name)?;
        Ok(EntryName(Bytes::copy_from_slice(name)))
    }

    /// As [`EntryName::new`], without copying.
    ///
    /// # Errors
    /// As [`EntryName::new`].
    pub fn from_bytes(name: Bytes) -> Result<Self, NameError> {
        Self::check(&name)?;
        Ok(EntryName(name))
    }

    fn check(name: &[u8]) -> Result<(), NameError> {
        match name {
            [] => Err(NameError::Empty),
            _ if name.len() > Self::MAX_LEN => Err(NameError::TooLong(name.len())),
            b"." | b".." => Err(NameError::Invalid),
            _ if name.iter().any(|b| matches!(b, b'/' | 0)) => Err(NameError::Invalid),
            _ => Ok(()),
        }
    }

    /// The bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_posix_wants() {
        assert_eq!(EntryName::new(b""), Err(NameError::Empty));
        assert_eq!(EntryName::new(&[b'a'; 256]), Err(NameError::TooLong(256)));
        assert!(EntryName::new(&[b'a'; 255]).is_ok());
        for bad in [&b"a/b"[..], b"a\0", b".", b".."] {
            assert_eq!(EntryName::new(bad), Err(NameError::Invalid));
        }
        assert!(EntryName::new(b"...").is_ok() && EntryName::new(&[0xff, 0xfe]).is_ok());
    }
}
