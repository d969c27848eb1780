//! `flock`, POSIX record locks and open file description locks.
//!
//! **Waiting.** Every other call is answered whatever happens, but a lock may be waited for without end, so a signal must
//! end that wait. The kernel tells of it by an INTERRUPT request, which `fuser` 0.18 answers itself with "unknown"; the
//! kernel then never sends one again, and waits for the reply even if the caller is being killed. So while a call waits
//! for a lock, the daemon looks itself whether a signal is pending for the caller, ten times a second, and answers
//! EINTR then. It sees callers of its own and of nested process namespaces; from others a wait ends with the lock.

use crate::adapter::Adapter;
use crate::answer::{self, answer};
use crate::stats::Op;
use crate::sys;
use crate::vfs::LockRequest;
use carafe_types::record::{Held, LockKind, LockType};
use carafe_types::{FsError, FsResult};
use fuser::{Errno, FileHandle, LockOwner, ReplyEmpty, ReplyLock, Request};
use std::time::Duration;

/// How often the caller's signals are looked at while it waits.
const SIGNAL_CHECK: Duration = Duration::from_millis(100);

/// A lock call's range and owner as the kernel gives them.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub(crate) owner: LockOwner,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) typ: i32,
    pub(crate) pid: u32,
}

impl Adapter {
    pub(crate) fn do_getlk(&self, request: &Request, fh: FileHandle, range: Range, reply: ReplyLock) {
        let call = self.begin(Op::Getlk);
        let vfs = self.vfs.clone();
        self.serve(request, async move {
            let held = match lock_request(LockKind::Posix, range) {
                Ok(lock) => vfs.getlk(fh.0, &lock).await,
                Err(e) => Err(e),
            };
            answer(call, reply, held, |reply, held: Option<Held>| match held {
                Some(h) => reply.locked(h.start, kernel_end(h.end), type_number(h.typ), h.pid),
                None => reply.locked(0, 0, i32::from(libc::F_UNLCK as i16), 0),
            });
        });
    }

    pub(crate) fn do_setlk(
        &self,
        request: &Request,
        fh: FileHandle,
        range: Range,
        wait: bool,
        reply: ReplyEmpty,
    ) {
        let call = self.begin(Op::Setlk);
        let vfs = self.vfs.clone();
        let kind = if sys::is_flock(request) { LockKind::Flock } else { LockKind::Posix };
        let caller = request.pid();
        self.serve_to_end(async move {
            let lock = match lock_request(kind, range) {
                Ok(lock) => lock,
                Err(e) => return answer::refuse(call, reply, &e),
            };
            loop {
                let done = vfs.setlk(fh.0, &lock, wait.then_some(SIGNAL_CHECK)).await;
                match done {
                    Err(FsError::WouldBlock) if wait && !signal_pending(caller) => {}
                    Err(FsError::WouldBlock) if wait => {
                        call.failed(Errno::EINTR);
                        return reply.error(Errno::EINTR);
                    }
                    done => return answer::empty(call, reply, done),
                }
            }
        });
    }
}

fn lock_request(kind: LockKind, range: Range) -> FsResult<LockRequest> {
    let typ = match range.typ {
        libc::F_RDLCK => Some(LockType::Shared),
        libc::F_WRLCK => Some(LockType::Exclusive),
        libc::F_UNLCK => None,
        _ => return Err(FsError::Invalid("type of lock")),
    };
    let (start, end) = match kind {
        LockKind::Flock => (0, u64::MAX),
        // The kernel's "to the end of the file" is the largest signed offset.
        LockKind::Posix if range.end >= i64::MAX as u64 => (range.start, u64::MAX),
        LockKind::Posix => (range.start, range.end),
    };
    if start > end {
        return Err(FsError::Invalid("range of lock"));
    }
    Ok(LockRequest { kind, owner: range.owner.0, start, end, typ, pid: range.pid })
}

fn kernel_end(end: u64) -> u64 {
    end.min(i64::MAX as u64)
}

fn type_number(typ: LockType) -> i32 {
    match typ {
        LockType::Shared => libc::F_RDLCK,
        LockType::Exclusive => libc::F_WRLCK,
    }
}

/// Whether a signal waits for this thread that it neither blocks nor ignores. A thread that is gone counts as such.
fn signal_pending(thread: u32) -> bool {
    if thread == 0 {
        return false; // of a process namespace that this daemon cannot see
    }
    match std::fs::read_to_string(format!("/proc/{thread}/status")) {
        Ok(status) => pending_in(&status),
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
    }
}

fn pending_in(status: &str) -> bool {
    let mask = |field: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(field))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    let of = |field| mask(field).unwrap_or(0);
    (of("SigPnd:") | of("ShdPnd:")) & !of("SigBlk:") & !of("SigIgn:") != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_signal_counts_unless_it_is_blocked_or_ignored() {
        let status = |pnd: u64, shd: u64, blk: u64, ign: u64| {
            format!(
                "Name:\tx\nSigPnd:\t{pnd:016x}\nShdPnd:\t{shd:016x}\nSigBlk:\t{blk:016x}\nSigIgn:\t{ign:016x}\n"
            )
        };
        assert!(pending_in(&status(1 << 8, 0, 0, 0)), "SIGKILL");
        assert!(pending_in(&status(0, 1 << 13, 0, 0)), "SIGALRM of the process");
        assert!(!pending_in(&status(0, 1 << 13, 1 << 13, 0)));
        assert!(!pending_in(&status(0, 1 << 16, 0, 1 << 16)));
        assert!(!pending_in(&status(0, 0, 0, 0)) && !pending_in("nonsense"));
    }

    #[test]
    fn a_lock_to_the_end_of_the_file_reaches_to_the_end_of_all_files() {
        let range = Range { owner: LockOwner(1), start: 5, end: i64::MAX as u64, typ: libc::F_WRLCK, pid: 1 };
        let posix = lock_request(LockKind::Posix, range).unwrap();
        assert_eq!((posix.start, posix.end), (5, u64::MAX));
        let flock = lock_request(LockKind::Flock, range).unwrap();
        assert_eq!((flock.start, flock.end), (0, u64::MAX));
        assert!(lock_request(LockKind::Posix, Range { typ: 99, ..range }).is_err());
    }
}
