//! Reading all references once.

use super::unreadable;
use crate::jobs::owners::{Owner, visit_owners};
use crate::jobs::sets::SliceSet;
use crate::jobs::{Progress, Scanner};
use crate::store::Key;
use crate::tx::Node;
use carafe_types::FsResult;

/// Buckets that are read at once.
const BUCKETS: usize = 200;

/// The slices that any file refers to.
pub(super) async fn mark(scan: Scanner<'_>, progress: Progress<'_>) -> FsResult<SliceSet> {
    let mut marked = SliceSet::default();
    let (mut cursor, mut seen) = (0, 0);
    loop {
        let (buckets, next) = scan.buckets(cursor, BUCKETS).await?;
        let mut files = Vec::new();
        for (key, bytes) in buckets.iter().flat_map(|(_, records)| records) {
            let Key::Inode(ino) = key else { continue };
            seen += 1;
            match Node::decode(bytes) {
                Ok(Node::File(inode)) => files.push((*ino, inode)),
                Ok(Node::Dir(_)) => {}
                Err(e) => return Err(unreadable(&format!("inode {ino} is damaged ({e})"))),
            }
        }
        let mut damaged = None;
        visit_owners(scan, &files, &mut |ino, owner| match owner {
            Owner::Holds(_, extents) => {
                extents.iter().for_each(|e| {
                    marked.insert(e.slice);
                });
            }
            Owner::Damaged(reason) => damaged = Some(format!("file {ino} is damaged ({reason})")),
        })
        .await?;
        if let Some(what) = damaged {
            return Err(unreadable(&what));
        }
        progress("inodes read", seen);
        match next {
            Some(next) => cursor = next,
            None => return Ok(marked),
        }
    }
}
