//! Deleting a volume: one rename, whatever it holds.

use super::path::{Path, find, parent};
use super::{VolumeError, decode};
use crate::client::{Client, later};
use crate::format::TRASH;
use crate::jobs::{Scanner, trash_name};
use crate::store::{Check, Key, WatchKey, Write};
use crate::tx::{Op, Tx};
use carafe_types::record::VolumeRecord;
use carafe_types::{EntryName, FileKind, FsError, InodeNo, Timestamp};
use std::time::Duration;

/// How often a volume is looked for anew because somebody moves it.
const TRIES: u32 = 10;
/// The setting that says how many days a deleted volume stays in the trash.
const TRASH_DAYS: &str = "trashDays";
/// Names that are looked at at once.
const PAGE: usize = 1000;

impl Client {
    /// Moves a volume's directory into the trash and drops its record. A volume that is not registered is a success.
    ///
    /// # Errors
    /// [`VolumeError::Contended`], [`VolumeError::Damaged`]; store errors.
    pub async fn delete_volume(&self, id: &str) -> Result<(), VolumeError> {
        self.writable()?;
        let stamp = self.now();
        for _ in 0..TRIES {
            let Some(record) = self.get_volume(id).await? else { return Ok(()) };
            let place = self.place_of(&record).await?;
            if !self.run(|tx| delete(tx, &record, place.as_ref(), stamp)).await? {
                // Moved meanwhile.
                continue;
            }
            if let Some((dir, _)) = place {
                self.session.flush.moved(record.root);
                self.void_own(&[
                    WatchKey::Names(dir),
                    WatchKey::Bucket(dir.bucket()),
                    WatchKey::Bucket(record.root.bucket()),
                ])
                .await;
            }
            return Ok(());
        }
        Err(VolumeError::Contended(id.to_owned()))
    }

    /// The directory that holds a volume and its name there; `None` when the volume's directory is gone. Usually where the
    /// record says; an administrator may have moved it.
    async fn place_of(&self, record: &VolumeRecord) -> Result<Option<(InodeNo, EntryName)>, VolumeError> {
        if let Ok(path) = Path::parse(&record.path)
            && let Some(dir) = self.run(|tx| find(tx, &path, record.root)).await?
        {
            return Ok(Some((dir, path.name)));
        }
        let Some(dir) = self.run(|tx| parent(tx, record.root)).await? else { return Ok(None) };
        let mut after: Option<EntryName> = None;
        loop {
            let page = Scanner(self).names(dir, after.as_ref(), PAGE).await?;
            if let Some(entry) = page.iter().find(|e| e.ino == record.root) {
                return Ok(Some((dir, entry.name.clone())));
            }
            match page.last() {
                Some(last) => after = Some(last.name.clone()),
                None => return Err(VolumeError::Contended(record.id.clone())),
            }
        }
    }
}

/// `false`: the volume is not where it was found, or not the same any more.
fn delete(
    tx: &mut Tx<'_>,
    seen: &VolumeRecord,
    place: Option<&(InodeNo, EntryName)>,
    stamp: Timestamp,
) -> Op<bool> {
    let key = Key::Volume(seen.id.clone());
    tx.want_record(key.clone());
    let Some(bytes) = tx.record(&key)? else { return Ok(true) };
    let record = decode(&seen.id, &bytes).map_err(|e| FsError::Io(e.to_string()))?;
    if record.root != seen.root {
        return Ok(false);
    }
    if let Some((dir, name)) = place {
        if tx.name(*dir, name)? != Some((FileKind::Directory, record.root)) {
            return Ok(false);
        }
        let days = record.settings.get(TRASH_DAYS).and_then(|days| days.parse().ok());
        let trash = free_name(tx, &record.id, stamp, days)?;
        discard(tx, *dir, name, record.root, &trash)?;
    } else {
        // Its directory is gone, so nothing is charged to its quota any more.
        tx.same(&Key::Inode(record.root))?;
        tx.delete(Key::Quota(record.quota));
        tx.push(Write::InitQuota(record.quota, None));
    }
    tx.same(&key)?;
    tx.frees();
    tx.delete(key);
    Ok(true)
}

/// A name in the trash that is free: that of `stamp`, or of the next millisecond in which nothing of this id went. `stamp` is the
/// caller's: by the clock of the run, each run would ask for another name, and a store that takes longer than a millisecond would
/// be asked for ever.
pub(super) fn free_name(tx: &mut Tx<'_>, id: &str, mut stamp: Timestamp, days: Option<u16>) -> Op<EntryName> {
    loop {
        let name = trash_name(id, stamp, days)
            .ok_or_else(|| FsError::Io(format!("{id:?} is too long for a name in the trash")))?;
        if tx.name(TRASH, &name)?.is_none() {
            return Ok(name);
        }
        stamp = later(stamp, Duration::from_millis(1));
    }
}

/// Renames a directory into the trash. Nobody is asked to flush what is dirty below: it is being deleted.
pub(super) fn discard(
    tx: &mut Tx<'_>,
    dir: InodeNo,
    name: &EntryName,
    root: InodeNo,
    trash: &EntryName,
) -> Op<()> {
    [dir, root, TRASH].iter().for_each(|ino| tx.want_node(*ino));
    let mut guard = tx.guard(root)?;
    for ino in [dir, root, TRASH] {
        tx.guard(ino)?;
        tx.same(&Key::Inode(ino))?;
    }
    tx.check(Check::HasName(dir, name.clone(), FileKind::Directory, root));
    tx.check(Check::NoName(TRASH, trash.clone()));
    guard.parent = TRASH;
    guard.ctime = tx.world.now.max(guard.ctime);
    tx.put_guard(root, &guard);
    tx.unlink(dir, name, FileKind::Directory, root);
    tx.link(TRASH, trash, FileKind::Directory, root);
    tx.push(Write::AddSubdirs(dir, -1));
    tx.push(Write::AddSubdirs(TRASH, 1));
    tx.push(Write::Touch(dir));
    tx.push(Write::Touch(TRASH));
    Ok(())
}
