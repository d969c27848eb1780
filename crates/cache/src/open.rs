//! Opening a cache directory: the lock, the layout, and what a previous process left.
//!
//! A file with frames in the index is clean cache. Any other file holds bytes that were never committed, or a fetch that was cut short: an
//! *orphan*. The journal says which orphans matter; the vfs adopts those and drops the rest. Orphans of another boot are dropped here:
//! nothing was synced, so they may hold anything.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use rustix::fs::{FlockOperation, flock};

use crate::config::CacheConfig;
use crate::entry::{Entry, SliceState};
use crate::error::CacheError;
use crate::frames::{bits, cost, frames_in};
use crate::index::{Change, Record};
use crate::index_log::IndexLog;
use crate::key::{SHARDS, SliceKey};
use crate::segment::Segment;
use crate::shared::{Disk, Shared};

/// First line of the file `format`.
const FORMAT: &str = "carafe-cache 1";

/// Opens, locks and loads. The flag says that orphans are of another boot.
pub(crate) fn open(config: &CacheConfig) -> Result<(Shared, bool), CacheError> {
    let root = config.dir.join(hex(config.fs_uuid));
    for dir in [root.join("slices"), root.join("journal")] {
        fs::create_dir_all(&dir).map_err(|e| CacheError::path("creating", &dir, e))?;
    }
    let dir = File::open(&root).map_err(|e| CacheError::path("opening", &root, e))?;
    lock(&dir, &root)?;
    let other_boot = check_format(&root, config)?;
    let disk =
        Disk { root, dir, free_ratio: config.free_ratio.clamp(0.0, 1.0), since_check: AtomicU64::new(0) };
    let shared = Shared::new(config.size_bytes, Some(disk), config.verify_every);
    for shard in 0..SHARDS {
        load_shard(&shared, shard)?;
    }
    shared.refresh_room();
    shared.shrink(shared.space.limit());
    Ok((shared, other_boot))
}

fn lock(dir: &File, root: &Path) -> Result<(), CacheError> {
    match flock(dir, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(CacheError::Busy { dir: root.to_owned() }),
        Err(e) => Err(CacheError::path("locking", root, e.into())),
    }
}

/// Checks the file `format`, and writes it for this boot. True if it was written in another boot.
fn check_format(root: &Path, config: &CacheConfig) -> Result<bool, CacheError> {
    let path = root.join("format");
    let want = format!("{FORMAT}\n{}\n{}\n", hex(config.fs_uuid), hex(config.boot_id));
    let mut found = String::new();
    let refuse = |reason: String| CacheError::Layout { dir: root.to_owned(), reason };
    match File::open(&path).and_then(|file| file.take(200).read_to_string(&mut found)) {
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
            return Err(refuse("its file `format` is not text".into()));
        }
        Err(e) => return Err(CacheError::path("reading", &path, e)),
    }
    if found == want {
        return Ok(false);
    }
    let mut lines = found.lines();
    let other_boot = match (lines.next(), lines.next()) {
        (None, _) => false,
        (Some(FORMAT), Some(fs)) if fs == hex(config.fs_uuid) => true,
        (Some(FORMAT), fs) => {
            return Err(refuse(format!("it belongs to file system {:?}", fs.unwrap_or(""))));
        }
        (Some(format), _) => {
            return Err(refuse(format!("its format is {format:?}, this version reads {FORMAT:?}")));
        }
    };
    let new = root.join("format.new");
    fs::write(&new, want)
        .and_then(|()| fs::rename(&new, &path))
        .map_err(|e| CacheError::path("writing", &path, e))?;
    Ok(other_boot)
}

/// A slice while its index is read.
#[derive(Default)]
struct Loaded {
    len: Option<u64>,
    segments: BTreeMap<u32, Segment>,
}

fn load_shard(shared: &Shared, shard: usize) -> Result<(), CacheError> {
    let Some(disk) = &shared.disk else { return Ok(()) };
    let dir = disk.shard_dir(shard);
    let files = match list(&dir, shard) {
        Ok(files) => files,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(CacheError::path("listing", &dir, e)),
    };
    let mut loaded = HashMap::new();
    let log = IndexLog::open(dir.join("index"), |record| {
        // Only what has a file: the index of an attacker, or an old one, makes no entries.
        if files.contains(&record.key) {
            apply(&mut loaded, record);
        }
    })
    .map_err(|e| CacheError::path("reading the index in", &dir, e))?;
    *shared.shards[shard].log.lock() = Some(log);
    for key in files {
        match loaded.remove(&key).filter(|slice: &Loaded| slice.segments.values().any(|s| s.present() != 0)) {
            Some(slice) => adopt_clean(shared, key, slice),
            None => adopt_orphan(shared, disk, key)?,
        }
    }
    Ok(())
}

/// The slices whose files are in a shard's directory. Other files are none of our business, but for unfinished index rewrites.
fn list(dir: &Path, shard: usize) -> io::Result<HashSet<SliceKey>> {
    let mut keys = HashSet::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        match name.parse::<SliceKey>() {
            Ok(key) if key.shard() == shard => drop(keys.insert(key)),
            _ if name == "index.new" => fs::remove_file(dir.join(name))?,
            _ => {}
        }
    }
    Ok(keys)
}

fn apply(loaded: &mut HashMap<SliceKey, Loaded>, record: Record) {
    let key = record.key;
    match record.change {
        Change::Removed => drop(loaded.remove(&key)),
        Change::Gone { segment, mask } => {
            if let Some(segment) = loaded.get(&key).and_then(|slice| slice.segments.get(&segment)) {
                segment.clear(mask);
            }
        }
        Change::Frames { len, segment: number, mask, crcs } => {
            let slice = loaded.entry(key).or_default();
            slice.len = slice.len.or(len);
            let frames = frames_in(number, slice.len);
            let segment = slice.segments.entry(number).or_insert_with(|| Segment::new(key, number, frames));
            for (frame, crc) in bits(mask).zip(crcs) {
                segment.set_checked(frame, crc, None);
            }
        }
    }
}

/// Puts a clean slice into the map.
fn adopt_clean(shared: &Shared, key: SliceKey, slice: Loaded) {
    let entry = Entry::new(key, SliceState::Clean, slice.len, false);
    let mut policy = shared.policy.lock();
    for (number, segment) in slice.segments {
        let bytes = cost(number, segment.present(), slice.len);
        if bytes > 0 {
            shared.space.used_add(bytes);
            policy.add_known(&segment.heat, bytes);
            entry.gate.write().segments.insert(number, segment);
        }
    }
    shared.shard(key).map.write().insert(key, entry);
}

/// Remembers a file without index. One of size 0 was never written to and is removed; blocks say less (holes, data inside of the inode).
fn adopt_orphan(shared: &Shared, disk: &Disk, key: SliceKey) -> Result<(), CacheError> {
    let path = disk.path(key);
    let meta = fs::metadata(&path).map_err(|e| CacheError::path("looking at", &path, e))?;
    if meta.len() == 0 {
        return fs::remove_file(&path).map_err(|e| CacheError::path("removing", &path, e));
    }
    let bytes = meta.blocks() * 512;
    shared.space.used_add(bytes);
    shared.orphans.lock().insert(key, bytes);
    Ok(())
}

/// A uuid as 32 digits.
pub(crate) fn hex(uuid: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(uuid))
}
