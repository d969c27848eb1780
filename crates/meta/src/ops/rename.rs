//! Renaming: the operation that publishes.
//!
//! Of two renames that would close a circle each changes a parent that the other compares, since moving a directory to
//! another parent compares the guards of *all* ancestors of the target. A rename into a dying directory loses on its
//! guard. A directory may move only while nobody else has unflushed data below it.

use super::create::parent_hint;
use super::remove::{Unlinked, drop_directory, drop_link};
use super::write::{FileWrite, write_file};
use super::{At, sticky_allows};
use crate::client::Ctx;
use crate::store::{Check, Key, WatchKey, Write};
use crate::tx::{Node, Op, Tx};
use carafe_types::record::{Guard, Inode};
use carafe_types::{FileKind, FsError, InodeNo};

/// What to do with a target that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replace it, as `rename(2)` does.
    Replace,
    /// Fail with EEXIST (RENAME_NOREPLACE).
    NoReplace,
    /// Swap the two (RENAME_EXCHANGE).
    Exchange,
}

/// A rename that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// What was renamed.
    pub moved: InodeNo,
    /// It is a directory.
    pub directory: bool,
    /// What the target pointed to before.
    pub replaced: Option<Unlinked>,
    /// What came back in an exchange.
    pub exchanged: Option<InodeNo>,
}

struct Side<'a> {
    at: At<'a>,
    parent: Guard,
    kind: FileKind,
    ino: InodeNo,
    node: Node,
}

/// Renames `from` to `to`, with the file data that must be visible with it.
pub(crate) fn rename(
    tx: &mut Tx<'_>,
    ctx: &Ctx,
    from: At<'_>,
    to: At<'_>,
    mode: RenameMode,
    publish: &[FileWrite],
) -> Op<Renamed> {
    ask(tx, from, to, publish);
    let d1 = tx.guard(from.dir)?;
    let d2 = tx.guard(to.dir)?;
    let moved = side(tx, from, d1)?.ok_or(FsError::NotFound)?;
    let target = side(tx, to, d2.clone())?;
    let mut renamed = Renamed {
        moved: moved.ino,
        directory: moved.kind == FileKind::Directory,
        replaced: None,
        exchanged: None,
    };
    match (mode, &target) {
        (RenameMode::NoReplace, Some(_)) => return Err(FsError::Exists.into()),
        (RenameMode::Exchange, None) => return Err(FsError::NotFound.into()),
        _ => {}
    }
    for write in publish {
        write_file(tx, write)?;
    }
    if target.as_ref().is_some_and(|t| t.ino == moved.ino) {
        // Two names of one file, or one name: POSIX wants nothing to happen.
        return Ok(renamed);
    }
    sticky_allows(ctx, &moved.parent, moved.node.uid())?;
    if let Some(t) = &target {
        sticky_allows(ctx, &d2, t.node.uid())?;
    }
    tx.same(&Key::Inode(from.dir))?;
    tx.same(&Key::Inode(to.dir))?;
    tx.check(Check::HasName(from.dir, from.name.clone(), moved.kind, moved.ino));
    match (mode, target) {
        (RenameMode::Exchange, Some(target)) => {
            renamed.exchanged = Some(target.ino);
            exchange(tx, moved, target)?;
        }
        (_, target) => renamed.replaced = replace(tx, moved, to, &d2, target)?,
    }
    tx.push(Write::Touch(from.dir));
    if from.dir != to.dir {
        tx.push(Write::Touch(to.dir));
    }
    Ok(renamed)
}

fn ask(tx: &mut Tx<'_>, from: At<'_>, to: At<'_>, publish: &[FileWrite]) {
    tx.want_node(from.dir);
    tx.want_node(to.dir);
    tx.want_name(from.dir, from.name);
    tx.want_name(to.dir, to.name);
    publish.iter().for_each(|w| tx.want_node(w.ino));
}

fn side<'a>(tx: &mut Tx<'_>, at: At<'a>, parent: Guard) -> Op<Option<Side<'a>>> {
    let Some((kind, ino)) = tx.name(at.dir, at.name)? else { return Ok(None) };
    let node = tx.node(ino)?.ok_or(FsError::NotFound)?;
    Ok(Some(Side { at, parent, kind, ino, node }))
}

/// Puts `moved` in the place of `target`, or in an empty one.
fn replace(
    tx: &mut Tx<'_>,
    moved: Side<'_>,
    to: At<'_>,
    d2: &Guard,
    target: Option<Side<'_>>,
) -> Op<Option<Unlinked>> {
    let is_dir = moved.kind == FileKind::Directory;
    match &target {
        Some(t) if is_dir && t.kind != FileKind::Directory => return Err(FsError::NotDirectory.into()),
        Some(t) if !is_dir && t.kind == FileKind::Directory => return Err(FsError::IsDirectory.into()),
        Some(t) => tx.check(Check::HasName(to.dir, to.name.clone(), t.kind, t.ino)),
        None => tx.check(Check::NoName(to.dir, to.name.clone())),
    }
    let from = moved.at;
    relocate(tx, &moved, to.dir, d2)?;
    tx.unlink(from.dir, from.name, moved.kind, moved.ino);
    let replaced = target.map(|t| remove_target(tx, &t, to)).transpose()?;
    tx.link(to.dir, to.name, moved.kind, moved.ino);
    if is_dir && from.dir != to.dir {
        tx.push(Write::AddSubdirs(from.dir, -1));
        tx.push(Write::AddSubdirs(to.dir, 1));
    }
    Ok(replaced)
}

fn remove_target(tx: &mut Tx<'_>, target: &Side<'_>, to: At<'_>) -> Op<Unlinked> {
    tx.unlink(to.dir, to.name, target.kind, target.ino);
    // What this transaction itself has published into it counts.
    match tx.node(target.ino)? {
        Some(Node::Dir(guard)) => {
            drop_directory(tx, target.ino, &guard)?;
            tx.push(Write::AddSubdirs(to.dir, -1));
            Ok(Unlinked { ino: target.ino, last: true })
        }
        Some(Node::File(inode)) => drop_link(tx, target.ino, inode, to.dir),
        None => Err(FsError::NotFound.into()),
    }
}

fn exchange(tx: &mut Tx<'_>, a: Side<'_>, b: Side<'_>) -> Op<()> {
    tx.check(Check::HasName(b.at.dir, b.at.name.clone(), b.kind, b.ino));
    relocate(tx, &a, b.at.dir, &b.parent)?;
    relocate(tx, &b, a.at.dir, &a.parent)?;
    tx.unlink(a.at.dir, a.at.name, a.kind, a.ino);
    tx.unlink(b.at.dir, b.at.name, b.kind, b.ino);
    tx.link(a.at.dir, a.at.name, b.kind, b.ino);
    tx.link(b.at.dir, b.at.name, a.kind, a.ino);
    let subdirs = i64::from(a.kind == FileKind::Directory) - i64::from(b.kind == FileKind::Directory);
    if a.at.dir != b.at.dir && subdirs != 0 {
        tx.push(Write::AddSubdirs(a.at.dir, -subdirs));
        tx.push(Write::AddSubdirs(b.at.dir, subdirs));
    }
    Ok(())
}

/// The inode itself: its times, its parent, its quota; for a directory also that it may move there at all.
fn relocate(tx: &mut Tx<'_>, moved: &Side<'_>, dir: InodeNo, guard: &Guard) -> Op<()> {
    match tx.node(moved.ino)? {
        Some(Node::Dir(own)) => relocate_directory(tx, moved, own, dir, guard),
        Some(Node::File(inode)) => relocate_file(tx, moved.ino, inode, dir, guard),
        None => Err(FsError::NotFound.into()),
    }
}

fn relocate_file(tx: &mut Tx<'_>, ino: InodeNo, mut inode: Inode, dir: InodeNo, guard: &Guard) -> Op<()> {
    if inode.quota != guard.quota {
        if inode.nlink > 1 {
            return Err(FsError::CrossQuota.into());
        }
        tx.take(inode.quota, -(inode.size as i64), -1)?;
        tx.take(guard.quota, inode.size as i64, 1)?;
        inode.quota = guard.quota;
    }
    tx.same(&Key::Inode(ino))?;
    inode.parent = parent_hint(ino, dir);
    inode.ctime = tx.world.now.max(inode.ctime);
    tx.put_inode(ino, &inode);
    Ok(())
}

fn relocate_directory(
    tx: &mut Tx<'_>,
    moved: &Side<'_>,
    mut own: Guard,
    dir: InodeNo,
    guard: &Guard,
) -> Op<()> {
    if moved.at.dir != dir {
        no_circle(tx, moved.ino, dir)?;
        let quota_above = if own.quota_root { quota_above(tx, &own)? } else { own.quota };
        if quota_above != guard.quota {
            return Err(FsError::CrossQuota.into());
        }
    }
    tx.same(&Key::Inode(moved.ino))?;
    tx.check(Check::AloneOrFlushing(WatchKey::Names(moved.ino)));
    own.parent = dir;
    own.ctime = tx.world.now.max(own.ctime);
    tx.put_guard(moved.ino, &own);
    Ok(())
}

fn quota_above(tx: &mut Tx<'_>, root: &Guard) -> Op<carafe_types::QuotaId> {
    let chain = tx.chain(root.quota)?;
    Ok(chain.get(1).copied().unwrap_or(root.quota))
}

/// `dir` does not lie below `ino`, now and when the transaction is applied.
fn no_circle(tx: &mut Tx<'_>, ino: InodeNo, dir: InodeNo) -> Op<()> {
    let mut at = dir;
    loop {
        if at == ino {
            return Err(FsError::Invalid("a directory cannot move below itself").into());
        }
        let guard = tx.guard(at)?;
        tx.same(&Key::Inode(at))?;
        if guard.parent == at {
            return Ok(());
        }
        at = guard.parent;
    }
}
