//! The one place that has the shape of `fuser`'s trait: every method hands over to the file that knows its subject.

use crate::adapter::Adapter;
use crate::attrs::Wanted;
use crate::locks::Range;
use crate::stats::Op;
use crate::{kernel, names};
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, INodeNo, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr,
    ReplyBmap, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::path::Path;
use std::time::SystemTime;

type Req = Request;
type Ino = INodeNo;
type Fh = FileHandle;

impl Filesystem for Adapter {
    fn init(&mut self, _: &Req, config: &mut KernelConfig) -> std::io::Result<()> {
        kernel::negotiate(config);
        Ok(())
    }

    fn lookup(&self, r: &Req, parent: Ino, name: &OsStr, reply: ReplyEntry) {
        self.do_lookup(r, parent, name, reply);
    }

    fn getattr(&self, r: &Req, ino: Ino, fh: Option<Fh>, reply: ReplyAttr) {
        self.do_getattr(r, ino, fh, reply);
    }

    fn setattr(
        &self,
        r: &Req,
        ino: Ino,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<Fh>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.do_setattr(r, ino, fh, Wanted { mode, uid, gid, size, atime, mtime }, reply);
    }

    fn readlink(&self, r: &Req, ino: Ino, reply: ReplyData) {
        self.do_readlink(r, ino, reply);
    }

    fn mknod(&self, r: &Req, parent: Ino, name: &OsStr, mode: u32, _: u32, rdev: u32, reply: ReplyEntry) {
        self.do_make(Op::Mknod, r, (parent, name), names::special(r, mode, rdev), reply);
    }

    fn mkdir(&self, r: &Req, parent: Ino, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        self.do_make(Op::Mkdir, r, (parent, name), Ok(names::directory(r, mode)), reply);
    }

    fn symlink(&self, r: &Req, parent: Ino, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.do_make(Op::Symlink, r, (parent, name), names::symlink(r, target), reply);
    }

    fn unlink(&self, r: &Req, parent: Ino, name: &OsStr, reply: ReplyEmpty) {
        self.do_remove(Op::Unlink, r, parent, name, reply);
    }

    fn rmdir(&self, r: &Req, parent: Ino, name: &OsStr, reply: ReplyEmpty) {
        self.do_remove(Op::Rmdir, r, parent, name, reply);
    }

    fn rename(
        &self,
        r: &Req,
        parent: Ino,
        name: &OsStr,
        newparent: Ino,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.do_rename(r, (parent, name), (newparent, newname), flags, reply);
    }

    fn link(&self, r: &Req, ino: Ino, newparent: Ino, newname: &OsStr, reply: ReplyEntry) {
        self.do_link(r, ino, (newparent, newname), reply);
    }

    fn open(&self, r: &Req, ino: Ino, flags: OpenFlags, reply: ReplyOpen) {
        self.do_open(r, ino, flags, reply);
    }

    fn create(&self, r: &Req, parent: Ino, name: &OsStr, mode: u32, _: u32, flags: i32, reply: ReplyCreate) {
        self.do_create(r, (parent, name), mode, flags, reply);
    }

    fn read(
        &self,
        r: &Req,
        _ino: Ino,
        fh: Fh,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.do_read(r, fh, offset, size, reply);
    }

    fn write(
        &self,
        r: &Req,
        _ino: Ino,
        fh: Fh,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.do_write(r, fh, offset, data, write_flags, reply);
    }

    fn flush(&self, _: &Req, _ino: Ino, fh: Fh, lock_owner: LockOwner, reply: ReplyEmpty) {
        self.do_flush(fh, lock_owner, reply);
    }

    fn release(
        &self,
        _: &Req,
        _ino: Ino,
        fh: Fh,
        _flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.do_release(fh, lock_owner, reply);
    }

    fn fsync(&self, r: &Req, _ino: Ino, fh: Fh, datasync: bool, reply: ReplyEmpty) {
        self.do_fsync(r, fh, datasync, reply);
    }

    fn opendir(&self, r: &Req, ino: Ino, _flags: OpenFlags, reply: ReplyOpen) {
        self.do_opendir(r, ino, reply);
    }

    fn readdir(&self, r: &Req, _ino: Ino, fh: Fh, offset: u64, reply: ReplyDirectory) {
        self.do_readdir(r, fh, offset, reply);
    }

    fn readdirplus(&self, r: &Req, _ino: Ino, fh: Fh, offset: u64, reply: ReplyDirectoryPlus) {
        self.do_readdirplus(r, fh, offset, reply);
    }

    fn releasedir(&self, _: &Req, _ino: Ino, fh: Fh, _flags: OpenFlags, reply: ReplyEmpty) {
        self.do_releasedir(fh, reply);
    }

    fn fsyncdir(&self, r: &Req, _ino: Ino, fh: Fh, _datasync: bool, reply: ReplyEmpty) {
        self.do_fsyncdir(r, fh, reply);
    }

    fn statfs(&self, _: &Req, ino: Ino, reply: ReplyStatfs) {
        self.do_statfs(ino, reply);
    }

    fn setxattr(&self, r: &Req, ino: Ino, name: &OsStr, v: &[u8], flags: i32, _: u32, reply: ReplyEmpty) {
        self.do_setxattr(r, ino, name, v, flags, reply);
    }

    fn getxattr(&self, r: &Req, ino: Ino, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.do_getxattr(r, ino, name, size, reply);
    }

    fn listxattr(&self, r: &Req, ino: Ino, size: u32, reply: ReplyXattr) {
        self.do_listxattr(r, ino, size, reply);
    }

    fn removexattr(&self, r: &Req, ino: Ino, name: &OsStr, reply: ReplyEmpty) {
        self.do_removexattr(r, ino, name, reply);
    }

    fn getlk(
        &self,
        r: &Req,
        _ino: Ino,
        fh: Fh,
        owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        self.do_getlk(r, fh, Range { owner, start, end, typ, pid }, reply);
    }

    fn setlk(
        &self,
        r: &Req,
        _ino: Ino,
        fh: Fh,
        owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        pid: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        self.do_setlk(r, fh, Range { owner, start, end, typ, pid }, sleep, reply);
    }

    fn fallocate(&self, r: &Req, _ino: Ino, fh: Fh, offset: u64, len: u64, mode: i32, reply: ReplyEmpty) {
        self.do_fallocate(r, fh, (offset, len), mode, reply);
    }

    fn lseek(&self, r: &Req, _ino: Ino, fh: Fh, offset: i64, whence: i32, reply: ReplyLseek) {
        self.do_lseek(r, fh, offset, whence, reply);
    }

    fn copy_file_range(
        &self,
        r: &Req,
        _ino_in: Ino,
        fh_in: Fh,
        offset_in: u64,
        _ino_out: Ino,
        fh_out: Fh,
        offset_out: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        self.do_copy(r, (fh_in, offset_in), (fh_out, offset_out), len, reply);
    }

    // With ENOSYS the kernel answers these by itself from now on.

    fn access(&self, _: &Req, _ino: Ino, _mask: AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn bmap(&self, _: &Req, _ino: Ino, _blocksize: u32, _idx: u64, reply: ReplyBmap) {
        reply.error(Errno::ENOSYS);
    }

    fn poll(
        &self,
        _: &Req,
        _ino: Ino,
        _fh: Fh,
        _ph: PollNotifier,
        _events: PollEvents,
        _flags: PollFlags,
        reply: ReplyPoll,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn ioctl(
        &self,
        _: &Req,
        _ino: Ino,
        _fh: Fh,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }
}
