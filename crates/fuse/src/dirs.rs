//! Calls on open directories.

use crate::adapter::{Adapter, ctx};
use crate::answer::{self, GENERATION, answer};
use crate::attr::to_file_type;
use crate::stats::Op;
use crate::vfs::{DirItem, DirPage};
use carafe_types::{Attr, FsResult, QuotaId, Timestamp};
use fuser::{
    FileHandle, FopenFlags, INodeNo, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyOpen, Request,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// How many entries are asked for at a time. The kernel's buffer holds about 1,000 short names (32 KiB), or 200 with
/// attributes.
const PAGE: usize = 1024;
const PAGE_PLUS: usize = 256;

impl Adapter {
    pub(crate) fn do_opendir(&self, request: &Request, ino: INodeNo, reply: ReplyOpen) {
        let call = self.begin(Op::Opendir);
        let (vfs, ino, ctx) = (self.vfs.clone(), self.inode(ino), ctx(request));
        self.serve_to_end(async move {
            let opened = vfs.opendir(&ctx, ino).await;
            answer(call, reply, opened, |reply, fh| reply.opened(FileHandle(fh), FopenFlags::empty()));
        });
    }

    pub(crate) fn do_readdir(
        &self,
        request: &Request,
        fh: FileHandle,
        cookie: u64,
        mut reply: ReplyDirectory,
    ) {
        let call = self.begin(Op::Readdir);
        let (vfs, nodes) = (self.vfs.clone(), self.nodes);
        self.serve(request, async move {
            let page: FsResult<DirPage> = vfs.readdir(fh.0, cookie, PAGE, false).await;
            match page {
                Ok(page) => {
                    for e in &page.entries {
                        let name = OsStr::from_bytes(&e.name);
                        if reply.add(nodes.node(e.ino), e.cookie, to_file_type(e.kind), name) {
                            break;
                        }
                    }
                    call.done();
                    reply.ok();
                }
                Err(e) => answer::refuse(call, reply, &e),
            }
        });
    }

    pub(crate) fn do_readdirplus(
        &self,
        request: &Request,
        fh: FileHandle,
        cookie: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let call = self.begin(Op::Readdirplus);
        let (vfs, nodes) = (self.vfs.clone(), self.nodes);
        self.serve(request, async move {
            match vfs.readdir(fh.0, cookie, PAGE_PLUS, true).await {
                Ok(page) => {
                    for e in &page.entries {
                        let name = OsStr::from_bytes(&e.name);
                        let ttl = if page.fixed && e.attr.is_some() { page.ttl } else { Duration::ZERO };
                        // A name whose inode is damaged or just went is listed; what stands in for its attributes has no
                        // lifetime, so that the next look at it asks and is told.
                        let attr = e.attr.clone().unwrap_or_else(|| unknown(e));
                        if reply.add(nodes.node(e.ino), e.cookie, name, &ttl, &nodes.attr(&attr), GENERATION)
                        {
                            break;
                        }
                    }
                    call.done();
                    reply.ok();
                }
                Err(e) => answer::refuse(call, reply, &e),
            }
        });
    }

    pub(crate) fn do_releasedir(&self, fh: FileHandle, reply: ReplyEmpty) {
        let call = self.begin(Op::Releasedir);
        let vfs = self.vfs.clone();
        self.serve_to_end(async move { answer::empty(call, reply, vfs.releasedir(fh.0).await) });
    }

    pub(crate) fn do_fsyncdir(&self, request: &Request, fh: FileHandle, reply: ReplyEmpty) {
        let call = self.begin(Op::Fsyncdir);
        let vfs = self.vfs.clone();
        self.serve(request, async move { answer::empty(call, reply, vfs.fsyncdir(fh.0).await) });
    }
}

fn unknown(item: &DirItem) -> Attr {
    Attr {
        ino: item.ino,
        kind: item.kind,
        mode: 0,
        uid: 0,
        gid: 0,
        nlink: 1,
        size: 0,
        rdev: 0,
        atime: Timestamp(0),
        mtime: Timestamp(0),
        ctime: Timestamp(0),
        quota: QuotaId::ROOT,
        dataver: 0,
    }
}
