//! Reading a slice, and not believing the disk.
//!
//! Each frame has a crc32c. Checking it costs the whole frame to be read, so what was found right is remembered for
//! `CacheConfig::verify_every` (ten minutes). The reason: in between, the bytes come from the page cache or were there a moment ago, and
//! damage that this check is for happens on the disk, slowly. Without the memory, a hot random read of 4 KiB pays for 64 KiB each time;
//! with a check only once in a process that lives for months, damage would never be seen. An upload checks always: what it reads becomes
//! the truth.
//!
//! A damaged frame of a clean slice is simply not here any more and is fetched again. A damaged dirty frame is an error: there is no other
//! copy.

use std::cell::RefCell;
use std::io;
use std::ops::Range;

use crate::entry::{Body, SliceState};
use crate::error::CacheError;
use crate::frames::{FRAME_BYTES, SEGMENT_BYTES, bits, cost, frame_range, push_frames, spans};
use crate::index::Change;
use crate::segment::Segment;
use crate::slice::SliceFile;
use crate::stats::Counters;

/// What became of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum ReadOutcome {
    /// The buffer is filled.
    Bytes,
    /// These parts are not here; the buffer holds nothing of use. Fetch them, `fill`, read again.
    Missing(Vec<Range<u64>>),
    /// These frames were damaged and have been dropped; the same is to be done as for `Missing`.
    Corrupt(Vec<Range<u64>>),
}

/// Which frames are checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Those not found right lately.
    Unverified,
    /// All.
    All,
}

thread_local! {
    /// For a frame of which only a part was asked for.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; FRAME_BYTES as usize]);
}

impl SliceFile {
    /// Reads `buf.len()` bytes at `offset`, all or nothing.
    ///
    /// # Errors
    /// `OutOfRange` behind the slice's end; `DirtyCorrupt`; `DiskError` for dirty bytes that the disk does not give back.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<ReadOutcome, CacheError> {
        self.read(offset, buf, Check::Unverified)
    }

    /// The same, with every frame checked, however lately that was done: for what is uploaded.
    ///
    /// # Errors
    /// As for [`SliceFile::read_at`].
    pub fn read_verified(&self, offset: u64, buf: &mut [u8]) -> Result<ReadOutcome, CacheError> {
        self.read(offset, buf, Check::All)
    }

    fn read(&self, offset: u64, buf: &mut [u8], check: Check) -> Result<ReadOutcome, CacheError> {
        let range = self.entry.range(offset, buf.len())?;
        if range.is_empty() {
            return Ok(ReadOutcome::Bytes);
        }
        let body = self.entry.gate.read();
        let missing = body.missing(&range, self.entry.len());
        if !missing.is_empty() {
            Counters::add(&self.shared.counters.misses, 1);
            return Ok(ReadOutcome::Missing(missing));
        }
        let bad = match self.store().read_at(buf, offset) {
            Ok(n) if n == buf.len() => self.verify(&body, &range, buf, check),
            // The file is shorter than it was: what is gone shows up as zeros with a wrong checksum.
            Ok(n) if body.state == SliceState::Clean => {
                buf[n..].fill(0);
                self.verify(&body, &range, buf, Check::All)
            }
            Ok(n) => return Err(CacheError::DirtyCorrupt { key: self.key(), offset: offset + n as u64 }),
            Err(e) => self.unreadable(&body, &range, e)?,
        };
        if !bad.is_empty() {
            return self.damaged(&body, &bad);
        }
        if body.state == SliceState::Clean {
            note_use(&body, &range);
        }
        Counters::add(&self.shared.counters.hits, 1);
        Ok(ReadOutcome::Bytes)
    }

    /// Checks the frames of a range that was read into `buf`; returns segments with their wrong frames.
    fn verify(&self, body: &Body, range: &Range<u64>, buf: &mut [u8], check: Check) -> Vec<(u32, u64)> {
        let round = self.shared.round();
        let mut bad = Vec::new();
        for span in spans(range) {
            let Some(segment) = body.segments.get(&span.segment) else { continue };
            let known = if check == Check::All { 0 } else { segment.verified(round) };
            let todo = span.mask & segment.checked() & !known;
            if todo == 0 {
                continue;
            }
            let wrong = bits(todo)
                .filter(|&frame| !self.is_right(segment, frame, range, buf))
                .fold(0, |mask, frame| mask | 1 << frame);
            segment.set_verified(todo & !wrong, round);
            if wrong != 0 {
                bad.push((span.segment, wrong));
            }
        }
        bad
    }

    /// Checks one frame. If `buf` has only a part of it, the whole is read, and the checked bytes are put into `buf`: between two reads the
    /// disk may answer differently.
    fn is_right(&self, segment: &Segment, frame: u32, range: &Range<u64>, buf: &mut [u8]) -> bool {
        let whole = frame_range(segment.heat.segment, frame, self.entry.len());
        let want = segment.crc(frame);
        let (from, to) = (whole.start.max(range.start), whole.end.min(range.end));
        let part = (from - range.start) as usize..(to - range.start) as usize;
        if from == whole.start && to == whole.end {
            return crc32c::crc32c(&buf[part]) == want;
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let scratch = &mut scratch[..(whole.end - whole.start) as usize];
            let read = self.store().read_at(scratch, whole.start);
            let right = read.is_ok_and(|n| n == scratch.len()) && crc32c::crc32c(scratch) == want;
            if right {
                let skip = (from - whole.start) as usize;
                buf[part.clone()].copy_from_slice(&scratch[skip..skip + part.len()]);
            }
            right
        })
    }

    /// The disk gave an error: for clean bytes that is damage, which goes away with a fetch.
    fn unreadable(
        &self,
        body: &Body,
        range: &Range<u64>,
        e: io::Error,
    ) -> Result<Vec<(u32, u64)>, CacheError> {
        if body.state != SliceState::Clean {
            return Err(self.disk_error("reading", e));
        }
        tracing::warn!(key = %self.key(), ?range, error = %e, "cache file cannot be read");
        Ok(spans(range).map(|span| (span.segment, span.mask)).collect())
    }

    fn damaged(&self, body: &Body, bad: &[(u32, u64)]) -> Result<ReadOutcome, CacheError> {
        let len = self.entry.len();
        let mut ranges = Vec::new();
        bad.iter().for_each(|&(number, mask)| push_frames(&mut ranges, number, mask, len));
        let frames: u32 = bad.iter().map(|(_, mask)| mask.count_ones()).sum();
        Counters::add(&self.shared.counters.corrupt_frames, frames.into());
        tracing::warn!(key = %self.key(), ?ranges, state = ?body.state, "damaged bytes in a cache file");
        if body.state != SliceState::Clean {
            let offset = ranges.first().map_or(0, |range| range.start);
            return Err(CacheError::DirtyCorrupt { key: self.key(), offset });
        }
        for &(number, mask) in bad {
            self.drop_frames(body, number, mask);
        }
        Ok(ReadOutcome::Corrupt(ranges))
    }

    /// Frames of a clean slice are not here any more. Their bytes stay in the file until they are filled again or evicted.
    pub(super) fn drop_frames(&self, body: &Body, number: u32, mask: u64) {
        let Some(segment) = body.segments.get(&number) else { return };
        let cleared = segment.clear(mask);
        if cleared != 0 {
            self.shared.uncharge(&segment.heat, cost(number, cleared, self.entry.len()));
            self.shared.record(self.key(), [Change::Gone { segment: number, mask: cleared }]);
        }
    }
}

/// Tells the eviction which segments are in use.
fn note_use(body: &Body, range: &Range<u64>) {
    for span in spans(range) {
        if let Some(segment) = body.segments.get(&span.segment) {
            let base = u64::from(span.segment) * SEGMENT_BYTES;
            let start = range.start.max(base) - base;
            let end = (range.end - base).min(SEGMENT_BYTES);
            segment.heat.touch(span.mask, start as u32, end as u32);
        }
    }
}
