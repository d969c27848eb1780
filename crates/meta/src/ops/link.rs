//! Another name for a file.

use super::{At, MAX_LINKS};
use crate::store::{Check, Key, Write};
use crate::tx::{Node, Op, Tx};
use carafe_types::{Attr, FsError, InodeNo};

/// Gives `ino` another name.
pub(crate) fn link(tx: &mut Tx<'_>, ino: InodeNo, at: At<'_>) -> Op<Attr> {
    tx.want_node(ino);
    tx.want_node(at.dir);
    tx.want_name(at.dir, at.name);
    let mut inode = match tx.node(ino)? {
        Some(Node::File(inode)) => inode,
        Some(Node::Dir(_)) => return Err(FsError::NotPermitted.into()),
        None => return Err(FsError::NotFound.into()),
    };
    let parent = tx.guard(at.dir)?;
    if tx.name(at.dir, at.name)?.is_some() {
        return Err(FsError::Exists.into());
    }
    match inode.nlink {
        0 => return Err(FsError::NotFound.into()),
        n if n >= MAX_LINKS => return Err(FsError::TooManyLinks.into()),
        _ => {}
    }
    if inode.quota != parent.quota {
        return Err(FsError::CrossQuota.into());
    }
    tx.same(&Key::Inode(at.dir))?;
    tx.same(&Key::Inode(ino))?;
    tx.check(Check::NoName(at.dir, at.name.clone()));
    inode.nlink += 1;
    inode.ctime = tx.world.now.max(inode.ctime);
    tx.put_inode(ino, &inode);
    tx.link(at.dir, at.name, inode.kind, ino);
    tx.push(Write::Touch(at.dir));
    Ok(inode.attr(ino))
}
