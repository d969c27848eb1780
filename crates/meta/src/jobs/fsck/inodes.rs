//! Bucket by bucket, whatever leads to them: every inode with what belongs to it.

use super::repair::Repair;
use super::{Check, Kind};
use crate::jobs::owners::{Owner, visit_owners};
use crate::store::Key;
use crate::tx::Node;
use bytes::Bytes;
use carafe_types::record::{Content, DirTimes, Extent, Guard, Inode, Xattrs};
use carafe_types::{FileKind, FsResult, InodeNo};
use std::collections::HashMap;

/// Buckets that are read at once.
const BUCKETS: usize = 200;

impl Check<'_> {
    pub(super) async fn read_inodes(&mut self) -> FsResult<()> {
        let (mut cursor, mut seen) = (0, 0);
        loop {
            let (buckets, next) = self.scan.buckets(cursor, BUCKETS).await?;
            let mut files = Vec::new();
            let mut with_xattrs = Vec::new();
            for (key, bytes) in buckets.iter().flat_map(|(_, records)| records) {
                self.read_record(key, bytes, &mut files, &mut with_xattrs);
            }
            seen += files.len() as u64;
            self.read_xattrs(&with_xattrs).await?;
            self.read_content(&files).await?;
            self.read_extents(&files).await?;
            (self.progress)("files checked", seen);
            match next {
                Some(next) => cursor = next,
                None => return Ok(()),
            }
        }
    }

    fn read_record(
        &mut self,
        key: &Key,
        bytes: &Bytes,
        files: &mut Vec<(InodeNo, Inode)>,
        with_xattrs: &mut Vec<InodeNo>,
    ) {
        match key {
            // A scan may tell a bucket twice.
            Key::Inode(ino) if !self.read.insert(ino.0) => {}
            Key::Inode(ino) => match Node::decode(bytes) {
                Ok(Node::File(inode)) => {
                    self.check_links(*ino, &inode);
                    self.counts.file(&inode);
                    if inode.has_xattr {
                        with_xattrs.push(*ino);
                    }
                    files.push((*ino, inode));
                }
                Ok(Node::Dir(guard)) => {
                    self.check_directory(*ino, &guard);
                    if guard.has_xattr {
                        with_xattrs.push(*ino);
                    }
                }
                Err(e) => self.findings.inode(Kind::Damaged, *ino, e.to_string()),
            },
            Key::DirTimes(ino) => {
                if let Err(e) = DirTimes::decode(bytes) {
                    self.findings.inode(Kind::Damaged, *ino, e.to_string());
                }
            }
            Key::DirAtime(ino) | Key::DirSubdirs(ino) => {
                let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<i64>().ok());
                if number.is_none() {
                    self.findings.inode(Kind::Damaged, *ino, "a number of its tally is none");
                }
            }
            _ => {}
        }
    }

    fn check_links(&mut self, ino: InodeNo, inode: &Inode) {
        let named = self.named.contains(ino.0);
        let names = if named { self.links.get(&ino).copied().unwrap_or(1) } else { 0 };
        if named && names != inode.nlink {
            let detail = format!("counts {} links, has {names} names", inode.nlink);
            let repair = Repair::Links { ino, names };
            self.findings.inode_repairable(Kind::WrongLinks, ino, detail, repair);
        } else if !named && inode.nlink > 0 {
            let detail = format!("counts {} links, and no name leads to it", inode.nlink);
            self.findings.inode(Kind::Orphan, ino, detail);
        } else if !named && !self.dead.contains(&ino) {
            let detail = "is unlinked, and not in the queue of the dead";
            self.findings.inode_repairable(Kind::Orphan, ino, detail, Repair::Queue(ino));
        }
    }

    fn check_directory(&mut self, ino: InodeNo, guard: &Guard) {
        self.counts.directory(ino, guard, Self::is_top(ino));
        if !self.named.contains(ino.0) {
            self.findings.inode(Kind::Orphan, ino, "is a directory that no name leads to");
        }
        if ino.slot() != 0 {
            self.findings.inode(Kind::Damaged, ino, "is a directory whose number is no multiple of 64");
        }
    }

    async fn read_xattrs(&mut self, inos: &[InodeNo]) -> FsResult<()> {
        let keys: Vec<Key> = inos.iter().map(|ino| Key::Xattr(*ino)).collect();
        for (ino, bytes) in inos.iter().zip(self.scan.records(&keys).await?) {
            match bytes.as_deref().map(Xattrs::decode) {
                Some(Ok(_)) => {}
                Some(Err(e)) => self.findings.inode(Kind::WrongContent, *ino, e.to_string()),
                None => {
                    self.findings.inode(Kind::WrongContent, *ino, "its extended attributes are not there")
                }
            }
        }
        Ok(())
    }

    /// Inline bytes and targets of symlinks.
    async fn read_content(&mut self, files: &[(InodeNo, Inode)]) -> FsResult<()> {
        let has =
            |inode: &Inode| matches!(inode.content, Content::Inline(_)) || inode.kind == FileKind::Symlink;
        let inline: Vec<&(InodeNo, Inode)> = files.iter().filter(|(_, inode)| has(inode)).collect();
        let keys: Vec<Key> = inline.iter().map(|(ino, _)| Key::Content(*ino)).collect();
        let inline_max = u64::from(self.client.superblock().inline_max);
        for ((ino, inode), bytes) in inline.into_iter().zip(self.scan.records(&keys).await?) {
            let problem = match (&bytes, &inode.content) {
                (None, _) => Some("its bytes are not there".to_owned()),
                (Some(b), Content::Inline(crc)) => {
                    self.counts.inline += inode.size.min(inline_max) as i64;
                    inline_problem(b, *crc, inode.size)
                }
                (Some(b), _) if b.len() as u64 != inode.size => {
                    Some(format!("its target has {} bytes, its size says {}", b.len(), inode.size))
                }
                (Some(_), _) => None,
            };
            if let Some(problem) = problem {
                self.findings.inode(Kind::WrongContent, *ino, problem);
            }
        }
        Ok(())
    }

    async fn read_extents(&mut self, files: &[(InodeNo, Inode)]) -> FsResult<()> {
        let sizes: HashMap<InodeNo, u64> = files.iter().map(|(ino, inode)| (*ino, inode.size)).collect();
        let (findings, uses) = (&mut self.findings, &mut self.uses);
        visit_owners(self.scan, files, &mut |ino, owner| match owner {
            Owner::Holds(segment, extents) => {
                let size = sizes.get(&ino).copied().unwrap_or(u64::MAX);
                if let Some(problem) = extents_problem(segment, extents, size) {
                    findings.inode(Kind::WrongExtents, ino, problem);
                }
                for problem in uses.note(extents) {
                    findings.inode(Kind::WrongExtents, ino, problem);
                }
            }
            Owner::Damaged(reason) => findings.inode(Kind::WrongExtents, ino, reason),
        })
        .await
    }
}

fn inline_problem(bytes: &[u8], crc: u32, size: u64) -> Option<String> {
    if bytes.len() as u64 > size {
        return Some(format!("{} bytes are inline, its size says {size}", bytes.len()));
    }
    (crc32c::crc32c(bytes) != crc)
        .then(|| "its inline bytes do not have the checksum that it says".to_owned())
}

fn extents_problem(segment: Option<u64>, extents: &[Extent], size: u64) -> Option<String> {
    let Some(last) = extents.last() else {
        return segment.map(|n| format!("segment {n} is empty"));
    };
    (last.end() > size).then(|| format!("its extents reach to {}, its size says {size}", last.end()))
}
