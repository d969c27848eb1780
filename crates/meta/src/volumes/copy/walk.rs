//! The source's tree, directory by directory, into the copy's.

use super::super::VolumeError;
use super::job::Job;
use super::piece::{At, Item, end_of};
use super::plan::{self, Original, PlainFile};
use crate::client::Client;
use crate::content::Index;
use crate::jobs::Scanner;
use crate::store::DirEntry;
use carafe_types::record::{Content, Inode};
use carafe_types::{EntryName, FsError, InodeNo};
use std::collections::HashMap;

/// Names that are read at once.
const PAGE: usize = 500;
/// Records that one commit writes, about (500 is the most).
const RECORDS: usize = 400;
/// Bytes that one commit carries, about (1 MiB is the most).
const BYTES: usize = 400 << 10;
/// Inodes of a bucket.
const RUN: u64 = 64;

/// A copy under way.
pub(super) struct Walk<'j, 'c> {
    client: &'c Client,
    job: &'j mut Job<'c>,
    /// Directories whose names are still to be copied: source and copy.
    stack: Vec<(InodeNo, InodeNo)>,
    /// What the next commit makes.
    items: Vec<Item>,
    weight: usize,
    bytes: usize,
    /// Files with several names, by their number in the source: the copy's number, and its inode as stored.
    linked: HashMap<InodeNo, (InodeNo, Inode)>,
    /// Bytes of all files copied.
    pub(super) copied_bytes: u64,
}

impl<'j, 'c> Walk<'j, 'c> {
    pub(super) fn new(client: &'c Client, job: &'j mut Job<'c>) -> Self {
        let (items, stack, linked) = (Vec::new(), Vec::new(), HashMap::new());
        Walk { client, job, stack, items, weight: 0, bytes: 0, linked, copied_bytes: 0 }
    }

    /// Copies everything below `source` into the empty directory `copy`.
    pub(super) async fn run(&mut self, source: InodeNo, copy: InodeNo) -> Result<(), VolumeError> {
        self.stack.push((source, copy));
        while let Some((source, copy)) = self.stack.pop() {
            self.directory(source, copy).await?;
        }
        self.flush().await
    }

    async fn directory(&mut self, source: InodeNo, copy: InodeNo) -> Result<(), VolumeError> {
        let scan = Scanner(self.client);
        // The numbers behind the directory's own are its first children's, so that a small directory is one bucket.
        let mut numbers: Vec<InodeNo> = (copy.0 + 1..copy.0 + RUN).rev().map(InodeNo).collect();
        let mut after: Option<EntryName> = None;
        loop {
            let page = scan.names(source, after.as_ref(), PAGE).await?;
            for (entry, original) in page.iter().zip(plan::read(scan, &page).await?) {
                self.entry(entry, original, copy, &mut numbers).await?;
            }
            match page.into_iter().next_back() {
                Some(last) => after = Some(last.name),
                None => return Ok(()),
            }
        }
    }

    async fn entry(
        &mut self,
        entry: &DirEntry,
        original: Original,
        copy: InodeNo,
        numbers: &mut Vec<InodeNo>,
    ) -> Result<(), VolumeError> {
        let at = At { dir: copy, name: entry.name.clone() };
        match original {
            Original::Dir(dir) if dir.guard.quota_root => {
                let what =
                    format!("{} in the source is a volume of its own, which cannot be copied", entry.name);
                Err(VolumeError::Invalid(what))
            }
            Original::Dir(dir) => {
                let ino = self.client.new_inode(copy, true).await?.ino;
                self.stack.push((entry.ino, ino));
                self.add(Item::Dir { ino, at, dir }).await
            }
            Original::File(file) => {
                if let Some((ino, inode)) = self.linked.get_mut(&entry.ino) {
                    inode.nlink += 1;
                    let item = Item::Name { ino: *ino, at, inode: Box::new(inode.clone()) };
                    return self.add(item).await;
                }
                let ino = match numbers.pop() {
                    Some(ino) => ino,
                    None => {
                        let first = self.client.new_inode(copy, true).await?.ino;
                        numbers.extend((first.0 + 1..first.0 + RUN).rev().map(InodeNo));
                        first
                    }
                };
                self.file(entry.ino, *file, ino, at).await
            }
        }
    }

    async fn file(
        &mut self,
        source: InodeNo,
        file: PlainFile,
        ino: InodeNo,
        at: At,
    ) -> Result<(), VolumeError> {
        if matches!(file.inode.content, Content::Inline(_)) && file.content.is_none() {
            let what = format!("the inline bytes of inode {source} are not there; run `carafe fsck`");
            return Err(FsError::Io(what).into());
        }
        let parent = crate::ops::create::parent_hint(ino, at.dir);
        let quota = self.job.quota();
        let inode = Inode { nlink: 1, parent, quota, ..file.inode.clone() };
        self.copied_bytes += inode.size;
        if file.inode.nlink > 1 {
            self.linked.insert(source, (ino, inode.clone()));
        }
        let mut runs = plan::segments(Scanner(self.client), source, &inode).await?.into_iter();
        let first = runs.next().unwrap_or_default();
        let mut index = Index::default();
        first.iter().for_each(|(segment, _)| index.insert(*segment));
        let (mut size, last) = (inode.size.min(end_of(&first)), runs.len() == 0);
        self.add(Item::File { ino, at, file: Box::new(file), segments: first, last }).await?;
        while let Some(segments) = runs.next() {
            segments.iter().for_each(|(segment, _)| index.insert(*segment));
            let from = size;
            size = if runs.len() == 0 { inode.size } else { inode.size.min(end_of(&segments)) };
            let inode = Box::new(Inode { size, ..inode.clone() });
            self.add(Item::More { ino, inode, from, index: index.clone(), segments }).await?;
        }
        Ok(())
    }

    async fn add(&mut self, item: Item) -> Result<(), VolumeError> {
        let (weight, bytes) = (item.weight(), item.bytes());
        if self.weight + weight > RECORDS || self.bytes + bytes > BYTES {
            self.flush().await?;
        }
        self.weight += weight;
        self.bytes += bytes;
        self.items.push(item);
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), VolumeError> {
        (self.weight, self.bytes) = (0, 0);
        let items = std::mem::take(&mut self.items);
        if items.is_empty() { Ok(()) } else { self.job.piece(&items).await }
    }
}
