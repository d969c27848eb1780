//! The begin of a copy: what is copied, and an empty tree under a record that says so.

use super::super::delete::{discard, free_name};
use super::super::{VolumeError, counter};
use super::SNAPSHOTS;
use super::job::Job;
use super::target::Target;
use crate::client::{Client, later};
use crate::jobs::Scanner;
use crate::store::{Allocation, Check, Key, ScanRequest, Scanned, Write};
use crate::tx::{Op, Tx};
use bytes::Bytes;
use carafe_types::record::{
    CopyJob, CopySource, FORMAT_VERSION, Guard, Limits, QuotaRecord, SnapshotRecord, VolumeRecord,
    VolumeState,
};
use carafe_types::{EntryName, FileKind, FsError, InodeNo, QuotaId, Timestamp};
use std::time::Duration;

/// How long a copier that says nothing is believed to be at work. It renews with every piece.
pub(super) const LEASE: Duration = Duration::from_secs(20);

/// What a copy is made from.
pub(super) struct Origin {
    pub(super) root: InodeNo,
    pub(super) quota: QuotaId,
    /// Its record and key, compared when the copy begins.
    record: (Key, Bytes),
    /// A volume moves on while it is copied, unless its gate is closed.
    pub(super) live: bool,
    /// Of a volume, its limit; of a snapshot, that of its volume then.
    pub(super) capacity: u64,
    /// Used by its files.
    pub(super) bytes: u64,
    inodes: u64,
}

impl Origin {
    pub(super) fn record_id(&self) -> String {
        match &self.record.0 {
            Key::Volume(id) | Key::Snapshot(id) => id.clone(),
            other => format!("{other:?}"),
        }
    }
}

impl Client {
    /// What is to be copied, if it is there and ready.
    pub(super) async fn origin(&self, source: &CopySource) -> Result<Origin, VolumeError> {
        let missing = || VolumeError::NotFound(source.id().to_owned());
        let damaged = |e| VolumeError::Damaged { id: source.id().to_owned(), source: e };
        let key = match source {
            CopySource::Volume(id) => Key::Volume(id.clone()),
            CopySource::Snapshot(id) => Key::Snapshot(id.clone()),
        };
        let bytes = Scanner(self).record(key.clone()).await?.ok_or_else(missing)?;
        let (root, quota, capacity, state, live) = match source {
            CopySource::Volume(_) => {
                let VolumeRecord { root, quota, capacity, state, .. } =
                    VolumeRecord::decode(&bytes).map_err(damaged)?;
                (root, quota, capacity, state, true)
            }
            CopySource::Snapshot(_) => {
                let SnapshotRecord { root, quota, capacity, state, .. } =
                    SnapshotRecord::decode(&bytes).map_err(damaged)?;
                (root, quota, capacity, state, false)
            }
        };
        match state {
            VolumeState::Ready => {}
            VolumeState::Copying => return Err(VolumeError::NotReady(source.id().to_owned())),
            VolumeState::Deleting => return Err(missing()),
        }
        let (bytes_used, inodes) = self.used(quota).await?;
        Ok(Origin { root, quota, record: (key, bytes), live, capacity, bytes: bytes_used, inodes })
    }

    /// Bytes and inodes that are charged to a quota.
    async fn used(&self, quota: QuotaId) -> Result<(u64, u64), VolumeError> {
        let page = Scanner(self).page(&ScanRequest::Quotas).await?;
        let state = page.found.into_iter().find_map(|found| match found {
            Scanned::Quota(id, state) if id == quota => Some(state),
            _ => None,
        });
        let bad = |what: String| FsError::Io(format!("quota {} {what}; run `carafe fsck`", quota.0));
        let state = state.ok_or_else(|| bad("is gone".to_owned()))?;
        let record = QuotaRecord::decode(&state.record).map_err(|e| bad(format!("is damaged ({e})")))?;
        let bytes = counter(record.limits.bytes) - state.left_bytes - state.reserved;
        let inodes = counter(record.limits.inodes) - state.left_inodes;
        Ok((bytes.max(0) as u64, inodes.max(0) as u64))
    }

    /// Begins to make `target` (whose place is chosen here), or takes over from a copier that is gone. Gives the target as
    /// it is if it is ready already.
    pub(super) async fn begin_copy(
        &self,
        mut target: Target,
        origin: &Origin,
        limits: Limits,
    ) -> Result<Result<Job<'_>, Target>, VolumeError> {
        let before = Scanner(self).record(target.key()).await?;
        if let Some(bytes) = &before {
            let there = target.decode_like(bytes)?;
            let Some(job) = there.job().filter(|_| there.is_asked_by(&target)) else {
                return Ok(Err(there));
            };
            let alive = Scanner(self).alive().await?.contains(&job.session);
            let own = job.session == self.session().no;
            if alive && !own && job.until > self.now() {
                return Err(VolumeError::Copying { id: target.id().to_owned(), percent: job.percent() });
            }
            target = there;
        }
        let quota =
            self.patiently(|s| async move { self.store().allocate(&s, Allocation::Quota).await }).await?;
        let quota = u32::try_from(quota).map_err(|_| FsError::Io("no quota numbers are left".to_owned()))?;
        let root = self.new_inode(SNAPSHOTS, true).await?.ino;
        let half = before.is_some().then(|| (target.place().0, self.now()));
        target.set_place(root, QuotaId(quota));
        let (session, until) = (self.session().no, later(self.now(), LEASE));
        target.set_job(Some(CopyJob { session, until, copied: 0, total: origin.inodes }));
        let seen = target.encode();
        let begun = self.run(|tx| begin(tx, &target, before.as_ref(), &seen, half, origin, limits)).await?;
        if !begun {
            return Err(VolumeError::Contended(target.id().to_owned()));
        }
        let snapshot = (!origin.live).then(|| origin.record.clone());
        Ok(Ok(Job::new(self, target, seen, snapshot, origin.root)))
    }
}

pub(super) fn entry_name(id: &str) -> Result<EntryName, VolumeError> {
    EntryName::new(id.as_bytes()).map_err(|e| VolumeError::Invalid(format!("{id:?} is no id: {e}")))
}

/// Record, empty root and quota in one commit; what an earlier copier left, `half`, goes into the trash with this moment. `false`: the record or the
/// source is not what was seen.
fn begin(
    tx: &mut Tx<'_>,
    target: &Target,
    before: Option<&Bytes>,
    after: &Bytes,
    half: Option<(InodeNo, Timestamp)>,
    origin: &Origin,
    limits: Limits,
) -> Op<bool> {
    let name = entry_name(target.id()).map_err(|e| FsError::Io(e.to_string()))?;
    let (key, (root, quota)) = (target.key(), target.place());
    [&key, &origin.record.0].iter().for_each(|key| tx.want_record((*key).clone()));
    tx.want_node(SNAPSHOTS);
    tx.want_name(SNAPSHOTS, &name);
    tx.gather()?;
    if tx.record(&key)?.as_ref() != before || tx.record(&origin.record.0)?.as_ref() != Some(&origin.record.1)
    {
        return Ok(false);
    }
    tx.same(&key)?;
    tx.same(&origin.record.0)?;
    let now = tx.world.now;
    let plain = Guard {
        mode: 0o700,
        uid: 0,
        gid: 0,
        quota: QuotaId::ROOT,
        parent: SNAPSHOTS,
        btime: now,
        ctime: now,
        has_xattr: false,
        quota_root: false,
    };
    if tx.node(SNAPSHOTS)?.is_none() {
        tx.same(&Key::Inode(SNAPSHOTS))?;
        tx.put_guard(SNAPSHOTS, &Guard { mode: 0o700, ..plain.clone() });
    }
    let there = tx.name(SNAPSHOTS, &name)?;
    match half {
        Some((half, now)) if there == Some((FileKind::Directory, half)) => {
            throw_away(tx, &name, half, target.id(), now)?;
        }
        _ if there.is_some() => return Ok(false),
        _ => tx.check(Check::NoName(SNAPSHOTS, name.clone())),
    }
    tx.put(key, after.to_vec());
    tx.put_guard(root, &Guard { quota, quota_root: true, ..plain });
    let record = QuotaRecord {
        version: FORMAT_VERSION,
        parent: Some(QuotaId::ROOT),
        root,
        limits,
        settings: target.settings(),
    };
    tx.put(Key::Quota(quota), record.encode());
    tx.push(Write::InitQuota(quota, Some((counter(limits.bytes), counter(limits.inodes) - 1))));
    tx.take(QuotaId::ROOT, 0, 1)?;
    tx.link(SNAPSHOTS, &name, FileKind::Directory, root);
    tx.push(Write::AddSubdirs(SNAPSHOTS, 1));
    Ok(true)
}

/// Moves a tree of [`SNAPSHOTS`] into the trash; for `stamp` see [`free_name`].
pub(super) fn throw_away(
    tx: &mut Tx<'_>,
    name: &EntryName,
    root: InodeNo,
    id: &str,
    stamp: Timestamp,
) -> Op<()> {
    let trash = free_name(tx, id, stamp, None)?;
    discard(tx, SNAPSHOTS, name, root, &trash)
}
