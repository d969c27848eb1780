//! A piece of a copy: things to be made, as writes of one commit.

use super::plan::{PlainDir, PlainFile, Segments};
use crate::content::{Index, Ledger};
use crate::ops::create::parent_hint;
use crate::store::{Key, Write};
use crate::tx::{Op, Tx};
use bytes::Bytes;
use carafe_types::record::{Content, Guard, Inode, Segment};
use carafe_types::{EntryName, FileKind, InodeNo, QuotaId};

/// Where a thing gets its name.
#[derive(Clone, Debug)]
pub(super) struct At {
    pub(super) dir: InodeNo,
    pub(super) name: EntryName,
}

/// One thing to be made.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Dir {
        ino: InodeNo,
        at: At,
        dir: Box<PlainDir>,
    },
    /// With its first run of segments, if it has any; `last`: there are no more.
    File {
        ino: InodeNo,
        at: At,
        file: Box<PlainFile>,
        segments: Segments,
        last: bool,
    },
    /// More segments of a file. `index` is of all segments so far.
    More {
        ino: InodeNo,
        inode: Box<Inode>,
        from: u64,
        index: Index,
        segments: Segments,
    },
    /// Another name of a file that was copied before.
    Name {
        ino: InodeNo,
        at: At,
        inode: Box<Inode>,
    },
}

impl Item {
    /// Records that it writes, about.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Dir { .. } => 5,
            Self::Name { .. } => 2,
            Self::File { segments, .. } => 4 + segments.len() * 2,
            Self::More { segments, .. } => 2 + segments.len() * 2,
        }
    }

    /// Bytes that it writes, about.
    pub(super) fn bytes(&self) -> usize {
        let extents = |segments: &Segments| segments.iter().map(|(_, list)| list.len() * 40).sum::<usize>();
        let len = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
        200 + match self {
            Self::Dir { dir, .. } => len(&dir.xattr),
            Self::Name { .. } => 0,
            Self::File { file, segments, .. } => len(&file.content) + len(&file.xattr) + extents(segments),
            Self::More { segments, .. } => extents(segments),
        }
    }

    /// Whether an inode is made.
    pub(super) fn is_new(&self) -> bool {
        matches!(self, Self::Dir { .. } | Self::File { .. })
    }
}

/// Makes `items` in the tree that `quota` counts.
pub(super) fn make(tx: &mut Tx<'_>, quota: QuotaId, items: &[Item]) -> Op<()> {
    let (mut bytes, mut inodes) = (0, 0);
    let mut ledger = Ledger::default();
    for item in items {
        inodes += i64::from(item.is_new());
        bytes += match item {
            Item::Dir { ino, at, dir } => make_dir(tx, quota, *ino, at, dir),
            Item::File { ino, at, file, segments, last } => {
                make_file(tx, &mut ledger, quota, (*ino, at), file, segments, *last)
            }
            Item::More { ino, inode, from, index, segments } => {
                let Content::Many { g } = inode.content else { continue };
                put_segments(tx, &mut ledger, *ino, g, segments);
                tx.put(Index::key(*ino, g), index.encode());
                tx.put_inode(*ino, &Inode { quota, ..(**inode).clone() });
                inode.size.saturating_sub(*from) as i64
            }
            Item::Name { ino, at, inode } => {
                tx.put_inode(*ino, &Inode { quota, ..(**inode).clone() });
                tx.link(at.dir, &at.name, inode.kind, *ino);
                0
            }
        };
    }
    for write in ledger.writes(tx.world.delete_after_ms) {
        tx.push(write);
    }
    tx.take(quota, bytes, inodes)
}

fn make_dir(tx: &mut Tx<'_>, quota: QuotaId, ino: InodeNo, at: &At, dir: &PlainDir) -> i64 {
    let guard = Guard { quota, parent: at.dir, quota_root: false, ..dir.guard.clone() };
    tx.put_guard(ino, &guard);
    put_dir_records(tx, ino, dir);
    tx.link(at.dir, &at.name, FileKind::Directory, ino);
    tx.push(Write::AddSubdirs(at.dir, 1));
    0
}

/// What a directory has beside its guard.
pub(super) fn put_dir_records(tx: &mut Tx<'_>, ino: InodeNo, dir: &PlainDir) {
    let records =
        [(Key::DirTimes(ino), &dir.times), (Key::DirAtime(ino), &dir.atime), (Key::Xattr(ino), &dir.xattr)];
    for (key, value) in records {
        if let Some(value) = value {
            tx.put(key, value.to_vec());
        }
    }
}

/// Returns the bytes to be charged.
fn make_file(
    tx: &mut Tx<'_>,
    ledger: &mut Ledger,
    quota: QuotaId,
    (ino, at): (InodeNo, &At),
    file: &PlainFile,
    segments: &Segments,
    last: bool,
) -> i64 {
    let mut inode = Inode { quota, nlink: 1, parent: parent_hint(ino, at.dir), ..file.inode.clone() };
    match &inode.content {
        Content::Empty => {}
        Content::Inline(_) => tx.take_inline(inode.size.min(tx.world.inline_max) as i64),
        Content::One(extent) => ledger.after(std::slice::from_ref(extent)),
        Content::Many { g } => {
            let g = *g;
            put_segments(tx, ledger, ino, g, segments);
            let mut index = Index::default();
            segments.iter().for_each(|(segment, _)| index.insert(*segment));
            tx.put(Index::key(ino, g), index.encode());
        }
    }
    if !last {
        inode.size = inode.size.min(end_of(segments));
    }
    for (key, value) in [(Key::Content(ino), &file.content), (Key::Xattr(ino), &file.xattr)] {
        if let Some(value) = value {
            tx.put(key, value.to_vec());
        }
    }
    tx.put_inode(ino, &inode);
    tx.link(at.dir, &at.name, inode.kind, ino);
    inode.size as i64
}

/// The end of the last extent.
pub(super) fn end_of(segments: &Segments) -> u64 {
    segments
        .iter()
        .flat_map(|(_, list)| list.last())
        .map(carafe_types::record::Extent::end)
        .max()
        .unwrap_or(0)
}

fn put_segments(tx: &mut Tx<'_>, ledger: &mut Ledger, ino: InodeNo, g: u32, segments: &Segments) {
    for (segment, extents) in segments {
        ledger.after(extents);
        tx.put(
            Key::Extents { ino, g, segment: *segment },
            Segment { extents: extents.clone() }.encode(*segment),
        );
    }
}
