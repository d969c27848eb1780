//! Where the kernel believes each directory to be.
//!
//! Two things need it. `readdir` tells what `..` is: a reader has looked the directory up a moment ago, and who is not in the table
//! gets the directory itself, which the kernel never uses, since it knows the tree from its own lookups.
//!
//! And a directory that another mount has moved is looked up under its new name while the kernel still has it under the old one.
//! The kernel then moves its entry, except in the middle of a rename: there it may not take the lock that this needs, and the
//! rename ends in ESTALE. So the old name is voided ([`Vfs::void_old_place`]) before the new one is told.

use crate::vfs::Vfs;
use carafe_types::{EntryName, FileKind, InodeNo};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// Directories that are remembered.
const REMEMBERED: usize = 16_384;
/// How long a lookup waits for the kernel to forget the old name. Where a rename holds the lock of the old parent, it cannot until
/// the rename gives up; the kernel then tries the rename once more, behind this waiter.
const VOIDING: Duration = Duration::from_millis(20);

/// A directory and a name in it.
pub(crate) type Place = (InodeNo, EntryName);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<HashMap<InodeNo, Place>>);

impl Places {
    /// The kernel is told that something has this name; returns where it believed a directory to be, if that was elsewhere.
    pub(crate) fn learn(
        &self,
        (ino, kind): (InodeNo, FileKind),
        dir: InodeNo,
        name: &EntryName,
    ) -> Option<Place> {
        if kind != FileKind::Directory {
            return None;
        }
        if self.0.lock().get(&ino).is_some_and(|(d, n)| *d == dir && n == name) {
            return None;
        }
        self.moved(ino, dir, name)
    }

    /// A directory has this name now, and the kernel knows; returns where it was.
    pub(crate) fn moved(&self, ino: InodeNo, dir: InodeNo, name: &EntryName) -> Option<Place> {
        let mut all = self.0.lock();
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(ino, (dir, name.clone()))
    }

    /// The directory above.
    pub(crate) fn parent_of(&self, dir: InodeNo) -> InodeNo {
        self.0.lock().get(&dir).map_or(dir, |(parent, _)| *parent)
    }
}

impl Vfs {
    /// Makes the kernel forget a directory's old name, or try to for [`VOIDING`].
    pub(crate) async fn void_old_place(&self, (dir, name): Place) {
        let Some(kernel) = self.invalidator() else { return };
        let voided = tokio::task::spawn_blocking(move || kernel.entry(dir, &name));
        if tokio::time::timeout(VOIDING, voided).await.is_err() {
            tracing::debug!(%dir, "the kernel is busy with the old name of a directory that was moved elsewhere");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_place_of_a_directory_is_told_once() {
        let places = Places::default();
        let name = |n: &str| EntryName::new(n.as_bytes()).unwrap();
        let known = (InodeNo(70), FileKind::Directory);
        assert_eq!(places.learn(known, InodeNo(1), &name("a")), None);
        assert_eq!(places.learn(known, InodeNo(1), &name("a")), None);
        assert_eq!(places.learn(known, InodeNo(2), &name("b")), Some((InodeNo(1), name("a"))));
        assert_eq!(places.learn(known, InodeNo(2), &name("b")), None);
        assert_eq!(places.parent_of(InodeNo(70)), InodeNo(2));
        assert_eq!(places.parent_of(InodeNo(71)), InodeNo(71));
        assert_eq!(places.learn((InodeNo(70), FileKind::Regular), InodeNo(3), &name("c")), None);
    }
}
