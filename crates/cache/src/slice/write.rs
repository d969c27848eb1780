//! Writing to a slice: the cache file as the write buffer.
//!
//! Checksums are made on the way, while the bytes are in the processor's cache: a frame that is written whole, or appended to from its
//! start, never has to be read back. Anything else (rewrites within a frame) voids the frame's checksum; `seal` reads those frames again.

use std::ops::Range;

use crate::entry::{Body, SliceState, Tail};
use crate::error::CacheError;
use crate::frames::{FRAME_BYTES, bits, cost, frame_range, frame_start, spans};
use crate::key::SliceKey;
use crate::slice::SliceFile;

/// At least this much is evicted when the disk says that it is full.
const MAKE_WAY_BYTES: u64 = 8 << 20;

impl SliceFile {
    /// Writes `data` at `offset` of a slice in state `Writing`, whether something was there or not. Hold a `DirtyPermit` meanwhile: this
    /// counts the new bytes but does not refuse them.
    ///
    /// # Errors
    /// `WrongState`, `OutOfRange`; `DiskFull` when nothing can be evicted any more; `DiskError`. After an error a part of the range may hold
    /// the new bytes; what was written before elsewhere is untouched.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), CacheError> {
        let range = self.entry.range(offset, data.len())?;
        if range.is_empty() {
            return Ok(());
        }
        match self.try_write(&range, data) {
            Err(CacheError::DiskFull { .. }) => {
                let way = MAKE_WAY_BYTES.max(2 * data.len() as u64);
                self.shared.refresh_room();
                self.shared.shrink(self.shared.space.used().saturating_sub(way));
                self.try_write(&range, data)
            }
            result => result,
        }
    }

    fn try_write(&self, range: &Range<u64>, data: &[u8]) -> Result<(), CacheError> {
        let cost = self.entry.gate.read().cost_of_absent(range, None);
        if cost > 0 && !self.shared.charge(cost) {
            return Err(CacheError::DiskFull { op: "writing", what: self.key().to_string() });
        }
        let result = self.write_charged(range, data);
        self.shared.space.used_correct(cost, *result.as_ref().unwrap_or(&0));
        result.map(drop)
    }

    /// Returns what the frames that had no data before occupy.
    fn write_charged(&self, range: &Range<u64>, data: &[u8]) -> Result<u64, CacheError> {
        let mut body = self.entry.gate.write();
        if body.state != SliceState::Writing {
            return Err(self.entry.wrong_state("write to", body.state));
        }
        let key = self.key();
        spans(range).for_each(|span| body.segment_mut(key, span.segment, None).uncheck(span.mask));
        if let Err(e) = self.store().write_at(data, range.start) {
            self.undo(&mut body, range);
            return Err(self.disk_error("writing", e));
        }
        let mut occupied = 0;
        for span in spans(range) {
            let new = body.segment_mut(key, span.segment, None).set_present(span.mask);
            occupied += cost(span.segment, new, None);
        }
        note_checksums(&mut body, key, range, data, self.shared.round());
        let new = body.written.insert(range.clone());
        body.dirty_bytes += new;
        self.shared.space.dirty_add(new);
        Ok(occupied)
    }

    /// After a failed write: what was not written before is a hole again, so that "never written is zero" stays true.
    fn undo(&self, body: &mut Body, range: &Range<u64>) {
        body.tail = None;
        for gap in body.written.gaps(range) {
            if let Err(e) = self.store().punch(gap) {
                tracing::warn!(key = %self.key(), error = %e, "a failed write to a cache file cannot be undone");
            }
        }
    }

    /// Makes a hole. While writing: the bytes count as never written. Clean: only frames that lie in `range` as a whole go.
    ///
    /// # Errors
    /// `WrongState` if sealed or gone; `OutOfRange`; `DiskError`.
    pub fn punch(&self, range: Range<u64>) -> Result<(), CacheError> {
        let range = self.entry.range(range.start, range.end.saturating_sub(range.start) as usize)?;
        if range.is_empty() {
            return Ok(());
        }
        let mut body = self.entry.gate.write();
        match body.state {
            SliceState::Writing => self.punch_written(&mut body, &range),
            SliceState::Clean => self.punch_clean(&body, &range),
            state => Err(self.entry.wrong_state("punch", state)),
        }
    }

    fn punch_written(&self, body: &mut Body, range: &Range<u64>) -> Result<(), CacheError> {
        for span in spans(range) {
            if let Some(segment) = body.segments.get(&span.segment) {
                segment.uncheck(span.mask);
            }
        }
        body.tail = None;
        self.store().punch(range.clone()).map_err(|e| self.disk_error("punching", e))?;
        let removed = body.written.remove(range.clone());
        let mut freed = 0;
        for span in spans(range) {
            let Some(segment) = body.segments.get(&span.segment) else { continue };
            let empty = bits(span.mask)
                .filter(|&frame| !body.written.touches(&frame_range(span.segment, frame, None)))
                .fold(0, |mask, frame| mask | 1 << frame);
            freed += cost(span.segment, segment.clear(empty), None);
        }
        body.dirty_bytes -= removed;
        self.shared.space.used_sub(freed);
        self.shared.space.dirty_sub(removed);
        Ok(())
    }

    fn punch_clean(&self, body: &Body, range: &Range<u64>) -> Result<(), CacheError> {
        let len = self.entry.len();
        for span in spans(range) {
            let inside = bits(span.mask)
                .filter(|&frame| {
                    let whole = frame_range(span.segment, frame, len);
                    range.start <= whole.start && whole.end <= range.end
                })
                .fold(0, |mask, frame| mask | 1 << frame);
            self.drop_frames(body, span.segment, inside);
            let mut holes = Vec::new();
            crate::frames::push_frames(&mut holes, span.segment, inside, len);
            for hole in holes.into_iter().filter(|hole| !hole.is_empty()) {
                self.store().punch(hole).map_err(|e| self.disk_error("punching", e))?;
            }
        }
        Ok(())
    }
}

/// Updates checksums for bytes that were just written, frame by frame.
fn note_checksums(body: &mut Body, key: SliceKey, range: &Range<u64>, data: &[u8], round: Option<u32>) {
    for span in spans(range) {
        for frame in bits(span.mask) {
            let start = frame_start(span.segment, frame);
            let (from, to) = (range.start.max(start), range.end.min(start + FRAME_BYTES));
            let bytes = &data[(from - range.start) as usize..(to - range.start) as usize];
            if let Some(crc) = whole_frame_crc(&mut body.tail, start, from - start, bytes) {
                body.segment_mut(key, span.segment, None).set_checked(frame, crc, round);
            }
        }
    }
}

/// Continues the checksum of the frame at `start` with `bytes` at `within`; returns it when it covers the whole frame.
///
/// `tail` stays right because it covers a prefix: a write behind that prefix does not touch it, a write into it drops it.
fn whole_frame_crc(tail: &mut Option<Tail>, start: u64, within: u64, bytes: &[u8]) -> Option<u32> {
    let n = bytes.len() as u64;
    let mine = tail.take_if(|tail| tail.start == start);
    let next = match mine {
        _ if within == 0 => Tail { start, upto: n, crc: crc32c::crc32c(bytes) },
        Some(tail) if tail.upto == within => {
            Tail { start, upto: within + n, crc: crc32c::crc32c_append(tail.crc, bytes) }
        }
        Some(tail) if tail.upto < within => tail,
        _ => return None,
    };
    if next.upto == FRAME_BYTES {
        return Some(next.crc);
    }
    *tail = Some(next);
    None
}
