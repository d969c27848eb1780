//! Which slices a file refers to, record by record.
//!
//! An owner of slices is an inode with one extent, or a segment record of a file with several. The records of one file are
//! read in several steps while the file may change, so what is missing is looked at again from the inode on: if that has
//! changed, the new state is read; if it has not, the file is damaged. A file is told as a whole or not at all.

use super::Scanner;
use crate::content::Index;
use crate::store::Key;
use crate::tx::Node;
use bytes::Bytes;
use carafe_types::record::{Content, Extent, Inode, Segment};
use carafe_types::{FsResult, InodeNo};

/// How often a file that keeps changing is read.
const TRIES: u32 = 20;
/// After how many looks at a file that does not change what is missing is damage.
const UNCHANGED: u32 = 3;
/// Segments that are read at once.
const SEGMENTS: usize = 500;

/// What an owner holds, or why it cannot be told.
pub(crate) enum Owner<'a> {
    /// The extents of one record; `Some` number for a segment.
    Holds(Option<u64>, &'a [Extent]),
    /// In words.
    Damaged(String),
}

/// Calls `visit` for every owner in these files. A file that is gone meanwhile has none.
pub(crate) async fn visit_owners(
    scan: Scanner<'_>,
    files: &[(InodeNo, Inode)],
    visit: &mut (dyn FnMut(InodeNo, Owner<'_>) + Send),
) -> FsResult<()> {
    let mut many = Vec::new();
    for (ino, inode) in files {
        match &inode.content {
            Content::One(extent) => visit(*ino, Owner::Holds(None, std::slice::from_ref(extent))),
            Content::Many { g } => many.push((*ino, *g)),
            Content::Empty | Content::Inline(_) => {}
        }
    }
    let keys: Vec<Key> = many.iter().map(|(ino, g)| Index::key(*ino, *g)).collect();
    let indexes = scan.records(&keys).await?;
    for ((ino, g), index) in many.into_iter().zip(indexes) {
        visit_file(scan, ino, g, index, visit).await?;
    }
    Ok(())
}

async fn visit_file(
    scan: Scanner<'_>,
    ino: InodeNo,
    mut g: u32,
    mut index: Option<Bytes>,
    visit: &mut (dyn FnMut(InodeNo, Owner<'_>) + Send),
) -> FsResult<()> {
    let mut unchanged = 0;
    for _ in 0..TRIES {
        let missing = match read_segments(scan, ino, g, index.as_ref()).await? {
            Ok(segments) => {
                segments.iter().for_each(|(n, extents)| visit(ino, Owner::Holds(Some(*n), extents)));
                return Ok(());
            }
            Err(missing) => missing,
        };
        match again(scan, ino).await? {
            Again::Gone => return Ok(()),
            Again::One(extent) => {
                visit(ino, Owner::Holds(None, &[extent]));
                return Ok(());
            }
            Again::Damaged(reason) => {
                visit(ino, Owner::Damaged(reason));
                return Ok(());
            }
            Again::Many(now, found) if now == g && found == index => {
                unchanged += 1;
                if unchanged == UNCHANGED {
                    visit(ino, Owner::Damaged(missing));
                    return Ok(());
                }
            }
            Again::Many(now, found) => (g, index, unchanged) = (now, found, 0),
        }
    }
    visit(ino, Owner::Damaged("it changes too often to be read".to_owned()));
    Ok(())
}

/// A file's content, looked at once more.
enum Again {
    Gone,
    One(Extent),
    Many(u32, Option<Bytes>),
    Damaged(String),
}

async fn again(scan: Scanner<'_>, ino: InodeNo) -> FsResult<Again> {
    let Some(bytes) = scan.record(Key::Inode(ino)).await? else { return Ok(Again::Gone) };
    Ok(match Node::decode(&bytes) {
        Ok(Node::File(inode)) => match inode.content {
            Content::One(extent) => Again::One(extent),
            Content::Many { g } => Again::Many(g, scan.record(Index::key(ino, g)).await?),
            Content::Empty | Content::Inline(_) => Again::Gone,
        },
        Ok(Node::Dir(_)) => Again::Damaged("it became a directory".to_owned()),
        Err(e) => Again::Damaged(e.to_string()),
    })
}

/// All segments that an index names, or what is missing or damaged.
async fn read_segments(
    scan: Scanner<'_>,
    ino: InodeNo,
    g: u32,
    index: Option<&Bytes>,
) -> FsResult<Result<Vec<(u64, Vec<Extent>)>, String>> {
    let Some(index) = index else { return Ok(Err("it has no index of segments".to_owned())) };
    let Some(index) = Index::decode(index) else {
        return Ok(Err("its index of segments is damaged".to_owned()));
    };
    let mut all = Vec::new();
    let mut segments = index.within(0, u64::MAX - 1).peekable();
    while segments.peek().is_some() {
        let some: Vec<u64> = segments.by_ref().take(SEGMENTS).collect();
        let keys: Vec<Key> = some.iter().map(|segment| Key::Extents { ino, g, segment: *segment }).collect();
        for (segment, bytes) in some.iter().zip(scan.records(&keys).await?) {
            match bytes.map(|bytes| Segment::decode(*segment, &bytes)) {
                Some(Ok(record)) => all.push((*segment, record.extents)),
                Some(Err(e)) => return Ok(Err(format!("segment {segment}: {e}"))),
                None => return Ok(Err(format!("segment {segment} of its index is not there"))),
            }
        }
    }
    Ok(Ok(all))
}
