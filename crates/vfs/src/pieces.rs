//! Which bytes of a file lie where in its write buffer.
//!
//! A write buffer is a log: new bytes are appended, so what a file range holds is found by a map from file offsets to
//! buffer offsets. Neighbours that touch in both are one piece, which makes a sequential file one piece whatever the
//! size of its writes.

use std::collections::BTreeMap;
use std::ops::Range;

/// A run of file bytes and where it begins in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First byte in the file.
    pub(crate) offset: u64,
    /// Bytes, at least 1.
    pub(crate) len: u64,
    /// First byte in the buffer.
    pub(crate) at: u64,
}

impl Piece {
    /// One past the last byte in the file.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// The part inside `range` of the file.
    fn cut(&self, range: &Range<u64>) -> Piece {
        let offset = self.offset.max(range.start);
        Piece { offset, len: self.end().min(range.end) - offset, at: self.at + (offset - self.offset) }
    }
}

/// A part of a file range: buffered, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// In the buffer.
    Piece(Piece),
    /// Not in the buffer: offset and length in the file.
    Gap(u64, u64),
}

/// Disjoint pieces by file offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PieceMap {
    /// File offset to (length, buffer offset).
    map: BTreeMap<u64, (u64, u64)>,
    bytes: u64,
}

impl PieceMap {
    /// How many pieces.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether nothing is buffered.
    pub(crate) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Bytes in all pieces.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Puts a piece over whatever is there.
    pub(crate) fn insert(&mut self, piece: Piece) {
        if piece.len == 0 {
            return;
        }
        self.remove(piece.offset..piece.end());
        self.bytes += piece.len;
        let mut new = piece;
        if let Some((&o, &(l, at))) = self.map.range(..piece.offset).next_back()
            && o + l == new.offset
            && at + l == new.at
        {
            self.map.remove(&o);
            new = Piece { offset: o, len: l + new.len, at };
        }
        if let Some(&(l, at)) = self.map.get(&new.end())
            && at == new.at + new.len
        {
            self.map.remove(&new.end());
            new.len += l;
        }
        self.map.insert(new.offset, (new.len, new.at));
    }

    /// Forgets the bytes of a file range.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        while let Some((&o, &(l, at))) = self.map.range(..range.end).next_back() {
            let end = o + l;
            if end <= range.start || range.is_empty() {
                break;
            }
            self.map.remove(&o);
            self.bytes -= end.min(range.end) - o.max(range.start);
            if end > range.end {
                self.map.insert(range.end, (end - range.end, at + (range.end - o)));
            }
            if o < range.start {
                self.map.insert(o, (range.start - o, at));
            }
        }
    }

    /// All pieces in file order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Piece> + '_ {
        self.map.iter().map(|(&offset, &(len, at))| Piece { offset, len, at })
    }

    /// The pieces that touch `range`, cut to it.
    pub(crate) fn within(&self, range: Range<u64>) -> impl Iterator<Item = Piece> + '_ {
        let before = self.map.range(..range.start).next_back();
        let inside = self.map.range(range.start..range.end.max(range.start));
        before
            .into_iter()
            .chain(inside)
            .map(|(&offset, &(len, at))| Piece { offset, len, at })
            .filter({
                let range = range.clone();
                move |p| p.end() > range.start && p.offset < range.end
            })
            .map(move |p| p.cut(&range))
    }

    /// `range` as a sequence of pieces and gaps that covers it.
    pub(crate) fn parts(&self, range: Range<u64>) -> Vec<Part> {
        let mut parts = Vec::with_capacity(1);
        let mut at = range.start;
        for piece in self.within(range.clone()) {
            if piece.offset > at {
                parts.push(Part::Gap(at, piece.offset - at));
            }
            at = piece.end();
            parts.push(Part::Piece(piece));
        }
        if at < range.end {
            parts.push(Part::Gap(at, range.end - at));
        }
        parts
    }

    /// Whether every byte of `range` is buffered.
    pub(crate) fn covers(&self, range: Range<u64>) -> bool {
        range.is_empty() || !self.parts(range).iter().any(|p| matches!(p, Part::Gap(..)))
    }

    /// Runs of the file without gaps inside, as (offset, length).
    pub(crate) fn runs(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for piece in self.iter() {
            match runs.last_mut() {
                Some((o, l)) if *o + *l == piece.offset => *l += piece.len,
                _ => runs.push((piece.offset, piece.len)),
            }
        }
        runs
    }

    /// The file offset whose byte lies at `at` in the buffer, for the trailer of a block; 0 if none does.
    pub(crate) fn offset_of(&self, at: u64) -> u64 {
        let holds = |p: &Piece| p.at <= at && at < p.at + p.len;
        self.iter().find(holds).map_or(0, |p| p.offset + (at - p.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sequential_writes_are_one_piece() {
        let mut map = PieceMap::default();
        (0..100).for_each(|i| map.insert(Piece { offset: i * 10, len: 10, at: i * 10 }));
        assert_eq!(map.iter().collect::<Vec<_>>(), [Piece { offset: 0, len: 1000, at: 0 }]);
        assert_eq!(map.offset_of(250), 250);
    }

    #[test]
    fn neighbours_in_the_file_that_are_apart_in_the_buffer_stay_apart() {
        let mut map = PieceMap::default();
        map.insert(Piece { offset: 10, len: 10, at: 0 });
        map.insert(Piece { offset: 0, len: 10, at: 10 });
        assert_eq!((map.len(), map.runs()), (2, vec![(0, 20)]));
    }

    proptest! {
        #[test]
        fn it_agrees_with_an_array(ops in prop::collection::vec((any::<bool>(), 0u64..80, 0u64..30), 0..80)) {
            let mut map = PieceMap::default();
            let mut model = [None; 120];
            let mut at = 0;
            for (insert, offset, len) in ops {
                if insert {
                    map.insert(Piece { offset, len, at });
                    (0..len).for_each(|i| model[(offset + i) as usize] = Some(at + i));
                    at += len;
                } else {
                    map.remove(offset..offset + len);
                    (0..len).for_each(|i| model[(offset + i) as usize] = None);
                }
                prop_assert_eq!(map.bytes(), model.iter().flatten().count() as u64);
                for range in [0..120, offset..offset + len, 40..41] {
                    let mut seen = range.start;
                    for part in map.parts(range.clone()) {
                        let (o, l) = match part {
                            Part::Gap(o, l) => {
                                prop_assert!((o..o + l).all(|i| model[i as usize].is_none()));
                                (o, l)
                            }
                            Part::Piece(p) => {
                                prop_assert!((0..p.len).all(|i| model[(p.offset + i) as usize] == Some(p.at + i)));
                                (p.offset, p.len)
                            }
                        };
                        prop_assert_eq!(o, seen);
                        seen = o + l;
                    }
                    prop_assert_eq!(seen, range.end);
                }
            }
        }
    }
}
