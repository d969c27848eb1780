//! What all handles of one cache share: the map of slices in 256 shards, the counters, the queues, and the way to the disk.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rustix::fs::fstatvfs;
use rustix::time::{ClockId, clock_gettime};

use crate::entry::{Body, Entry, SliceState};
use crate::error::CacheError;
use crate::frames::bits;
use crate::index::{Change, Record};
use crate::index_log::IndexLog;
use crate::key::{SHARDS, SliceKey};
use crate::policy::Policy;
use crate::segment::Segment;
use crate::slice::SliceFile;
use crate::space::Space;
use crate::stats::Counters;

/// The disk is asked for its free space after this many bytes were stored.
const ROOM_CHECK_BYTES: u64 = 16 << 20;

/// The inside of a `Cache`.
pub(crate) struct Shared {
    pub(crate) space: Arc<Space>,
    pub(crate) policy: Mutex<Policy>,
    pub(crate) counters: Counters,
    /// Files that a previous process left without finishing them, with their bytes on disk.
    pub(crate) orphans: Mutex<BTreeMap<SliceKey, u64>>,
    pub(crate) shards: Box<[Shard]>,
    pub(crate) disk: Option<Disk>,
    pub(crate) verify_every: Duration,
    pub(crate) index_warned: AtomicBool,
}

/// A part of the map, with the index log that describes it.
#[derive(Default)]
pub(crate) struct Shard {
    pub(crate) map: RwLock<HashMap<SliceKey, Arc<Entry>>>,
    /// Opened by the first who needs it.
    pub(crate) log: Mutex<Option<IndexLog>>,
}

/// The directory of this file system below the cache directory.
pub(crate) struct Disk {
    pub(crate) root: PathBuf,
    /// Open, and locked, as long as the cache lives.
    pub(crate) dir: File,
    pub(crate) free_ratio: f64,
    /// Bytes stored since the disk was asked for its free space.
    pub(crate) since_check: AtomicU64,
}

impl Disk {
    /// The directory of a shard.
    pub(crate) fn shard_dir(&self, shard: usize) -> PathBuf {
        self.root.join("slices").join(format!("{shard:02x}"))
    }

    /// The file of a slice.
    pub(crate) fn path(&self, key: SliceKey) -> PathBuf {
        self.shard_dir(key.shard()).join(key.to_string())
    }

    /// Creates the file of a slice. `fresh`: it must not exist; otherwise what it held is dropped.
    pub(crate) fn create(&self, key: SliceKey, fresh: bool) -> Result<File, CacheError> {
        let path = self.path(key);
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600).create(true).truncate(!fresh).create_new(fresh);
        let mut file = options.open(&path);
        if file.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
            let dir = self.shard_dir(key.shard());
            fs::create_dir_all(&dir).map_err(|e| CacheError::path("creating", &dir, e))?;
            file = options.open(&path);
        }
        match file {
            Ok(file) => Ok(file),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(CacheError::Exists { key }),
            Err(e) => Err(CacheError::path("creating", &path, e)),
        }
    }

    /// Opens the file of a slice. Read and write: the kernel's passthrough accepts nothing less.
    pub(crate) fn open(&self, key: SliceKey) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.path(key))
    }

    /// Bytes that may still be stored, or by how many the disk is too full.
    fn room(&self) -> io::Result<Result<u64, u64>> {
        let stat = fstatvfs(&self.dir)?;
        let keep = (stat.f_blocks.saturating_mul(stat.f_frsize) as f64 * self.free_ratio) as u64;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        Ok(if free >= keep { Ok(free - keep) } else { Err(keep - free) })
    }
}

impl Shared {
    /// An empty cache.
    pub(crate) fn new(size_bytes: u64, disk: Option<Disk>, verify_every: Duration) -> Self {
        Shared {
            space: Space::new(size_bytes),
            policy: Mutex::default(),
            counters: Counters::default(),
            orphans: Mutex::default(),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            disk,
            verify_every,
            index_warned: AtomicBool::new(false),
        }
    }

    /// The shard of a slice.
    pub(crate) fn shard(&self, key: SliceKey) -> &Shard {
        &self.shards[key.shard()]
    }

    /// The entry of a slice.
    pub(crate) fn lookup(&self, key: SliceKey) -> Option<Arc<Entry>> {
        self.shard(key).map.read().get(&key).cloned()
    }

    /// All entries there are now.
    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        self.shards.iter().flat_map(|shard| shard.map.read().values().cloned().collect::<Vec<_>>()).collect()
    }

    /// The round of checks: frames found right in an earlier one are checked again. `None`: always.
    pub(crate) fn round(&self) -> Option<u32> {
        if self.verify_every.is_zero() {
            return None;
        }
        let now = clock_gettime(ClockId::MonotonicCoarse).tv_sec as u64;
        Some((now / self.verify_every.as_secs().max(1)) as u32)
    }

    /// Makes room for `bytes` and counts them. False: nothing more can be evicted. No gate may be held.
    pub(crate) fn charge(&self, bytes: u64) -> bool {
        if let Some(disk) = &self.disk
            && disk.since_check.fetch_add(bytes, Relaxed) >= ROOM_CHECK_BYTES
        {
            self.refresh_room();
        }
        self.space.used_add(bytes);
        let limit = self.space.limit();
        if self.space.used() > limit {
            self.shrink(limit);
            if self.space.used() > limit {
                self.space.used_sub(bytes);
                return false;
            }
        }
        true
    }

    /// Asks the disk how much may lie here.
    pub(crate) fn refresh_room(&self) {
        let Some(disk) = &self.disk else { return };
        disk.since_check.store(0, Relaxed);
        match disk.room() {
            Ok(room) => self.space.set_disk_room(room),
            Err(e) => {
                tracing::warn!(dir = %disk.root.display(), error = %e, "free space of the cache disk is unknown")
            }
        }
    }

    /// The open handle of an entry; `None` if it has left the cache meanwhile.
    pub(crate) fn handle(self: &Arc<Self>, entry: &Arc<Entry>) -> Result<Option<Arc<SliceFile>>, CacheError> {
        let mut handle = entry.handle.lock();
        if entry.gone.load(Acquire) {
            return Ok(None);
        }
        if let Some(open) = handle.upgrade() {
            return Ok(Some(open));
        }
        let file = match self.disk.as_ref().map(|disk| disk.open(entry.key)).transpose() {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                drop(handle);
                return self.vanished(entry);
            }
            Err(e) => return Err(CacheError::disk("opening", entry.key, e)),
        };
        let open = Arc::new(SliceFile::new(self.clone(), entry.clone(), file));
        *handle = Arc::downgrade(&open);
        Ok(Some(open))
    }

    /// Somebody removed the file: clean bytes are fetched again, dirty ones are lost.
    fn vanished(&self, entry: &Arc<Entry>) -> Result<Option<Arc<SliceFile>>, CacheError> {
        let mut body = entry.gate.write();
        match body.state {
            SliceState::Gone => {}
            SliceState::Clean => drop(self.forget(entry, &mut body, true)),
            SliceState::Writing | SliceState::Sealed => {
                let end = entry.len().unwrap_or(body.written.end());
                return Err(CacheError::LostDirty { key: entry.key, range: 0..end });
            }
        }
        Ok(None)
    }

    /// Puts a new entry with its open file into `map`.
    pub(crate) fn install(
        self: &Arc<Self>,
        map: &mut HashMap<SliceKey, Arc<Entry>>,
        entry: Arc<Entry>,
        file: Option<File>,
    ) -> Arc<SliceFile> {
        let open = Arc::new(SliceFile::new(self.clone(), entry.clone(), file));
        *entry.handle.lock() = Arc::downgrade(&open);
        map.insert(entry.key, entry);
        open
    }

    /// Tells the index. A failure costs nothing but a later fetch, so it is counted and not returned.
    pub(crate) fn record(&self, key: SliceKey, changes: impl IntoIterator<Item = Change>) {
        let Some(disk) = &self.disk else { return };
        let mut bytes = Vec::with_capacity(512);
        changes.into_iter().for_each(|change| Record { key, change }.encode(&mut bytes));
        if bytes.is_empty() {
            return;
        }
        let mut log = self.shard(key).log.lock();
        let result = open_log(&mut log, &disk.shard_dir(key.shard())).and_then(|log| log.append(&bytes));
        if let Err(e) = result {
            Counters::add(&self.counters.index_errors, 1);
            if !self.index_warned.swap(true, Relaxed) {
                tracing::warn!(%key, error = %e, "cache index cannot be written; a restart will fetch more than needed");
            }
        }
    }

    /// Rewrites the index of a slice's shard if most of it is history. No gate may be held.
    pub(crate) fn rewrite_index_if_due(&self, key: SliceKey) {
        let shard = self.shard(key);
        match &mut *shard.log.lock() {
            Some(log) if log.is_due() => {
                if let Err(e) = log.begin_rewrite() {
                    tracing::warn!(error = %e, "cache index cannot be rewritten");
                }
            }
            _ => return,
        }
        let entries: Vec<_> = shard.map.read().values().cloned().collect();
        for entry in entries {
            let body = entry.gate.read();
            let mut bytes = Vec::new();
            known_frames(&body, entry.len())
                .for_each(|change| Record { key: entry.key, change }.encode(&mut bytes));
            if let Some(log) = &mut *shard.log.lock() {
                log.snapshot(&bytes);
            }
        }
        if let Some(log) = &mut *shard.log.lock()
            && let Err(e) = log.end_rewrite()
        {
            tracing::warn!(error = %e, "cache index cannot be replaced");
        }
    }
}

/// What the index is to know about a clean slice.
pub(crate) fn known_frames(body: &Body, len: Option<u64>) -> impl Iterator<Item = Change> {
    let segments = if body.state == SliceState::Clean { Some(&body.segments) } else { None };
    segments.into_iter().flatten().map(move |(&number, segment)| {
        frames_change(segment, number, segment.present() & segment.checked(), len)
    })
}

/// The record of some frames of a segment.
pub(crate) fn frames_change(segment: &Segment, number: u32, mask: u64, len: Option<u64>) -> Change {
    Change::Frames { len, segment: number, mask, crcs: bits(mask).map(|frame| segment.crc(frame)).collect() }
}

/// The log of a shard, created with its directory if need be. A log that appears late has nothing to tell.
fn open_log<'a>(log: &'a mut Option<IndexLog>, dir: &Path) -> io::Result<&'a mut IndexLog> {
    match log {
        Some(log) => Ok(log),
        None => {
            fs::create_dir_all(dir)?;
            Ok(log.insert(IndexLog::open(dir.join("index"), drop)?))
        }
    }
}
