//! Extended attributes, ACLs among them.

use crate::store::Key;
use crate::tx::{Node, Op, Tx};
use bytes::Bytes;
use carafe_types::record::Xattrs;
use carafe_types::{FsError, InodeNo};

/// The longest name (XATTR_NAME_MAX).
const MAX_NAME: usize = 255;
/// All attributes of an inode together: one record, and one list for the caller (XATTR_LIST_MAX is 64 KiB of names).
const MAX_TOTAL: usize = 256 << 10;

/// Whether an attribute must or must not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrMode {
    /// Either.
    #[default]
    Any,
    /// It must not (XATTR_CREATE).
    Create,
    /// It must (XATTR_REPLACE).
    Replace,
}

fn flagged(node: &Node) -> bool {
    match node {
        Node::File(inode) => inode.has_xattr,
        Node::Dir(guard) => guard.has_xattr,
    }
}

/// All attributes of an inode.
pub(crate) fn all(tx: &mut Tx<'_>, ino: InodeNo) -> Op<Xattrs> {
    tx.want_node(ino);
    let node = tx.node(ino)?.ok_or(FsError::NotFound)?;
    tx.xattrs(ino, flagged(&node))
}

/// Sets one attribute.
pub(crate) fn set(tx: &mut Tx<'_>, ino: InodeNo, name: &Bytes, value: &Bytes, mode: XattrMode) -> Op<()> {
    match name.len() {
        0 => return Err(FsError::Invalid("empty attribute name").into()),
        n if n > MAX_NAME => return Err(FsError::Range.into()),
        _ => {}
    }
    if value.len() > Xattrs::MAX_VALUE {
        return Err(FsError::AttributeTooBig.into());
    }
    let mut xattrs = all(tx, ino)?;
    match (mode, xattrs.0.contains_key(name)) {
        (XattrMode::Create, true) => return Err(FsError::Exists.into()),
        (XattrMode::Replace, false) => return Err(FsError::NoAttribute.into()),
        _ => {}
    }
    xattrs.0.insert(name.clone(), value.clone());
    let total: usize = xattrs.0.iter().map(|(n, v)| n.len() + v.len()).sum();
    if total > MAX_TOTAL {
        return Err(
            FsError::NoSpace(format!("the attributes of inode {ino} exceed {MAX_TOTAL} bytes")).into()
        );
    }
    store(tx, ino, &xattrs)
}

/// Removes one attribute.
pub(crate) fn remove(tx: &mut Tx<'_>, ino: InodeNo, name: &Bytes) -> Op<()> {
    let mut xattrs = all(tx, ino)?;
    if xattrs.0.remove(name).is_none() {
        return Err(FsError::NoAttribute.into());
    }
    store(tx, ino, &xattrs)
}

/// The inode's own record changes with its attributes (its ctime does), so comparing it covers both.
fn store(tx: &mut Tx<'_>, ino: InodeNo, xattrs: &Xattrs) -> Op<()> {
    let node = tx.node(ino)?.ok_or(FsError::NotFound)?;
    tx.same(&Key::Inode(ino))?;
    // Two changes within one tick of the clock must differ, or the second would not be seen by a third.
    let later = |old: carafe_types::Timestamp, now: carafe_types::Timestamp| {
        carafe_types::Timestamp(now.0.max(old.0.saturating_add(1)))
    };
    let now = tx.world.now;
    let any = !xattrs.0.is_empty();
    match node {
        Node::File(mut inode) => {
            inode.has_xattr = any;
            inode.ctime = later(inode.ctime, now);
            tx.put_inode(ino, &inode);
        }
        Node::Dir(mut guard) => {
            guard.has_xattr = any;
            guard.ctime = later(guard.ctime, now);
            tx.put_guard(ino, &guard);
        }
    }
    if any {
        tx.put(Key::Xattr(ino), xattrs.encode());
    } else {
        tx.delete(Key::Xattr(ino));
    }
    Ok(())
}
