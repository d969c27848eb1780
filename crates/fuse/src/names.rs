//! Calls on names: look up, make, remove, rename, link.

use crate::adapter::{Adapter, ctx, name};
use crate::answer;
use crate::attr::kind_of_mode;
use crate::stats::Op;
use crate::vfs::{NewNode, RenameMode};
use bytes::Bytes;
use carafe_types::{EntryName, FileKind, FsError, FsResult, InodeNo};
use fuser::{INodeNo, RenameFlags, ReplyCreate, ReplyEmpty, ReplyEntry, Request};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The longest target of a symlink, bytes: `PATH_MAX` without its NUL.
const TARGET_MAX: usize = 4095;

impl Adapter {
    pub(crate) fn do_lookup(&self, request: &Request, parent: INodeNo, wanted: &OsStr, reply: ReplyEntry) {
        let call = self.begin(Op::Lookup);
        let (vfs, nodes, dir) = (self.vfs.clone(), self.nodes, self.inode(parent));
        let wanted = name(wanted);
        self.serve(request, async move {
            let found = match wanted {
                Ok(wanted) => vfs.lookup(dir, &wanted).await,
                Err(e) => Err(e),
            };
            answer::lookup(call, nodes, reply, found);
        });
    }

    /// `mknod`, `mkdir` and `symlink`: they differ in the node that is made.
    pub(crate) fn do_make(
        &self,
        op: Op,
        request: &Request,
        (parent, wanted): (INodeNo, &OsStr),
        node: FsResult<NewNode>,
        reply: ReplyEntry,
    ) {
        let call = self.begin(op);
        let (vfs, nodes, dir, ctx) = (self.vfs.clone(), self.nodes, self.inode(parent), ctx(request));
        let wanted = name(wanted).and_then(|n| node.map(|node| (n, node)));
        self.serve(request, async move {
            let made = match wanted {
                Ok((wanted, node)) => vfs.make(&ctx, dir, &wanted, node).await,
                Err(e) => Err(e),
            };
            answer::entry(call, nodes, reply, made);
        });
    }

    pub(crate) fn do_create(
        &self,
        request: &Request,
        (parent, wanted): (INodeNo, &OsStr),
        mode: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let call = self.begin(Op::Create);
        let (vfs, nodes, dir, ctx) = (self.vfs.clone(), self.nodes, self.inode(parent), ctx(request));
        let wanted = name(wanted);
        let node = new_node(request, FileKind::Regular, mode, 0, None);
        self.serve_to_end(async move {
            let made = match wanted {
                Ok(wanted) => vfs.create(&ctx, dir, &wanted, node, flags).await,
                Err(e) => Err(e),
            };
            answer::created(call, nodes, reply, made);
        });
    }

    pub(crate) fn do_remove(
        &self,
        op: Op,
        request: &Request,
        parent: INodeNo,
        wanted: &OsStr,
        reply: ReplyEmpty,
    ) {
        let call = self.begin(op);
        let (vfs, dir, ctx) = (self.vfs.clone(), self.inode(parent), ctx(request));
        let wanted = name(wanted);
        self.serve(request, async move {
            let done = match wanted {
                Ok(wanted) if op == Op::Rmdir => vfs.rmdir(&ctx, dir, &wanted).await,
                Ok(wanted) => vfs.unlink(&ctx, dir, &wanted).await,
                Err(e) => Err(e),
            };
            answer::empty(call, reply, done);
        });
    }

    pub(crate) fn do_rename(
        &self,
        request: &Request,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let call = self.begin(Op::Rename);
        let (vfs, ctx) = (self.vfs.clone(), ctx(request));
        let both = self.place(from).and_then(|f| self.place(to).map(|t| (f, t)));
        self.serve(request, async move {
            let done = match (both, rename_mode(flags)) {
                (Ok((from, to)), Ok(mode)) => vfs.rename(&ctx, (from.0, &from.1), (to.0, &to.1), mode).await,
                (Err(e), _) | (_, Err(e)) => Err(e),
            };
            answer::empty(call, reply, done);
        });
    }

    pub(crate) fn do_link(&self, request: &Request, ino: INodeNo, to: (INodeNo, &OsStr), reply: ReplyEntry) {
        let call = self.begin(Op::Link);
        let (vfs, nodes, ino, ctx) = (self.vfs.clone(), self.nodes, self.inode(ino), ctx(request));
        let to = self.place(to);
        self.serve(request, async move {
            let made = match to {
                Ok((dir, wanted)) => vfs.link(&ctx, ino, dir, &wanted).await,
                Err(e) => Err(e),
            };
            answer::entry(call, nodes, reply, made);
        });
    }

    fn place(&self, (parent, wanted): (INodeNo, &OsStr)) -> FsResult<(InodeNo, EntryName)> {
        name(wanted).map(|n| (self.inode(parent), n))
    }
}

/// The node that `mknod` asks for.
pub(crate) fn special(request: &Request, mode: u32, rdev: u32) -> FsResult<NewNode> {
    let kind = kind_of_mode(mode).ok_or(FsError::Invalid("mode of mknod"))?;
    Ok(new_node(request, kind, mode, rdev, None))
}

/// The node that `mkdir` asks for.
pub(crate) fn directory(request: &Request, mode: u32) -> NewNode {
    new_node(request, FileKind::Directory, mode, 0, None)
}

/// The node that `symlink` asks for.
pub(crate) fn symlink(request: &Request, target: &Path) -> FsResult<NewNode> {
    let target = target.as_os_str().as_bytes();
    if target.len() > TARGET_MAX {
        return Err(FsError::NameTooLong);
    }
    let target = Some(Bytes::copy_from_slice(target));
    Ok(new_node(request, FileKind::Symlink, 0o777, 0, target))
}

/// The kernel has applied the umask to `mode`.
fn new_node(request: &Request, kind: FileKind, mode: u32, rdev: u32, target: Option<Bytes>) -> NewNode {
    NewNode { kind, mode: (mode & 0o7777) as u16, uid: request.uid(), gid: request.gid(), rdev, target }
}

/// RENAME_WHITEOUT would leave a device node behind for an overlay: not supported, as on most network file systems.
fn rename_mode(flags: RenameFlags) -> FsResult<RenameMode> {
    if flags.is_empty() {
        Ok(RenameMode::Replace)
    } else if flags == RenameFlags::RENAME_NOREPLACE {
        Ok(RenameMode::NoReplace)
    } else if flags == RenameFlags::RENAME_EXCHANGE {
        Ok(RenameMode::Exchange)
    } else {
        Err(FsError::Invalid("rename flags"))
    }
}
