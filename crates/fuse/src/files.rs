//! Calls on open files.

use crate::adapter::{Adapter, ctx};
use crate::answer::{self, answer};
use crate::stats::Op;
use crate::sys;
use crate::vfs::{Falloc, SeekWhence};
use bytes::Bytes;
use carafe_types::{FsError, FsResult};
use fuser::{
    FileHandle, INodeNo, LockOwner, OpenFlags, ReplyData, ReplyEmpty, ReplyLseek, ReplyOpen, ReplyWrite,
    Request, WriteFlags,
};

/// Most bytes that one `copy_file_range` moves: the reply counts in 32 bits. A multiple of every block size.
const COPY_MAX: u64 = 2 << 30;

impl Adapter {
    pub(crate) fn do_open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let call = self.begin(Op::Open);
        let (vfs, ino, ctx) = (self.vfs.clone(), self.inode(ino), ctx(request));
        let kills = sys::open_kills_set_id(request);
        self.serve_to_end(async move {
            answer::opened(call, reply, vfs.open(&ctx, ino, flags.0, kills).await);
        });
    }

    pub(crate) fn do_read(
        &self,
        request: &Request,
        fh: FileHandle,
        offset: u64,
        size: u32,
        reply: ReplyData,
    ) {
        let call = self.begin(Op::Read);
        let vfs = self.vfs.clone();
        self.serve(request, async move {
            answer(call, reply, vfs.read(fh.0, offset, size).await, |reply, data| reply.data(&data));
        });
    }

    pub(crate) fn do_write(
        &self,
        request: &Request,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        reply: ReplyWrite,
    ) {
        let call = self.begin(Op::Write);
        let vfs = self.vfs.clone();
        let kills = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        // Pages of a mapping: they belong where they are, whatever the handle that the kernel picked for them says.
        let mapped = flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        // The buffer belongs to the thread that reads requests; a write that has to wait outlives it.
        let data = Bytes::copy_from_slice(data);
        self.serve(request, async move {
            let written = if mapped {
                vfs.write_mapped(fh.0, offset, data, kills).await
            } else {
                vfs.write(fh.0, offset, data, kills).await
            };
            answer::written(call, reply, written);
        });
    }

    pub(crate) fn do_flush(&self, fh: FileHandle, owner: LockOwner, reply: ReplyEmpty) {
        let call = self.begin(Op::Flush);
        let vfs = self.vfs.clone();
        self.serve_to_end(async move {
            answer::empty(call, reply, vfs.flush(fh.0, owner.0).await);
        });
    }

    pub(crate) fn do_release(&self, fh: FileHandle, flock: Option<LockOwner>, reply: ReplyEmpty) {
        let call = self.begin(Op::Release);
        let vfs = self.vfs.clone();
        self.serve_to_end(async move {
            answer::empty(call, reply, vfs.release(fh.0, flock.map(|o| o.0)).await);
        });
    }

    pub(crate) fn do_fsync(&self, request: &Request, fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        let call = self.begin(Op::Fsync);
        let vfs = self.vfs.clone();
        self.serve(request, async move {
            answer::empty(call, reply, vfs.fsync(fh.0, datasync).await);
        });
    }

    pub(crate) fn do_fallocate(
        &self,
        request: &Request,
        fh: FileHandle,
        (offset, len): (u64, u64),
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let call = self.begin(Op::Fallocate);
        let (vfs, ctx) = (self.vfs.clone(), ctx(request));
        self.serve(request, async move {
            let done = match falloc(mode) {
                Ok(mode) => vfs.fallocate(&ctx, fh.0, mode, offset, len).await,
                Err(e) => Err(e),
            };
            answer::empty(call, reply, done);
        });
    }

    pub(crate) fn do_lseek(
        &self,
        request: &Request,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let call = self.begin(Op::Lseek);
        let vfs = self.vfs.clone();
        self.serve(request, async move {
            let found = match seek(offset, whence) {
                Ok((offset, whence)) => vfs.lseek(fh.0, offset, whence).await,
                Err(e) => Err(e),
            };
            answer(call, reply, found, |reply, at| reply.offset(i64::try_from(at).unwrap_or(i64::MAX)));
        });
    }

    pub(crate) fn do_copy(
        &self,
        request: &Request,
        from: (FileHandle, u64),
        to: (FileHandle, u64),
        len: u64,
        reply: ReplyWrite,
    ) {
        let call = self.begin(Op::CopyFileRange);
        let (vfs, ctx) = (self.vfs.clone(), ctx(request));
        let len = len.min(COPY_MAX);
        self.serve(request, async move {
            let copied = vfs.copy_file_range(&ctx, (from.0.0, from.1), (to.0.0, to.1), len).await;
            answer::written(call, reply, copied.map(|n| n as u32));
        });
    }
}

/// The kernel lets these through; everything else (collapse, insert, unshare) is refused here.
fn falloc(mode: i32) -> FsResult<Falloc> {
    use libc::{FALLOC_FL_KEEP_SIZE as KEEP, FALLOC_FL_PUNCH_HOLE as PUNCH, FALLOC_FL_ZERO_RANGE as ZERO};
    match mode {
        0 => Ok(Falloc::Allocate { keep_size: false }),
        KEEP => Ok(Falloc::Allocate { keep_size: true }),
        m if m == PUNCH | KEEP => Ok(Falloc::PunchHole),
        ZERO => Ok(Falloc::ZeroRange { keep_size: false }),
        m if m == ZERO | KEEP => Ok(Falloc::ZeroRange { keep_size: true }),
        _ => Err(FsError::NotSupported),
    }
}

/// The kernel answers SEEK_SET, SEEK_CUR and SEEK_END itself.
fn seek(offset: i64, whence: i32) -> FsResult<(u64, SeekWhence)> {
    let offset = u64::try_from(offset).map_err(|_| FsError::BeyondEnd)?;
    match whence {
        libc::SEEK_DATA => Ok((offset, SeekWhence::Data)),
        libc::SEEK_HOLE => Ok((offset, SeekWhence::Hole)),
        _ => Err(FsError::Invalid("whence of lseek")),
    }
}
