//! Micro-benchmarks of a directory, whatever file system it is on.
//!
//! Each row is a few system calls in a loop, in this process: what is measured is the file system and the kernel, not an interpreter or the
//! start of a process. Rows that need caches emptied take a callback that does it, since only the caller knows how.
//!
//! 1. Slow and fast systems are measured by the same loop: it stops at a count or at a time, whichever comes first ([`Budget`]).
//! 2. Data is incompressible and differs from file to file, so that no deduplication or compression helps ([`noise`]).
//! 3. Page cache is dropped per file with `posix_fadvise`, which needs no privileges and leaves the rest of the machine alone.

mod big;
mod noise;
mod parts;
mod small;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

pub(crate) use big::BigFile;
pub(crate) use parts::{PART_FILES, many_files, publish_parts};
pub(crate) use small::SmallFiles;

/// When a loop ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    pub(crate) count_max: u64,
    pub(crate) time_max: Duration,
}

/// How often something was done in how much time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rate {
    pub(crate) count: u64,
    pub(crate) seconds: f64,
}

impl Rate {
    pub(crate) fn per_second(self) -> f64 {
        if self.seconds > 0.0 { self.count as f64 / self.seconds } else { 0.0 }
    }
}

impl Budget {
    pub(crate) const fn new(count_max: u64, seconds_max: u64) -> Self {
        Self { count_max, time_max: Duration::from_secs(seconds_max) }
    }

    /// Calls `work` with 0, 1, 2... until the budget is spent.
    pub(crate) fn spend(self, mut work: impl FnMut(u64) -> Result<()>) -> Result<Rate> {
        let start = Instant::now();
        let mut count = 0;
        while count < self.count_max && start.elapsed() < self.time_max {
            work(count)?;
            count += 1;
        }
        Ok(Rate { count, seconds: start.elapsed().as_secs_f64() })
    }
}

/// Tells the kernel to forget what it has of a file: clean pages only, so dirty ones are written first.
pub(crate) fn forget_pages(path: &Path) -> Result<()> {
    let file = std::fs::File::open(path)?;
    // A file that cannot be synced has nothing dirty.
    let _ = file.sync_data();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// [`forget_pages`] of all files below a directory, for example of a local cache.
pub(crate) fn forget_pages_below(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        // Caches remove files meanwhile.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                let _ = forget_pages_below(&entry.path());
            }
            Ok(kind) if kind.is_file() => {
                let _ = forget_pages(&entry.path());
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_at_its_count_or_at_its_time() {
        let rate = Budget::new(5, 60).spend(|_| Ok(())).unwrap();
        assert_eq!(rate.count, 5);
        let short = Budget { count_max: u64::MAX, time_max: Duration::from_millis(20) };
        let rate = short
            .spend(|_| {
                std::thread::sleep(Duration::from_millis(5));
                Ok(())
            })
            .unwrap();
        assert!(rate.count >= 2 && rate.count <= 5, "{rate:?}");
    }
}
