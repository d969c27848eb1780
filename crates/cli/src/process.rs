//! Processes of this machine, named so that a number given again is not taken for the old one.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// A process: its number and when it began, in clock ticks since boot (`/proc/<pid>/stat`, field 22).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    pub(crate) pid: u32,
    pub(crate) began: u64,
}

impl ProcessId {
    /// This process.
    pub(crate) fn own() -> Option<Self> {
        let pid = std::process::id();
        look(pid).map(|(began, _)| ProcessId { pid, began })
    }

    /// Whether it runs. One that waits to be reaped does not.
    pub(crate) fn runs(self) -> bool {
        look(self.pid).is_some_and(|(began, state)| began == self.began && state != 'Z')
    }

    /// Waits until it has ended; false if it has not in time.
    pub(crate) fn wait(self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while self.runs() {
            if Instant::now() > end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }
}

/// When a process began, and its state.
fn look(pid: u32) -> Option<(u64, char)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, parentheses too.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let began = fields.nth(18)?.parse().ok()?;
    Some((began, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_until_it_ends_and_its_number_alone_is_not_it() {
        let own = ProcessId::own().unwrap();
        assert!(own.runs());
        assert!(!ProcessId { began: own.began + 1, ..own }.runs());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (began, _) = look(child.id()).unwrap();
        let id = ProcessId { pid: child.id(), began };
        assert!(id.runs() && !id.wait(Duration::from_millis(1)));
        child.kill().unwrap();
        assert!(id.wait(Duration::from_secs(5)), "not reaped yet, but ended");
        child.wait().unwrap();
    }
}
