//! Paths: of a volume's directory inside its file system, and of targets on the node.

use crate::error::CsiError;
use crate::id::VolumeId;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The key of a volume's context that names its directory. Made by `CreateVolume`; written by hand in a static volume.
pub(crate) const CONTEXT_PATH: &str = "path";

/// The directory of a volume, relative to the root of its file system: plain names, no `.` and no `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumePath(String);

impl VolumePath {
    /// Reads a path; a leading `/` is allowed and dropped.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence fragment.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim_matches('/');
        if text.is_empty() {
            return Err("empty: it would be the root of the file system".to_owned());
        }
        if text.len() > 4000 {
            return Err(format!("{} bytes long, at most 4000 are allowed", text.len()));
        }
        for name in text.split('/') {
            match name {
                "" => return Err(format!("{text:?} has an empty name between two slashes")),
                "." | ".." => return Err(format!("{text:?} has the name {name:?}")),
                _ if name.len() > 255 => return Err(format!("{text:?} has a name above 255 bytes")),
                _ if name.contains('\0') => return Err(format!("{text:?} has a zero byte")),
                _ => {}
            }
        }
        Ok(Self(text.to_owned()))
    }

    /// Where a volume lies if nothing else is said: `<base>/<id>`.
    pub fn of(base: &VolumePath, id: &VolumeId) -> Self {
        Self(format!("{}/{id}", base.0))
    }

    /// The path without a leading `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same, as a path.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }
}

/// A path on the node: required, absolute, without `.` and `..`. Its folder is resolved, since the mount table shows
/// real paths and `/var/lib/kubelet` is a symbolic link on some systems; the last name is taken as it is.
pub(crate) fn absolute(field: &'static str, text: &str) -> Result<PathBuf, CsiError> {
    super::required(field, text)?;
    let path = Path::new(text);
    let plain = |c: Component<'_>| matches!(c, Component::RootDir | Component::Normal(_));
    if !path.is_absolute() || !path.components().all(plain) || text.contains('\0') {
        return Err(CsiError::invalid(field, format!("{text:?} is not an absolute path without \"..\"")));
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(CsiError::invalid(field, "the root directory cannot be a target"));
    };
    // A missing folder is not an error here: unpublishing from it has nothing to do, publishing says it by itself.
    let parent = std::fs::canonicalize(parent).unwrap_or_else(|_| parent.to_owned());
    Ok(parent.join(OsStr::from_bytes(name.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_stays_below_the_root() {
        assert_eq!(VolumePath::new("/volumes/a").unwrap().as_str(), "volumes/a");
        let long = "n".repeat(256);
        for bad in ["", "/", "..", "a/../b", "a/./b", "a//b", "a\0b", &long] {
            assert!(VolumePath::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_target_is_absolute_and_its_folder_is_real() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
        let through_link = dir.path().join("link/target");
        let found = absolute("target_path", through_link.to_str().unwrap()).unwrap();
        assert_eq!(found, dir.path().canonicalize().unwrap().join("real/target"));
        for bad in ["relative", "/", "/a/../b", ""] {
            assert!(absolute("target_path", bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_accepted_path_leaves_the_root(text in "[a./\\\\]{0,12}") {
            if let Ok(path) = VolumePath::new(&text) {
                let plain = |c| matches!(c, Component::Normal(_));
                prop_assert!(path.as_path().components().all(plain));
            }
        }
    }
}
