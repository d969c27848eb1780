//! What `..` of a directory is, for `readdir`.
//!
//! A reader of a directory has looked up its name a moment ago, so a small table of the last lookups is enough; who is not
//! in it gets the directory itself, which the kernel never uses: it knows the tree from its own lookups.

use carafe_types::{Attr, FileKind, InodeNo};
use parking_lot::Mutex;
use std::collections::HashMap;

/// Directories that are remembered.
const REMEMBERED: usize = 16_384;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Parents(Mutex<HashMap<InodeNo, InodeNo>>);

impl Parents {
    /// A directory has a name in `dir`.
    pub(crate) fn learn(&self, attr: &Attr, dir: InodeNo) {
        if attr.kind == FileKind::Directory {
            self.moved(attr.ino, dir);
        }
    }

    /// An inode has a name in `dir` now.
    pub(crate) fn moved(&self, ino: InodeNo, dir: InodeNo) {
        let mut all = self.0.lock();
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(ino, dir);
    }

    /// The directory above.
    pub(crate) fn of(&self, dir: InodeNo) -> InodeNo {
        self.0.lock().get(&dir).copied().unwrap_or(dir)
    }
}
