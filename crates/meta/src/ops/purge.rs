//! The end of an inode without names.

use super::remove::delete_inode;
use super::truncate::{cut, reach};
use crate::store::{Check, Key, WatchKey, Write};
use crate::tx::{Node, Op, Tx};
use carafe_types::record::Content;
use carafe_types::{InodeNo, SessionNo};

/// What became of an unlinked inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purged {
    /// It is gone.
    Gone,
    /// It is shorter now; again.
    Shorter,
    /// Somebody has it open.
    InUse,
    /// It has a name, or is a directory: it does not belong into the queue.
    Alive,
}

/// Frees what an unlinked inode holds, in pieces. `alive`: sessions whose holds count. Before it is `due` a session that
/// has it open may not have said so yet: then it is freed only if nobody else watches its bucket.
pub(crate) fn purge(tx: &mut Tx<'_>, ino: InodeNo, alive: &[SessionNo], due: bool) -> Op<Purged> {
    let bucket = WatchKey::Bucket(ino.bucket());
    if !due && tx.other_watchers(&bucket).is_some() {
        return Ok(Purged::InUse);
    }
    tx.want_node(ino);
    tx.want_record(Key::OpenHolders(ino));
    let mut inode = match tx.node(ino)? {
        None => {
            tx.push(Write::UnqueueDead(ino));
            return Ok(Purged::Gone);
        }
        Some(Node::File(inode)) if inode.nlink == 0 => inode,
        Some(_) => {
            tx.push(Write::UnqueueDead(ino));
            return Ok(Purged::Alive);
        }
    };
    let holders = tx.record(&Key::OpenHolders(ino))?;
    let held = holders.as_ref().map(|h| holders_of(h)).unwrap_or_default();
    if tx.is_open(ino) || held.iter().any(|sid| alive.contains(sid)) {
        return Ok(Purged::InUse);
    }
    tx.same(&Key::Inode(ino))?;
    tx.same(&Key::OpenHolders(ino))?;
    if !due {
        tx.check(Check::Alone(bucket));
    }
    tx.frees();
    if let Content::Many { .. } = inode.content {
        let to = reach(tx, ino, &inode, 0)?;
        inode.dataver += 1;
        cut(tx, ino, &mut inode, to)?;
        if to > 0 {
            inode.size = to;
            tx.put_inode(ino, &inode);
            return Ok(Purged::Shorter);
        }
        inode.content = Content::Empty;
    }
    tx.removing.push(ino);
    delete_inode(tx, ino, &inode);
    tx.delete(Key::OpenHolders(ino));
    tx.push(Write::UnqueueDead(ino));
    Ok(Purged::Gone)
}

/// The sessions named in an `OpenHolders` record: `;<sid>;<sid>`.
pub(crate) fn holders_of(record: &[u8]) -> Vec<SessionNo> {
    let text = String::from_utf8_lossy(record);
    text.split(';').filter_map(|sid| sid.parse().ok().map(SessionNo)).collect()
}

/// This session holds an unlinked inode open. Returns whether it needs to.
pub(crate) fn hold(tx: &mut Tx<'_>, ino: InodeNo) -> Op<bool> {
    tx.want_node(ino);
    match tx.node(ino)? {
        Some(Node::File(inode)) if inode.nlink == 0 => {
            tx.same(&Key::Inode(ino))?;
            tx.push(Write::HoldOpen(ino));
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// It does so no longer. If nobody else can have it open, what remains is looked at at once.
pub(crate) fn let_go(tx: &mut Tx<'_>, ino: InodeNo) -> Op<()> {
    tx.push(Write::DropOpen(ino));
    if let Some(Node::File(inode)) = tx.node(ino)?
        && inode.nlink == 0
        && tx.is_sole(&WatchKey::Bucket(ino.bucket()))
    {
        tx.push(Write::QueueDead(ino, 0));
    }
    Ok(())
}
