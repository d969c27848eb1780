//! The bytes of a slice without a disk: chunks of up to 64 KiB, absent where nothing was written, like a sparse file.

use std::collections::BTreeMap;
use std::ops::Range;

use parking_lot::RwLock;

use crate::frames::FRAME_BYTES;

/// A sparse file in memory. Reads of holes give zeros.
#[derive(Default)]
pub(crate) struct MemoryBytes {
    chunks: RwLock<BTreeMap<u64, Vec<u8>>>,
}

impl MemoryBytes {
    /// Copies out; bytes that were never written are zero.
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) {
        let chunks = self.chunks.read();
        for (chunk, within, part) in pieces(offset, buf.len()) {
            let out = &mut buf[part];
            let have = chunks.get(&chunk).map_or(&[][..], |bytes| bytes.get(within..).unwrap_or(&[]));
            let n = have.len().min(out.len());
            out[..n].copy_from_slice(&have[..n]);
            out[n..].fill(0);
        }
    }

    /// Copies in.
    pub(crate) fn write(&self, data: &[u8], offset: u64) {
        let mut chunks = self.chunks.write();
        for (chunk, within, part) in pieces(offset, data.len()) {
            let bytes = chunks.entry(chunk).or_default();
            let end = within + part.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[within..end].copy_from_slice(&data[part]);
        }
    }

    /// Makes a range a hole again, and gives the memory of whole chunks back.
    pub(crate) fn punch(&self, range: Range<u64>) {
        let mut chunks = self.chunks.write();
        for (chunk, within, part) in pieces(range.start, (range.end - range.start) as usize) {
            if part.len() as u64 == FRAME_BYTES {
                chunks.remove(&chunk);
            } else if let Some(bytes) = chunks.get_mut(&chunk) {
                let end = bytes.len().min(within + part.len());
                bytes[within.min(end)..end].fill(0);
            }
        }
    }

    /// Forgets everything from `len` on.
    pub(crate) fn truncate(&self, len: u64) {
        let mut chunks = self.chunks.write();
        chunks.split_off(&len.div_ceil(FRAME_BYTES));
        if let Some(bytes) = chunks.get_mut(&(len / FRAME_BYTES)) {
            bytes.truncate((len % FRAME_BYTES) as usize);
        }
    }
}

/// Cuts a range into (chunk number, offset in the chunk, part of the caller's buffer).
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= len {
            return None;
        }
        let pos = offset + at as u64;
        let within = (pos % FRAME_BYTES) as usize;
        let n = (FRAME_BYTES as usize - within).min(len - at);
        let part = at..at + n;
        at += n;
        Some((pos / FRAME_BYTES, within, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_read_as_zeros_also_after_punch_and_truncate() {
        let bytes = MemoryBytes::default();
        bytes.write(&[7; 200_000], 10);
        bytes.punch(FRAME_BYTES - 5..2 * FRAME_BYTES + 5);
        bytes.truncate(150_000);
        let mut buf = vec![1; 200_100];
        bytes.read(&mut buf, 0);
        let hole = FRAME_BYTES as usize - 5..2 * FRAME_BYTES as usize + 5;
        let want: Vec<u8> = (0..buf.len())
            .map(|i| if (10..150_000).contains(&i) && !hole.contains(&i) { 7 } else { 0 })
            .collect();
        assert!(buf == want);
    }
}
