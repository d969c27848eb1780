//! The name of a mount on a node.

use crate::address::FsAddress;
use crate::id::base32;
use sha2::{Digest, Sha256};
use std::fmt;

/// `m` and twelve base32 digits: a function of the file system's address without its secrets and of the
/// options of the mount, so that a plugin that
/// restarts finds the mount of a file system again, and a rotated password does not mount it twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MountId(String);

impl MountId {
    /// The id of the mount that serves the file system at `address`.
    pub fn of(address: &FsAddress) -> Self {
        let mut text = address.public_url().to_string();
        text.push_str(&address.options.digest_text());
        let hash = base32(&Sha256::digest(text));
        Self(format!("m{}", &hash[..12]))
    }

    /// As text, fit for a file name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(url: &str) -> MountId {
        MountId::of(&FsAddress::new(url, None).unwrap())
    }

    #[test]
    fn the_name_of_a_mount_depends_on_its_store_and_not_on_the_password() {
        assert_eq!(id("redis://:one@host/1"), id("redis://:two@host/1"));
        assert_ne!(id("redis://host/1"), id("redis://host/2"));
        assert_eq!(id("redis://host/1").as_str().len(), 13);
        let mut other = FsAddress::new("redis://host/1", None).unwrap();
        other.options.close_sync = true;
        assert_ne!(MountId::of(&other), id("redis://host/1"), "other options are another mount");
    }
}
