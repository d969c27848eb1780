//! From the root, name by name: what each leads to.

use super::repair::Repair;
use super::{Check, Kind};
use crate::cache::decimal;
use crate::format::TRASH;
use crate::store::{DirEntry, Key};
use crate::tx::Node;
use crate::volumes::SNAPSHOTS;
use carafe_types::record::Guard;
use carafe_types::{EntryName, FileKind, FsResult, InodeNo, QuotaId};

/// Names that are looked at at once.
const PAGE: usize = 500;

/// A directory that is still to be read.
struct Below {
    dir: InodeNo,
    quota: QuotaId,
}

impl Check<'_> {
    /// Notes the queue of the dead.
    pub(super) async fn read_dead(&mut self) -> FsResult<()> {
        let dead = &mut self.dead;
        self.scan
            .dead_inodes(&mut |inode| {
                dead.insert(inode.ino);
            })
            .await
    }

    /// Follows all names below a directory that has none itself.
    pub(super) async fn walk(&mut self, top: InodeNo) -> FsResult<()> {
        let Some(guard) = self.top(top).await? else { return Ok(()) };
        self.named.insert(top.0);
        let mut stack = vec![Below { dir: top, quota: guard.quota }];
        while let Some(below) = stack.pop() {
            self.read_names(&below, &mut stack).await?;
            (self.progress)("names followed", self.named.len());
        }
        Ok(())
    }

    /// The directory of snapshots, which is made when the first one is.
    pub(super) async fn walk_snapshots(&mut self) -> FsResult<()> {
        match self.scan.record(Key::Inode(SNAPSHOTS)).await? {
            Some(_) => self.walk(SNAPSHOTS).await,
            None => Ok(()),
        }
    }

    async fn top(&mut self, top: InodeNo) -> FsResult<Option<Guard>> {
        let record = self.scan.record(Key::Inode(top)).await?;
        match record.as_deref().map(Guard::decode) {
            Some(Ok(guard)) => {
                if guard.parent != top {
                    self.findings.inode(
                        Kind::WrongParent,
                        top,
                        format!("says that it lies in {}", guard.parent),
                    );
                }
                return Ok(Some(guard));
            }
            Some(Err(e)) => self.findings.inode(Kind::Damaged, top, e.to_string()),
            None => self.findings.inode(Kind::Damaged, top, "the top of the tree is not there"),
        }
        Ok(None)
    }

    async fn read_names(&mut self, below: &Below, stack: &mut Vec<Below>) -> FsResult<()> {
        let mut subdirs = 0;
        let mut after: Option<EntryName> = None;
        loop {
            let page = self.scan.names(below.dir, after.as_ref(), PAGE).await?;
            let keys: Vec<Key> = page.iter().map(|e| Key::Inode(e.ino)).collect();
            let records = self.scan.records(&keys).await?;
            for (entry, record) in page.iter().zip(records) {
                subdirs += i64::from(entry.kind == FileKind::Directory);
                match record.as_deref().map(Node::decode) {
                    Some(Ok(node)) => self.follow(below, entry, node, stack),
                    // Told when inodes are read.
                    Some(Err(_)) => drop(self.named.insert(entry.ino.0)),
                    None => {
                        let detail = format!(
                            "the name {} leads to inode {}, which is not there",
                            entry.name, entry.ino
                        );
                        self.findings.inode(Kind::NameWithoutInode, below.dir, detail);
                    }
                }
            }
            let ended = page.len() < PAGE;
            match page.into_iter().next_back() {
                Some(last) if !ended => after = Some(last.name),
                _ => break,
            }
        }
        let key = Key::DirSubdirs(below.dir);
        let counted = decimal(self.scan.record(key).await?.as_ref());
        if counted != subdirs {
            let detail = format!("counts {counted} subdirectories, has {subdirs}");
            let repair = Repair::Subdirs { dir: below.dir, by: subdirs - counted };
            self.findings.inode_repairable(Kind::WrongSubdirs, below.dir, detail, repair);
        }
        Ok(())
    }

    fn follow(&mut self, below: &Below, entry: &DirEntry, node: Node, stack: &mut Vec<Below>) {
        let (dir, ino) = (below.dir, entry.ino);
        let kind = node.kind();
        if kind != entry.kind {
            let detail = format!("the name {} in {dir} says {:?}, it is {kind:?}", entry.name, entry.kind);
            self.findings.inode(Kind::WrongKind, ino, detail);
        }
        let new = self.named.insert(ino.0);
        match node {
            Node::Dir(guard) => self.enter(below, ino, &guard, new, stack),
            Node::File(inode) => {
                if !new {
                    *self.links.entry(ino).or_insert(1) += 1;
                }
                if inode.quota != below.quota {
                    let detail = format!("is charged to quota {}, lies in {}", inode.quota.0, below.quota.0);
                    self.findings.inode(Kind::ForeignQuota, ino, detail);
                }
            }
        }
        if self.dead.contains(&ino) {
            let detail = format!("is called {} in {dir} and waits for its end", entry.name);
            self.findings.inode_repairable(Kind::DeadWithName, ino, detail, Repair::Unqueue(ino));
        }
    }

    fn enter(&mut self, below: &Below, ino: InodeNo, guard: &Guard, new: bool, stack: &mut Vec<Below>) {
        if !new {
            let detail = format!("has another name in {}", below.dir);
            self.findings.inode(Kind::ManyNames, ino, detail);
            return;
        }
        if guard.parent != below.dir {
            let detail = format!("says that it lies in {}, lies in {}", guard.parent, below.dir);
            self.findings.inode(Kind::WrongParent, ino, detail);
        }
        if !guard.quota_root && guard.quota != below.quota {
            let detail = format!("is charged to quota {}, lies in {}", guard.quota.0, below.quota.0);
            self.findings.inode(Kind::ForeignQuota, ino, detail);
        }
        stack.push(Below { dir: ino, quota: guard.quota });
    }

    /// Whether this directory has no name and is its own parent.
    pub(super) fn is_top(ino: InodeNo) -> bool {
        ino == InodeNo::ROOT || ino == TRASH || ino == SNAPSHOTS
    }
}
