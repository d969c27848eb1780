//! The work that `carafe bench` times.

use crate::failure::{Exit, Failure, Outcome};
use crate::progress::Progress;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to do.
pub(super) struct Plan {
    pub(super) folder: PathBuf,
    /// Bytes of a call.
    pub(super) block: usize,
    /// Bytes of a big file.
    pub(super) big: u64,
    /// Bytes of a small file.
    pub(super) small: u64,
    /// Small files for each thread.
    pub(super) count: u32,
    pub(super) threads: u32,
}

/// One figure.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) item: &'static str,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    /// Milliseconds that a thread spends on a file.
    pub(super) cost_ms: f64,
}

impl Plan {
    pub(super) fn run(&self, before_reading: impl FnOnce() -> Outcome) -> Outcome<Vec<Row>> {
        let progress = Progress::steps("measuring", 5);
        let mut rows = Vec::new();
        if self.big > 0 {
            let took =
                self.timed("write of a big file", |t| self.write(self.name("big", t, 0), self.big, true))?;
            rows.push(self.bytes_row("Write big file", took));
        }
        progress.add(1);
        if self.count > 0 {
            let took =
                self.timed("write of small files", |t| self.each(t, |p| self.write(p, self.small, false)))?;
            rows.push(self.files_row("Write small file", took));
        }
        progress.add(1);
        before_reading()?;
        if self.big > 0 {
            let took = self.timed("read of a big file", |t| self.read(self.name("big", t, 0), self.big))?;
            rows.insert(1, self.bytes_row("Read big file", took));
        }
        progress.add(1);
        if self.count > 0 {
            let took = self.timed("read of small files", |t| self.each(t, |p| self.read(p, self.small)))?;
            rows.push(self.files_row("Read small file", took));
            progress.add(1);
            let took = self.timed("stat", |t| self.each(t, |p| p.metadata().map(drop)))?;
            rows.push(self.files_row("Stat file", took));
        }
        Ok(rows)
    }

    /// Runs the work on all threads at once and takes the time of the slowest.
    fn timed(&self, what: &str, work: impl Fn(u32) -> io::Result<()> + Sync) -> Outcome<Duration> {
        let begun = Instant::now();
        let results: Vec<io::Result<()>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|t| {
                    scope.spawn({
                        let work = &work;
                        move || work(t)
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|t| t.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked"))))
                .collect()
        });
        let took = begun.elapsed();
        match results.into_iter().find_map(Result::err) {
            Some(error) => Err(Failure::new(Exit::Failed, format!("{what} failed: {error}"))),
            None => Ok(took),
        }
    }

    fn name(&self, kind: &str, thread: u32, number: u32) -> PathBuf {
        self.folder.join(format!("{kind}.{thread}.{number}"))
    }

    fn each(&self, thread: u32, work: impl Fn(PathBuf) -> io::Result<()>) -> io::Result<()> {
        (0..self.count).try_for_each(|n| work(self.name("small", thread, n)))
    }

    fn write(&self, path: PathBuf, size: u64, sync: bool) -> io::Result<()> {
        // Bytes that no store can shorten: a few rounds of a multiplicative generator.
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut block = vec![0u8; self.block];
        for chunk in block.chunks_mut(8) {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            chunk.copy_from_slice(&seed.to_le_bytes()[..chunk.len()]);
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let mut left = size;
        while left > 0 {
            let n = left.min(block.len() as u64);
            file.write_all(&block[..n as usize])?;
            left -= n;
        }
        if sync { file.sync_all() } else { Ok(()) }
    }

    fn read(&self, path: PathBuf, size: u64) -> io::Result<()> {
        let mut block = vec![0u8; self.block];
        let mut file = File::open(path)?;
        let mut got = 0;
        loop {
            match file.read(&mut block)? {
                0 if got == size => return Ok(()),
                0 => return Err(io::Error::other(format!("read {got} bytes of {size}"))),
                n => got += n as u64,
            }
        }
    }

    fn bytes_row(&self, item: &'static str, took: Duration) -> Row {
        let mib = (self.big * u64::from(self.threads)) as f64 / f64::from(1 << 20);
        Row { item, value: mib / took.as_secs_f64(), unit: "MiB/s", cost_ms: took.as_secs_f64() * 1e3 }
    }

    fn files_row(&self, item: &'static str, took: Duration) -> Row {
        let files = f64::from(self.count * self.threads);
        let cost_ms = took.as_secs_f64() * 1e3 / f64::from(self.count);
        Row { item, value: files / took.as_secs_f64(), unit: "files/s", cost_ms }
    }
}
