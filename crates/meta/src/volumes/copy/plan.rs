//! Reading what is to be copied: records as they are, without standing in anybody's watcher list.
//!
//! The source stands still, so records that are read one after the other belong together. What does not is damage.

use super::super::VolumeError;
use crate::content::Index;
use crate::jobs::Scanner;
use crate::store::{DirEntry, Key};
use crate::tx::Node;
use bytes::Bytes;
use carafe_types::record::{Content, Extent, Guard, Inode, Segment};
use carafe_types::{FileKind, FsError, FsResult, InodeNo};

/// Segments that are read at once.
const SEGMENTS: usize = 200;

/// A directory without what it holds.
#[derive(Clone, Debug)]
pub(super) struct PlainDir {
    pub(super) guard: Guard,
    pub(super) times: Option<Bytes>,
    pub(super) atime: Option<Bytes>,
    pub(super) xattr: Option<Bytes>,
}

/// Anything else, without its segments.
#[derive(Clone, Debug)]
pub(super) struct PlainFile {
    pub(super) inode: Inode,
    /// Inline bytes, or the target of a symlink.
    pub(super) content: Option<Bytes>,
    pub(super) xattr: Option<Bytes>,
}

/// One thing that a name of the source leads to.
#[derive(Clone, Debug)]
pub(super) enum Original {
    Dir(Box<PlainDir>),
    File(Box<PlainFile>),
}

fn damaged(ino: InodeNo, what: impl std::fmt::Display) -> VolumeError {
    FsError::Io(format!("inode {ino} of the source cannot be copied: {what}; run `carafe fsck`")).into()
}

/// What these entries lead to, in their order.
pub(super) async fn read(scan: Scanner<'_>, entries: &[DirEntry]) -> Result<Vec<Original>, VolumeError> {
    let inos: Vec<InodeNo> = entries.iter().map(|entry| entry.ino).collect();
    let mut nodes = Vec::with_capacity(inos.len());
    let records = scan.records(&inos.iter().map(|ino| Key::Inode(*ino)).collect::<Vec<_>>()).await?;
    for (ino, record) in inos.iter().zip(records) {
        let bytes = record.ok_or_else(|| damaged(*ino, "it is not there"))?;
        nodes.push(Node::decode(&bytes).map_err(|e| damaged(*ino, e))?);
    }
    let keys: Vec<Key> = inos.iter().zip(&nodes).flat_map(|(ino, node)| further(*ino, node)).collect();
    let mut found = scan.records(&keys).await?.into_iter();
    let mut originals = Vec::with_capacity(nodes.len());
    for node in nodes {
        let mut next = |wanted: bool| if wanted { found.next().flatten() } else { None };
        originals.push(match node {
            Node::Dir(guard) => {
                let (times, atime, xattr) = (next(true), next(true), next(guard.has_xattr));
                Original::Dir(Box::new(PlainDir { guard, times, atime, xattr }))
            }
            Node::File(inode) => {
                let (content, xattr) = (next(has_content(&inode)), next(inode.has_xattr));
                Original::File(Box::new(PlainFile { inode, content, xattr }))
            }
        });
    }
    Ok(originals)
}

fn has_content(inode: &Inode) -> bool {
    inode.kind == FileKind::Symlink || matches!(inode.content, Content::Inline(_))
}

/// The records beside the inode's own that belong to it, in the order in which `read` takes them.
fn further(ino: InodeNo, node: &Node) -> Vec<Key> {
    let mut keys = Vec::new();
    match node {
        Node::Dir(guard) => {
            keys.extend([Key::DirTimes(ino), Key::DirAtime(ino)]);
            keys.extend(guard.has_xattr.then_some(Key::Xattr(ino)));
        }
        Node::File(inode) => {
            keys.extend(has_content(inode).then_some(Key::Content(ino)));
            keys.extend(inode.has_xattr.then_some(Key::Xattr(ino)));
        }
    }
    keys
}

/// A run of segments of a file, with the extents in each.
pub(super) type Segments = Vec<(u64, Vec<Extent>)>;

/// All segments of a file, in runs that each fit into one commit.
pub(super) async fn segments(
    scan: Scanner<'_>,
    ino: InodeNo,
    inode: &Inode,
) -> Result<Vec<Segments>, VolumeError> {
    let Content::Many { g } = inode.content else { return Ok(Vec::new()) };
    let index: FsResult<Option<Bytes>> = scan.record(Index::key(ino, g)).await;
    let index = index?.as_deref().and_then(Index::decode);
    let index = index.ok_or_else(|| damaged(ino, "its index of segments cannot be read"))?;
    let numbers: Vec<u64> = index.within(0, u64::MAX - 1).collect();
    let mut runs = Vec::new();
    for some in numbers.chunks(SEGMENTS) {
        let keys: Vec<Key> = some.iter().map(|segment| Key::Extents { ino, g, segment: *segment }).collect();
        let mut run = Vec::with_capacity(some.len());
        for (segment, bytes) in some.iter().zip(scan.records(&keys).await?) {
            let bytes = bytes.ok_or_else(|| damaged(ino, format!("segment {segment} is not there")))?;
            run.push((*segment, Segment::decode(*segment, &bytes).map_err(|e| damaged(ino, e))?.extents));
        }
        runs.push(run);
    }
    Ok(runs)
}
