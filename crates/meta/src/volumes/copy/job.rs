//! The life of a copy: begin or take over, copy, finish, give up.

use super::super::delete::discard;
use super::super::path::{Path, Reached, follow};
use super::super::{VolumeError, counter};
use super::SNAPSHOTS;
use super::piece::{Item, make, put_dir_records};
use super::plan::{self, Original, PlainDir};
use super::target::Target;
use super::walk::Walk;
use crate::client::{Client, Gate, later};
use crate::format::TRASH;
use crate::jobs::{Scanner, trash_name};
use crate::store::{Allocation, Check, DirEntry, Key, ScanRequest, Scanned, WatchKey, Write};
use crate::tx::{Op, Tx};
use bytes::Bytes;
use carafe_types::record::{
    CopyJob, CopySource, FORMAT_VERSION, Guard, Limits, QuotaRecord, SnapshotRecord, VolumeRecord,
    VolumeState,
};
use carafe_types::{EntryName, FileKind, FsError, InodeNo, QuotaId};
use std::time::Duration;

/// How long a copier that says nothing is believed to be at work. It renews with every piece.
const LEASE: Duration = Duration::from_secs(20);

/// A copy that this session makes.
pub(super) struct Job<'c> {
    client: &'c Client,
    target: Target,
    /// The target's record as this job wrote it last.
    seen: Bytes,
    /// The snapshot that is copied, as it was found.
    snapshot: Option<(Key, Bytes)>,
    /// The closed gate of the volume that is copied.
    gate: Option<(QuotaId, Bytes)>,
    /// The directory that is copied.
    source: InodeNo,
}

/// What a copy is made from.
pub(super) struct Origin {
    root: InodeNo,
    quota: QuotaId,
    /// Its record and key, compared when the copy begins.
    record: (Key, Bytes),
    /// A volume moves on while it is copied, unless its gate is closed.
    live: bool,
    /// Of a volume, its limit; of a snapshot, that of its volume then.
    pub(super) capacity: u64,
    /// Used by its files.
    pub(super) bytes: u64,
    inodes: u64,
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
            let Some(job) = there.job().filter(|_| there.source() == target.source()) else {
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
        let half = before.is_some().then(|| target.place().0);
        target.set_place(root, QuotaId(quota));
        let (session, until) = (self.session().no, later(self.now(), LEASE));
        target.set_job(Some(CopyJob { session, until, copied: 0, total: origin.inodes }));
        let seen = target.encode();
        let begun = self.run(|tx| begin(tx, &target, before.as_ref(), &seen, half, origin, limits)).await?;
        if !begun {
            return Err(VolumeError::Contended(target.id().to_owned()));
        }
        let snapshot = (!origin.live).then(|| origin.record.clone());
        Ok(Ok(Job { client: self, target, seen, snapshot, gate: None, source: origin.root }))
    }
}

impl<'c> Job<'c> {
    /// Copies everything and makes the target ready. Whatever goes wrong, the source's gate is open again afterwards; a
    /// failure that will not pass takes away what was made.
    pub(super) async fn copy(mut self, origin: &Origin) -> Result<Target, VolumeError> {
        let result = self.try_copy(origin).await;
        if let Some((quota, gate)) = self.gate.take() {
            self.client.take_gate_away(quota, &gate).await;
        }
        match result {
            Ok(()) => Ok(self.target),
            Err(e) if passes(&e) => Err(e),
            Err(e) => {
                if let Err(error) = self.client.run(|tx| give_up(tx, &self.target, &self.seen)).await {
                    tracing::warn!(%error, id = self.target.id(), "a copy that failed could not be removed");
                }
                Err(e)
            }
        }
    }

    async fn try_copy(&mut self, origin: &Origin) -> Result<(), VolumeError> {
        let cut = if origin.live { Some(self.close_gate(origin).await?) } else { None };
        let root = DirEntry { name: self.name()?, kind: FileKind::Directory, ino: self.source };
        let found = plan::read(Scanner(self.client), std::slice::from_ref(&root)).await?.pop();
        let Some(Original::Dir(top)) = found else {
            return Err(FsError::Io(format!("the source {} is no directory", self.source)).into());
        };
        let (source, copy) = (self.source, self.target.place().0);
        let client = self.client;
        let mut walk = Walk::new(client, self);
        walk.run(source, copy).await?;
        let bytes = walk.copied_bytes;
        let mut ready = self.target.clone();
        if let Target::Snapshot(record) = &mut ready {
            record.bytes = bytes;
            record.created = cut.unwrap_or(record.created);
        }
        ready.set_job(None);
        self.finish(ready, &top).await
    }

    pub(super) fn quota(&self) -> QuotaId {
        self.target.place().1
    }

    fn name(&self) -> Result<EntryName, VolumeError> {
        entry_name(self.target.id())
    }

    /// All mounts flush, then nothing in the volume changes any more. Returns the moment by the store's clock.
    async fn close_gate(&mut self, origin: &Origin) -> Result<carafe_types::Timestamp, VolumeError> {
        // A mount in this very process is no other session: what is dirty there is asked for directly.
        if let Some(hooks) = self.client.hooks() {
            hooks.flush_below(origin.root).await;
        }
        let session = self.client.session().no;
        let closed = self.client.run(|tx| {
            let key = Key::Gate(origin.quota);
            let now = tx.world.now;
            if tx.record(&key)?.is_some_and(|gate| !Gate::is_over(&gate, now)) {
                return Ok(None);
            }
            tx.same(&key)?;
            tx.check(Check::AloneOrFlushing(WatchKey::Names(origin.root)));
            let gate = Gate::new(session, now).encode();
            tx.put(key, gate.clone());
            Ok(Some((Bytes::from(gate), now)))
        });
        let closed = closed.await?;
        let (gate, now) = closed.ok_or_else(|| VolumeError::Contended(origin.record_id()))?;
        self.gate = Some((origin.quota, gate));
        Ok(now)
    }

    /// One piece, in one commit.
    pub(super) async fn piece(&mut self, items: &[Item]) -> Result<(), VolumeError> {
        let client = self.client;
        let mut next = self.target.clone();
        if let Some(job) = next.job() {
            let new = items.iter().filter(|item| item.is_new()).count() as u64;
            // It never stays the same, so that a commit that is sent twice finds itself.
            let until =
                later(client.now().max(job.until), Duration::from_nanos(1)).max(later(client.now(), LEASE));
            next.set_job(Some(CopyJob { copied: job.copied + new, until, ..job }));
        }
        let seen = next.encode();
        let gate = self
            .gate
            .as_ref()
            .map(|(quota, _)| (*quota, Bytes::from(Gate::new(client.session().no, client.now()).encode())));
        let quota = self.quota();
        let this = &*self;
        let done = client
            .run(|tx| {
                if !this.stands(tx)? {
                    return Ok(false);
                }
                tx.put(this.target.key(), seen.to_vec());
                if let Some((gated, renewed)) = &gate {
                    tx.put(Key::Gate(*gated), renewed.to_vec());
                }
                make(tx, quota, items)?;
                Ok(true)
            })
            .await?;
        if !done {
            return Err(VolumeError::Contended(self.target.id().to_owned()));
        }
        (self.target, self.seen, self.gate) = (next, seen, gate);
        Ok(())
    }

    /// Whether this job may go on: nobody took it over, and the source stands still. Compared in the commit.
    fn stands(&self, tx: &mut Tx<'_>) -> Op<bool> {
        let mut conditions = vec![(self.target.key(), self.seen.clone())];
        conditions.extend(self.snapshot.clone());
        conditions.extend(self.gate.clone().map(|(quota, gate)| (Key::Gate(quota), gate)));
        conditions.iter().for_each(|(key, _)| tx.want_record(key.clone()));
        tx.gather()?;
        for (key, seen) in conditions {
            if tx.record(&key)?.as_ref() != Some(&seen) {
                return Ok(false);
            }
            tx.same(&key)?;
        }
        Ok(true)
    }

    /// The last commit: the root as it is in the source, the record ready, a volume at its path, the gate open.
    async fn finish(&mut self, ready: Target, top: &PlainDir) -> Result<(), VolumeError> {
        let path = match &ready {
            Target::Volume(record) => Some((Path::parse(&record.path)?, record.path.clone())),
            Target::Snapshot(_) => None,
        };
        for _ in 0..10 {
            let this = &*self;
            let ended =
                this.client.run(|tx| this.end(tx, &ready, top, path.as_ref().map(|(path, _)| path))).await?;
            match ended {
                Ended::Ready => {
                    (self.target, self.gate) = (ready, None);
                    return Ok(());
                }
                Ended::Lost => break,
                Ended::Missing(dir, place) => match &path {
                    Some((path, _)) => self.client.make_above(path, dir, place).await?,
                    None => break,
                },
                Ended::Taken => {
                    let path = path.map(|(_, text)| text).unwrap_or_default();
                    let by = "something that was made there meanwhile".to_owned();
                    return Err(VolumeError::PathTaken { path, by });
                }
            }
        }
        Err(VolumeError::Contended(self.target.id().to_owned()))
    }

    fn end(&self, tx: &mut Tx<'_>, ready: &Target, top: &PlainDir, path: Option<&Path>) -> Op<Ended> {
        if !self.stands(tx)? {
            return Ok(Ended::Lost);
        }
        let (root, quota) = ready.place();
        let mut parent = SNAPSHOTS;
        if let Some(path) = path {
            parent = match follow(tx, path, false)? {
                Reached::Parent(dir) => dir,
                Reached::Missing(dir, place) => return Ok(Ended::Missing(dir, place)),
                Reached::Blocked(_) => return Ok(Ended::Taken),
            };
            if tx.name(parent, &path.name)?.is_some() {
                return Ok(Ended::Taken);
            }
            follow(tx, path, true)?;
            tx.check(Check::NoName(parent, path.name.clone()));
            self.give_name(tx, root, parent, &path.name)?;
        }
        let now = tx.world.now;
        tx.put_guard(root, &Guard { quota, parent, quota_root: true, ctime: now, ..top.guard.clone() });
        put_dir_records(tx, root, top);
        tx.put(ready.key(), ready.encode().to_vec());
        if let Some((gated, _)) = &self.gate {
            tx.delete(Key::Gate(*gated));
        }
        Ok(Ended::Ready)
    }

    fn give_name(&self, tx: &mut Tx<'_>, root: InodeNo, parent: InodeNo, name: &EntryName) -> Op<()> {
        let old = entry_name(self.target.id()).map_err(|e| FsError::Io(e.to_string()))?;
        tx.guard(SNAPSHOTS)?;
        tx.check(Check::HasName(SNAPSHOTS, old.clone(), FileKind::Directory, root));
        tx.unlink(SNAPSHOTS, &old, FileKind::Directory, root);
        tx.link(parent, name, FileKind::Directory, root);
        tx.push(Write::AddSubdirs(SNAPSHOTS, -1));
        tx.push(Write::AddSubdirs(parent, 1));
        tx.push(Write::Touch(parent));
        Ok(())
    }
}

impl Origin {
    fn record_id(&self) -> String {
        match &self.record.0 {
            Key::Volume(id) | Key::Snapshot(id) => id.clone(),
            other => format!("{other:?}"),
        }
    }
}

/// How the last commit went.
enum Ended {
    Ready,
    /// Somebody took over, or the source moved on.
    Lost,
    /// A directory above the volume is missing.
    Missing(InodeNo, usize),
    /// Something lies at the volume's path.
    Taken,
}

/// Whether the same call may succeed later, with what was made so far taken over.
fn passes(e: &VolumeError) -> bool {
    matches!(
        e,
        VolumeError::Contended(_)
            | VolumeError::Copying { .. }
            | VolumeError::Fs(FsError::Unavailable(_) | FsError::Fenced(_))
    )
}

pub(super) fn entry_name(id: &str) -> Result<EntryName, VolumeError> {
    EntryName::new(id.as_bytes()).map_err(|e| VolumeError::Invalid(format!("{id:?} is no id: {e}")))
}

/// Record, empty root and quota in one commit; what an earlier copier left goes into the trash. `false`: the record or the
/// source is not what was seen.
fn begin(
    tx: &mut Tx<'_>,
    target: &Target,
    before: Option<&Bytes>,
    after: &Bytes,
    half: Option<InodeNo>,
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
        Some(half) if there == Some((FileKind::Directory, half)) => {
            throw_away(tx, &name, half, target.id())?;
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

/// Moves a tree of [`SNAPSHOTS`] into the trash.
pub(super) fn throw_away(tx: &mut Tx<'_>, name: &EntryName, root: InodeNo, id: &str) -> Op<()> {
    let mut stamp = tx.world.now;
    loop {
        let trash = trash_name(id, stamp, None)
            .ok_or_else(|| FsError::Io(format!("{id:?} is too long for a name in the trash")))?;
        if tx.name(TRASH, &trash)?.is_none() {
            return discard(tx, SNAPSHOTS, name, root, &trash);
        }
        stamp = later(stamp, Duration::from_millis(1));
    }
}

/// Removes the record and throws away what was made, if both are still this job's.
fn give_up(tx: &mut Tx<'_>, target: &Target, seen: &Bytes) -> Op<()> {
    let name = entry_name(target.id()).map_err(|e| FsError::Io(e.to_string()))?;
    let root = target.place().0;
    if tx.record(&target.key())?.as_ref() != Some(seen) {
        return Ok(());
    }
    tx.same(&target.key())?;
    if tx.name(SNAPSHOTS, &name)? == Some((FileKind::Directory, root)) {
        throw_away(tx, &name, root, target.id())?;
    }
    tx.delete(target.key());
    Ok(())
}
