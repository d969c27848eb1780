//! Making a volume.

use super::path::{Path, Reached, follow, overlap};
use super::{VolumeError, counter, decode};
use crate::client::{Client, Ctx};
use crate::ops::create::NewNode;
use crate::store::{Allocation, Check, Key, WatchKey, Write};
use crate::tx::{Op, Tx};
use carafe_types::record::{FORMAT_VERSION, Guard, Limits, QuotaRecord, VolumeRecord, VolumeState};
use carafe_types::{FileKind, FsError, InodeNo, QuotaId, Timestamp};
use std::collections::BTreeMap;

/// Volumes that are looked at at once.
const PAGE: usize = 1000;
/// How often directories above are made anew because somebody removes them.
const TRIES: u32 = 10;

/// A volume to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVolume {
    /// Its id, unique in the file system; at most 200 bytes without `/` and NUL.
    pub id: String,
    /// The name that the caller gave.
    pub name: String,
    /// Its directory from the root, without a leading `/`. What is missing above it is made, owned by root, mode 0755.
    pub path: String,
    /// Its limit in bytes; `None` is no limit and is recorded as 0.
    pub capacity: Option<u64>,
    /// How many inodes it may hold, its own directory among them; `None` is no limit.
    pub inode_limit: Option<u64>,
    /// Owner of the directory.
    pub uid: u32,
    /// Group of the directory.
    pub gid: u32,
    /// `mode & 0o7777` of the directory.
    pub mode: u16,
    /// Kept with the record, to tell a repeated call from a different one.
    pub parameters: BTreeMap<String, String>,
    /// Kept with the record: what may be changed later ([`Client::modify_volume`]).
    pub settings: BTreeMap<String, String>,
}

impl NewVolume {
    /// Whether `record` is what this asks for: the same name, path, capacity and parameters.
    pub fn is(&self, record: &VolumeRecord) -> bool {
        self.name == record.name
            && self.path == record.path
            && self.capacity.unwrap_or(0) == record.capacity
            && self.parameters == record.parameters
    }

    /// The record of such a volume, ready.
    pub(super) fn record(&self, root: InodeNo, quota: QuotaId, created: Timestamp) -> VolumeRecord {
        VolumeRecord {
            version: FORMAT_VERSION,
            id: self.id.clone(),
            name: self.name.clone(),
            path: self.path.clone(),
            root,
            quota,
            capacity: self.capacity.unwrap_or(0),
            parameters: self.parameters.clone(),
            created,
            state: VolumeState::Ready,
            source: None,
            copy: None,
            settings: self.settings.clone(),
        }
    }
}

/// What a try has found.
enum Made {
    Volume(Box<VolumeRecord>),
    /// A directory above is missing.
    Missing(InodeNo, usize),
    /// The path leads through or to something that is there.
    Taken,
}

impl Client {
    /// Makes a volume. If a record with this id is there, that is the answer, whatever it says ([`NewVolume::is`] compares).
    ///
    /// # Errors
    /// [`VolumeError::PathTaken`], [`VolumeError::Invalid`], [`VolumeError::Contended`]; [`FsError::NoSpace`]; store errors.
    pub async fn create_volume(&self, new: &NewVolume) -> Result<VolumeRecord, VolumeError> {
        self.writable()?;
        check_id(&new.id)?;
        let path = Path::parse(&new.path)?;
        if let Some(there) = self.get_volume(&new.id).await? {
            return Ok(there);
        }
        self.path_is_free(&new.path).await?;
        let quota =
            self.patiently(|s| async move { self.store().allocate(&s, Allocation::Quota).await }).await?;
        let quota =
            QuotaId(u32::try_from(quota).map_err(|_| FsError::Io("no quota numbers are left".to_owned()))?);
        let ino = self.new_inode(InodeNo::ROOT, true).await?.ino;
        for _ in 0..TRIES {
            match self.run(|tx| create(tx, new, &path, quota, ino)).await? {
                Made::Volume(record) => {
                    self.void_above(record.root).await?;
                    return Ok(*record);
                }
                Made::Missing(dir, place) => self.make_above(&path, dir, place).await?,
                Made::Taken => {
                    let by = self.volume_at(&new.path).await?;
                    let by = by.unwrap_or_else(|| "something that is no volume of the registry".to_owned());
                    return Err(VolumeError::PathTaken { path: new.path.clone(), by });
                }
            }
        }
        Err(VolumeError::Contended(new.id.clone()))
    }

    /// What the kernel of a mount in this process keeps of the directory that holds `root` is void.
    pub(super) async fn void_above(&self, root: InodeNo) -> Result<(), VolumeError> {
        if let Some(parent) = self.run(|tx| super::path::parent(tx, root)).await? {
            self.void_own(&[WatchKey::Names(parent), WatchKey::Bucket(parent.bucket())]).await;
        }
        Ok(())
    }

    /// Refuses a path that another volume's record names, is in or is around.
    pub(super) async fn path_is_free(&self, path: &str) -> Result<(), VolumeError> {
        match self.volume_at(path).await? {
            Some(by) => Err(VolumeError::PathTaken { path: path.to_owned(), by }),
            None => Ok(()),
        }
    }

    /// The volume whose path is, holds or lies in `path`.
    async fn volume_at(&self, path: &str) -> Result<Option<String>, VolumeError> {
        let other = self.find_volume(|other| overlap(path, &other.path)).await?;
        Ok(other.map(|other| format!("volume {}", other.id)))
    }

    /// The first volume that is `wanted`, in the order of ids.
    pub(super) async fn find_volume(
        &self,
        wanted: impl Fn(&VolumeRecord) -> bool,
    ) -> Result<Option<VolumeRecord>, VolumeError> {
        let mut after: Option<String> = None;
        loop {
            let page = self.list_volumes(after.as_deref(), PAGE).await?;
            let last = page.last().filter(|_| page.len() == PAGE).map(|last| last.id.clone());
            if let Some(found) = page.into_iter().find(&wanted) {
                return Ok(Some(found));
            }
            match last {
                Some(last) => after = Some(last),
                None => return Ok(None),
            }
        }
    }

    /// Makes the directories above a volume that are missing from `place` on.
    pub(super) async fn make_above(
        &self,
        path: &Path,
        mut dir: InodeNo,
        place: usize,
    ) -> Result<(), VolumeError> {
        for name in &path.above[place..] {
            let kind = FileKind::Directory;
            let new = NewNode { kind, mode: 0o755, uid: 0, gid: 0, rdev: 0, target: None };
            match self.create(&Ctx::ROOT, dir, name, new).await {
                Ok(made) => {
                    self.void_own(&[WatchKey::Names(dir), WatchKey::Bucket(dir.bucket())]).await;
                    dir = made.attr.ino;
                }
                // Another caller was quicker, or removes again what is here: the next try sees.
                Err(FsError::Exists | FsError::NotFound) => return Ok(()),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
}

pub(super) fn check_id(id: &str) -> Result<(), VolumeError> {
    let good = !id.is_empty() && id.len() <= 200 && !id.contains(['/', '\0']);
    if good { Ok(()) } else { Err(VolumeError::Invalid(format!("{id:?} is no id of a volume"))) }
}

/// Record, directory and quota in one commit.
fn create(tx: &mut Tx<'_>, new: &NewVolume, path: &Path, quota: QuotaId, ino: InodeNo) -> Op<Made> {
    let key = Key::Volume(new.id.clone());
    tx.want_record(key.clone());
    if let Some(bytes) = tx.record(&key)? {
        let there = decode(&new.id, &bytes).map_err(|e| FsError::Io(e.to_string()))?;
        return Ok(Made::Volume(Box::new(there)));
    }
    let dir = match follow(tx, path, false)? {
        Reached::Parent(dir) => dir,
        Reached::Missing(dir, place) => return Ok(Made::Missing(dir, place)),
        Reached::Blocked(_) => return Ok(Made::Taken),
    };
    if tx.name(dir, &path.name)?.is_some() {
        return Ok(Made::Taken);
    }
    follow(tx, path, true)?;
    let parent = tx.guard(dir)?;
    tx.check(Check::NoName(dir, path.name.clone()));
    tx.check(Check::Same(Key::Inode(ino), None));
    tx.same(&key)?;
    let record = new.record(ino, quota, tx.world.now);
    tx.put(key, record.encode());
    put_root(tx, new, dir, quota, ino);
    put_quota(tx, new, parent.quota, quota, ino);
    tx.take(parent.quota, 0, 1)?;
    tx.link(dir, &path.name, FileKind::Directory, ino);
    tx.push(Write::AddSubdirs(dir, 1));
    tx.push(Write::Touch(dir));
    Ok(Made::Volume(Box::new(record)))
}

/// The directory where the quota begins. Nobody stands in its watcher lists yet: its first mount will be alone.
fn put_root(tx: &mut Tx<'_>, new: &NewVolume, parent: InodeNo, quota: QuotaId, ino: InodeNo) {
    let now = tx.world.now;
    let guard = Guard {
        mode: new.mode & 0o7777,
        uid: new.uid,
        gid: new.gid,
        quota,
        parent,
        btime: now,
        ctime: now,
        has_xattr: false,
        quota_root: true,
    };
    tx.put_guard(ino, &guard);
}

/// The quota with its counters. The directory is its first inode.
fn put_quota(tx: &mut Tx<'_>, new: &NewVolume, above: QuotaId, quota: QuotaId, root: InodeNo) {
    let limits = Limits { bytes: new.capacity, inodes: new.inode_limit };
    let record = QuotaRecord {
        version: FORMAT_VERSION,
        parent: Some(above),
        root,
        limits,
        settings: new.settings.clone(),
    };
    tx.put(Key::Quota(quota), record.encode());
    tx.push(Write::InitQuota(quota, Some((counter(limits.bytes), counter(limits.inodes) - 1))));
}
