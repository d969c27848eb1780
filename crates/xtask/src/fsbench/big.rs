//! One big file: sequential writing and reading, random reads.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, ensure};

use super::noise::Noise;
use super::{Budget, Rate};

const CALL: usize = 1 << 20;
const PAGE: usize = 4096;

/// A file of some MiB of noise; rates count MiB, or calls for random reads.
pub(crate) struct BigFile {
    path: PathBuf,
    mib: u64,
}

impl BigFile {
    pub(crate) fn new(dir: &Path, mib: u64) -> Self {
        Self { path: dir.join("big"), mib }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Calls of 1 MiB, and one fsync at the end, which counts.
    pub(crate) fn write(&self) -> Result<Rate> {
        // Made before the clock starts; turned by a byte for each call, so that no two blocks are equal.
        let mut data = vec![0; CALL + self.mib as usize];
        Noise::new(self.mib).fill(&mut data);
        let start = Instant::now();
        let mut file = File::create(&self.path)?;
        for call in 0..self.mib as usize {
            file.write_all(&data[call..call + CALL])?;
        }
        file.sync_all()?;
        Ok(Rate { count: self.mib, seconds: start.elapsed().as_secs_f64() })
    }

    /// From beginning to end in calls of 1 MiB.
    pub(crate) fn read(&self) -> Result<Rate> {
        let mut buffer = vec![0; CALL];
        let start = Instant::now();
        let mut file = File::open(&self.path)?;
        let mut total = 0;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                length => total += length as u64,
            }
        }
        ensure!(total == self.mib << 20, "{} has {total} bytes", self.path.display());
        Ok(Rate { count: self.mib, seconds: start.elapsed().as_secs_f64() })
    }

    /// 4 KiB at random aligned places.
    pub(crate) fn random_reads(&self, budget: Budget) -> Result<Rate> {
        let file = File::open(&self.path)?;
        // Else the kernel reads ahead of what it takes for a stream.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random)?;
        let pages = (self.mib << 20) / PAGE as u64;
        let (mut noise, mut buffer) = (Noise::new(7), vec![0; PAGE]);
        budget.spend(|_| Ok(file.read_exact_at(&mut buffer, noise.next() % pages * PAGE as u64)?))
    }
}
