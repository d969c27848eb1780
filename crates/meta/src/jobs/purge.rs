//! Unlinked inodes give back what they hold.
//!
//! An inode that was unlinked while somebody might have it open, or that is too big for the commit of its unlink, waits in
//! the queue of dead inodes. When its time has come it is freed in pieces: a big file becomes shorter commit by commit, and
//! the last one takes its records and its place in the queue. Whoever has it open has said so by then (`OpenHolders`); the
//! holds of dead sessions do not count.

use super::{Client, Progress, Scanner};
use crate::ops::purge::{Purged, purge};
use crate::store::{Key, ScanRequest, Scanned, Write};
use crate::tx::{Node, Tx};
use carafe_types::record::Content;
use carafe_types::{FsResult, InodeNo, SessionNo};

/// Dead inodes that are looked up at once.
const PAGE: usize = 256;
/// Inodes without segments that are freed in one commit.
const BATCH: usize = 50;
/// After how long an inode that is held open is looked at again.
const LOOK_AGAIN_MS: u64 = 60_000;

/// What a purge has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeReport {
    /// Inodes that are gone.
    pub purged: u64,
    /// Inodes that somebody has open; their time is a minute later now.
    pub open: u64,
}

/// Frees one unlinked inode now, before its time, if nobody can have it open. Returns whether it is gone.
///
/// # Errors
/// Store errors; what is freed so far stays so.
pub async fn purge_inode(client: &Client, ino: InodeNo) -> FsResult<bool> {
    let alive = holders_alive(client, ino).await?;
    Ok(purge_one(client, ino, &alive, false).await? == Purged::Gone)
}

/// Frees all unlinked inodes whose time has come.
///
/// # Errors
/// Store errors, and [`carafe_types::FsError::Io`] for a damaged inode, after all others were freed.
pub async fn purge_inodes(client: &Client, progress: Progress<'_>) -> FsResult<PurgeReport> {
    let mut report = PurgeReport::default();
    let mut first_error = None;
    loop {
        let due = due_inodes(client).await?;
        if due.is_empty() {
            return first_error.map_or(Ok(report), Err);
        }
        let alive = Scanner(client).alive().await?;
        let (small, big) = sort(client, &due).await?;
        for some in small.chunks(BATCH) {
            let purged = match purge_some(client, some, &alive).await {
                Ok(purged) => purged,
                Err(_) => one_by_one(client, some, &alive, &mut first_error).await?,
            };
            settle(client, some, &purged, &mut report).await?;
            progress("unlinked files freed", report.purged);
        }
        for ino in big {
            let purged = one_by_one(client, &[ino], &alive, &mut first_error).await?;
            settle(client, &[ino], &purged, &mut report).await?;
            progress("unlinked files freed", report.purged);
        }
    }
}

async fn due_inodes(client: &Client) -> FsResult<Vec<InodeNo>> {
    let page = Scanner(client).page(&ScanRequest::DeadInodes { limit: PAGE, from: None }).await?;
    Ok(page
        .found
        .into_iter()
        .filter_map(|f| if let Scanned::DeadInode(d) = f { Some(d.ino) } else { None })
        .collect())
}

/// Inodes that fit into a commit with others, and those with segments.
async fn sort(client: &Client, inos: &[InodeNo]) -> FsResult<(Vec<InodeNo>, Vec<InodeNo>)> {
    let keys: Vec<Key> = inos.iter().map(|ino| Key::Inode(*ino)).collect();
    let records = Scanner(client).records(&keys).await?;
    let is_small = |record: &Option<bytes::Bytes>| match record.as_deref().map(Node::decode) {
        Some(Ok(Node::File(inode))) => !matches!(inode.content, Content::Many { .. }),
        Some(Ok(Node::Dir(_))) | None => true,
        Some(Err(_)) => false,
    };
    let (small, big): (Vec<_>, Vec<_>) = inos.iter().zip(&records).partition(|(_, record)| is_small(record));
    let numbers = |list: Vec<(&InodeNo, _)>| list.into_iter().map(|(ino, _)| *ino).collect();
    Ok((numbers(small), numbers(big)))
}

/// The sessions among an inode's holders that are alive.
async fn holders_alive(client: &Client, ino: InodeNo) -> FsResult<Vec<SessionNo>> {
    // Usually nobody holds it, and then it does not matter who lives; the commit compares the record.
    match Scanner(client).record(Key::OpenHolders(ino)).await? {
        None => Ok(Vec::new()),
        Some(_) => Scanner(client).alive().await,
    }
}

async fn purge_some(client: &Client, inos: &[InodeNo], alive: &[SessionNo]) -> FsResult<Vec<Purged>> {
    let all = |tx: &mut Tx<'_>| {
        for ino in inos {
            tx.want_node(*ino);
            tx.want_record(Key::OpenHolders(*ino));
        }
        tx.gather()?;
        inos.iter().map(|ino| purge(tx, *ino, alive, true)).collect()
    };
    client.run(all).await
}

async fn purge_one(client: &Client, ino: InodeNo, alive: &[SessionNo], due: bool) -> FsResult<Purged> {
    loop {
        match client.run(|tx| purge(tx, ino, alive, due)).await? {
            Purged::Shorter => {}
            done => return Ok(done),
        }
    }
}

/// A damaged inode must not keep the others: it is put off, and the first such error is told in the end.
async fn one_by_one(
    client: &Client,
    inos: &[InodeNo],
    alive: &[SessionNo],
    first_error: &mut Option<carafe_types::FsError>,
) -> FsResult<Vec<Purged>> {
    let mut purged = Vec::with_capacity(inos.len());
    for ino in inos {
        purged.push(match purge_one(client, *ino, alive, true).await {
            Ok(done) => done,
            Err(e @ carafe_types::FsError::Io(_)) => {
                tracing::error!(%ino, error = %e, "unlinked inode not freed");
                first_error.get_or_insert(e);
                Purged::InUse
            }
            Err(e) => return Err(e),
        });
    }
    Ok(purged)
}

/// Counts, and puts off what is in use: at the head of the queue it would hide what is behind it.
async fn settle(
    client: &Client,
    inos: &[InodeNo],
    purged: &[Purged],
    report: &mut PurgeReport,
) -> FsResult<()> {
    let mut later = Vec::new();
    for (ino, purged) in inos.iter().zip(purged) {
        match purged {
            Purged::Gone => report.purged += 1,
            Purged::InUse | Purged::Shorter => later.push(*ino),
            Purged::Alive => {
                tracing::warn!(%ino, "an inode with names was queued as dead; it was taken out of the queue")
            }
        }
    }
    report.open += later.len() as u64;
    if later.is_empty() {
        return Ok(());
    }
    client
        .run(|tx| {
            later.iter().for_each(|ino| tx.push(Write::QueueDead(*ino, LOOK_AGAIN_MS)));
            Ok(())
        })
        .await
}
