//! From written to sealed to clean, without moving a byte.

use crate::entry::{Body, SliceState};
use crate::error::CacheError;
use crate::frames::{
    FRAME_BYTES, MAX_SLICE_BYTES, SEGMENT_BYTES, bits, cost, frame_range, frames_in, low_bits,
};
use crate::shared::known_frames;
use crate::slice::SliceFile;

impl SliceFile {
    /// Ends the writing: the slice has `len` bytes from now on. What was written behind is cut off, what was never written is zero, and
    /// each frame that has data gets its checksum. Does nothing if it is sealed or clean with this length already.
    ///
    /// # Errors
    /// `WrongState`, `OutOfRange`, `DiskError`; after an error it still takes writes, and can be sealed again.
    pub fn seal(&self, len: u64) -> Result<(), CacheError> {
        let mut body = self.entry.gate.write();
        match body.state {
            SliceState::Writing => {}
            SliceState::Sealed | SliceState::Clean if self.entry.len() == Some(len) => return Ok(()),
            state => return Err(self.entry.wrong_state("seal", state)),
        }
        if len > MAX_SLICE_BYTES {
            return Err(CacheError::OutOfRange { key: self.key(), range: 0..len, len: MAX_SLICE_BYTES });
        }
        self.store().set_len(len).map_err(|e| self.disk_error("cutting", e))?;
        self.cut(&mut body, len);
        self.finish_checksums(&body, len)?;
        let (before, after) = (body.cost(None), body.cost(Some(len)));
        self.shared.space.used_sub(before - after);
        for (&number, segment) in &mut body.segments {
            if segment.capacity() > frames_in(number, Some(len)) {
                *segment = segment.shrunk(frames_in(number, Some(len)));
            }
        }
        body.tail = None;
        body.written = Default::default();
        body.state = SliceState::Sealed;
        self.entry.learn_len(len);
        Ok(())
    }

    /// Forgets what lies behind `len`.
    fn cut(&self, body: &mut Body, len: u64) {
        let end = body.written.end();
        let removed = if end > len { body.written.remove(len..end) } else { 0 };
        body.dirty_bytes -= removed;
        let mut freed = 0;
        for (&number, segment) in &body.segments {
            let room = low_bits(frames_in(number, Some(len)) as u64);
            freed += cost(number, segment.clear(!room), None);
        }
        body.segments.split_off(&(len.div_ceil(SEGMENT_BYTES) as u32));
        // A last frame that lost its end has another checksum now.
        if removed > 0
            && let Some(segment) = body.segments.get(&((len / SEGMENT_BYTES) as u32))
        {
            segment.uncheck(1 << (len % SEGMENT_BYTES / FRAME_BYTES));
            body.tail = None;
        }
        self.shared.space.used_sub(freed);
        self.shared.space.dirty_sub(removed);
    }

    /// Computes the checksums that the writes left open.
    fn finish_checksums(&self, body: &Body, len: u64) -> Result<(), CacheError> {
        let round = self.shared.round();
        let mut buf = Vec::new();
        for (&number, segment) in &body.segments {
            for frame in bits(segment.present() & !segment.checked()) {
                let range = frame_range(number, frame, Some(len));
                let crc = match &body.tail {
                    Some(tail) if tail.start == range.start && tail.start + tail.upto == range.end => {
                        tail.crc
                    }
                    _ => {
                        buf.resize((range.end - range.start) as usize, 0);
                        let read = self.store().read_at(&mut buf, range.start);
                        let n = read.map_err(|e| self.disk_error("reading", e))?;
                        if n < buf.len() {
                            return Err(CacheError::DirtyCorrupt {
                                key: self.key(),
                                offset: range.start + n as u64,
                            });
                        }
                        crc32c::crc32c(&buf)
                    }
                };
                segment.set_checked(frame, crc, round);
            }
        }
        Ok(())
    }

    /// The bytes are in the bucket and committed: the slice is cache from now on and may be evicted. Does nothing if it is clean already.
    ///
    /// # Errors
    /// `WrongState` if it was not sealed.
    pub fn mark_clean(&self) -> Result<(), CacheError> {
        let dirty = {
            let mut body = self.entry.gate.write();
            match body.state {
                SliceState::Sealed => {}
                SliceState::Clean => return Ok(()),
                state => return Err(self.entry.wrong_state("mark clean", state)),
            }
            body.state = SliceState::Clean;
            // Segments of holes only have nothing to keep.
            body.segments.retain(|_, segment| segment.present() != 0);
            let len = self.entry.len();
            {
                let mut policy = self.shared.policy.lock();
                for (&number, segment) in &body.segments {
                    policy.add(&segment.heat, cost(number, segment.present(), len));
                }
            }
            self.shared.record(self.key(), known_frames(&body, len));
            std::mem::take(&mut body.dirty_bytes)
        };
        self.shared.space.dirty_sub(dirty);
        self.shared.rewrite_index_if_due(self.key());
        Ok(())
    }
}
