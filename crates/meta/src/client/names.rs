//! Names: looking, listing, making, removing, renaming.

use super::{Client, Ctx, DirPage, Found, Granted, How};
use crate::ops::At;
use crate::ops::create::NewNode;
use crate::ops::remove::Unlinked;
use crate::ops::rename::{RenameMode, Renamed};
use crate::ops::write::FileWrite;
use crate::ops::{create, link, list, lookup, remove, rename};
use crate::store::WatchKey;
use crate::tx::Tx;
use bytes::Bytes;
use carafe_types::{Attr, EntryName, FileKind, FsResult, InodeNo};
use std::time::Duration;

/// The answer to a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The name is there.
    Found(Found),
    /// It is not.
    Absent {
        /// How long the kernel may keep that.
        ttl: Duration,
    },
}

/// Lists of attributes are loaded for so many inodes at once.
const ATTRS_AT_ONCE: usize = 1000;

impl Client {
    pub(crate) fn found(attr: Attr, dir: Option<InodeNo>, granted: &Granted) -> Found {
        let bucket = WatchKey::Bucket(attr.ino.bucket());
        Found {
            ttl: granted.ttl(&bucket),
            entry_ttl: dir.map_or(Duration::ZERO, |d| granted.ttl(&WatchKey::Names(d))),
            sole: granted.sole(&bucket),
            attr,
        }
    }

    /// What a name points to.
    ///
    /// # Errors
    /// ENOENT when the directory is gone, ENOTDIR; store errors.
    pub async fn lookup(&self, dir: InodeNo, name: &EntryName) -> FsResult<Lookup> {
        let at = At { dir, name };
        let (found, granted) = self.run_granted(How::default(), |tx| lookup::lookup(tx, at)).await?;
        Ok(match found {
            Some(attr) => Lookup::Found(Self::found(attr, Some(dir), &granted)),
            None => Lookup::Absent { ttl: granted.ttl(&WatchKey::Names(dir)) },
        })
    }

    /// Names greater than `after`, at most `limit`, with attributes if asked for.
    ///
    /// # Errors
    /// ENOENT when the directory is gone, ENOTDIR; store errors.
    pub async fn list(
        &self,
        dir: InodeNo,
        after: Option<&EntryName>,
        limit: usize,
        attrs: bool,
    ) -> FsResult<DirPage> {
        let ((found, end), granted) =
            self.run_granted(How::default(), |tx| list::names(tx, dir, after, limit)).await?;
        let mut ttl = granted.ttl(&WatchKey::Names(dir));
        if !attrs {
            let entries = found.into_iter().map(|e| (e, None)).collect();
            return Ok(DirPage { entries, end, ttl });
        }
        let mut entries = Vec::with_capacity(found.len());
        for some in found.chunks(ATTRS_AT_ONCE) {
            let inos: Vec<InodeNo> = some.iter().map(|e| e.ino).collect();
            let (attrs, granted) = self.run_granted(How::default(), |tx| list::attrs(tx, &inos)).await?;
            for (entry, attr) in some.iter().zip(attrs) {
                ttl = ttl.min(granted.ttl(&WatchKey::Bucket(entry.ino.bucket())));
                entries.push((entry.clone(), attr));
            }
        }
        Ok(DirPage { entries, end, ttl })
    }

    /// The target of a symlink.
    ///
    /// # Errors
    /// EINVAL when it is none, ENOENT; store errors.
    pub async fn readlink(&self, ino: InodeNo) -> FsResult<Bytes> {
        self.run(|tx| lookup::readlink(tx, ino)).await
    }

    /// Makes a file, directory, symlink or special file.
    ///
    /// # Errors
    /// EEXIST; ENOENT when the directory is gone; ENAMETOOLONG for a target; ENOSPC, EDQUOT; store errors.
    pub async fn create(&self, _ctx: &Ctx, dir: InodeNo, name: &EntryName, new: NewNode) -> FsResult<Found> {
        self.writable()?;
        let is_dir = new.kind == FileKind::Directory;
        let number = self.new_inode(dir, is_dir).await?;
        let (ino, begins) = (number.ino, number.begins.is_some());
        let how = How { hold: number.begins, ..How::default() };
        let at = At { dir, name };
        let made = self.run_granted(how, |tx| create::create(tx, at, &new, ino, begins)).await;
        match made {
            Ok((attr, granted)) => {
                if begins {
                    self.inodes.not_to_begin(dir, ino);
                }
                Ok(Self::found(attr, Some(dir), &granted))
            }
            Err(e) => {
                if !is_dir && nothing_happened(&e) {
                    self.inodes.give_back(dir, ino);
                }
                Err(e)
            }
        }
    }

    /// Removes the name of anything but a directory.
    ///
    /// # Errors
    /// ENOENT; EISDIR; EPERM by the sticky rule; store errors.
    pub async fn unlink(&self, ctx: &Ctx, dir: InodeNo, name: &EntryName) -> FsResult<Unlinked> {
        self.writable()?;
        let at = At { dir, name };
        let gone = self.run(|tx| remove::unlink(tx, ctx, at)).await?;
        self.after_unlink(&gone);
        Ok(gone)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// ENOENT; ENOTDIR; ENOTEMPTY; EPERM by the sticky rule and for the root of a volume; store errors.
    pub async fn rmdir(&self, ctx: &Ctx, dir: InodeNo, name: &EntryName) -> FsResult<()> {
        self.writable()?;
        let at = At { dir, name };
        let ino = self.run(|tx| remove::rmdir(tx, ctx, at)).await?;
        self.forget_directory(ino);
        Ok(())
    }

    /// Renames, together with file data that must be visible with it.
    ///
    /// # Errors
    /// ENOENT; EEXIST with [`RenameMode::NoReplace`]; ENOTDIR, EISDIR, ENOTEMPTY for the target; EINVAL into itself; EPERM
    /// by the sticky rule; EXDEV between quotas; those of [`Client::commit_writes`]; store errors.
    pub async fn rename(
        &self,
        ctx: &Ctx,
        from: (InodeNo, &EntryName),
        to: (InodeNo, &EntryName),
        mode: RenameMode,
        publish: &[FileWrite],
    ) -> FsResult<Renamed> {
        self.writable()?;
        self.only_own_slices(publish)?;
        let (from, to) = (At { dir: from.0, name: from.1 }, At { dir: to.0, name: to.1 });
        let queue = publish.iter().map(|w| w.ino).collect();
        let how = How { data: !publish.is_empty(), queue, ..How::default() };
        let op = |tx: &mut Tx<'_>| rename::rename(tx, ctx, from, to, mode, publish);
        let (renamed, _) = self.run_granted(how, op).await?;
        if renamed.directory {
            self.session.flush.moved(renamed.moved);
        }
        if let Some(other) = renamed.exchanged {
            self.session.flush.moved(other);
        }
        if let Some(gone) = &renamed.replaced {
            if renamed.directory {
                self.forget_directory(gone.ino);
            } else {
                self.after_unlink(gone);
            }
        }
        Ok(renamed)
    }

    /// Gives a file another name. Its dirty data must have been flushed.
    ///
    /// # Errors
    /// EPERM for a directory; EEXIST; ENOENT; EMLINK; EXDEV between quotas; store errors.
    pub async fn link(&self, _ctx: &Ctx, ino: InodeNo, dir: InodeNo, name: &EntryName) -> FsResult<Found> {
        self.writable()?;
        let at = At { dir, name };
        let how = How::queued(ino);
        let (attr, granted) = self.run_granted(how, |tx| link::link(tx, ino, at)).await?;
        Ok(Self::found(attr, Some(dir), &granted))
    }
}

/// Whether an error says that the store has changed nothing, so that a number can be used for something else.
fn nothing_happened(e: &carafe_types::FsError) -> bool {
    use carafe_types::FsError;
    !matches!(e, FsError::Io(_) | FsError::Unavailable(_) | FsError::Fenced(_) | FsError::Stale)
}
