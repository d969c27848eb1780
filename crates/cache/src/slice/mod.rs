//! The handle of a slice: an open file (or memory), and what may be done with it in each state.
//!
//! | state | write | fill | read of what is not here |
//! |---|---|---|---|
//! | `Writing` | yes | no | `Missing`, exact to the byte: never written |
//! | `Sealed` | no | no | zeros: never written, and never will be |
//! | `Clean` | no | yes | `Missing`, whole frames: to be fetched |
//! | `Gone` | no | ignored | `Missing` |
//!
//! All handles of a slice are one object, whose descriptor is closed with the last `Arc`. Who keeps many handles keeps many descriptors.

mod fill;
mod read;
mod seal;
mod write;

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

pub use fill::FillOutcome;
pub use read::ReadOutcome;

use crate::entry::{Entry, SliceState};
use crate::error::CacheError;
use crate::frames::{FRAME_BYTES, MAX_SLICE_BYTES, SEGMENT_FRAMES};
use crate::key::SliceKey;
use crate::shared::Shared;
use crate::store::Store;

/// An open slice.
pub struct SliceFile {
    shared: Arc<Shared>,
    entry: Arc<Entry>,
    /// `None` in a cache without disk.
    file: Option<File>,
}

impl SliceFile {
    pub(crate) fn new(shared: Arc<Shared>, entry: Arc<Entry>, file: Option<File>) -> Self {
        SliceFile { shared, entry, file }
    }

    /// Its name.
    pub fn key(&self) -> SliceKey {
        self.entry.key
    }

    /// Where it stands.
    pub fn state(&self) -> SliceState {
        self.entry.gate.read().state
    }

    /// Its length in bytes; unknown while it is written, and until a read from the bucket told.
    pub fn len(&self) -> Option<u64> {
        self.entry.len()
    }

    /// True if it is known to have no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Dirty bytes that it holds.
    pub fn dirty_bytes(&self) -> u64 {
        self.entry.gate.read().dirty_bytes
    }

    /// True if a clean or sealed slice is here from its first byte to its last: it may back a passthrough open (then [`SliceFile::pin`] it).
    pub fn is_complete(&self) -> bool {
        let body = self.entry.gate.read();
        match (body.state, self.entry.len()) {
            (SliceState::Clean, Some(len)) => body.is_complete(len),
            (SliceState::Sealed, Some(_)) => true,
            _ => false,
        }
    }

    /// The parts of `range` that a read would call `Missing`.
    pub fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let len = self.entry.len();
        let range = range.start..range.end.min(len.unwrap_or(MAX_SLICE_BYTES));
        if range.is_empty() { Vec::new() } else { self.entry.gate.read().missing(&range, len) }
    }

    /// The crc32c of frame `index` as it was when the bytes were written or fetched, so that an upload can carry it on; `None` if the
    /// frame is not here or still written to.
    pub fn frame_crc(&self, index: u64) -> Option<u32> {
        let body = self.entry.gate.read();
        let segment = body.segments.get(&u32::try_from(index / SEGMENT_FRAMES).ok()?)?;
        let frame = (index % SEGMENT_FRAMES) as u32;
        (segment.checked() >> frame & 1 == 1).then(|| segment.crc(frame))
    }

    /// The cache file, open for reading and writing, as the kernel wants it for passthrough. `None` in memory.
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Holds a sealed or clean slice against eviction. `None` if 40 % of the cache are pinned already, or in another state.
    pub fn pin(self: &Arc<Self>) -> Option<SlicePin> {
        let body = self.entry.gate.read();
        if !matches!(body.state, SliceState::Sealed | SliceState::Clean) {
            return None;
        }
        let mut pins = self.entry.pins.lock();
        if pins.count == 0 {
            let bytes =
                self.entry.len().unwrap_or(0).next_multiple_of(FRAME_BYTES).max(body.cost(self.entry.len()));
            if !self.shared.space.try_pin(bytes) {
                return None;
            }
            pins.bytes = bytes;
        }
        pins.count += 1;
        Some(SlicePin { slice: self.clone() })
    }

    /// Takes a complete clean slice out of the cache: the file has no name any more, belongs to the caller, and may be changed. For the
    /// backing file of an inode that is open in passthrough and gets a writer (metadata.md, 10).
    ///
    /// # Errors
    /// `WrongState` if not clean and complete, `NoFile` in memory.
    pub fn detach(self: &Arc<Self>) -> Result<Detached, CacheError> {
        if self.file.is_none() {
            return Err(CacheError::NoFile { key: self.key() });
        }
        let mut body = self.entry.gate.write();
        let complete = self.entry.len().is_some_and(|len| body.is_complete(len));
        if body.state != SliceState::Clean || !complete {
            return Err(self.entry.wrong_state("take out", body.state));
        }
        let bytes = body.segments.values().map(|segment| segment.heat.bytes.load(Relaxed)).sum();
        self.shared.space.used_add(bytes);
        self.shared.forget(&self.entry, &mut body, false);
        Ok(Detached { slice: self.clone(), bytes })
    }

    /// Removes the slice with all its bytes, dirty or not. Open handles stay valid and find it `Gone`.
    pub fn discard(&self) {
        let mut body = self.entry.gate.write();
        if body.state != SliceState::Gone {
            self.shared.forget(&self.entry, &mut body, false);
        }
    }

    fn store(&self) -> Store<'_> {
        match (&self.file, &self.entry.memory) {
            (Some(file), _) => Store::Disk(file),
            (None, Some(bytes)) => Store::Memory(bytes),
            (None, None) => unreachable!("a slice without a file was made with memory"),
        }
    }

    fn disk_error(&self, op: &'static str, source: std::io::Error) -> CacheError {
        CacheError::disk(op, self.key(), source)
    }
}

impl std::fmt::Debug for SliceFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SliceFile")
            .field("key", &self.key())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl Drop for SliceFile {
    fn drop(&mut self) {
        self.shared.reap_if_empty(&self.entry);
    }
}

/// Holds a slice against eviction until it is dropped.
#[derive(Debug)]
pub struct SlicePin {
    slice: Arc<SliceFile>,
}

impl SlicePin {
    /// The slice.
    pub fn slice(&self) -> &Arc<SliceFile> {
        &self.slice
    }
}

impl Drop for SlicePin {
    fn drop(&mut self) {
        let entry = &self.slice.entry;
        let mut pins = entry.pins.lock();
        pins.count -= 1;
        if pins.count == 0 {
            self.slice.shared.space.unpin(std::mem::take(&mut pins.bytes));
            drop(pins);
            self.slice.shared.requeue(entry);
        }
    }
}

/// A file that was taken out of the cache; its space is counted until it is dropped.
#[derive(Debug)]
pub struct Detached {
    slice: Arc<SliceFile>,
    bytes: u64,
}

impl Detached {
    /// The file, open for reading and writing; it has no name.
    pub fn file(&self) -> &File {
        self.slice.file.as_ref().expect("only slices with a file are taken out")
    }

    /// Counts the space that the file occupies now: to be called when it grew or shrank.
    ///
    /// # Errors
    /// `DiskError` if the file cannot be looked at.
    pub fn recount(&mut self) -> Result<(), CacheError> {
        use std::os::unix::fs::MetadataExt;
        let meta = self.file().metadata().map_err(|e| self.slice.disk_error("looking at", e))?;
        let bytes = meta.blocks() * 512;
        self.slice.shared.space.used_correct(std::mem::replace(&mut self.bytes, bytes), bytes);
        Ok(())
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        self.slice.shared.space.used_sub(self.bytes);
    }
}
