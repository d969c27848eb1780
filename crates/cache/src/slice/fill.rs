//! Storing what was fetched from the bucket, frame by frame.
//!
//! Filling is a favour: if there is no room, the caller has the bytes anyway. So it never waits and evicts only what is clean.

use std::ops::Range;

use crate::entry::SliceState;
use crate::error::{CacheError, is_full};
use crate::frames::{FRAME_BYTES, bits, cost, spans};
use crate::shared::frames_change;
use crate::slice::SliceFile;

/// What became of a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillOutcome {
    /// The bytes are here (or were already).
    Stored,
    /// Everything here is dirty or pinned, or the slice left the cache: the bytes were not stored.
    NoRoom,
}

impl SliceFile {
    /// Stores `data`, fetched and checked, at `offset` of a clean slice. Only whole frames of 64 KiB, but at the slice's end: a fill that
    /// ends elsewhere tells the length of the slice. Frames that are here are not written again.
    ///
    /// # Errors
    /// `BadFill`, `OutOfRange`; `WrongState` for dirty slices; `DiskFull`, `DiskError` (a caller that has the bytes can ignore these two).
    pub fn fill(&self, offset: u64, data: &[u8]) -> Result<FillOutcome, CacheError> {
        let range = self.check_fill(offset, data)?;
        let len = self.entry.len();
        let cost = {
            let body = self.entry.gate.read();
            match body.state {
                SliceState::Clean => body.cost_of_absent(&range, len),
                SliceState::Gone => return Ok(FillOutcome::NoRoom),
                state => return Err(self.entry.wrong_state("fill", state)),
            }
        };
        if cost == 0 {
            return Ok(FillOutcome::Stored);
        }
        if !self.shared.charge(cost) {
            return Ok(FillOutcome::NoRoom);
        }
        self.make_segments(&range, len);
        let (stored, result) = self.store_absent(&range, data, len);
        // Less than was charged if another thread filled the same frames; more only if some were evicted meanwhile.
        self.shared.space.used_correct(cost, stored);
        self.shared.rewrite_index_if_due(self.key());
        result
    }

    fn check_fill(&self, offset: u64, data: &[u8]) -> Result<Range<u64>, CacheError> {
        let range = self.entry.range(offset, data.len())?;
        let bad = |reason| CacheError::BadFill { key: self.key(), offset, bytes: data.len(), reason };
        if !offset.is_multiple_of(FRAME_BYTES) {
            return Err(bad("it does not begin with a frame"));
        }
        if !range.end.is_multiple_of(FRAME_BYTES) && !self.entry.learn_len(range.end) {
            return Err(bad("it ends within a frame that is not the slice's last"));
        }
        Ok(range)
    }

    /// Segments must be there before their frames are filled with only the shared side of the gate.
    fn make_segments(&self, range: &Range<u64>, len: Option<u64>) {
        let known = {
            let body = self.entry.gate.read();
            spans(range).all(|span| body.segments.contains_key(&span.segment))
        };
        if !known {
            let mut body = self.entry.gate.write();
            if body.state == SliceState::Clean {
                for span in spans(range) {
                    body.segment_mut(self.key(), span.segment, len);
                }
            }
        }
    }

    /// Writes the frames that are not here; returns what they occupy.
    fn store_absent(
        &self,
        range: &Range<u64>,
        data: &[u8],
        len: Option<u64>,
    ) -> (u64, Result<FillOutcome, CacheError>) {
        let body = self.entry.gate.read();
        let there = spans(range).all(|span| body.segments.contains_key(&span.segment));
        if body.state != SliceState::Clean || !there {
            return (0, Ok(FillOutcome::NoRoom));
        }
        let mut stored = 0;
        for part in body.missing(range, len) {
            let bytes = &data[(part.start - range.start) as usize..(part.end - range.start) as usize];
            if let Err(e) = self.store().write_at(bytes, part.start) {
                if is_full(&e) {
                    self.shared.refresh_room();
                }
                return (stored, Err(self.disk_error("filling", e)));
            }
            stored += self.admit(&body, &part, bytes, len);
        }
        (stored, Ok(FillOutcome::Stored))
    }

    /// Makes written frames visible: checksum, presence, queues, index.
    fn admit(&self, body: &crate::entry::Body, part: &Range<u64>, bytes: &[u8], len: Option<u64>) -> u64 {
        let round = self.shared.round();
        let mut frames = bytes.chunks(FRAME_BYTES as usize);
        let mut stored = 0;
        for span in spans(part) {
            let Some(segment) = body.segments.get(&span.segment) else { continue };
            let mut new = 0;
            for (frame, bytes) in bits(span.mask).zip(&mut frames) {
                new |= u64::from(segment.set_checked(frame, crc32c::crc32c(bytes), round)) << frame;
            }
            let cost = cost(span.segment, new, len);
            self.shared.policy.lock().add(&segment.heat, cost);
            if new != 0 {
                self.shared.record(self.key(), [frames_change(segment, span.segment, new, len)]);
            }
            stored += cost;
        }
        stored
    }
}
