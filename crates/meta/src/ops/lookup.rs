//! Looking at names and inodes.

use super::At;
use crate::store::Key;
use crate::tx::{Op, Tx};
use bytes::Bytes;
use carafe_types::{Attr, FileKind, FsError, InodeNo};

/// The inode that a name points to. `None`: the directory has no such name.
pub(crate) fn lookup(tx: &mut Tx<'_>, at: At<'_>) -> Op<Option<Attr>> {
    tx.want_node(at.dir);
    tx.want_name(at.dir, at.name);
    tx.guard(at.dir)?;
    match tx.name(at.dir, at.name)? {
        Some((_, ino)) => {
            tx.want_attr(ino);
            tx.attr(ino).map(Some)
        }
        None => Ok(None),
    }
}

/// The attributes of an inode.
pub(crate) fn getattr(tx: &mut Tx<'_>, ino: InodeNo) -> Op<Attr> {
    tx.want_attr(ino);
    tx.attr(ino)
}

/// The target of a symlink.
pub(crate) fn readlink(tx: &mut Tx<'_>, ino: InodeNo) -> Op<Bytes> {
    tx.want_node(ino);
    tx.want_record(Key::Content(ino));
    let inode = tx.inode(ino)?;
    if inode.kind != FileKind::Symlink {
        return Err(FsError::Invalid("no symbolic link").into());
    }
    let target = tx.record(&Key::Content(ino))?;
    target.ok_or_else(|| FsError::Io(format!("symlink {ino} has lost its target; run `carafe fsck`")).into())
}
