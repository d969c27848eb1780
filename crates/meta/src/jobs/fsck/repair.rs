//! Setting right what can be set right without guessing: counters, and what belongs into a queue.
//!
//! A repair is a difference that was found while nothing changed, so it is only made while nothing has changed since: one
//! commit each, and before the first the store must stand where the check ended.

use super::Report;
use crate::client::Client;
use crate::store::{DeadObject, Key, Write};
use crate::tx::{Node, Op, Tx};
use carafe_types::{FsError, FsResult, InodeNo, QuotaId, SliceId};

/// What would set a finding right.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Repair {
    Subdirs { dir: InodeNo, by: i64 },
    Links { ino: InodeNo, names: u32 },
    Queue(InodeNo),
    Unqueue(InodeNo),
    Quota { quota: QuotaId, bytes: i64, inodes: i64 },
    Inline { by: i64 },
    Owners { slice: SliceId, counted: i64, is: i64 },
    Live { object: DeadObject, counted: i64, is: i64 },
    Undelete(DeadObject),
}

/// Sets right what [`super::Finding::is_repairable`]. Returns how many findings that were; check again afterwards.
///
/// # Errors
/// [`FsError::WouldBlock`] when the report is not exact, that is when the file system was in use; store errors.
pub async fn repair(client: &Client, report: &Report) -> FsResult<u64> {
    if !report.exact || super::seq(client).await? != report.seq {
        return Err(FsError::WouldBlock);
    }
    let mut done = 0;
    for finding in &report.findings {
        let Some(repair) = &finding.repair else { continue };
        match client.run(|tx| apply(tx, repair)).await {
            Ok(()) => done += 1,
            // A quota that has less left than it must take: its limit has to be raised first.
            Err(e @ (FsError::NoSpace(_) | FsError::QuotaExceeded | FsError::NotSupported)) => {
                tracing::warn!(what = finding.what, error = %e, "not repaired");
            }
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

fn apply(tx: &mut Tx<'_>, repair: &Repair) -> Op<()> {
    match repair {
        Repair::Subdirs { dir, by } => {
            tx.guard(*dir)?;
            tx.same(&Key::Inode(*dir))?;
            tx.push(Write::AddSubdirs(*dir, *by));
        }
        Repair::Links { ino, names } => {
            if let Some(Node::File(mut inode)) = tx.node(*ino)? {
                tx.same(&Key::Inode(*ino))?;
                inode.nlink = *names;
                tx.put_inode(*ino, &inode);
            }
        }
        Repair::Queue(ino) => tx.push(Write::QueueDead(*ino, 0)),
        Repair::Unqueue(ino) => tx.push(Write::UnqueueDead(*ino)),
        Repair::Quota { quota, bytes, inodes } => tx.take_here(*quota, *bytes, *inodes),
        Repair::Inline { by } => tx.take_inline(*by),
        Repair::Owners { slice, counted, is } => set_number(tx, Key::SliceOwners(*slice), *counted, *is)?,
        Repair::Live { object, counted, is } => set_number(tx, Key::PackLive(object.slice), *counted, *is)?,
        Repair::Undelete(object) => tx.push(Write::UnqueueObject(*object)),
    }
    Ok(())
}

/// Sets a number kept as decimal text, of which 0 is absent, if it is still what was found.
fn set_number(tx: &mut Tx<'_>, key: Key, counted: i64, is: i64) -> Op<()> {
    if crate::cache::decimal(tx.record(&key)?.as_ref()) == counted {
        tx.same(&key)?;
        if is == 0 {
            tx.delete(key);
        } else {
            tx.put(key, is.to_string().into_bytes());
        }
    }
    Ok(())
}
