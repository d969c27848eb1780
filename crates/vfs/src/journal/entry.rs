//! What the journal says: accepted bytes, where they lie, and which of them are safe by now.
//!
//! A journal record is one version byte and a sequence of entries, so that what one call changes is one append. Every
//! entry names a *layer*: the dirty bytes of one inode from its first write after a flush until the next flush. Layers
//! are numbered within a journal and numbers are not used again, so "done" never hits newer bytes.
//! The bytes are described in `docs/format-journal.md`.

use carafe_types::{InodeNo, Timestamp};

/// Version of the records that this program reads and writes.
pub(crate) const VERSION: u8 = 1;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// A layer begins.
    Begin {
        /// Its number.
        layer: u64,
        /// Whose bytes it holds.
        ino: InodeNo,
        /// The directory of the file, 0 when not known.
        parent: InodeNo,
        /// Size of the file before.
        size: u64,
    },
    /// Bytes at an offset of the file, kept here.
    Bytes {
        /// Which layer.
        layer: u64,
        /// Offset in the file.
        offset: u64,
        /// When.
        mtime: Timestamp,
        /// The bytes.
        data: &'a [u8],
    },
    /// From here on the layer's bytes lie in the cache's file of slice `n`, those so far at its start.
    Slice {
        /// Which layer.
        layer: u64,
        /// Number of the slice in this session.
        n: u64,
    },
    /// Bytes of the file that lie in the slice.
    Placed {
        /// Which layer.
        layer: u64,
        /// Offset in the file.
        offset: u64,
        /// How many.
        len: u64,
        /// Offset in the slice.
        at: u64,
        /// When.
        mtime: Timestamp,
    },
    /// The file has this size now; bytes beyond it are gone.
    Size {
        /// Which layer.
        layer: u64,
        /// Size of the file.
        size: u64,
        /// When.
        mtime: Timestamp,
    },
    /// These bytes are not in the layer any more (a hole was punched).
    Cut {
        /// Which layer.
        layer: u64,
        /// Offset in the file.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// An explicit modification time, for the next commit.
    Mtime {
        /// Which layer.
        layer: u64,
        /// The time.
        mtime: Timestamp,
    },
    /// The layer's bytes go to the bucket as (part of) slice `n`, and a commit that names it is on its way.
    Sent {
        /// Which layer.
        layer: u64,
        /// Number of the slice or pack.
        n: u64,
    },
    /// The layer is committed, or nobody wants it any more.
    Done {
        /// Which layer.
        layer: u64,
    },
}

/// Why a record cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadRecord {
    /// It ends inside an entry.
    #[error("truncated")]
    Truncated,
    /// A newer program wrote it.
    #[error("version {0}, this program knows {VERSION}")]
    Version(u8),
    /// No entry of this kind.
    #[error("unknown entry {0}")]
    Unknown(u8),
}

impl Entry<'_> {
    /// Appends the entry to a record; an empty `out` gets the version first.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        if out.is_empty() {
            out.push(VERSION);
        }
        match *self {
            Entry::Begin { layer, ino, parent, size } => put(out, 1, &[layer, ino.0, parent.0, size]),
            Entry::Bytes { layer, offset, mtime, data } => {
                put(out, 2, &[layer, offset, zigzag(mtime.0), data.len() as u64]);
                out.extend_from_slice(data);
            }
            Entry::Slice { layer, n } => put(out, 3, &[layer, n]),
            Entry::Placed { layer, offset, len, at, mtime } => {
                put(out, 4, &[layer, offset, len, at, zigzag(mtime.0)]);
            }
            Entry::Size { layer, size, mtime } => put(out, 5, &[layer, size, zigzag(mtime.0)]),
            Entry::Cut { layer, offset, len } => put(out, 6, &[layer, offset, len]),
            Entry::Mtime { layer, mtime } => put(out, 7, &[layer, zigzag(mtime.0)]),
            Entry::Sent { layer, n } => put(out, 8, &[layer, n]),
            Entry::Done { layer } => put(out, 9, &[layer]),
        }
    }
}

/// Reads the entries of a record.
pub(crate) fn decode(record: &[u8]) -> Result<Vec<Entry<'_>>, BadRecord> {
    let (&version, mut rest) = record.split_first().ok_or(BadRecord::Truncated)?;
    if version != VERSION {
        return Err(BadRecord::Version(version));
    }
    let mut entries = Vec::new();
    while let Some((&kind, tail)) = rest.split_first() {
        rest = tail;
        entries.push(take(kind, &mut rest)?);
    }
    Ok(entries)
}

fn take<'a>(kind: u8, rest: &mut &'a [u8]) -> Result<Entry<'a>, BadRecord> {
    let mut next = || varint(rest);
    Ok(match kind {
        1 => Entry::Begin { layer: next()?, ino: InodeNo(next()?), parent: InodeNo(next()?), size: next()? },
        2 => {
            let (layer, offset, mtime) = (next()?, next()?, Timestamp(unzigzag(next()?)));
            let len = usize::try_from(next()?).map_err(|_| BadRecord::Truncated)?;
            let (data, tail) = rest.split_at_checked(len).ok_or(BadRecord::Truncated)?;
            *rest = tail;
            Entry::Bytes { layer, offset, mtime, data }
        }
        3 => Entry::Slice { layer: next()?, n: next()? },
        4 => Entry::Placed {
            layer: next()?,
            offset: next()?,
            len: next()?,
            at: next()?,
            mtime: Timestamp(unzigzag(next()?)),
        },
        5 => Entry::Size { layer: next()?, size: next()?, mtime: Timestamp(unzigzag(next()?)) },
        6 => Entry::Cut { layer: next()?, offset: next()?, len: next()? },
        7 => Entry::Mtime { layer: next()?, mtime: Timestamp(unzigzag(next()?)) },
        8 => Entry::Sent { layer: next()?, n: next()? },
        9 => Entry::Done { layer: next()? },
        other => return Err(BadRecord::Unknown(other)),
    })
}

fn put(out: &mut Vec<u8>, kind: u8, fields: &[u64]) {
    out.push(kind);
    for &field in fields {
        let mut v = field;
        while v >= 0x80 {
            out.push(v as u8 | 0x80);
            v >>= 7;
        }
        out.push(v as u8);
    }
}

fn varint(rest: &mut &[u8]) -> Result<u64, BadRecord> {
    let mut v = 0u64;
    for shift in (0..64).step_by(7) {
        let (&b, tail) = rest.split_first().ok_or(BadRecord::Truncated)?;
        *rest = tail;
        v |= u64::from(b & 0x7f) << shift;
        if b < 0x80 {
            return Ok(v);
        }
    }
    Err(BadRecord::Truncated)
}

fn zigzag(v: i64) -> u64 {
    ((v << 1) ^ (v >> 63)) as u64
}

fn unzigzag(v: u64) -> i64 {
    (v >> 1) as i64 ^ -((v & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(data: &[u8]) -> Vec<Entry<'_>> {
        let (layer, offset, len, at, mtime) = (7, u64::MAX, 300, 1 << 40, Timestamp(-5));
        vec![
            Entry::Begin { layer, ino: InodeNo(64), parent: InodeNo(0), size: 9 },
            Entry::Bytes { layer, offset, mtime, data },
            Entry::Slice { layer, n: 3 },
            Entry::Placed { layer, offset, len, at, mtime },
            Entry::Size { layer, size: 5, mtime },
            Entry::Cut { layer, offset, len },
            Entry::Mtime { layer, mtime },
            Entry::Sent { layer, n: 4 },
            Entry::Done { layer },
        ]
    }

    #[test]
    fn a_record_of_all_entries_reads_back() {
        let entries = all(b"some bytes");
        let mut record = Vec::new();
        entries.iter().for_each(|e| e.put(&mut record));
        assert_eq!(decode(&record), Ok(entries));
        record[0] = 2;
        assert_eq!(decode(&record), Err(BadRecord::Version(2)));
    }

    #[test]
    fn the_documented_bytes_are_written() {
        let mut record = Vec::new();
        Entry::Sent { layer: 300, n: 1 }.put(&mut record);
        assert_eq!(record, [1, 8, 0xac, 0x02, 1]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode(&bytes);
        }
    }
}
