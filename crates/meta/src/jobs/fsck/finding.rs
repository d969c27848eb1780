//! What a check finds.

use super::repair::Repair;
use crate::jobs::Scanner;
use crate::store::Key;
use crate::tx::Node;
use carafe_types::{FsResult, InodeNo};
use std::fmt;

/// Findings that are kept; a store that is broken through and through must not fill the memory.
const MOST: usize = 100_000;
/// Findings whose path is looked for.
const PATHS: usize = 200;
/// Directories above each other; deeper is a circle.
const MAX_DEPTH: usize = 1000;

/// What kind of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A record that does not parse.
    Damaged,
    /// A name leads to an inode that is not there.
    NameWithoutInode,
    /// A name says another type than its inode.
    WrongKind,
    /// A directory says that it lies elsewhere.
    WrongParent,
    /// A directory with several names.
    ManyNames,
    /// A count of links that is not the number of names.
    WrongLinks,
    /// A count of subdirectories that is not their number.
    WrongSubdirs,
    /// An inode without a name that is not in the queue of the dead.
    Orphan,
    /// An inode in the queue of the dead that has names.
    DeadWithName,
    /// An inode that is charged to another quota than the directory that it lies in.
    ForeignQuota,
    /// A quota without a directory, or the other way round.
    LostQuota,
    /// A quota whose counters are not the sum of what lies in it.
    WrongQuota,
    /// The budget for inline data does not count what is inline.
    WrongInlineBudget,
    /// Inline bytes, a symlink's target or extended attributes that are missing or damaged.
    WrongContent,
    /// Extents that are missing, damaged or outside the file.
    WrongExtents,
    /// A slice that is said to have more or fewer owners than it has.
    WrongOwners,
    /// A pack that is said to have more or fewer live bytes than it has.
    WrongLiveBytes,
    /// A slice that is in use and waits for deletion.
    DeadSlice,
    /// A slice of a session that has no name in the bucket.
    NamelessSlice,
    /// A volume whose directory or quota is not what its record says.
    WrongVolume,
}

impl Kind {
    /// Whether data is lost or will be, as against a number that is off.
    pub fn loses_data(self) -> bool {
        match self {
            Kind::WrongLinks
            | Kind::WrongSubdirs
            | Kind::Orphan
            | Kind::DeadWithName
            | Kind::ForeignQuota
            | Kind::LostQuota
            | Kind::WrongQuota
            | Kind::WrongInlineBudget
            | Kind::WrongOwners
            | Kind::WrongLiveBytes
            | Kind::WrongVolume => false,
            Kind::Damaged
            | Kind::NameWithoutInode
            | Kind::WrongKind
            | Kind::WrongParent
            | Kind::ManyNames
            | Kind::WrongContent
            | Kind::WrongExtents
            | Kind::DeadSlice
            | Kind::NamelessSlice => true,
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Finding {
    /// What kind.
    pub kind: Kind,
    /// With what: `inode 4711`, `slice 3.17`, `quota 2`.
    pub what: String,
    /// How, as a sentence fragment.
    pub detail: String,
    /// The path of a directory or file, as far as it can be told; for the first few hundred findings.
    pub path: Option<String>,
    pub(super) at: Option<InodeNo>,
    pub(super) repair: Option<Repair>,
}

impl Finding {
    /// Whether [`super::repair()`] can set it right.
    pub fn is_repairable(&self) -> bool {
        self.repair.is_some()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{} ({path}): {}", self.what, self.detail),
            None => write!(f, "{}: {}", self.what, self.detail),
        }
    }
}

/// All findings of one reading.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    all: Vec<Finding>,
    cut: bool,
}

impl Findings {
    fn push(&mut self, finding: Finding) {
        if self.all.len() < MOST {
            self.all.push(finding);
        } else {
            self.cut = true;
        }
    }

    /// Something is wrong with an inode.
    pub(crate) fn inode(&mut self, kind: Kind, ino: InodeNo, detail: impl Into<String>) {
        self.inode_repairable(kind, ino, detail, None);
    }

    /// And this would set it right.
    pub(crate) fn inode_repairable(
        &mut self,
        kind: Kind,
        ino: InodeNo,
        detail: impl Into<String>,
        repair: impl Into<Option<Repair>>,
    ) {
        let (what, detail) = (format!("inode {ino}"), detail.into());
        self.push(Finding { kind, what, detail, path: None, at: Some(ino), repair: repair.into() });
    }

    /// Something is wrong with something else.
    pub(crate) fn other(
        &mut self,
        kind: Kind,
        what: impl Into<String>,
        detail: impl Into<String>,
        repair: impl Into<Option<Repair>>,
    ) {
        let (what, detail) = (what.into(), detail.into());
        self.push(Finding { kind, what, detail, path: None, at: None, repair: repair.into() });
    }

    /// Ordered by kind, the first ones with their paths, and whether there were more.
    pub(super) async fn finish(mut self, scan: Scanner<'_>) -> FsResult<(Vec<Finding>, bool)> {
        self.all.sort_by_key(|f| f.kind);
        for finding in self.all.iter_mut().take(PATHS) {
            if let Some(ino) = finding.at {
                finding.path = path_of(scan, ino).await?;
            }
        }
        Ok((self.all, self.cut))
    }
}

/// The path of an inode by its parents, read without watching; `None` when it leads nowhere.
async fn path_of(scan: Scanner<'_>, ino: InodeNo) -> FsResult<Option<String>> {
    let mut names = Vec::new();
    let mut at = ino;
    for _ in 0..MAX_DEPTH {
        if at == InodeNo::ROOT {
            names.reverse();
            return Ok(Some(format!("/{}", names.join("/"))));
        }
        let Some(bytes) = scan.record(Key::Inode(at)).await? else { return Ok(None) };
        let parent = match Node::decode(&bytes) {
            Ok(Node::Dir(guard)) => guard.parent,
            Ok(Node::File(inode)) => inode.parent_of(at),
            Err(_) => return Ok(None),
        };
        let mut after = None;
        let name = loop {
            let page = scan.names(parent, after.as_ref(), 1000).await?;
            if let Some(entry) = page.iter().find(|e| e.ino == at) {
                break entry.name.to_string();
            }
            match page.into_iter().next_back() {
                Some(last) => after = Some(last.name),
                None => return Ok(None),
            }
        };
        names.push(name);
        if parent == at {
            return Ok(None);
        }
        at = parent;
    }
    Ok(None)
}
