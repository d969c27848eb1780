//! The dirty bytes of one inode since its last flush.
//!
//! A layer begins with the first change after a flush and ends when it is frozen for the next one. Its bytes lie in a
//! [`Buffer`] in the order in which they came: in memory while they are few, in a file of the cache when they are more.
//! Growing from the first to the second moves the bytes once and leaves the map as it is, since offsets stay the same.

use super::slice::SliceBuf;
use crate::pieces::{Part, Piece, PieceMap};
use carafe_types::{InodeNo, SessionNo, SliceId, Timestamp};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Where the bytes of a layer lie.
#[derive(Debug)]
pub(crate) enum Buffer {
    /// In memory (and in the journal).
    Memory(Vec<u8>),
    /// In a file of the cache.
    Slice(Arc<SliceBuf>),
}

/// Dirty state of an inode.
#[derive(Debug)]
pub(crate) struct Layer {
    /// Its number in the journal.
    pub(crate) id: u64,
    /// The session that accepted it: no other may commit it.
    pub(crate) session: SessionNo,
    /// Which bytes of the file lie where in the buffer.
    pub(crate) map: PieceMap,
    /// The buffer.
    pub(crate) buf: Buffer,
    /// Size of the file before the layer.
    pub(crate) base: u64,
    /// Size of the file.
    pub(crate) size: u64,
    /// Bytes of quota that were reserved for the growth of the file.
    pub(crate) charged: i64,
    /// Last change of content.
    pub(crate) mtime: Timestamp,
    /// Last change of content or size, by our clock.
    pub(crate) ctime: Timestamp,
    /// When it began.
    pub(crate) since: Instant,
    /// Something was changed: it is not merely begun.
    pub(crate) touched: bool,
    /// The journal does not know of it yet; the directory that it will be told.
    pub(crate) unlogged: Option<InodeNo>,
    /// The commit must clear set-id bits.
    pub(crate) kill_set_id: bool,
    /// A flush was asked for since its slice is long enough.
    pub(crate) rotating: bool,
    /// The bytes go to wherever the end of the file is at the commit (O_APPEND in a shared directory).
    pub(crate) append: bool,
    /// The `dataver` of the content that the layer was begun over.
    pub(crate) ver: Option<u64>,
    /// How often it was laid over newer content.
    pub(crate) laid_over: u32,
    /// Which bytes the application wrote, if others of the file are in the layer, too: a file is inline as a whole.
    pub(crate) own: Option<PieceMap>,
    /// Slices that a commit has named whose outcome is not known.
    pub(crate) sent: Mutex<Vec<SliceId>>,
}

/// A run of a write and where in the buffer it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// File offset, length, and place in the buffer.
    pub(crate) piece: Piece,
    /// The map knows it already.
    pub(crate) in_place: bool,
}

impl Layer {
    /// A layer without changes over a file of `size` bytes.
    pub(crate) fn new(id: u64, session: SessionNo, size: u64, now: Timestamp) -> Self {
        Layer {
            id,
            session,
            map: PieceMap::default(),
            buf: Buffer::Memory(Vec::new()),
            base: size,
            size,
            charged: 0,
            mtime: now,
            ctime: now,
            since: Instant::now(),
            touched: false,
            unlogged: None,
            kill_set_id: false,
            rotating: false,
            append: false,
            ver: None,
            laid_over: 0,
            own: None,
            sent: Mutex::default(),
        }
    }

    /// Bytes that it holds in memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        match &self.buf {
            Buffer::Memory(bytes) => bytes.len() as u64,
            Buffer::Slice(_) => 0,
        }
    }

    /// The slice file, if it has one.
    pub(crate) fn slice(&self) -> Option<&Arc<SliceBuf>> {
        match &self.buf {
            Buffer::Memory(_) => None,
            Buffer::Slice(slice) => Some(slice),
        }
    }

    /// Decides where in the buffer the bytes of a write go: over their old place where that may still change, else to
    /// the end, which is moved.
    pub(crate) fn place(&mut self, range: Range<u64>) -> Vec<Placed> {
        let closed = self.slice().map_or(0, |s| s.closed());
        let mut placed: Vec<Placed> = Vec::with_capacity(1);
        let mut fresh: Option<(u64, u64)> = None;
        let append = |layer: &mut Self, run: Option<(u64, u64)>, placed: &mut Vec<Placed>| {
            if let Some((offset, len)) = run {
                let at = layer.extend(len);
                placed.push(Placed { piece: Piece { offset, len, at }, in_place: false });
            }
        };
        for part in self.map.parts(range) {
            match part {
                Part::Piece(p) if p.at >= closed => {
                    append(self, fresh.take(), &mut placed);
                    placed.push(Placed { piece: p, in_place: true });
                }
                Part::Piece(p) if p.at + p.len > closed => {
                    let frozen = closed - p.at;
                    grow(&mut fresh, p.offset, frozen);
                    append(self, fresh.take(), &mut placed);
                    let rest = Piece { offset: p.offset + frozen, len: p.len - frozen, at: closed };
                    placed.push(Placed { piece: rest, in_place: true });
                }
                Part::Piece(Piece { offset, len, .. }) | Part::Gap(offset, len) => {
                    grow(&mut fresh, offset, len);
                }
            }
        }
        append(self, fresh, &mut placed);
        placed
    }

    /// Makes room for `len` bytes at the end of the buffer.
    fn extend(&mut self, len: u64) -> u64 {
        match &mut self.buf {
            Buffer::Memory(bytes) => {
                let at = bytes.len();
                bytes.resize(at + len as usize, 0);
                at as u64
            }
            Buffer::Slice(slice) => slice.append(len),
        }
    }

    /// Takes in the bytes that the file has, all of them, since a file is inline as a whole or not at all.
    pub(crate) fn take_along(&mut self, bytes: &[u8]) {
        let (mtime, ctime, touched) = (self.mtime, self.ctime, self.touched);
        self.write_memory(0, bytes, mtime);
        (self.mtime, self.ctime, self.touched) = (mtime, ctime, touched);
        self.own = Some(PieceMap::default());
    }

    /// Runs of the file that the application wrote.
    pub(crate) fn own_runs(&self) -> Vec<(u64, u64)> {
        self.own.as_ref().unwrap_or(&self.map).runs()
    }

    /// Notes what was written: the map, and a size that the write may have raised.
    pub(crate) fn wrote(&mut self, placed: &[Placed], range: Range<u64>, now: Timestamp) {
        if let Some(own) = &mut self.own {
            own.insert(Piece { offset: range.start, len: range.end - range.start, at: range.start });
        }
        for p in placed.iter().filter(|p| !p.in_place) {
            self.map.insert(p.piece);
        }
        self.size = self.size.max(range.end);
        self.touch(now);
    }

    /// Writes into a buffer in memory.
    ///
    /// The caller has checked that the buffer is in memory.
    pub(crate) fn write_memory(&mut self, offset: u64, data: &[u8], now: Timestamp) {
        let end = offset + data.len() as u64;
        if let Buffer::Memory(bytes) = &mut self.buf
            && self.map.is_empty()
            && bytes.is_empty()
        {
            // The usual small file: one write, kept with as many bytes as it has.
            bytes.extend_from_slice(data);
            self.map.insert(Piece { offset, len: data.len() as u64, at: 0 });
            return self.wrote(&[], offset..end, now);
        }
        let placed = self.place(offset..end);
        if let Buffer::Memory(bytes) = &mut self.buf {
            for Placed { piece, .. } in &placed {
                let from = (piece.offset - offset) as usize;
                let part = &data[from..from + piece.len as usize];
                bytes[piece.at as usize..][..part.len()].copy_from_slice(part);
            }
        }
        self.wrote(&placed, offset..end, now);
    }

    /// Sets the size; bytes beyond are forgotten.
    pub(crate) fn set_size(&mut self, size: u64, now: Timestamp) {
        self.map.remove(size..u64::MAX);
        if let Some(own) = &mut self.own {
            own.remove(size..u64::MAX);
        }
        if self.map.is_empty()
            && let Buffer::Memory(bytes) = &mut self.buf
        {
            bytes.clear();
        }
        self.size = size;
        self.touch(now);
    }

    fn touch(&mut self, now: Timestamp) {
        self.touched = true;
        self.mtime = now;
        self.ctime = now;
    }

    /// Copies buffered bytes of `range` that are in memory.
    pub(crate) fn copy_memory(&self, piece: &Piece, out: &mut [u8]) -> bool {
        match &self.buf {
            Buffer::Memory(bytes) => {
                out.copy_from_slice(&bytes[piece.at as usize..][..piece.len as usize]);
                true
            }
            Buffer::Slice(_) => false,
        }
    }
}

/// Lengthens a run that ends at `offset`, or begins one.
fn grow(run: &mut Option<(u64, u64)>, offset: u64, len: u64) {
    match run {
        Some((_, have)) => *have += len,
        None => *run = Some((offset, len)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(layer: &Layer) -> Vec<u8> {
        let mut out = vec![0; layer.size as usize];
        for p in layer.map.iter() {
            assert!(layer.copy_memory(&p, &mut out[p.offset as usize..][..p.len as usize]));
        }
        out
    }

    #[test]
    fn a_rewrite_in_memory_takes_no_more_memory() {
        let mut layer = Layer::new(1, SessionNo(1), 0, Timestamp(1));
        layer.write_memory(0, b"header..", Timestamp(2));
        layer.write_memory(8, b"body", Timestamp(3));
        layer.write_memory(0, b"HEADER", Timestamp(4));
        layer.write_memory(6, b"!!body2", Timestamp(5));
        assert_eq!(content(&layer), b"HEADER!!body2");
        assert_eq!((layer.memory_bytes(), layer.mtime), (13, Timestamp(5)));
    }

    #[test]
    fn a_smaller_size_forgets_and_a_larger_one_is_a_hole() {
        let mut layer = Layer::new(1, SessionNo(1), 0, Timestamp(1));
        layer.write_memory(0, b"0123456789", Timestamp(2));
        layer.set_size(4, Timestamp(3));
        layer.set_size(6, Timestamp(4));
        assert_eq!(content(&layer), b"0123\0\0");
    }
}
