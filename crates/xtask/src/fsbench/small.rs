//! Files of 4 KiB: making, reading, looking at, renaming and removing them.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::noise::Noise;
use super::{Budget, Rate};

const SIZE: usize = 4096;

/// A directory of small files; the rows are to be called in the order of the methods.
pub(crate) struct SmallFiles {
    dir: PathBuf,
    count: u64,
}

impl SmallFiles {
    pub(crate) fn new(dir: &Path) -> Result<Self> {
        let dir = dir.join("small");
        fs::create_dir_all(&dir)?;
        Ok(Self { dir, count: 0 })
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("file-{number:06}"))
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> + '_ {
        (0..self.count).map(|number| self.path(number))
    }

    /// Create, write 4 KiB, close. The files of the last call are those that the other rows use.
    pub(crate) fn create(&mut self, budget: Budget) -> Result<Rate> {
        let rate = create_in(&self.dir, "file", budget)?;
        self.count = rate.count;
        Ok(rate)
    }

    /// The same by several threads in one directory.
    pub(crate) fn create_by_threads(&self, threads: u64, budget: Budget) -> Result<Rate> {
        let rates: Vec<Result<Rate>> = std::thread::scope(|scope| {
            let run = |thread: u64| create_in(&self.dir, &format!("thread-{thread}"), budget);
            let all: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
            all.into_iter().map(|one| one.join().expect("no panic in a thread")).collect()
        });
        let mut sum = Rate::default();
        for rate in rates {
            let rate = rate?;
            sum = Rate { count: sum.count + rate.count, seconds: sum.seconds.max(rate.seconds) };
        }
        Ok(sum)
    }

    /// Open, read, close.
    pub(crate) fn read(&self, budget: Budget) -> Result<Rate> {
        let mut buffer = Vec::with_capacity(SIZE + 1);
        self.each(budget, |path| {
            buffer.clear();
            File::open(path)?.read_to_end(&mut buffer)?;
            ensure!(buffer.len() == SIZE, "{} has {} bytes", path.display(), buffer.len());
            Ok(())
        })
    }

    /// `stat` of every file.
    pub(crate) fn stat(&self, budget: Budget) -> Result<Rate> {
        self.each(budget, |path| {
            ensure!(fs::symlink_metadata(path)?.len() == SIZE as u64, "{} has another size", path.display());
            Ok(())
        })
    }

    /// Lists the directory and stats each entry; the rate counts entries.
    pub(crate) fn scan(&self) -> Result<Rate> {
        let start = std::time::Instant::now();
        let mut count = 0;
        for entry in fs::read_dir(&self.dir)? {
            entry?.metadata()?;
            count += 1;
        }
        Ok(Rate { count, seconds: start.elapsed().as_secs_f64() })
    }

    /// Renames inside the directory, there and, after the clock has stopped, back.
    pub(crate) fn rename(&self, budget: Budget) -> Result<Rate> {
        let other = |number| self.dir.join(format!("renamed-{number:06}"));
        let budget = Budget { count_max: budget.count_max.min(self.count), ..budget };
        let rate = budget.spend(|number| Ok(fs::rename(self.path(number), other(number))?))?;
        for number in 0..rate.count {
            fs::rename(other(number), self.path(number))?;
        }
        Ok(rate)
    }

    /// Removes them.
    pub(crate) fn unlink(&self, budget: Budget) -> Result<Rate> {
        let budget = Budget { count_max: budget.count_max.min(self.count), ..budget };
        budget.spend(|number| Ok(fs::remove_file(self.path(number))?))
    }

    fn each(&self, budget: Budget, mut work: impl FnMut(&Path) -> Result<()>) -> Result<Rate> {
        ensure!(self.count > 0, "no file was created");
        // Names are made before the clock starts.
        let paths: Vec<PathBuf> = self.paths().collect();
        let budget = Budget { count_max: budget.count_max.min(self.count), ..budget };
        budget.spend(|number| work(&paths[number as usize]))
    }
}

fn create_in(dir: &Path, prefix: &str, budget: Budget) -> Result<Rate> {
    let (mut noise, mut data) = (Noise::new(11), vec![0; SIZE]);
    noise.fill(&mut data);
    budget.spend(|number| {
        // Eight bytes that differ keep the files apart without filling them anew.
        data[..8].copy_from_slice(&noise.next().to_le_bytes());
        let mut file = File::create(dir.join(format!("{prefix}-{number:06}")))?;
        Ok(file.write_all(&data)?)
    })
}
