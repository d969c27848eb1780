//! What is known about 64 frames of a slice: which are here, their checksums, which were checked lately, and how hot they are.
//!
//! Everything that a read or a fill changes is atomic, so that both need only the shared side of the slice's gate.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::*};

use crate::frames::{FRAME_BYTES, SEGMENT_FRAMES};
use crate::key::SliceKey;

/// A segment of a slice.
pub(crate) struct Segment {
    /// Frames that hold data. While writing: frames with at least one written byte.
    present: AtomicU64,
    /// Frames whose checksum is right for their present content. Clean slices: the same as `present`.
    checked: AtomicU64,
    /// Frames found right in the round `verified_round`.
    verified: AtomicU64,
    verified_round: AtomicU32,
    /// crc32c by frame; short if the slice is.
    crcs: Box<[AtomicU32]>,
    /// Shared with the eviction queues.
    pub(crate) heat: std::sync::Arc<Heat>,
}

impl Segment {
    /// An empty segment with room for `frames` frames.
    pub(crate) fn new(key: SliceKey, number: u32, frames: usize) -> Self {
        Segment {
            present: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            verified: AtomicU64::new(0),
            verified_round: AtomicU32::new(0),
            crcs: (0..frames.min(SEGMENT_FRAMES as usize)).map(|_| AtomicU32::new(0)).collect(),
            heat: std::sync::Arc::new(Heat::new(key, number)),
        }
    }

    /// Frames that hold data. Acquire: whoever sees the bit sees the bytes and the checksum.
    pub(crate) fn present(&self) -> u64 {
        self.present.load(Acquire)
    }

    /// Frames with a finished checksum.
    pub(crate) fn checked(&self) -> u64 {
        self.checked.load(Acquire)
    }

    /// How many frames it has room for.
    pub(crate) fn capacity(&self) -> usize {
        self.crcs.len()
    }

    /// The checksum last stored for a frame.
    pub(crate) fn crc(&self, frame: u32) -> u32 {
        self.crcs.get(frame as usize).map_or(0, |crc| crc.load(Relaxed))
    }

    /// Frames have data but no finished checksum. Returns which of them had none before.
    pub(crate) fn set_present(&self, mask: u64) -> u64 {
        mask & !self.present.fetch_or(mask, AcqRel)
    }

    /// The content of frames changes: their checksums are void.
    pub(crate) fn uncheck(&self, mask: u64) {
        self.checked.fetch_and(!mask, AcqRel);
    }

    /// A frame has data with this checksum, just written from memory, so right in `round`. Returns true if it had no data before.
    pub(crate) fn set_checked(&self, frame: u32, crc: u32, round: Option<u32>) -> bool {
        let Some(slot) = self.crcs.get(frame as usize) else { return false };
        slot.store(crc, Relaxed);
        self.set_verified(1 << frame, round);
        self.checked.fetch_or(1 << frame, AcqRel);
        self.set_present(1 << frame) != 0
    }

    /// Takes frames away. Returns those that had data.
    pub(crate) fn clear(&self, mask: u64) -> u64 {
        self.checked.fetch_and(!mask, AcqRel);
        mask & self.present.fetch_and(!mask, AcqRel)
    }

    /// Frames that need no check in this round; `None` is a cache that always checks.
    pub(crate) fn verified(&self, round: Option<u32>) -> u64 {
        match round {
            Some(round) if self.verified_round.load(Acquire) == round => self.verified.load(Relaxed),
            _ => 0,
        }
    }

    /// Frames were found right. A race at the change of rounds forgets a bit or keeps one for a round longer: both are harmless.
    pub(crate) fn set_verified(&self, mask: u64, round: Option<u32>) {
        let Some(round) = round else { return };
        if self.verified_round.load(Acquire) != round {
            self.verified.store(0, Relaxed);
            self.verified_round.store(round, Release);
        }
        self.verified.fetch_or(mask, Relaxed);
    }

    /// A smaller copy once the slice's length is known (4 bytes a frame add up over 100,000 small slices).
    pub(crate) fn shrunk(&self, frames: usize) -> Segment {
        let small = Segment::new(self.heat.key, self.heat.segment, frames);
        small.present.store(self.present(), Relaxed);
        small.checked.store(self.checked(), Relaxed);
        for (to, from) in small.crcs.iter().zip(&self.crcs) {
            to.store(from.load(Relaxed), Relaxed);
        }
        small
    }
}

/// Where a segment stands in the eviction queues, and how often it was used again.
pub(crate) struct Heat {
    /// The slice.
    pub(crate) key: SliceKey,
    /// Number of the segment in it.
    pub(crate) segment: u32,
    /// Which queue holds it (`policy`); changed only under the policy's lock.
    pub(crate) queue: AtomicU8,
    /// Clean bytes that it occupies; changed only under the policy's lock.
    pub(crate) bytes: AtomicU64,
    /// Uses after the first, up to `MAX_USES`.
    uses: AtomicU8,
    /// Frames read since the last use was counted.
    touched: AtomicU64,
    /// End of the last read, as offset in the segment.
    last_end: AtomicU32,
}

/// Uses beyond this say nothing more (S3-FIFO keeps two bits).
const MAX_USES: u8 = 3;

impl Heat {
    fn new(key: SliceKey, segment: u32) -> Self {
        Heat {
            key,
            segment,
            queue: AtomicU8::new(0),
            bytes: AtomicU64::new(0),
            uses: AtomicU8::new(0),
            touched: AtomicU64::new(0),
            last_end: AtomicU32::new(0),
        }
    }

    /// Notes a read of `mask`, bytes `start..end` of the segment.
    ///
    /// A segment is read in many calls by one sequential reader; each of them as a use would make every scan look hot. So a use is a
    /// read that begins in a frame already read, unless it goes on where the last read ended (small sequential reads in one frame).
    pub(crate) fn touch(&self, mask: u64, start: u32, end: u32) {
        let before = self.touched.fetch_or(mask, Relaxed);
        let last_end = self.last_end.swap(end, Relaxed);
        let frame = start / FRAME_BYTES as u32;
        let goes_on = start >= last_end && last_end > 0 && frame == (last_end - 1) / FRAME_BYTES as u32;
        if before & (1 << (frame & 63)) != 0 && !goes_on {
            self.touched.store(mask, Relaxed);
            let uses = self.uses.load(Relaxed);
            if uses < MAX_USES {
                self.uses.store(uses + 1, Relaxed);
            }
        }
    }

    /// Uses counted so far.
    pub(crate) fn uses(&self) -> u8 {
        self.uses.load(Relaxed)
    }

    /// Sets the count of uses (the queues age it).
    pub(crate) fn set_uses(&self, uses: u8) {
        self.uses.store(uses, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heat() -> Heat {
        Heat::new(SliceKey { session_uuid: 1, n: 1 }, 0)
    }

    #[test]
    fn one_sequential_pass_in_small_reads_is_no_use() {
        let heat = heat();
        for at in (0..4 << 20).step_by(4096) {
            heat.touch(1 << (at / FRAME_BYTES as u32), at, at + 4096);
        }
        assert_eq!(heat.uses(), 0);
    }

    #[test]
    fn each_further_pass_is_one_use() {
        let heat = heat();
        for _pass in 0..3 {
            for frame in 0..64 {
                heat.touch(1 << frame, frame * FRAME_BYTES as u32, (frame + 1) * FRAME_BYTES as u32);
            }
        }
        assert_eq!(heat.uses(), 2);
    }

    #[test]
    fn reading_a_small_slice_again_is_a_use() {
        let heat = heat();
        heat.touch(1, 0, 20_000);
        heat.touch(1, 0, 20_000);
        assert_eq!(heat.uses(), 1);
    }

    #[test]
    fn a_check_is_forgotten_in_the_next_round() {
        let segment = Segment::new(SliceKey { session_uuid: 1, n: 1 }, 0, 64);
        segment.set_checked(3, 9, Some(1));
        assert_eq!((segment.verified(Some(1)), segment.verified(Some(2)), segment.verified(None)), (8, 0, 0));
        segment.set_verified(1, Some(2));
        assert_eq!(segment.verified(Some(2)), 1);
    }
}
