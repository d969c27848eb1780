//! Removing names, and inodes with their last name.

use super::{At, sticky_allows, wrong_kind};
use crate::client::Ctx;
use crate::content::Ledger;
use crate::store::{Check, Key, Message, WatchKey, Write};
use crate::tx::{Op, Tx};
use carafe_types::record::{Content, Guard, Inode};
use carafe_types::{FileKind, FsError, InodeNo};

/// After how long an unlinked inode that others may have open is looked at: they have said so by then.
const ORPHAN_REST_MS: u64 = 600_000;

/// The parent hint of a file whose known name went while others stay: no inode has this number.
const NOWHERE: InodeNo = InodeNo(0);

/// A name that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unlinked {
    /// What it pointed to.
    pub ino: InodeNo,
    /// It was the last name.
    pub last: bool,
}

/// Removes the name of anything but a directory.
pub(crate) fn unlink(tx: &mut Tx<'_>, ctx: &Ctx, at: At<'_>) -> Op<Unlinked> {
    let (parent, kind, ino) = find(tx, at)?;
    if kind == FileKind::Directory {
        return Err(FsError::IsDirectory.into());
    }
    let inode = tx.inode(ino)?;
    sticky_allows(ctx, &parent, inode.uid)?;
    tx.same(&Key::Inode(at.dir))?;
    tx.check(Check::HasName(at.dir, at.name.clone(), kind, ino));
    tx.unlink(at.dir, at.name, kind, ino);
    tx.push(Write::Touch(at.dir));
    drop_link(tx, ino, inode, at.dir)
}

/// Removes an empty directory.
pub(crate) fn rmdir(tx: &mut Tx<'_>, ctx: &Ctx, at: At<'_>) -> Op<InodeNo> {
    let (parent, kind, ino) = find(tx, at)?;
    if kind != FileKind::Directory {
        return Err(wrong_kind(kind).into());
    }
    let guard = tx.guard(ino)?;
    sticky_allows(ctx, &parent, guard.uid)?;
    tx.same(&Key::Inode(at.dir))?;
    tx.check(Check::HasName(at.dir, at.name.clone(), kind, ino));
    tx.unlink(at.dir, at.name, kind, ino);
    tx.push(Write::Touch(at.dir));
    tx.push(Write::AddSubdirs(at.dir, -1));
    drop_directory(tx, ino, &guard)?;
    Ok(ino)
}

/// What a name points to, with the directory that holds it.
pub(crate) fn find(tx: &mut Tx<'_>, at: At<'_>) -> Op<(Guard, FileKind, InodeNo)> {
    tx.want_node(at.dir);
    tx.want_name(at.dir, at.name);
    let parent = tx.guard(at.dir)?;
    let (kind, ino) = tx.name(at.dir, at.name)?.ok_or(FsError::NotFound)?;
    tx.want_node(ino);
    Ok((parent, kind, ino))
}

/// An inode loses one name; with the last one also its bytes, at once or when nobody can have it open any more.
pub(crate) fn drop_link(tx: &mut Tx<'_>, ino: InodeNo, mut inode: Inode, dir: InodeNo) -> Op<Unlinked> {
    tx.same(&Key::Inode(ino))?;
    tx.frees();
    inode.ctime = tx.world.now.max(inode.ctime);
    if inode.nlink > 1 {
        inode.nlink -= 1;
        if inode.parent_of(ino) == dir {
            // Where its other names are is not known.
            inode.parent = Some(NOWHERE);
        }
        tx.put_inode(ino, &inode);
        return Ok(Unlinked { ino, last: false });
    }
    tx.take(inode.quota, -(inode.size as i64), -1)?;
    let bucket = WatchKey::Bucket(ino.bucket());
    let others = tx.other_watchers(&bucket);
    let open = tx.is_open(ino);
    let many = matches!(inode.content, Content::Many { .. });
    if !open && others.is_none() && !many {
        tx.check(Check::Alone(bucket));
        tx.removing.push(ino);
        delete_inode(tx, ino, &inode);
        return Ok(Unlinked { ino, last: true });
    }
    inode.nlink = 0;
    tx.put_inode(ino, &inode);
    if open {
        tx.push(Write::HoldOpen(ino));
    }
    let alone = others.is_none() && tx.is_sole(&bucket);
    for to in others.unwrap_or_default() {
        tx.notify(*to, Message::Changed(ino));
    }
    // Only this session can have it open: it says itself when it has not.
    tx.push(Write::QueueDead(ino, if alone && !open { 0 } else { ORPHAN_REST_MS }));
    Ok(Unlinked { ino, last: true })
}

/// The records of an inode without extents records go, and what they owned.
pub(crate) fn delete_inode(tx: &mut Tx<'_>, ino: InodeNo, inode: &Inode) {
    tx.delete(Key::Inode(ino));
    tx.delete(Key::Locks(ino));
    if inode.has_xattr {
        tx.delete(Key::Xattr(ino));
    }
    match &inode.content {
        Content::One(extent) => {
            let mut ledger = Ledger::default();
            ledger.before(std::slice::from_ref(extent));
            ledger.writes(tx.world.delete_after_ms).into_iter().for_each(|w| tx.push(w));
        }
        Content::Inline(_) => {
            tx.delete(Key::Content(ino));
            tx.take_inline(-super::write::inline_charge(tx, inode));
        }
        Content::Empty if inode.kind == FileKind::Symlink => tx.delete(Key::Content(ino)),
        Content::Empty | Content::Many { .. } => {}
    }
}

/// A directory loses its only name and must be empty.
pub(crate) fn drop_directory(tx: &mut Tx<'_>, ino: InodeNo, guard: &Guard) -> Op<()> {
    if guard.quota_root {
        return Err(FsError::NotPermitted.into());
    }
    if !tx.is_empty(ino)? {
        return Err(FsError::NotEmpty.into());
    }
    tx.same(&Key::Inode(ino))?;
    tx.check(Check::Empty(ino));
    tx.frees();
    for key in [Key::Inode(ino), Key::DirTimes(ino), Key::DirAtime(ino), Key::DirSubdirs(ino)] {
        tx.delete(key);
    }
    if guard.has_xattr {
        tx.delete(Key::Xattr(ino));
    }
    tx.take(guard.quota, 0, -1)
}
