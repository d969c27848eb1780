//! Pages of a directory.

use crate::store::DirEntry;
use crate::tx::{Op, Tx};
use carafe_types::{Attr, EntryName, FsError, InodeNo};
use std::time::Duration;

/// A page of a directory's names.
#[derive(Clone, Debug)]
pub struct DirPage {
    /// In the order of names as bytes. Attributes if they were asked for and the inode is still there.
    pub entries: Vec<(DirEntry, Option<Attr>)>,
    /// Nothing follows.
    pub end: bool,
    /// How long the kernel may keep names and attributes; 0 when anything of them is shared.
    pub ttl: Duration,
}

/// At most `limit` names after `after`.
pub(crate) fn names(
    tx: &mut Tx<'_>,
    dir: InodeNo,
    after: Option<&EntryName>,
    limit: usize,
) -> Op<(Vec<DirEntry>, bool)> {
    tx.want_node(dir);
    let page = tx.list(dir, after, limit);
    tx.guard(dir)?;
    page
}

/// The attributes of many inodes, loaded together.
pub(crate) fn attrs(tx: &mut Tx<'_>, inos: &[InodeNo]) -> Op<Vec<Option<Attr>>> {
    inos.iter().for_each(|ino| tx.want_attr(*ino));
    tx.gather()?;
    inos.iter()
        .map(|ino| match tx.attr(*ino) {
            Ok(attr) => Ok(Some(attr)),
            // A damaged record hides no names: whoever looks at that inode is told.
            Err(crate::tx::Stop::Fail(FsError::NotFound | FsError::Io(_))) => Ok(None),
            Err(e) => Err(e),
        })
        .collect()
}
