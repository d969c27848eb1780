//! Calls on attributes: of an inode, extended ones, of the file system.

use crate::adapter::{Adapter, ctx};
use crate::answer::{self, answer};
use crate::attr::to_timestamp;
use crate::control;
use crate::stats::Op;
use crate::sys::{SetattrExtra, setattr_extra};
use crate::vfs::{SetAttr, StatFs, XattrMode};
use bytes::Bytes;
use carafe_types::{FsError, FsResult, Timestamp};
use fuser::{
    FileHandle, INodeNo, ReplyAttr, ReplyData, ReplyEmpty, ReplyStatfs, ReplyXattr, Request, TimeOrNow,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Bytes of a block in `statfs`. Both `f_bsize` and `f_frsize`: programs disagree on which of them counts.
const STATFS_BLOCK: u64 = 4096;

/// What `setattr` changes, as the kernel says it.
pub(crate) struct Wanted {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) atime: Option<TimeOrNow>,
    pub(crate) mtime: Option<TimeOrNow>,
}

impl Wanted {
    fn resolve(self, extra: SetattrExtra, now: Timestamp) -> SetAttr {
        let time = |exact: Option<(i64, u32)>, given: Option<TimeOrNow>| match exact {
            Some((secs, nanos)) => Some(Timestamp::from_parts(secs, nanos)),
            None => given.map(|t| to_timestamp(t, now)),
        };
        SetAttr {
            mode: self.mode.map(|m| (m & 0o7777) as u16),
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            atime: time(extra.atime, self.atime),
            mtime: time(extra.mtime, self.mtime),
            ctime: None,
            kill_setid: extra.kills_set_id,
        }
    }
}

impl Adapter {
    pub(crate) fn do_getattr(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let call = self.begin(Op::Getattr);
        let (vfs, nodes, ino) = (self.vfs.clone(), self.nodes, self.inode(ino));
        self.serve(request, async move {
            answer::attr(call, nodes, reply, vfs.getattr(ino, fh.map(|f| f.0)).await);
        });
    }

    pub(crate) fn do_setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: Option<FileHandle>,
        wanted: Wanted,
        reply: ReplyAttr,
    ) {
        let call = self.begin(Op::Setattr);
        let (vfs, nodes, ino, ctx) = (self.vfs.clone(), self.nodes, self.inode(ino), ctx(request));
        let change = wanted.resolve(setattr_extra(request), self.vfs.now());
        self.serve(request, async move {
            answer::attr(call, nodes, reply, vfs.setattr(&ctx, ino, fh.map(|f| f.0), &change).await);
        });
    }

    pub(crate) fn do_readlink(&self, request: &Request, ino: INodeNo, reply: ReplyData) {
        let call = self.begin(Op::Readlink);
        let (vfs, ino) = (self.vfs.clone(), self.inode(ino));
        self.serve(request, async move {
            answer(call, reply, vfs.readlink(ino).await, |reply, target| reply.data(&target));
        });
    }

    /// Never waits: kubelets and databases ask it while the store is down, and must not hang.
    pub(crate) fn do_statfs(&self, ino: INodeNo, reply: ReplyStatfs) {
        let call = self.begin(Op::Statfs);
        answer(call, reply, self.vfs.statfs(self.inode(ino)), |reply, s: StatFs| {
            let free = s.free_bytes / STATFS_BLOCK;
            reply.statfs(
                s.total_bytes / STATFS_BLOCK,
                free,
                free,
                s.total_inodes,
                s.free_inodes,
                STATFS_BLOCK as u32,
                255,
                STATFS_BLOCK as u32,
            );
        });
    }

    pub(crate) fn do_getxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let call = self.begin(Op::Getxattr);
        let (vfs, ino, control) = (self.vfs.clone(), self.inode(ino), self.control.clone());
        let name = attribute(name);
        self.serve(request, async move {
            let value = match name {
                Ok(name) if control::is_control(&name) => control::get(control, ino, &name).await,
                Ok(name) => vfs.getxattr(ino, &name).await,
                Err(e) => Err(e),
            };
            answer::xattr(call, size, reply, value);
        });
    }

    pub(crate) fn do_setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        reply: ReplyEmpty,
    ) {
        let call = self.begin(Op::Setxattr);
        let (vfs, ino, ctx) = (self.vfs.clone(), self.inode(ino), ctx(request));
        let control = self.control.clone();
        let wanted = attribute(name).and_then(|n| xattr_mode(flags).map(|m| (n, m)));
        let value = Bytes::copy_from_slice(value);
        self.serve(request, async move {
            let done = match wanted {
                Ok((name, _)) if control::is_control(&name) => {
                    control::set(control, &ctx, &name, value).await
                }
                Ok((name, mode)) => vfs.setxattr(&ctx, ino, &name, value, mode).await,
                Err(e) => Err(e),
            };
            answer::empty(call, reply, done);
        });
    }

    pub(crate) fn do_listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let call = self.begin(Op::Listxattr);
        let (vfs, ino) = (self.vfs.clone(), self.inode(ino));
        self.serve(request, async move {
            let names = vfs.listxattr(ino).await.map(|names| {
                let mut list = Vec::new();
                for name in names {
                    list.extend_from_slice(&name);
                    list.push(0);
                }
                list
            });
            answer::xattr(call, size, reply, names);
        });
    }

    pub(crate) fn do_removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let call = self.begin(Op::Removexattr);
        let (vfs, ino, ctx) = (self.vfs.clone(), self.inode(ino), ctx(request));
        let name = attribute(name);
        self.serve(request, async move {
            let done = match name {
                Ok(name) if control::is_control(&name) => Err(FsError::NotPermitted),
                Ok(name) => vfs.removexattr(&ctx, ino, &name).await,
                Err(e) => Err(e),
            };
            answer::empty(call, reply, done);
        });
    }
}

/// Checks a name as Linux's own file systems do. `system.*` are ACLs: they would be kept but not obeyed, so they are refused.
fn attribute(name: &OsStr) -> FsResult<Bytes> {
    let name = name.as_bytes();
    if control::is_control(name) {
        return Ok(Bytes::copy_from_slice(name));
    }
    let prefixes: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    match prefixes.iter().find_map(|prefix| name.strip_prefix(*prefix)) {
        None => Err(FsError::NotSupported),
        Some(b"") => Err(FsError::Invalid("an attribute needs a name behind its prefix")),
        Some(_) => Ok(Bytes::copy_from_slice(name)),
    }
}

fn xattr_mode(flags: i32) -> FsResult<XattrMode> {
    match flags {
        0 => Ok(XattrMode::Any),
        libc::XATTR_CREATE => Ok(XattrMode::Create),
        libc::XATTR_REPLACE => Ok(XattrMode::Replace),
        _ => Err(FsError::Invalid("flags of setxattr")),
    }
}
