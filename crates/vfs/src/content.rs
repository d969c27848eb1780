//! Extents of an open file, kept for a while.
//!
//! A random read costs a few microseconds and must not ask the store each time. So each open file keeps the extents of
//! the last segments that were read, and they stay valid
//! - while this session is alone on the inode's bucket: nobody else can change it before the coherence hook has cleared
//!   them;
//! - otherwise for a second: close-to-open promises no more, and open, stat and locks clear them when they learn of a
//!   new `dataver`.

use crate::remote::SliceRef;
use bytes::Bytes;
use carafe_cache::SliceFile;
use carafe_types::record::{Extent, SEGMENT_BYTES};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long extents of a shared file are used without asking.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// Windows kept for one file: a reader of columns jumps between few places.
const WINDOWS: usize = 8;

/// Cache files kept open for one file.
const FILES: usize = 3;

/// The part of a file that lies in one segment.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Which bytes of the file.
    pub(crate) range: Range<u64>,
    /// All bytes of the file, if it is inline.
    pub(crate) inline: Option<Bytes>,
    /// Sorted, cut to the range.
    pub(crate) extents: Vec<Extent>,
    /// Nobody else can have changed it.
    pub(crate) sole: bool,
    /// When it was read.
    pub(crate) at: Instant,
}

impl Window {
    /// The segment that holds `offset`.
    pub(crate) fn range_of(offset: u64) -> Range<u64> {
        let start = offset / SEGMENT_BYTES * SEGMENT_BYTES;
        start..start + SEGMENT_BYTES
    }

    /// The extents that touch `range`, cut to it.
    pub(crate) fn within(&self, range: Range<u64>) -> impl Iterator<Item = Extent> + '_ {
        let first = self.extents.partition_point(|e| e.end() <= range.start);
        self.extents[first..]
            .iter()
            .map_while(move |e| (e.offset < range.end).then(|| e.cut(range.start, range.end)))
            .flatten()
    }
}

/// The windows of a file, last used first.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    windows: Vec<Arc<Window>>,
    /// Cache files of the slices last read: opening one costs more than a small read.
    files: Vec<(SliceRef, Arc<SliceFile>)>,
    /// Raised by every clear, so that an answer that was under way meanwhile is not kept.
    epoch: u64,
}

impl Contents {
    /// The window that holds `offset`, if there is a valid one.
    pub(crate) fn get(&mut self, offset: u64) -> Option<Arc<Window>> {
        let found = self.windows.iter().position(|w| w.range.contains(&offset))?;
        let window = self.windows[found].clone();
        if !window.sole && window.at.elapsed() > SHARED_FOR {
            self.windows.remove(found);
            return None;
        }
        self.windows[..=found].rotate_right(1);
        Some(window)
    }

    /// To be given to [`Contents::put`] by who asks the store.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Keeps a window, unless something has changed since `epoch`.
    pub(crate) fn put(&mut self, window: Arc<Window>, epoch: u64) {
        if epoch == self.epoch {
            self.windows.retain(|w| w.range != window.range);
            self.windows.truncate(WINDOWS - 1);
            self.windows.insert(0, window);
        }
    }

    /// The open cache file of a slice.
    pub(crate) fn file(&self, slice: &SliceRef) -> Option<Arc<SliceFile>> {
        self.files.iter().find(|(s, _)| s == slice).map(|(_, file)| file.clone())
    }

    /// Keeps a cache file open.
    pub(crate) fn keep_file(&mut self, slice: &SliceRef, file: Arc<SliceFile>) {
        self.files.truncate(FILES - 1);
        self.files.insert(0, (*slice, file));
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.windows.clear();
        self.files.clear();
        self.epoch += 1;
    }
}
