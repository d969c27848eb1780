//! Calls on open directories.

use crate::adapter::{Adapter, ctx};
use crate::answer::{self, GENERATION, answer};
use crate::attr::to_file_type;
use crate::vfs::DirPage;
use carafe_types::FsResult;
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
        let (vfs, ino, ctx) = (self.vfs.clone(), self.inode(ino), ctx(request));
        self.serve(async move {
            let opened = vfs.opendir(&ctx, ino).await;
            answer("opendir", reply, opened, |reply, fh| reply.opened(FileHandle(fh), FopenFlags::empty()));
        });
    }

    pub(crate) fn do_readdir(&self, fh: FileHandle, cookie: u64, mut reply: ReplyDirectory) {
        let (vfs, nodes) = (self.vfs.clone(), self.nodes);
        self.serve(async move {
            let page: FsResult<DirPage> = vfs.readdir(fh.0, cookie, PAGE, false).await;
            match page {
                Ok(page) => {
                    for e in &page.entries {
                        let name = OsStr::from_bytes(&e.name);
                        if reply.add(nodes.node(e.ino), e.cookie, to_file_type(e.kind), name) {
                            break;
                        }
                    }
                    reply.ok();
                }
                Err(e) => answer("readdir", reply, Err::<(), _>(e), |_, ()| ()),
            }
        });
    }

    pub(crate) fn do_readdirplus(&self, fh: FileHandle, cookie: u64, mut reply: ReplyDirectoryPlus) {
        let (vfs, nodes) = (self.vfs.clone(), self.nodes);
        self.serve(async move {
            match vfs.readdir(fh.0, cookie, PAGE_PLUS, true).await {
                Ok(page) => {
                    for e in &page.entries {
                        // An entry that lost its inode between names and attributes is gone: nothing to show.
                        let Some(attr) = &e.attr else { continue };
                        let name = OsStr::from_bytes(&e.name);
                        let ttl = if page.fixed { page.ttl } else { Duration::ZERO };
                        if reply.add(nodes.node(e.ino), e.cookie, name, &ttl, &nodes.attr(attr), GENERATION) {
                            break;
                        }
                    }
                    reply.ok();
                }
                Err(e) => answer("readdirplus", reply, Err::<(), _>(e), |_, ()| ()),
            }
        });
    }

    pub(crate) fn do_releasedir(&self, fh: FileHandle, reply: ReplyEmpty) {
        let vfs = self.vfs.clone();
        self.serve(async move { answer::empty("releasedir", reply, vfs.releasedir(fh.0).await) });
    }

    pub(crate) fn do_fsyncdir(&self, fh: FileHandle, reply: ReplyEmpty) {
        let vfs = self.vfs.clone();
        self.serve(async move { answer::empty("fsyncdir", reply, vfs.fsyncdir(fh.0).await) });
    }
}
