//! Which quota `statfs` of an inode is about, without asking anybody.
//!
//! A mount shows one volume, so nearly every directory has the quota of its root; only others are remembered.

use carafe_types::{Attr, FileKind, InodeNo, QuotaId};
use parking_lot::RwLock;
use std::collections::HashMap;

/// Directories with another quota that are remembered.
const ODD_MAX: usize = 65_536;

#[derive(Debug, Default)]
struct Known {
    usual: Option<QuotaId>,
    odd: HashMap<InodeNo, QuotaId>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Quotas(RwLock<Known>);

impl Quotas {
    /// The quota of what is mounted.
    pub(crate) fn set_usual(&self, quota: QuotaId) {
        self.0.write().usual = Some(quota);
    }

    /// Attributes were seen.
    pub(crate) fn learn(&self, attr: &Attr) {
        let known = self.0.read();
        let usual = Some(attr.quota) == known.usual;
        if attr.kind != FileKind::Directory || (usual && known.odd.is_empty()) {
            return;
        }
        let same = known.odd.get(&attr.ino) == Some(&attr.quota);
        drop(known);
        if usual {
            self.0.write().odd.remove(&attr.ino);
        } else if !same {
            let mut known = self.0.write();
            if known.odd.len() >= ODD_MAX {
                known.odd.clear();
            }
            known.odd.insert(attr.ino, attr.quota);
        }
    }

    /// The quota around an inode.
    pub(crate) fn around(&self, ino: InodeNo) -> QuotaId {
        let known = self.0.read();
        known.odd.get(&ino).copied().or(known.usual).unwrap_or(QuotaId::ROOT)
    }
}
