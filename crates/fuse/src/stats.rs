//! What the kernel asked for, how often, how long it took and how it failed.
//!
//! A request carries a [`Call`] from the moment in which it was read to its answer; it is counted *before* the answer is sent,
//! so that whoever got the answer finds it counted. Counting is a few additions to atomics.

use carafe_types::{Latencies, Latency};
use fuser::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Errno numbers counted one by one; Linux has none above 133.
const ERRNOS: usize = 134;

macro_rules! ops {
    ($($op:ident $name:literal),* $(,)?) => {
        /// The kinds of requests that are counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Op { $($op),* }

        /// Their names, in the order of the kinds.
        const NAMES: &[&str] = &[$($name),*];
    };
}

ops!(
    Lookup "lookup", Getattr "getattr", Setattr "setattr", Readlink "readlink", Mknod "mknod", Mkdir "mkdir",
    Symlink "symlink", Unlink "unlink", Rmdir "rmdir", Rename "rename", Link "link", Open "open", Create "create",
    Read "read", Write "write", Flush "flush", Release "release", Fsync "fsync", Opendir "opendir",
    Readdir "readdir", Readdirplus "readdirplus", Releasedir "releasedir", Fsyncdir "fsyncdir", Statfs "statfs",
    Setxattr "setxattr", Getxattr "getxattr", Listxattr "listxattr", Removexattr "removexattr", Getlk "getlk",
    Setlk "setlk", Fallocate "fallocate", Lseek "lseek", CopyFileRange "copy_file_range",
);

impl Op {
    pub(crate) fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// Requests of one mount since it began.
#[derive(Debug)]
pub struct FuseStats(Vec<Cells>);

#[derive(Debug)]
struct Cells {
    latency: Latency,
    errors: [AtomicU64; ERRNOS],
}

/// Requests of one kind at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpStats {
    /// The kind, in the kernel's word.
    pub name: &'static str,
    /// How long answers took; its count is the number of answered requests, failed ones included.
    pub latency: Latencies,
    /// Errno (`ENOENT`) and how often it was the answer; only those that were.
    pub errors: Vec<(&'static str, u64)>,
}

impl Default for FuseStats {
    fn default() -> Self {
        let cells =
            || Cells { latency: Latency::default(), errors: std::array::from_fn(|_| AtomicU64::new(0)) };
        FuseStats(NAMES.iter().map(|_| cells()).collect())
    }
}

impl FuseStats {
    /// All kinds, those that were never asked for included.
    pub fn snapshot(&self) -> Vec<OpStats> {
        let all = NAMES.iter().zip(&self.0);
        all.map(|(name, cells)| OpStats { name, latency: cells.latency.snapshot(), errors: cells.errors() })
            .collect()
    }

    pub(crate) fn begin(self: &Arc<Self>, op: Op) -> Call {
        Call { stats: self.clone(), op, begun: Instant::now(), outcome: libc::EIO }
    }
}

impl Cells {
    fn errors(&self) -> Vec<(&'static str, u64)> {
        let mut all: Vec<(&'static str, u64)> = Vec::new();
        for (errno, n) in self.errors.iter().enumerate() {
            let n = n.load(Relaxed);
            if n == 0 {
                continue;
            }
            let name = crate::errno::name(errno as i32);
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += n,
                None => all.push((name, n)),
            }
        }
        all
    }
}

/// A request under way. Dropped without a word, it was lost to a panic or its caller was killed, and the kernel gets EIO.
#[derive(Debug)]
pub(crate) struct Call {
    stats: Arc<FuseStats>,
    op: Op,
    begun: Instant,
    outcome: i32,
}

impl Call {
    pub(crate) fn op(&self) -> Op {
        self.op
    }

    /// It is about to be answered well.
    pub(crate) fn done(mut self) {
        self.outcome = 0;
    }

    /// It is about to be answered with an error.
    pub(crate) fn failed(mut self, errno: Errno) {
        self.outcome = errno.code();
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let cells = &self.stats.0[self.op as usize];
        cells.latency.record(self.begun.elapsed());
        if self.outcome != 0 {
            let place = usize::try_from(self.outcome).ok().filter(|n| *n < ERRNOS).unwrap_or(0);
            cells.errors[place].fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_kind_and_errno_and_a_lost_call_is_eio() {
        let stats = Arc::new(FuseStats::default());
        stats.begin(Op::Lookup).done();
        stats.begin(Op::Lookup).failed(Errno::ENOENT);
        drop(stats.begin(Op::CopyFileRange));
        let all = stats.snapshot();
        let of = |name| all.iter().find(|op| op.name == name).unwrap();
        assert_eq!((of("lookup").latency.count(), of("lookup").errors.as_slice()), (2, &[("ENOENT", 1)][..]));
        assert_eq!(of("copy_file_range").errors, [("EIO", 1)]);
        assert_eq!(of("read").latency.count(), 0);
    }
}
