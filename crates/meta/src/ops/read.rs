//! Where the bytes of a file are.

use crate::content::{extents, read_index, read_segment};
use crate::store::Key;
use crate::tx::{Op, Tx};
use bytes::Bytes;
use carafe_types::record::{Content, Extent, SEGMENT_BYTES};
use carafe_types::{Attr, FsError, InodeNo};
use std::ops::Range;

/// What a range of a file consists of.
#[derive(Clone, Debug)]
pub struct FileContent {
    /// The file's attributes at the same moment.
    pub attr: Attr,
    /// This session holds the file's bucket alone.
    pub sole: bool,
    /// The bytes of an inline file, all of them, whatever the range. Behind them, up to the size, are zeroes.
    pub inline: Option<Bytes>,
    /// Cut to the range and sorted; what none covers reads as zeroes.
    pub extents: Vec<Extent>,
}

/// Segments that are asked for without looking at the index first.
const FEW_SEGMENTS: u64 = 16;

/// The content of `range` of a file.
pub(crate) fn content(tx: &mut Tx<'_>, ino: InodeNo, range: Range<u64>) -> Op<FileContent> {
    tx.want_node(ino);
    let inode = tx.file(ino)?;
    let mut found = FileContent { attr: inode.attr(ino), sole: false, inline: None, extents: Vec::new() };
    let (from, to) = (range.start, range.end.min(inode.size));
    match inode.content {
        Content::Empty => {}
        Content::Inline(crc) => {
            let bytes = tx.record(&Key::Content(ino))?;
            let bytes = bytes.ok_or_else(|| FsError::Io(format!("file {ino} has lost its inline bytes")))?;
            if crc32c::crc32c(&bytes) != crc {
                return Err(FsError::Io(format!(
                    "the inline bytes of file {ino} do not match their checksum"
                ))
                .into());
            }
            found.inline = Some(bytes);
        }
        Content::One(e) => found.extents = extents::window(&[e], from, to),
        Content::Many { g } if from < to => {
            let (first, last) = (from / SEGMENT_BYTES, (to - 1) / SEGMENT_BYTES);
            let segments: Vec<u64> = if last - first < FEW_SEGMENTS {
                (first..=last).collect()
            } else {
                read_index(tx, ino, g)?.within(first, last).collect()
            };
            segments.iter().for_each(|s| tx.want_record(Key::Extents { ino, g, segment: *s }));
            for segment in segments {
                let list = read_segment(tx, ino, g, segment)?;
                extents::append(&mut found.extents, &extents::window(&list, from, to));
            }
        }
        Content::Many { .. } => {}
    }
    Ok(found)
}
