//! What of `stat` must be equal on the mount and on the reference, and the rules for times.
//!
//! Times cannot be equal, so they are put into two classes. A time that utimensat set lies well away from the present and must be
//! equal to the nanosecond; any other time must lie between the start of the test and now. Whether an operation moved a
//! time is compared too, by [`Moved`].

use std::os::fd::BorrowedFd;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, Stat, fstat, statat};
use rustix::io::Errno;

/// 2020 and 2100: explicit times lie outside, the clock of the machine within.
const PRESENT: std::ops::Range<i64> = 1_577_836_800..4_102_444_800;
/// How far the clocks of store, daemon and kernel may disagree: kernel times come in ticks.
const SLACK_NS: i128 = 2_000_000_000;

/// A point in time as `stat` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamp {
    Set(i64, u64),
    Now,
    /// In the present, but not between the start of the test and now.
    Wrong(i64, u64),
}

/// The clock of a test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start_ns: i128,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start_ns: now_ns() }
    }

    fn class(self, seconds: i64, ns: u64) -> Stamp {
        if !PRESENT.contains(&seconds) {
            return Stamp::Set(seconds, ns);
        }
        let at = i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        let fits = at >= self.start_ns - SLACK_NS && at <= now_ns() + SLACK_NS;
        if fits { Stamp::Now } else { Stamp::Wrong(seconds, ns) }
    }
}

fn now_ns() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as i128)
}

/// The fields that must be equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attr {
    pub(crate) kind: FileType,
    pub(crate) mode: u32,
    pub(crate) nlink: u64,
    /// `None` for directories: each file system counts them its own way.
    pub(crate) size: Option<u64>,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) times: Times,
}

/// Modification and change time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) mtime: Stamp,
    pub(crate) ctime: Stamp,
}

impl Attr {
    pub(crate) fn of(stat: &Stat, clock: Clock) -> Self {
        let kind = FileType::from_raw_mode(stat.st_mode);
        Self {
            kind,
            mode: stat.st_mode & 0o7777,
            nlink: stat.st_nlink,
            size: (kind != FileType::Directory).then_some(stat.st_size as u64),
            uid: stat.st_uid,
            gid: stat.st_gid,
            times: Times {
                mtime: clock.class(stat.st_mtime, stat.st_mtime_nsec),
                ctime: clock.class(stat.st_ctime, stat.st_ctime_nsec),
            },
        }
    }

    /// Whether all is equal; of times that are `free` only that they are not wrong.
    pub(crate) fn matches(&self, other: &Self, free: bool) -> bool {
        let wrong = |stamp| matches!(stamp, Stamp::Wrong(..));
        // Times of a fifo move in the kernel, and FUSE is not told.
        let times = if free || self.kind == FileType::Fifo {
            !wrong(other.times.mtime) && !wrong(other.times.ctime)
        } else {
            self.times == other.times
        };
        times && *self == Self { times: self.times, ..other.clone() }
    }
}

/// Attributes and raw times before an operation, to see what it moved.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    pub(crate) attr: Attr,
    pub(crate) ino: u64,
    mtime: (i64, u64),
    ctime: (i64, u64),
}

impl Probe {
    fn of(stat: &Stat, clock: Clock) -> Self {
        Self {
            attr: Attr::of(stat, clock),
            ino: stat.st_ino,
            mtime: (stat.st_mtime, stat.st_mtime_nsec),
            ctime: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    pub(crate) fn of_path(root: BorrowedFd<'_>, path: &str, clock: Clock) -> Result<Self, Errno> {
        Ok(Self::of(&statat(root, path, AtFlags::SYMLINK_NOFOLLOW)?, clock))
    }

    pub(crate) fn of_handle(fd: BorrowedFd<'_>, clock: Clock) -> Result<Self, Errno> {
        Ok(Self::of(&fstat(fd)?, clock))
    }
}

/// What an operation did to the times of one inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) mtime: bool,
    pub(crate) ctime: bool,
}

impl Moved {
    /// `None` if the two are not the same inode. An error if a time that nobody set went back.
    pub(crate) fn between(before: &Probe, after: &Probe) -> Result<Option<Self>, String> {
        if before.ino != after.ino {
            return Ok(None);
        }
        let free = |probe: &Probe| probe.attr.times.mtime == Stamp::Now;
        if after.ctime < before.ctime || (free(before) && free(after) && after.mtime < before.mtime) {
            return Err(format!("a time went back: {before:?} -> {after:?}"));
        }
        Ok(Some(Self { mtime: before.mtime != after.mtime, ctime: before.ctime != after.ctime }))
    }
}
