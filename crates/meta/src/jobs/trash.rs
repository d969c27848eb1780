//! Removing whole trees, those in the trash above all.
//!
//! A deleted volume is renamed into the trash in one commit; what it held is freed from there, in commits of many files
//! each. The walk keeps no list of the tree: it descends into what a directory holds, and when nothing is left removes the
//! directory itself. Files that somebody creates meanwhile (a mount that has not heard) are found by the next look into the
//! same directory, and a directory goes only in a commit that finds it empty.

use super::{Client, Progress, Scanner};
use crate::client::Ctx;
use crate::format::TRASH;
use crate::ops::At;
use crate::ops::remove::{find, rmdir, unlink};
use crate::store::{Check, DirEntry, Key, Write};
use crate::tx::{Op, Tx};
use carafe_types::{EntryName, FileKind, FsError, FsResult, InodeNo, Timestamp};
use std::time::Duration;

/// Names that are looked at at once.
const PAGE: usize = 500;
/// Files that are unlinked in one commit.
const BATCH: usize = 60;

/// Removes the trees that have been in the trash for longer than `keep`, or than their volume's own setting says; with a
/// `keep` of nothing, all. Returns how many inodes went.
///
/// # Errors
/// Store errors; what is removed so far stays so.
pub async fn purge_trash(client: &Client, keep: Duration, progress: Progress<'_>) -> FsResult<u64> {
    let now = client.now();
    let mut gone = 0;
    let mut after = None;
    loop {
        let page = Scanner(client).names(TRASH, after.as_ref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(gone) };
        after = Some(last.name.clone());
        let is_due = |entry: &&DirEntry| keep.is_zero() || due(&entry.name, now, keep);
        for entry in page.iter().filter(is_due) {
            let before = gone;
            gone += purge_tree(client, TRASH, entry, &|what, done| progress(what, before + done)).await?;
        }
    }
}

/// The name of a volume in the trash: its id and when it was deleted, in milliseconds; behind that the days that it stays, if
/// its settings say so.
pub(crate) fn trash_name(id: &str, now: Timestamp, days: Option<u16>) -> Option<EntryName> {
    let days = days.map_or_else(String::new, |days| format!("+{days}d"));
    EntryName::new(format!("{id}-{}{days}", now.0 / 1_000_000).as_bytes()).ok()
}

/// When something in the trash was deleted, in nanoseconds, and how long it stays; `None` for a name that no deletion gave.
fn deleted_at(name: &EntryName) -> Option<(i64, Option<Duration>)> {
    let text = std::str::from_utf8(name.as_bytes()).ok()?;
    let (_, rest) = text.rsplit_once('-')?;
    let (millis, days) = match rest.split_once('+') {
        None => (rest, None),
        Some((millis, days)) => (millis, Some(days.strip_suffix('d')?.parse::<u16>().ok()?)),
    };
    let keep = days.map(|days| Duration::from_secs(u64::from(days) * 24 * 3600));
    Some((millis.parse::<i64>().ok()?.checked_mul(1_000_000)?, keep))
}

/// Whether something has been in the trash for long enough.
fn due(name: &EntryName, now: Timestamp, keep: Duration) -> bool {
    deleted_at(name).is_none_or(|(at, own)| {
        let keep = i64::try_from(own.unwrap_or(keep).as_nanos()).unwrap_or(i64::MAX);
        at.saturating_add(keep) <= now.0
    })
}

/// A directory on the way down.
struct Place {
    dir: InodeNo,
    name: EntryName,
    ino: InodeNo,
}

/// Removes `entry` of `dir` with everything below it, quotas too. Returns how many inodes went.
///
/// # Errors
/// Store errors; what is removed so far stays so. A tree that is gone is no error.
pub async fn purge_tree(
    client: &Client,
    dir: InodeNo,
    entry: &DirEntry,
    progress: Progress<'_>,
) -> FsResult<u64> {
    let mut gone = 0;
    if entry.kind != FileKind::Directory {
        return unlink_some(client, dir, std::slice::from_ref(entry)).await;
    }
    let mut stack = vec![Place { dir, name: entry.name.clone(), ino: entry.ino }];
    while let Some(place) = stack.last() {
        let page = Scanner(client).names(place.ino, None, PAGE).await?;
        if page.is_empty() {
            match client
                .run(|tx| remove_directory(tx, At { dir: place.dir, name: &place.name }, place.ino))
                .await
            {
                Ok(removed) => gone += u64::from(removed),
                // Somebody has just made something in it: once more.
                Err(FsError::NotEmpty) => continue,
                Err(FsError::NotFound | FsError::NotDirectory) => {}
                Err(e) => return Err(e),
            }
            client.forget_directory(place.ino);
            stack.pop();
            progress("inodes removed", gone);
            continue;
        }
        let here = place.ino;
        let (dirs, files): (Vec<_>, Vec<_>) = page.into_iter().partition(|e| e.kind == FileKind::Directory);
        for some in files.chunks(BATCH) {
            gone += unlink_some(client, here, some).await?;
            progress("inodes removed", gone);
        }
        stack.extend(dirs.into_iter().map(|e| Place { dir: here, name: e.name, ino: e.ino }));
    }
    Ok(gone)
}

/// Unlinks what is still there of `files`.
async fn unlink_some(client: &Client, dir: InodeNo, files: &[DirEntry]) -> FsResult<u64> {
    let unlinked = client
        .run(|tx| {
            tx.want_node(dir);
            for file in files {
                tx.want_name(dir, &file.name);
                tx.want_node(file.ino);
            }
            tx.gather()?;
            let mut gone = Vec::new();
            for file in files {
                // It may have been renamed or replaced since it was listed: what is there now is found by the next look.
                if tx.name(dir, &file.name)? == Some((file.kind, file.ino)) {
                    gone.push(unlink(tx, &Ctx::ROOT, At { dir, name: &file.name })?);
                }
            }
            Ok(gone)
        })
        .await?;
    unlinked.iter().for_each(|gone| client.after_unlink(gone));
    Ok(unlinked.len() as u64)
}

/// Removes an empty directory, also one where a quota begins: then the quota goes with it. `false`: another one is there.
fn remove_directory(tx: &mut Tx<'_>, at: At<'_>, ino: InodeNo) -> Op<bool> {
    if tx.name(at.dir, at.name)? != Some((FileKind::Directory, ino)) {
        return Ok(false);
    }
    let guard = tx.guard(ino)?;
    if !guard.quota_root {
        return rmdir(tx, &Ctx::ROOT, at).map(|_| true);
    }
    let (_, kind, _) = find(tx, at)?;
    let chain = tx.chain(guard.quota)?;
    if !tx.is_empty(ino)? {
        return Err(FsError::NotEmpty.into());
    }
    tx.same(&Key::Inode(at.dir))?;
    tx.check(Check::HasName(at.dir, at.name.clone(), kind, ino));
    tx.same(&Key::Inode(ino))?;
    tx.check(Check::Empty(ino));
    tx.frees();
    tx.unlink(at.dir, at.name, kind, ino);
    tx.push(Write::Touch(at.dir));
    tx.push(Write::AddSubdirs(at.dir, -1));
    for key in [Key::Inode(ino), Key::DirTimes(ino), Key::DirAtime(ino), Key::DirSubdirs(ino)] {
        tx.delete(key);
    }
    if guard.has_xattr {
        tx.delete(Key::Xattr(ino));
    }
    if let Some(above) = chain.get(1) {
        tx.take(*above, 0, -1)?;
        tx.delete(Key::Quota(guard.quota));
        tx.push(Write::InitQuota(guard.quota, None));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trash_knows_when_something_was_deleted() {
        let at = Timestamp(1_764_500_000_123_456_789);
        let name = trash_name("cv1-a-b", at, None).unwrap();
        assert_eq!(name.as_bytes(), b"cv1-a-b-1764500000123");
        assert_eq!(deleted_at(&name), Some((1_764_500_000_123_000_000, None)));
        let day = Duration::from_secs(24 * 3600);
        let later = |days: i64| Timestamp(at.0 + days * 24 * 3600 * 1_000_000_000);
        assert!(!due(&name, at, day) && due(&name, later(1), day));
        let kept = trash_name("cv1-a-b", at, Some(7)).unwrap();
        assert_eq!(kept.as_bytes(), b"cv1-a-b-1764500000123+7d");
        assert!(!due(&kept, later(6), day) && due(&kept, later(7), day));
        assert!(due(&trash_name("cv1-a-b", at, Some(0)).unwrap(), at, day));
        assert_eq!(deleted_at(&EntryName::new(b"somebody's own").unwrap()), None);
        assert_eq!(deleted_at(&EntryName::new(b"x-99999999999999999999").unwrap()), None);
    }
}
