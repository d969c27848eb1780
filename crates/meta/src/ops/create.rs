//! Making files, directories, symlinks and special files.

use super::{At, SET_GID};
use crate::store::{Check, Key, WatchKey, Write};
use crate::tx::{Op, Tx};
use bytes::Bytes;
use carafe_types::record::{Content, Guard, Inode};
use carafe_types::{Attr, FileKind, FsError, InodeNo};

/// The longest target of a symlink (PATH_MAX of Linux without its NUL).
pub(crate) const MAX_TARGET: usize = 4095;

/// An inode to be made.
#[derive(Clone, Debug)]
pub struct NewNode {
    /// Its type.
    pub kind: FileKind,
    /// `mode & 0o7777`, umask applied.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group, unless the directory passes on its own (set-group-id).
    pub gid: u32,
    /// Device number of a device file.
    pub rdev: u32,
    /// Target of a symlink.
    pub target: Option<Bytes>,
}

/// Makes `new` as inode `ino`, a number never used before. `begins`: it is the first of its bucket.
pub(crate) fn create(tx: &mut Tx<'_>, at: At<'_>, new: &NewNode, ino: InodeNo, begins: bool) -> Op<Attr> {
    tx.want_node(at.dir);
    tx.want_name(at.dir, at.name);
    let parent = tx.guard(at.dir)?;
    if tx.name(at.dir, at.name)?.is_some() {
        return Err(FsError::Exists.into());
    }
    tx.same(&Key::Inode(at.dir))?;
    tx.check(Check::NoName(at.dir, at.name.clone()));
    tx.check(Check::Same(Key::Inode(ino), None));
    let new = inherit(new, &parent);
    let attr = if new.kind == FileKind::Directory {
        make_directory(tx, at.dir, &parent, &new, ino)
    } else {
        make_inode(tx, at.dir, &parent, &new, ino, begins)?
    };
    let size = if new.kind == FileKind::Symlink { attr.size as i64 } else { 0 };
    tx.take(parent.quota, size, 1)?;
    tx.link(at.dir, at.name, new.kind, ino);
    tx.push(Write::Touch(at.dir));
    Ok(attr)
}

/// A set-group-id directory passes on its group, and the bit to directories.
fn inherit(new: &NewNode, parent: &Guard) -> NewNode {
    let mut new = new.clone();
    if parent.mode & SET_GID != 0 {
        new.gid = parent.gid;
        if new.kind == FileKind::Directory {
            new.mode |= SET_GID;
        }
    }
    new
}

fn make_directory(tx: &mut Tx<'_>, dir: InodeNo, parent: &Guard, new: &NewNode, ino: InodeNo) -> Attr {
    let now = tx.world.now;
    let guard = Guard {
        mode: new.mode & 0o7777,
        uid: new.uid,
        gid: new.gid,
        quota: parent.quota,
        parent: dir,
        btime: now,
        ctime: now,
        has_xattr: false,
        quota_root: false,
    };
    tx.put_guard(ino, &guard);
    tx.push(Write::AddSubdirs(dir, 1));
    tx.enlist(WatchKey::Bucket(ino.bucket()));
    tx.enlist(WatchKey::Names(ino));
    Attr {
        ino,
        kind: FileKind::Directory,
        mode: guard.mode,
        uid: guard.uid,
        gid: guard.gid,
        nlink: 2,
        size: 4096,
        rdev: 0,
        atime: now,
        mtime: now,
        ctime: now,
        quota: guard.quota,
        dataver: now.0 as u64,
    }
}

fn make_inode(
    tx: &mut Tx<'_>,
    dir: InodeNo,
    parent: &Guard,
    new: &NewNode,
    ino: InodeNo,
    begins: bool,
) -> Op<Attr> {
    let now = tx.world.now;
    let mut size = 0;
    if new.kind == FileKind::Symlink {
        let target = new.target.clone().unwrap_or_default();
        match target.len() {
            0 => return Err(FsError::NotFound.into()),
            n if n > MAX_TARGET => return Err(FsError::NameTooLong.into()),
            n => size = n as u64,
        }
        tx.put(Key::Content(ino), target.to_vec());
    }
    let device = matches!(new.kind, FileKind::CharDevice | FileKind::BlockDevice);
    let inode = Inode {
        kind: new.kind,
        mode: new.mode & 0o7777,
        uid: new.uid,
        gid: new.gid,
        nlink: 1,
        size,
        rdev: if device { new.rdev } else { 0 },
        mtime: now,
        ctime: now,
        atime: now,
        quota: parent.quota,
        parent: parent_hint(ino, dir),
        dataver: 0,
        has_xattr: false,
        content: Content::Empty,
    };
    tx.put_inode(ino, &inode);
    if begins {
        tx.enlist(WatchKey::Bucket(ino.bucket()));
    }
    Ok(inode.attr(ino))
}

/// The directory is not kept where the inode's own number tells it.
pub(crate) fn parent_hint(ino: InodeNo, dir: InodeNo) -> Option<InodeNo> {
    (ino.bucket().inode(0) != dir).then_some(dir)
}
