//! Carries out one operation of the random model on one side, the mount or the reference. Calls through a handle are in
//! [`super::exec_handle`].

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, RawDir, RenameFlags, Timespec, Timestamps, UTIME_NOW,
    UTIME_OMIT, Uid, XattrFlags, chmodat, chownat, fsync, linkat, mkdirat, mknodat, openat, readlinkat,
    renameat_with, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::attr::{Attr, Clock};
use super::ops::{Access, How, Move, Op, Path, Put, SLOTS, When, expand};
use super::{exec_handle, sys};

/// What an operation gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// There was no handle in the slot.
    Idle,
    Done,
    Count(u64),
    Bytes(Vec<u8>),
    /// With the inode number.
    Attr(Attr, u64),
    Names(BTreeMap<String, FileType>),
    Words(Vec<String>),
    /// A promise of POSIX that needs no comparison is broken.
    Broken(String),
}

/// The result of an operation.
pub(crate) type Outcome = Result<Seen, Errno>;

/// One side, as an operation sees it.
pub(crate) struct Side<'a> {
    pub(crate) root: BorrowedFd<'a>,
    pub(crate) slots: [Option<BorrowedFd<'a>>; SLOTS],
    pub(crate) reference: bool,
    pub(crate) direct: bool,
    pub(crate) clock: Clock,
}

impl Side<'_> {
    /// A path for calls that take no directory handle.
    fn absolute(&self, path: Path) -> String {
        format!("/proc/self/fd/{}/{}", self.root.as_raw_fd(), expand(path))
    }

    /// open(2); the new handle.
    pub(crate) fn open(&self, path: Path, how: How, mode: u32) -> Result<OwnedFd, Errno> {
        let access = match how.access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::WRONLY,
            Access::Both => OFlags::RDWR,
        };
        // Never waits for the other end of a fifo.
        let mut flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK;
        flags.set(OFlags::CREATE, how.create);
        flags.set(OFlags::EXCL, how.excl);
        flags.set(OFlags::TRUNC, how.trunc);
        flags.set(OFlags::APPEND, how.append);
        flags.set(OFlags::NOFOLLOW, how.nofollow);
        flags.set(OFlags::DIRECTORY, how.directory);
        flags.set(OFlags::DIRECT, how.direct && self.direct && self.is_file_or_absent(path));
        openat(self.root, &*expand(path), flags, Mode::from_raw_mode(mode))
    }

    /// O_DIRECT means something else for a fifo.
    fn is_file_or_absent(&self, path: Path) -> bool {
        statat(self.root, &*expand(path), AtFlags::empty())
            .map_or(true, |stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    }

    /// Every operation but [`Op::Open`] and [`Op::Close`], which change the slots.
    pub(crate) fn run(&self, op: &Op) -> Outcome {
        let none = AtFlags::empty();
        let link = |follow: bool| if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        match op {
            Op::WriteFile { path, data } => self.write_file(path, &data.bytes()),
            Op::ReadFile { path } => {
                exec_handle::read_ends(openat(self.root, &*expand(path), READ, Mode::empty())?.as_fd())
            }
            Op::Truncate { path, size } => done(sys::truncate(&self.absolute(path), *size)),
            Op::Mkdir { path, mode } => done(mkdirat(self.root, &*expand(path), Mode::from_raw_mode(*mode))),
            Op::Rmdir { path } => done(unlinkat(self.root, &*expand(path), AtFlags::REMOVEDIR)),
            Op::Unlink { path } => done(unlinkat(self.root, &*expand(path), none)),
            Op::Symlink { path, target } => done(symlinkat(&*expand(target), self.root, &*expand(path))),
            Op::Readlink { path } => {
                let target = readlinkat(self.root, &*expand(path), Vec::new())?;
                Ok(Seen::Bytes(target.into_bytes()))
            }
            Op::Link { from, to } => done(linkat(self.root, &*expand(from), self.root, &*expand(to), none)),
            Op::Rename { from, to, how } => {
                done(renameat_with(self.root, &*expand(from), self.root, &*expand(to), rename_flags(*how)))
            }
            Op::Mknod { path, socket, mode } => {
                let kind = if *socket { FileType::Socket } else { FileType::Fifo };
                done(mknodat(self.root, &*expand(path), kind, Mode::from_raw_mode(*mode), 0))
            }
            Op::Chmod { path, mode } => {
                done(chmodat(self.root, &*expand(path), Mode::from_raw_mode(*mode), none))
            }
            Op::Chown { path, uid, gid, follow } => {
                let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                done(chownat(self.root, &*expand(path), uid, gid, link(*follow)))
            }
            Op::Utimens { path, atime, mtime, follow } => self.utimens(path, *atime, *mtime, *follow),
            Op::SetXattr { path, name, value, how } => {
                let flags = match how {
                    Put::Any => XattrFlags::empty(),
                    Put::Create => XattrFlags::CREATE,
                    Put::Replace => XattrFlags::REPLACE,
                };
                done(rustix::fs::lsetxattr(self.absolute(path), *name, &value.bytes(), flags))
            }
            Op::GetXattr { path, name, buffer } => self.get_xattr(path, name, *buffer),
            Op::ListXattr { path } => Ok(Seen::Words(list_xattrs(&self.absolute(path))?)),
            Op::RemoveXattr { path, name } => done(rustix::fs::lremovexattr(self.absolute(path), *name)),
            Op::List { path } => self.list(path),
            Op::ListWhileChanging { path } => self.list_while_changing(path),
            Op::Stat { path, follow } => {
                let stat = statat(self.root, &*expand(path), link(*follow))?;
                Ok(Seen::Attr(Attr::of(&stat, self.clock), stat.st_ino))
            }
            Op::Statfs => Ok(self.statfs()),
            Op::SyncDir { path } => {
                let flags = READ | OFlags::DIRECTORY;
                done(fsync(openat(self.root, &*expand(path), flags, Mode::empty())?))
            }
            _ => exec_handle::run(self, op),
        }
    }

    fn write_file(&self, path: Path, bytes: &[u8]) -> Outcome {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = openat(self.root, &*expand(path), flags, Mode::from_raw_mode(0o666))?;
        Ok(Seen::Count(rustix::io::write(&fd, bytes)? as u64))
    }

    fn utimens(&self, path: Path, atime: When, mtime: When, follow: bool) -> Outcome {
        let times = Timestamps { last_access: timespec(atime), last_modification: timespec(mtime) };
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        utimensat(self.root, &*expand(path), &times, flags)?;
        // Reading may move the access time, each file system by its own rules: it is compared only here.
        let stat = statat(self.root, &*expand(path), flags)?;
        let atime_ns = match atime {
            When::At(..) => stat.st_atime as i128 * 1_000_000_000 + i128::from(stat.st_atime_nsec),
            When::Now | When::Omit => 0,
        };
        Ok(Seen::Words(vec![atime_ns.to_string()]))
    }

    fn get_xattr(&self, path: Path, name: Path, buffer: usize) -> Outcome {
        let path = self.absolute(path);
        if buffer == 0 {
            return Ok(Seen::Count(rustix::fs::lgetxattr_query(path, name)? as u64));
        }
        let mut value = vec![0; buffer];
        let len = rustix::fs::lgetxattr(path, name, &mut value)?;
        value.truncate(len);
        Ok(Seen::Bytes(value))
    }

    fn list(&self, path: Path) -> Outcome {
        let fd = openat(self.root, &*expand(path), READ | OFlags::DIRECTORY, Mode::empty())?;
        let mut names = BTreeMap::new();
        for entry in Dir::read_from(&fd)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !self.reference && name != ".." {
                let stat = statat(&fd, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
                if stat.st_ino != entry.ino() {
                    let text =
                        format!("{name} is inode {} in the list, {} by stat", entry.ino(), stat.st_ino);
                    return Ok(Seen::Broken(text));
                }
            }
            if names.insert(name.clone(), entry.file_type()).is_some() {
                return Ok(Seen::Broken(format!("{name} is listed twice")));
            }
        }
        Ok(Seen::Names(names))
    }

    /// Names that were there before and after come exactly once, whatever happens to others in between.
    fn list_while_changing(&self, path: Path) -> Outcome {
        let dir = openat(self.root, &*expand(path), READ | OFlags::DIRECTORY, Mode::empty())?;
        let touch = |name: &str| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
            openat(&dir, name, flags, Mode::from_raw_mode(0o600)).map(drop)
        };
        let (lasting, passing): (Vec<_>, Vec<_>) =
            (0..12).map(|n| (format!("lasting-{n}"), format!("passing-{n}"))).unzip();
        for name in lasting.iter().chain(&passing) {
            touch(name)?;
        }
        let mut seen = BTreeMap::<String, u32>::new();
        // Room for one name of 255 bytes, or a few short ones.
        let mut buffer = [MaybeUninit::uninit(); 320];
        let mut reader = RawDir::new(&dir, &mut buffer);
        let mut count = 0;
        while let Some(entry) = reader.next() {
            *seen.entry(entry?.file_name().to_string_lossy().into_owned()).or_default() += 1;
            count += 1;
            if let Some(victim) = passing.get(count / 2).filter(|_| count % 2 == 1) {
                unlinkat(&dir, &**victim, AtFlags::empty()).or_else(ignore_absent)?;
                touch(&format!("late-{count}"))?;
            }
        }
        let late = (0..=count).map(|n| format!("late-{n}"));
        for name in lasting.iter().cloned().chain(passing).chain(late) {
            unlinkat(&dir, &*name, AtFlags::empty()).or_else(ignore_absent)?;
        }
        let once =
            lasting.iter().all(|name| seen.contains_key(name)) && seen.values().all(|times| *times == 1);
        if once { Ok(Seen::Done) } else { Ok(Seen::Broken(format!("lasting names not once: {seen:?}"))) }
    }

    fn statfs(&self) -> Seen {
        let Ok(stat) = rustix::fs::fstatvfs(self.root) else { return Seen::Broken("statvfs".into()) };
        let sane = stat.f_bsize > 0
            && stat.f_frsize > 0
            && stat.f_blocks >= stat.f_bfree
            && stat.f_bfree >= stat.f_bavail
            && stat.f_files >= stat.f_ffree
            && stat.f_namemax == 255;
        if sane {
            Seen::Done
        } else {
            Seen::Broken(format!("{} of {} blocks free", stat.f_bfree, stat.f_blocks))
        }
    }
}

const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

fn done(result: Result<(), Errno>) -> Outcome {
    result.map(|()| Seen::Done)
}

fn ignore_absent(error: Errno) -> Result<(), Errno> {
    if error == Errno::NOENT { Ok(()) } else { Err(error) }
}

fn rename_flags(how: Move) -> RenameFlags {
    match how {
        Move::Replace => RenameFlags::empty(),
        Move::NoReplace => RenameFlags::NOREPLACE,
        Move::Exchange => RenameFlags::EXCHANGE,
    }
}

fn timespec(when: When) -> Timespec {
    match when {
        When::Now => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        When::Omit => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        When::At(seconds, ns) => Timespec { tv_sec: seconds, tv_nsec: ns.into() },
    }
}

/// The names of the extended attributes that tests set, sorted.
pub(crate) fn list_xattrs(path: &str) -> Result<Vec<String>, Errno> {
    let mut list = vec![0_u8; 4_096];
    let len = rustix::fs::llistxattr(path, &mut list)?;
    let names = list[..len].split(|byte| *byte == 0).map(|name| String::from_utf8_lossy(name).into_owned());
    // A machine may add its own labels (`security.*`) to what lies on its disk.
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with("user.") || name.starts_with("trusted.")).collect();
    names.sort();
    Ok(names)
}
