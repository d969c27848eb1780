//! From records back to layers.
//!
//! Replay repeats the calls that the dead daemon made on its layers, so that bytes land where they lay. It touches
//! neither store nor bucket: what a rebuilt layer is worth is decided by who asks for it.

use super::entry::{Entry, decode};
use crate::pieces::{Piece, PieceMap};
use carafe_types::{InodeNo, Timestamp};
use std::collections::BTreeMap;

/// A layer as the journal describes it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RebuiltLayer {
    /// Whose.
    pub(crate) ino: InodeNoOrZero,
    /// The directory of the file, 0 when not known.
    pub(crate) parent: InodeNoOrZero,
    /// Size of the file.
    pub(crate) size: u64,
    /// Size of the file before the layer.
    pub(crate) base: u64,
    /// Last change.
    pub(crate) mtime: Timestamp,
    /// Which bytes lie where.
    pub(crate) map: PieceMap,
    /// The buffer, while it is in memory.
    pub(crate) bytes: Vec<u8>,
    /// The slice that holds the buffer since it grew.
    pub(crate) slice: Option<u64>,
    /// Slices that a commit may have named.
    pub(crate) sent: Vec<u64>,
}

/// An inode number, or 0.
pub(crate) type InodeNoOrZero = u64;

impl RebuiltLayer {
    fn write(&mut self, offset: u64, data: &[u8]) {
        // The same as a layer in memory does: over the old place where there is one, else to the end.
        for part in self.map.parts(offset..offset + data.len() as u64) {
            let (at, from, len) = match part {
                crate::pieces::Part::Piece(p) => (p.at as usize, p.offset, p.len),
                crate::pieces::Part::Gap(o, l) => (self.bytes.len(), o, l),
            };
            let part = &data[(from - offset) as usize..][..len as usize];
            if at == self.bytes.len() {
                self.bytes.extend_from_slice(part);
                self.map.insert(Piece { offset: from, len, at: at as u64 });
            } else if let Some(room) = self.bytes.get_mut(at..at + part.len()) {
                room.copy_from_slice(part);
            }
        }
        self.size = self.size.max(offset + data.len() as u64);
    }

    fn set_size(&mut self, size: u64) {
        self.map.remove(size..u64::MAX);
        if self.map.is_empty() && self.slice.is_none() {
            self.bytes.clear();
        }
        self.size = size;
    }
}

/// Everything that a journal holds.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    /// Layers that are not done, by number: older first.
    pub(crate) layers: BTreeMap<u64, RebuiltLayer>,
    /// The highest layer number seen.
    pub(crate) last_layer: u64,
    /// Records that could not be read, with the reason of the first.
    pub(crate) bad: Option<(usize, String)>,
}

/// Replays records in order.
pub(crate) fn replay(records: impl Iterator<Item = Result<Vec<u8>, String>>) -> Rebuilt {
    let mut all = Rebuilt::default();
    for record in records {
        let read = record.and_then(|bytes| match decode(&bytes) {
            Ok(entries) => {
                entries.into_iter().for_each(|e| apply(&mut all, e));
                Ok(())
            }
            Err(e) => Err(e.to_string()),
        });
        if let Err(reason) = read {
            all.bad.get_or_insert((0, reason)).0 += 1;
        }
    }
    all
}

fn apply(all: &mut Rebuilt, entry: Entry<'_>) {
    match entry {
        Entry::Begin { layer, ino, parent, size } => {
            all.last_layer = all.last_layer.max(layer);
            let new = RebuiltLayer { ino: ino.0, parent: parent.0, size, base: size, ..Default::default() };
            all.layers.insert(layer, new);
        }
        Entry::Done { layer } => drop(all.layers.remove(&layer)),
        Entry::Bytes { layer, offset, mtime, data } => {
            if let Some(l) = all.layers.get_mut(&layer) {
                l.write(offset, data);
                l.mtime = mtime;
            }
        }
        Entry::Slice { layer, n } => {
            if let Some(l) = all.layers.get_mut(&layer) {
                l.slice = Some(n);
                l.bytes = Vec::new();
            }
        }
        Entry::Placed { layer, offset, len, at, mtime } => {
            if let Some(l) = all.layers.get_mut(&layer) {
                l.map.insert(Piece { offset, len, at });
                l.size = l.size.max(offset.saturating_add(len));
                l.mtime = mtime;
            }
        }
        Entry::Size { layer, size, mtime } => {
            if let Some(l) = all.layers.get_mut(&layer) {
                l.set_size(size);
                l.mtime = mtime;
            }
        }
        Entry::Cut { layer, offset, len } => {
            if let Some(l) = all.layers.get_mut(&layer) {
                l.map.remove(offset..offset.saturating_add(len));
            }
        }
        Entry::Mtime { layer, mtime } => {
            if let Some(l) = all.layers.get_mut(&layer) {
                l.mtime = mtime;
            }
        }
        Entry::Sent { layer, n } => {
            if let Some(l) = all.layers.get_mut(&layer) {
                l.sent.push(n);
            }
        }
    }
}

impl Rebuilt {
    /// Inodes with the bytes that are not committed, for messages: a line for each.
    pub(crate) fn summary(&self) -> Vec<(InodeNo, u64)> {
        self.layers.values().map(|l| (InodeNo(l.ino), l.map.bytes())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dirty::Layer;

    fn records(batches: &[&[Entry<'_>]]) -> Vec<Result<Vec<u8>, String>> {
        let encode = |batch: &&[Entry<'_>]| {
            let mut record = Vec::new();
            batch.iter().for_each(|e| e.put(&mut record));
            Ok(record)
        };
        batches.iter().map(encode).collect()
    }

    const T: Timestamp = Timestamp(9);

    fn begin(layer: u64) -> Entry<'static> {
        Entry::Begin { layer, ino: InodeNo(65), parent: InodeNo(64), size: 0 }
    }

    #[test]
    fn bytes_land_where_the_dead_daemon_had_them() {
        let mut live = Layer::new(1, carafe_types::SessionNo(1), 0, Timestamp(0));
        let writes: [(u64, &[u8]); 4] = [(0, b"abcdef"), (10, b"xyz"), (4, b"GHIJKLMN"), (2, b"__")];
        let mut batches = vec![vec![begin(1)]];
        for (offset, data) in writes {
            live.write_memory(offset, data, T);
            batches.push(vec![Entry::Bytes { layer: 1, offset, mtime: T, data }]);
        }
        let batches: Vec<&[Entry<'_>]> = batches.iter().map(Vec::as_slice).collect();
        let all = replay(records(&batches).into_iter());
        let rebuilt = &all.layers[&1];
        assert_eq!((&rebuilt.map, rebuilt.size, rebuilt.mtime), (&live.map, 13, T));
        assert!(matches!(&live.buf, crate::dirty::Buffer::Memory(bytes) if *bytes == rebuilt.bytes));
    }

    #[test]
    fn what_is_done_is_gone_and_later_layers_stay() {
        let done = [Entry::Done { layer: 1 }];
        let second = [begin(2), Entry::Size { layer: 2, size: 7, mtime: T }];
        let all = replay(records(&[&[begin(1)], &second, &done]).into_iter());
        assert_eq!(all.layers.keys().collect::<Vec<_>>(), [&2]);
        assert_eq!((all.last_layer, all.layers[&2].size), (2, 7));
    }

    #[test]
    fn a_record_that_cannot_be_read_is_counted_and_passed_over() {
        let mut all = records(&[&[begin(1)]]);
        all.insert(0, Ok(vec![9]));
        all.push(Err("disk".into()));
        let all = replay(all.into_iter());
        assert_eq!((all.layers.len(), all.bad), (1, Some((2, "version 9, this program knows 1".to_owned()))));
    }
}
