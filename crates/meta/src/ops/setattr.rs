//! Changing attributes, and the size.

use super::{SET_GID, truncate, without_set_ids};
use crate::client::Ctx;
use crate::store::Key;
use crate::tx::{Node, Op, Tx};
use carafe_types::record::{DirTimes, Guard, Inode};
use carafe_types::{Attr, FileKind, FsError, InodeNo, Timestamp};

/// What to change; `None` leaves it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAttr {
    /// `mode & 0o7777`. That a caller outside the group loses set-group-id is the kernel's to decide: it alone knows
    /// supplementary groups.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last access.
    pub atime: Option<Timestamp>,
    /// Last change of content.
    pub mtime: Option<Timestamp>,
    /// Last change of anything; the time of the change if `None`.
    pub ctime: Option<Timestamp>,
    /// Truncate or extend to so many bytes.
    pub size: Option<u64>,
    /// Clear the set-user-id and set-group-id bits, as the kernel asks for truncation without CAP_FSETID and for every
    /// change of owner (FATTR_KILL_SUIDGID).
    pub kill_setid: bool,
}

impl SetAttr {
    fn owner(&self) -> bool {
        self.uid.is_some() || self.gid.is_some()
    }

    fn nothing(&self) -> bool {
        let times = self.atime.is_some() || self.mtime.is_some() || self.ctime.is_some();
        self.mode.is_none() && !self.owner() && !times && self.size.is_none() && !self.kill_setid
    }
}

/// Changes attributes. `false`: the file was only cut a part of the way; again.
pub(crate) fn setattr(tx: &mut Tx<'_>, ctx: &Ctx, ino: InodeNo, set: &SetAttr) -> Op<(Attr, bool)> {
    tx.want_attr(ino);
    match tx.node(ino)? {
        None => Err(FsError::NotFound.into()),
        Some(Node::Dir(_)) if set.size.is_some() => Err(FsError::IsDirectory.into()),
        _ if set.nothing() => Ok((tx.attr(ino)?, true)),
        Some(Node::Dir(guard)) => Ok((set_directory(tx, ino, guard, set)?, true)),
        Some(Node::File(inode)) => set_inode(tx, ctx, ino, inode, set),
    }
}

fn set_directory(tx: &mut Tx<'_>, ino: InodeNo, mut guard: Guard, set: &SetAttr) -> Op<Attr> {
    let now = set.ctime.unwrap_or(tx.world.now);
    guard.mode = set.mode.map_or(guard.mode, |m| m & 0o7777);
    guard.uid = set.uid.unwrap_or(guard.uid);
    guard.gid = set.gid.unwrap_or(guard.gid);
    let times_only = set.mode.is_none() && !set.owner();
    if let Some(mtime) = set.mtime {
        // The tally is compared by nobody: changes inside go on meanwhile.
        tx.put(Key::DirTimes(ino), DirTimes::Set { mtime, ctime: now }.encode());
    }
    if let Some(atime) = set.atime {
        tx.put(Key::DirAtime(ino), atime.0.to_string().into_bytes());
    }
    if !times_only || set.mtime.is_none() {
        tx.same(&Key::Inode(ino))?;
        guard.ctime = now.max(guard.ctime);
        tx.put_guard(ino, &guard);
    } else {
        // It must still be there.
        tx.same(&Key::Inode(ino))?;
    }
    tx.dir_attr(ino, &guard)
}

fn set_inode(tx: &mut Tx<'_>, ctx: &Ctx, ino: InodeNo, mut inode: Inode, set: &SetAttr) -> Op<(Attr, bool)> {
    let mut last = true;
    if let Some(size) = set.size {
        match inode.kind {
            FileKind::Regular => {}
            _ => return Err(FsError::Invalid("only regular files have a size to set").into()),
        }
        last = truncate::resize(tx, ino, &mut inode, size, set.kill_setid)?;
    }
    if let Some(mode) = set.mode {
        inode.mode = mode & 0o7777;
    }
    if set.owner() {
        inode.mode = after_chown(ctx, &inode);
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
    } else if set.kill_setid {
        inode.mode = without_set_ids(inode.mode);
    }
    inode.atime = set.atime.unwrap_or(inode.atime);
    inode.mtime = set.mtime.unwrap_or(inode.mtime);
    inode.ctime = set.ctime.unwrap_or(tx.world.now.max(inode.ctime));
    tx.same(&Key::Inode(ino))?;
    tx.put_inode(ino, &inode);
    Ok((inode.attr(ino), last))
}

/// As Linux does for everybody, root too: set-user-id goes, set-group-id goes if it is effective; if it only marks
/// mandatory locking it stays for root and members of the group.
fn after_chown(ctx: &Ctx, inode: &Inode) -> u16 {
    let mode = without_set_ids(inode.mode);
    let outsider = ctx.uid != 0 && ctx.gid != inode.gid;
    if outsider { mode & !SET_GID } else { mode }
}
