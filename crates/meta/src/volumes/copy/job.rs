//! A copy under way: piece by piece, to the end or to giving up.

use super::super::VolumeError;
use super::super::path::{Path, Reached, follow};
use super::SNAPSHOTS;
use super::begin::{LEASE, Origin, entry_name, throw_away};
use super::piece::{Item, make, put_dir_records};
use super::plan::{self, Original, PlainDir};
use super::target::Target;
use super::walk::Walk;
use crate::client::{Client, Gate, later};
use crate::jobs::Scanner;
use crate::store::{Check, DirEntry, Key, WatchKey, Write};
use crate::tx::{Op, Tx};
use bytes::Bytes;
use carafe_types::record::{CopyJob, Guard};
use carafe_types::{EntryName, FileKind, FsError, InodeNo, QuotaId, Timestamp};
use std::time::Duration;

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

impl<'c> Job<'c> {
    /// A copy that was begun: `seen` is the target's record, `snapshot` the source's if it is one.
    pub(super) fn new(
        client: &'c Client,
        target: Target,
        seen: Bytes,
        snapshot: Option<(Key, Bytes)>,
        source: InodeNo,
    ) -> Self {
        Job { client, target, seen, snapshot, gate: None, source }
    }

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
                let now = self.client.now();
                if let Err(error) = self.client.run(|tx| give_up(tx, &self.target, &self.seen, now)).await {
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
    async fn close_gate(&mut self, origin: &Origin) -> Result<Timestamp, VolumeError> {
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

/// Removes the record and throws away what was made, if both are still this job's.
fn give_up(tx: &mut Tx<'_>, target: &Target, seen: &Bytes, now: Timestamp) -> Op<()> {
    let name = entry_name(target.id()).map_err(|e| FsError::Io(e.to_string()))?;
    let root = target.place().0;
    if tx.record(&target.key())?.as_ref() != Some(seen) {
        return Ok(());
    }
    tx.same(&target.key())?;
    if tx.name(SNAPSHOTS, &name)? == Some((FileKind::Directory, root)) {
        throw_away(tx, &name, root, target.id(), now)?;
    }
    tx.delete(target.key());
    Ok(())
}
