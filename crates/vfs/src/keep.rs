//! What the kernel's page cache of a file corresponds to.
//!
//! At open the kernel may keep the pages that it has if the content is the same as when they were read: the same
//! `dataver`. That has to be remembered for closed files, too, so it is bounded: two generations of a table, the older
//! one dropped when the younger is full.

use carafe_types::InodeNo;
use parking_lot::Mutex;
use std::collections::HashMap;

/// Inodes in one generation; about 32 bytes each.
const GENERATION: usize = 131_072;

#[derive(Debug, Default)]
struct Tables {
    young: HashMap<InodeNo, u64>,
    old: HashMap<InodeNo, u64>,
}

/// Inode to the `dataver` of the pages that the kernel may have.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Tables>);

impl Kept {
    /// The file is opened at `dataver`: may pages of before be kept?
    pub(crate) fn open(&self, ino: InodeNo, dataver: u64) -> bool {
        let mut tables = self.0.lock();
        let known = tables.young.get(&ino).or_else(|| tables.old.get(&ino)) == Some(&dataver);
        tables.set(ino, dataver);
        known
    }

    /// An own commit changed the content from one version to the next; the kernel has seen every byte of it. If others
    /// were between, it has not.
    pub(crate) fn advance(&self, ino: InodeNo, from: u64, to: u64) {
        let mut tables = self.0.lock();
        let known = tables.young.get(&ino).or_else(|| tables.old.get(&ino)).copied();
        match known {
            Some(v) if v == from && to == from + 1 => tables.set(ino, to),
            Some(v) if v == to => {}
            _ => tables.forget(ino),
        }
    }

    /// Others may have changed it.
    pub(crate) fn forget(&self, ino: InodeNo) {
        self.0.lock().forget(ino);
    }
}

impl Tables {
    fn set(&mut self, ino: InodeNo, dataver: u64) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(ino, dataver);
    }

    fn forget(&mut self, ino: InodeNo) {
        self.young.remove(&ino);
        self.old.remove(&ino);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_kept_only_for_the_same_content() {
        let kept = Kept::default();
        let ino = InodeNo(65);
        assert!(!kept.open(ino, 3));
        assert!(kept.open(ino, 3));
        kept.advance(ino, 3, 4);
        assert!(kept.open(ino, 4), "own changes went through the kernel");
        kept.advance(ino, 4, 6);
        assert!(!kept.open(ino, 6), "somebody else was between");
    }
}
