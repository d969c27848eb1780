//! The rows, in groups that share their files.
//!
//! "Cold" means that neither the file system's own cache nor the kernel knows anything; "local-cache" that the page cache knows nothing;
//! "page-cache" and "hot" that nothing was dropped.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::clickhouse;
use super::rival::{Rival, World};
use super::table::Row;
use crate::fsbench::{self, BigFile, Budget, PART_FILES, SmallFiles};

/// Sizes and times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) big_mib: u64,
    /// Counts from 0. Each round has a directory of its own.
    pub(crate) round: u32,
    /// Limit for one row.
    pub(crate) seconds: u64,
    pub(crate) clickhouse_rows: u64,
    pub(crate) memory_files: u64,
    pub(crate) memory_seconds: u64,
}

/// Rows that are measured together, on a system that is mounted.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&mut dyn Rival, &World, &Setting) -> Result<Vec<Row>>,
}

pub(crate) const GROUPS: &[Group] = &[
    Group { name: "big", run: big },
    Group { name: "small", run: small },
    Group { name: "parts", run: parts },
    Group { name: "memory", run: memory },
    Group { name: "clickhouse", run: clickhouse::rows },
];

impl Setting {
    /// A new directory of this round.
    fn dir(&self, rival: &dyn Rival, name: &str) -> Result<std::path::PathBuf> {
        let dir = rival.path().join(format!("{name}-{}", self.round));
        std::fs::create_dir(&dir)?;
        Ok(dir)
    }
}

fn big(rival: &mut dyn Rival, _: &World, setting: &Setting) -> Result<Vec<Row>> {
    let file = BigFile::new(rival.path(), setting.big_mib);
    let budget = Budget::new(u64::MAX, setting.seconds.min(3));
    // So few that hardly a page is read twice: what was read once is in the page cache.
    let few = Budget { count_max: setting.big_mib * 16, ..budget };
    let size = setting.big_mib;
    let mib =
        |what: &str, rate: fsbench::Rate| Row::new(format!("{what} {size} MiB"), "MiB/s", rate.per_second());
    let per_second = |what: &str, rate: fsbench::Rate| Row::new(what, "per s", rate.per_second());
    let mut rows = vec![mib("write + fsync", file.write()?)];
    rival.cool()?;
    rows.push(mib("read cold", file.read()?));
    // Some caches are written after the answer.
    rival.settle();
    forget(rival, &file)?;
    rows.push(mib("read local-cache", file.read()?));
    rows.push(mib("read page-cache", file.read()?));
    forget(rival, &file)?;
    rows.push(per_second("random 4 KiB pread, local-cache", file.random_reads(few)?));
    file.read()?;
    rows.push(per_second("random 4 KiB pread, hot", file.random_reads(budget)?));
    std::fs::remove_file(file.path())?;
    Ok(rows)
}

/// Drops the pages of the file, and those of the local cache's files below it.
fn forget(rival: &dyn Rival, file: &BigFile) -> Result<()> {
    fsbench::forget_pages(file.path())?;
    fsbench::forget_pages_below(&rival.cache_dir())
}

fn small(rival: &mut dyn Rival, _: &World, setting: &Setting) -> Result<Vec<Row>> {
    let mut files = SmallFiles::new(&setting.dir(rival, "files")?)?;
    let budget = Budget::new(5_000, setting.seconds);
    let rate = |what: &str, rate: fsbench::Rate| Row::new(what, "per s", rate.per_second());
    let mut rows = vec![
        rate("create + write 4 KiB + close", files.create(budget)?),
        rate("the same, 4 threads", files.create_by_threads(4, budget)?),
    ];
    rival.cool()?;
    rows.push(rate("stat cold", files.stat(budget)?));
    rows.push(rate("stat again", files.stat(budget)?));
    rival.cool()?;
    rows.push(rate("open + read + close 4 KiB, cold", files.read(budget)?));
    rival.settle();
    for path in files.paths() {
        fsbench::forget_pages(&path)?;
    }
    rows.push(rate("open + read + close 4 KiB, cached", files.read(budget)?));
    rival.cool()?;
    rows.push(rate("scandir + stat, entries", files.scan()?));
    rows.push(rate("rename", files.rename(budget)?));
    rows.push(rate("unlink", files.unlink(budget)?));
    Ok(rows)
}

fn parts(rival: &mut dyn Rival, _: &World, setting: &Setting) -> Result<Vec<Row>> {
    let dir = setting.dir(rival, "parts")?;
    rival.settle();
    rival.proxy().reset();
    let rate = fsbench::publish_parts(&dir, Budget::new(300, 2 * setting.seconds))?;
    rival.settle();
    let traffic = rival.proxy().traffic();
    // A multipart upload is a POST, some PUTs and a POST.
    let puts = (traffic.count("PUT") + traffic.count("POST")) as f64 / rate.count.max(1) as f64;
    Ok(vec![
        Row::new(format!("parts published ({PART_FILES} files + rename)"), "per s", rate.per_second()),
        Row::less("uploads for a part", "PUTs", puts),
    ])
}

/// The rows on a plain directory: only the page cache can be dropped.
pub(crate) fn plain(dir: &Path) -> Result<Vec<Row>> {
    let budget = Budget::new(5_000, 10);
    let rate = |what: &str, unit, rate: fsbench::Rate| Row::new(what, unit, rate.per_second());
    let big = BigFile::new(dir, 512);
    let mut rows = vec![rate("write + fsync 512 MiB", "MiB/s", big.write()?)];
    fsbench::forget_pages(big.path())?;
    rows.push(rate("read, pages dropped", "MiB/s", big.read()?));
    rows.push(rate("read page-cache", "MiB/s", big.read()?));
    rows.push(rate("random 4 KiB pread, hot", "per s", big.random_reads(Budget::new(u64::MAX, 3))?));
    let mut small = SmallFiles::new(dir)?;
    rows.push(rate("create + write 4 KiB + close", "per s", small.create(budget)?));
    rows.push(rate("the same, 4 threads", "per s", small.create_by_threads(4, budget)?));
    rows.push(rate("stat", "per s", small.stat(budget)?));
    rows.push(rate("open + read + close 4 KiB", "per s", small.read(budget)?));
    rows.push(rate("scandir + stat, entries", "per s", small.scan()?));
    rows.push(rate("rename", "per s", small.rename(budget)?));
    rows.push(rate("unlink", "per s", small.unlink(budget)?));
    rows.push(rate("parts published", "per s", fsbench::publish_parts(dir, Budget::new(300, 20))?));
    Ok(rows)
}

fn memory(rival: &mut dyn Rival, world: &World, setting: &Setting) -> Result<Vec<Row>> {
    // Both times without the buffers and the session of a client.
    rival.stop();
    let before = world.redis.info("used_memory")?;
    rival.start()?;
    let dir = setting.dir(rival, "many")?;
    let rate = fsbench::many_files(&dir, Budget::new(setting.memory_files, setting.memory_seconds))?;
    // What is closed need not be in the store yet: it is when the mount has ended.
    rival.stop();
    std::thread::sleep(Duration::from_secs(2));
    let bytes = world.redis.info("used_memory")?.saturating_sub(before) as f64 / rate.count.max(1) as f64;
    rival.start()?;
    Ok(vec![
        Row::less("redis memory for a small file", "bytes", bytes),
        Row::new("   measured with so many files", "files", rate.count as f64),
    ])
}
