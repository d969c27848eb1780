//! The content of one file inside a transaction.
//!
//! An [`Edit`] reads the segments that a change touches, changes them as lists of extents, and writes back what differs,
//! together with what the store must count. A file with one extent keeps it in its inode; the second one moves all of
//! them into segment records, and back when one is left.

use super::{Index, Ledger, extents};
use crate::store::Key;
use crate::tx::{Op, Stop, Tx};
use carafe_types::record::{Content, Extent, Inode, SEGMENT_BYTES, Segment};
use carafe_types::{FsError, InodeNo};
use std::collections::BTreeMap;
use std::ops::Range;

/// See the module.
pub(crate) struct Edit {
    ino: InodeNo,
    /// What the segments that were read hold now.
    segments: BTreeMap<u64, Vec<Extent>>,
    /// What they held in the store, for those that are kept in segment records.
    stored: BTreeMap<u64, Vec<Extent>>,
    index: Index,
    old: Content,
    ledger: Ledger,
}

fn damaged(ino: InodeNo, what: impl std::fmt::Display) -> Stop {
    Stop::Fail(FsError::Io(format!("the extents of file {ino} are damaged ({what}); run `carafe fsck`")))
}

impl Edit {
    /// Opens the content of a file that is not inline, with the segments that `ranges` touch.
    pub(crate) fn open(
        tx: &mut Tx<'_>,
        ino: InodeNo,
        inode: &Inode,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> Op<Self> {
        let mut edit = Edit {
            ino,
            segments: BTreeMap::new(),
            stored: BTreeMap::new(),
            index: Index::default(),
            old: inode.content.clone(),
            ledger: Ledger::default(),
        };
        match &inode.content {
            Content::Empty | Content::Inline(_) => {}
            Content::One(e) => {
                for (segment, part) in extents::by_segment(*e) {
                    edit.index.insert(segment);
                    edit.segments.insert(segment, vec![part]);
                }
            }
            Content::Many { g } => {
                let ranges: Vec<_> = ranges.into_iter().filter(|r| r.start < r.end).collect();
                edit.open_many(tx, *g, &ranges)?;
            }
        }
        Ok(edit)
    }

    fn open_many(&mut self, tx: &mut Tx<'_>, g: u32, ranges: &[Range<u64>]) -> Op<()> {
        let index_key = Index::key(self.ino, g);
        tx.want_record(index_key.clone());
        // Ranges of writes are short: their segments can be asked for before the index is known.
        for range in ranges.iter().filter(|r| r.end - r.start <= 4 * SEGMENT_BYTES) {
            for segment in range.start / SEGMENT_BYTES..=(range.end - 1) / SEGMENT_BYTES {
                tx.want_record(Key::Extents { ino: self.ino, g, segment });
            }
        }
        self.index = read_index(tx, self.ino, g)?;
        let mut wanted: Vec<u64> = Vec::new();
        for range in ranges {
            wanted.extend(self.index.within(range.start / SEGMENT_BYTES, (range.end - 1) / SEGMENT_BYTES));
        }
        wanted.sort_unstable();
        wanted.dedup();
        wanted.iter().for_each(|s| tx.want_record(Key::Extents { ino: self.ino, g, segment: *s }));
        for segment in wanted {
            let list = read_segment(tx, self.ino, g, segment)?;
            self.stored.insert(segment, list.clone());
            self.segments.insert(segment, list);
        }
        Ok(())
    }

    /// Puts an extent over what is there.
    pub(crate) fn overlay(&mut self, e: Extent) {
        for (segment, part) in extents::by_segment(e) {
            self.index.insert(segment);
            extents::overlay(self.segments.entry(segment).or_default(), part);
        }
    }

    /// As [`Edit::overlay`], for an extent of a slice that was just written. One that is there already was committed
    /// before, by a caller who did not hear so: it has its owners.
    pub(crate) fn overlay_new(&mut self, e: Extent) {
        let one = if let Content::One(one) = &self.old { Some(one) } else { None };
        let known = self.stored.values().flatten().chain(one).any(|old| old.slice == e.slice);
        if !known {
            self.ledger.fresh(&e);
        }
        self.overlay(e);
    }

    /// Makes a hole.
    pub(crate) fn remove(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let touched: Vec<u64> =
            self.segments.range(from / SEGMENT_BYTES..=(to - 1) / SEGMENT_BYTES).map(|(s, _)| *s).collect();
        for segment in touched {
            if let Some(list) = self.segments.get_mut(&segment) {
                extents::remove(list, from, to);
                if list.is_empty() {
                    self.index.remove(segment);
                }
            }
        }
    }

    /// What is at `from..to` now, in the segments that were read.
    pub(crate) fn window(&self, from: u64, to: u64) -> Vec<Extent> {
        let mut all = Vec::new();
        if from < to {
            for list in self.segments.range(from / SEGMENT_BYTES..=(to - 1) / SEGMENT_BYTES).map(|(_, l)| l) {
                extents::append(&mut all, &extents::window(list, from, to));
            }
        }
        all
    }

    /// Writes back what differs; returns the content for the inode. `dataver` is the new one: it names the records of a
    /// file that begins to have segments, so that records of an earlier time are never taken for new ones.
    pub(crate) fn close(mut self, tx: &mut Tx<'_>, dataver: u64) -> Op<Content> {
        let content = self.content(dataver);
        if let Content::One(e) = &self.old {
            self.ledger.before(std::slice::from_ref(e));
        }
        if let Content::One(e) = &content {
            self.ledger.after(std::slice::from_ref(e));
        }
        let (old, new) = (generation(&self.old), generation(&content));
        if let Some(g) = old.filter(|_| old != new) {
            for (segment, list) in std::mem::take(&mut self.stored) {
                self.ledger.before(&list);
                tx.delete(Key::Extents { ino: self.ino, g, segment });
            }
            tx.delete(Index::key(self.ino, g));
        }
        if let Some(g) = new {
            self.put_segments(tx, g)?;
        }
        for write in self.ledger.writes(tx.world.delete_after_ms) {
            tx.push(write);
        }
        Ok(content)
    }

    /// Writes the segments that differ from what is stored of this generation.
    fn put_segments(&mut self, tx: &mut Tx<'_>, g: u32) -> Op<()> {
        for (segment, list) in std::mem::take(&mut self.segments) {
            let old = self.stored.get(&segment).map_or(&[][..], Vec::as_slice);
            if old == list {
                continue;
            }
            self.ledger.replace(old, &list);
            let key = Key::Extents { ino: self.ino, g, segment };
            if list.is_empty() {
                tx.delete(key);
            } else {
                tx.put(key, Segment { extents: list }.encode(segment));
            }
        }
        let index = self.index.encode();
        let key = Index::key(self.ino, g);
        let old = if generation(&self.old) == Some(g) { tx.record(&key)? } else { None };
        if old.as_deref() != Some(&index[..]) {
            tx.put(key, index);
        }
        Ok(())
    }

    fn content(&self, dataver: u64) -> Content {
        if self.index.len() == 0 {
            return Content::Empty;
        }
        let all_read = self.segments.values().filter(|l| !l.is_empty()).count() as u64 == self.index.len();
        if all_read {
            let mut all = Vec::new();
            for list in self.segments.values() {
                extents::append(&mut all, list);
                if all.len() > 1 {
                    break;
                }
            }
            if let [one] = all[..] {
                return Content::One(one);
            }
        }
        match self.old {
            Content::Many { g } => Content::Many { g },
            _ => Content::Many { g: dataver as u32 },
        }
    }
}

fn generation(content: &Content) -> Option<u32> {
    if let Content::Many { g } = content { Some(*g) } else { None }
}

/// The index of a file with segments.
pub(crate) fn read_index(tx: &mut Tx<'_>, ino: InodeNo, g: u32) -> Op<Index> {
    let bytes = tx.record(&Index::key(ino, g))?.ok_or_else(|| damaged(ino, "no index of segments"))?;
    Index::decode(&bytes).ok_or_else(|| damaged(ino, "index of segments"))
}

/// The extents of one segment.
pub(crate) fn read_segment(tx: &mut Tx<'_>, ino: InodeNo, g: u32, segment: u64) -> Op<Vec<Extent>> {
    match tx.record(&Key::Extents { ino, g, segment })? {
        Some(bytes) => Segment::decode(segment, &bytes).map(|s| s.extents).map_err(|e| damaged(ino, e)),
        None => Ok(Vec::new()),
    }
}
