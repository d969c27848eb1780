//! Letting go of callers that are being killed.
//!
//! While the store is away a call may wait for minutes, and a process that is killed meanwhile should be gone at once.
//! The kernel does not let it go: once a request has been read by a daemon, it waits for the reply, killed or not, unless
//! the daemon acts upon INTERRUPT, which `fuser` does not pass on (see `locks`). So the daemon looks itself, once a second,
//! whether a caller of a call that has waited for long has SIGKILL pending (as has everyone whom a signal ends), and if so
//! answers EINTR. The call itself goes on to its end: nothing is left half done, and a process that is being killed sees
//! no errno.
//!
//! Calls that open or close something are left alone: an answer that nobody takes would leave a handle open for ever.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the waiting callers are looked at, and how long a call waits before its caller is.
const LOOK: Duration = Duration::from_secs(1);

/// Calls that wait, by the number of their request.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    calls: Mutex<HashMap<u64, Caller>>,
}

#[derive(Clone, Copy, Debug)]
struct Caller {
    thread: u32,
    since: Instant,
}

/// A call that waits, until it is dropped.
#[derive(Debug)]
pub(crate) struct Waits {
    waiting: Arc<Waiting>,
    unique: u64,
}

impl Waiting {
    /// Notes a call. Callers that this daemon cannot see have thread 0 and are not noted.
    pub(crate) fn enter(self: &Arc<Self>, unique: u64, thread: u32) -> Option<Waits> {
        if thread == 0 {
            return None;
        }
        self.calls.lock().insert(unique, Caller { thread, since: Instant::now() });
        Some(Waits { waiting: self.clone(), unique })
    }

    /// Takes out the calls whose callers are being killed.
    fn take_killed(&self, is_killed: impl Fn(u32) -> bool) -> Vec<u64> {
        let late: Vec<(u64, u32)> = {
            let calls = self.calls.lock();
            calls
                .iter()
                .filter(|(_, c)| c.since.elapsed() >= LOOK)
                .map(|(unique, c)| (*unique, c.thread))
                .collect()
        };
        let killed: Vec<u64> =
            late.into_iter().filter(|(_, thread)| is_killed(*thread)).map(|(u, _)| u).collect();
        let mut calls = self.calls.lock();
        // One that was answered meanwhile is not answered twice.
        killed.into_iter().filter(|unique| calls.remove(unique).is_some()).collect()
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.waiting.calls.lock().remove(&self.unique);
    }
}

/// Looks at the waiting callers until the mount's device is gone.
pub(crate) async fn watch(waiting: std::sync::Weak<Waiting>, device: OwnedFd) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(waiting) = waiting.upgrade() else { return };
        for unique in waiting.take_killed(is_killed) {
            match rustix::io::write(&device, &interrupted(unique)) {
                Ok(_) => tracing::info!(request = unique, "let go of a caller that is being killed"),
                Err(rustix::io::Errno::NODEV) => return,
                // Answered a moment ago.
                Err(error) => {
                    tracing::debug!(request = unique, %error, "a killed caller was answered already")
                }
            }
        }
    }
}

fn is_killed(thread: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    killed_in(&status)
}

fn killed_in(status: &str) -> bool {
    const SIGKILL: u64 = 1 << (libc::SIGKILL - 1);
    let pending = status.lines().filter_map(|line| {
        let mask = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    });
    pending.fold(0, |all, mask| all | mask) & SIGKILL != 0
}

/// `fuse_out_header` of an error: length, negative errno, number of the request.
fn interrupted(unique: u64) -> [u8; 16] {
    let mut message = [0u8; 16];
    message[0..4].copy_from_slice(&16u32.to_ne_bytes());
    message[4..8].copy_from_slice(&(-libc::EINTR).to_ne_bytes());
    message[8..16].copy_from_slice(&unique.to_ne_bytes());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_caller_with_sigkill_pending_is_being_killed() {
        let status =
            |pnd: u64, shd: u64| format!("SigPnd:\t{pnd:016x}\nShdPnd:\t{shd:016x}\nSigBlk:\t{0:016x}\n", 0);
        assert!(killed_in(&status(1 << 8, 0)) && killed_in(&status(0, 1 << 8 | 1 << 2)));
        assert!(!killed_in(&status(1 << 14, 1 << 13)) && !killed_in(""));
    }

    #[test]
    fn a_call_is_let_go_once_and_only_after_it_has_waited() {
        let waiting = Arc::new(Waiting::default());
        assert!(waiting.enter(1, 0).is_none(), "a caller of another process namespace");
        let first = waiting.enter(7, 42).unwrap();
        assert!(waiting.take_killed(|_| true).is_empty(), "too soon");
        waiting.calls.lock().get_mut(&7).unwrap().since -= LOOK;
        assert!(waiting.take_killed(|_| false).is_empty());
        assert_eq!(waiting.take_killed(|thread| thread == 42), [7]);
        assert!(waiting.take_killed(|_| true).is_empty(), "once");
        drop(first);
        assert!(waiting.calls.lock().is_empty());
    }
}
