//! Uploading in the right shape, committing, and what follows.

use super::blocks::BlocksError;
use super::over::TIMES_MAX;
use super::shape::{INLINE_SET_MAX, Job, Shape};
use crate::dirty::{Layer, SliceBuf};
use crate::journal::Entry;
use crate::node::Claim;
use crate::vfs::Vfs;
use bytes::Bytes;
use carafe_meta::{FileWrite, WriteData};
use carafe_types::record::Extent;
use carafe_types::{Attr, FsError, FsResult, InodeNo, SliceId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Files in one transaction.
const COMMIT_FILES: usize = 500;

/// Failures by inode.
pub(crate) type Failures = HashMap<InodeNo, FsError>;

/// A layer whose bytes are where they belong; only the commit is missing.
#[derive(Debug)]
pub(crate) struct Ready {
    /// The right to finish it.
    pub(crate) claim: Claim,
    /// What to commit.
    pub(crate) write: FileWrite,
    /// The slice that becomes cache with the commit.
    pub(crate) slice: Option<Arc<SliceBuf>>,
}

impl Ready {
    fn new(claim: Claim, data: WriteData, slice: Option<Arc<SliceBuf>>) -> Self {
        let layer = &claim.layer;
        // What is appended counts from the end of the file, wherever that is by then. If the file is inline, all of it
        // goes along, and the commit is refused if that is not all any more.
        let inline = matches!(data, WriteData::Inline(_));
        let append = layer.append && layer.own.is_none() && !inline;
        let from = if append { layer.base } else { 0 };
        let data = match data {
            WriteData::Extents(list) if from > 0 => WriteData::Extents(
                list.into_iter().map(|e| Extent { offset: e.offset - from, ..e }).collect(),
            ),
            other => other,
        };
        let write = FileWrite {
            ino: claim.node.ino,
            data,
            size: layer.size - from,
            exact: false,
            mtime: layer.mtime,
            charged: layer.charged,
            append,
            kill_setid: layer.kill_set_id,
            base: layer.ver.filter(|_| inline || layer.own.is_some()),
        };
        Ready { claim, write, slice }
    }

    /// Attributes after the commit.
    fn expected_attr(&self) -> Attr {
        let layer = &self.claim.layer;
        let mut attr = self.claim.node.state().attr.clone();
        attr.size = attr.size.max(layer.size);
        attr.mtime = layer.mtime;
        attr.ctime = attr.ctime.max(layer.ctime);
        attr.dataver += 1;
        attr
    }

    /// The slices that the commit names.
    fn slices(&self) -> Vec<SliceId> {
        let WriteData::Extents(extents) = &self.write.data else { return Vec::new() };
        let mut slices: Vec<SliceId> = extents.iter().map(|e| e.slice).collect();
        slices.sort();
        slices.dedup();
        slices
    }
}

impl Vfs {
    /// Brings the bytes of all jobs to where the commit can name them.
    pub(crate) async fn upload(
        self: &Arc<Self>,
        jobs: Vec<Job>,
        deadline: Instant,
        failed: &mut Failures,
    ) -> Vec<Ready> {
        if self.all_inline(&jobs) {
            return jobs.into_iter().filter_map(|job| self.inline(job, failed)).collect();
        }
        self.upload_packed(jobs, deadline, failed).await
    }

    /// The same with nothing inline.
    async fn upload_packed(
        self: &Arc<Self>,
        jobs: Vec<Job>,
        deadline: Instant,
        failed: &mut Failures,
    ) -> Vec<Ready> {
        let (small, large) = (of_shape(&jobs, Shape::Small), of_shape(&jobs, Shape::Blocks));
        let (packs, lost) = self.build_packs(&jobs, &small);
        let packs = futures::future::join_all(packs.into_iter().map(|p| async {
            let files = p.files();
            (files, self.upload_pack(p, deadline).await)
        }));
        let slices = futures::future::join_all(large.iter().map(|&i| self.send_slice(&jobs[i], deadline)));
        let (packs, slices) = futures::join!(packs, slices);
        let sizes = of_shape(&jobs, Shape::Size).into_iter().map(|i| (i, Ok((WriteData::None, None))));
        let slices = large.into_iter().zip(slices);
        let slices =
            slices.map(|(i, sent)| (i, sent.map(|s| (WriteData::Extents(s.extents), Some(s.slice)))));
        let lost = lost.into_iter().map(|(i, e)| (i, Err(BlocksError::Lost(e))));
        let packed = packs.into_iter().flat_map(|(files, outcome)| packed_files(files, outcome));
        let results: HashMap<usize, Uploaded> = sizes.chain(slices).chain(packed).chain(lost).collect();
        self.settle_uploads(jobs, results, failed)
    }

    /// Sorts what is ready from what failed, and from what is lost.
    fn settle_uploads(
        &self,
        jobs: Vec<Job>,
        mut results: HashMap<usize, Uploaded>,
        failed: &mut Failures,
    ) -> Vec<Ready> {
        let mut ready = Vec::with_capacity(jobs.len());
        for (i, job) in jobs.into_iter().enumerate() {
            let ino = job.claim.node.ino;
            match results.remove(&i) {
                Some(Ok((data, slice))) => ready.push(Ready::new(job.claim, data, slice)),
                Some(Err(BlocksError::Lost(e))) => {
                    failed.insert(ino, self.lose(job.claim, &e.to_string()));
                }
                Some(Err(BlocksError::Bucket(e))) => drop(failed.insert(ino, e)),
                None => {
                    drop(failed.insert(ino, FsError::Io(format!("inode {ino} was left out of its flush"))))
                }
            }
        }
        ready
    }

    /// Whether nothing has to be PUT at all.
    fn all_inline(&self, jobs: &[Job]) -> bool {
        let inline_max = u64::from(self.meta.superblock().inline_max);
        let fits = |j: &Job| j.shape == Shape::Size || j.may_be_inline(inline_max);
        let sizes = jobs.iter().filter(|j| j.shape == Shape::Small).map(|j| j.claim.layer.size);
        let bytes: u64 = sizes.sum();
        jobs.iter().all(fits) && bytes <= INLINE_SET_MAX.min(self.meta.inline_left())
    }

    fn inline(&self, job: Job, failed: &mut Failures) -> Option<Ready> {
        if job.shape == Shape::Size {
            return Some(Ready::new(job.claim, WriteData::None, None));
        }
        let layer = &job.claim.layer;
        let mut whole = vec![0; layer.size as usize];
        for (offset, len) in layer.map.runs() {
            match job.read(offset..offset + len) {
                Ok(bytes) => whole[offset as usize..][..len as usize].copy_from_slice(&bytes),
                Err(e) => {
                    let ino = job.claim.node.ino;
                    failed.insert(ino, self.lose(job.claim, &e.to_string()));
                    return None;
                }
            }
        }
        Some(Ready::new(job.claim, WriteData::Inline(Bytes::from(whole)), None))
    }

    /// Commits what is ready, 500 files at a time, and lets go of it.
    pub(crate) async fn commit(
        self: &Arc<Self>,
        mut ready: Vec<Ready>,
        deadline: Instant,
        failed: &mut Failures,
    ) {
        while !ready.is_empty() {
            let rest = ready.split_off(ready.len().min(COMMIT_FILES));
            self.commit_some(ready, deadline, failed).await;
            ready = rest;
        }
    }

    async fn commit_some(self: &Arc<Self>, ready: Vec<Ready>, deadline: Instant, failed: &mut Failures) {
        let ready = self.drop_foreign(ready, failed);
        if ready.is_empty() {
            return;
        }
        self.note_sent(&ready);
        let writes: Vec<FileWrite> = ready.iter().map(|r| r.write.clone()).collect();
        match self.meta.commit_writes(&writes).await {
            Ok(attrs) => self.finish_all(ready, Some(&attrs)),
            Err(e) if ready.len() > 1 && !matches!(e, FsError::Unavailable(_) | FsError::Fenced(_)) => {
                // One of them is to blame: an inode that is gone, or no room for inline data.
                for one in ready {
                    Box::pin(self.commit_some(vec![one], deadline, failed)).await;
                }
            }
            Err(e) => {
                for one in ready {
                    self.commit_failed(one, &e, deadline, failed).await;
                }
            }
        }
    }

    async fn commit_failed(
        self: &Arc<Self>,
        one: Ready,
        e: &FsError,
        deadline: Instant,
        failed: &mut Failures,
    ) {
        let ino = one.write.ino;
        match e {
            // Unlinked for good, here or elsewhere: nobody can miss it.
            FsError::NotFound => self.drop_layer(one.claim),
            FsError::Fenced(_) | FsError::Stale => {
                drop(failed.insert(ino, self.lose(one.claim, &e.to_string())))
            }
            // Another session has changed the file meanwhile, and what goes along of it is out of date.
            FsError::WouldBlock | FsError::Invalid(_) if one.claim.layer.laid_over < TIMES_MAX => {
                match self.lay_over(one.claim).await {
                    Ok(claim) => {
                        let again = Box::pin(self.upload(vec![Job::new(claim)], deadline, failed)).await;
                        Box::pin(self.commit(again, deadline, failed)).await;
                    }
                    Err(e) => drop(failed.insert(ino, e)),
                }
            }
            // The budget for inline data is used up.
            FsError::NotSupported if matches!(one.write.data, WriteData::Inline(_)) => {
                let packed = Box::pin(self.upload_packed(vec![Job::new(one.claim)], deadline, failed)).await;
                Box::pin(self.commit(packed, deadline, failed)).await;
            }
            _ => {
                if !matches!(e, FsError::Unavailable(_)) {
                    one.claim.layer.sent.lock().clear();
                }
                tracing::warn!(%ino, error = %e, "a commit failed; its data stays in the cache");
                failed.insert(ino, e.clone());
            }
        }
    }

    /// What a session accepted that was fenced since is lost: another one holds its locks by now.
    pub(crate) fn drop_foreign(&self, ready: Vec<Ready>, failed: &mut Failures) -> Vec<Ready> {
        let me = self.meta.session().no;
        let (own, foreign): (Vec<_>, Vec<_>) = ready.into_iter().partition(|r| r.claim.layer.session == me);
        for r in foreign {
            failed.insert(r.write.ino, self.lose(r.claim, "the session was fenced"));
        }
        own
    }

    /// Before a commit: which slices it will name, should its outcome never be known.
    pub(crate) fn note_sent(&self, ready: &[Ready]) {
        for r in ready {
            let slices = r.slices();
            let layer = &r.claim.layer;
            let entries: Vec<_> = slices.iter().map(|s| Entry::Sent { layer: layer.id, n: s.n }).collect();
            if !entries.is_empty() {
                self.log.append(layer.id, &entries);
            }
            layer.sent.lock().extend(slices);
        }
    }

    /// Whether an earlier commit of this layer, whose answer did not come, has happened.
    pub(crate) async fn was_committed(&self, claim: &Claim) -> bool {
        let sent = claim.layer.sent.lock().clone();
        if sent.is_empty() {
            return false;
        }
        let Some(&(offset, len)) = claim.layer.map.runs().first() else { return false };
        let Ok(content) = self.meta.content(claim.node.ino, offset..offset + len).await else { return false };
        content.extents.iter().any(|e: &Extent| sent.contains(&e.slice))
    }

    /// All of them are committed, with these attributes or, where the store did not say, with what must have become of
    /// them.
    pub(crate) fn finish_all(&self, ready: Vec<Ready>, attrs: Option<&[Attr]>) {
        self.counters.commits.add(1);
        let layers: Vec<u64> = ready.iter().map(|r| r.claim.layer.id).collect();
        for (i, r) in ready.into_iter().enumerate() {
            self.growing_bytes.sub(u64::try_from(r.claim.layer.charged).unwrap_or(0));
            let told = attrs.and_then(|a| a.get(i)).cloned();
            let attr = told.unwrap_or_else(|| r.expected_attr());
            self.counters.inline_files.add(u64::from(matches!(r.write.data, WriteData::Inline(_))));
            self.settle_layer(r.claim, Some(&attr), r.slice.as_ref());
        }
        self.log.done(&layers);
    }

    /// One is committed.
    pub(crate) fn finish(&self, claim: Claim, attr: Option<&Attr>, slice: Option<&Arc<SliceBuf>>) {
        let layer = claim.layer.id;
        self.settle_layer(claim, attr, slice);
        self.log.done(&[layer]);
    }

    fn settle_layer(&self, claim: Claim, attr: Option<&Attr>, slice: Option<&Arc<SliceBuf>>) {
        let node = claim.node.clone();
        let before = claim.layer.ver;
        self.retire_buffer(&claim.layer, slice);
        claim.finish(|state| {
            if let Some(attr) = attr {
                self.kept.advance(node.ino, state.attr.dataver, attr.dataver);
                state.attr.clone_from(attr);
                // What was begun over this layer stands on the committed content now.
                if let Some(next) = state.dirty.as_mut().filter(|next| next.ver == before) {
                    next.ver = Some(attr.dataver);
                }
            }
            state.contents.clear();
            self.left_dirty(&node, state);
        });
        self.nodes.drop_if_idle(&node);
    }

    /// The bytes are cache now, or nobody needs them here.
    fn retire_buffer(&self, layer: &Layer, sent: Option<&Arc<SliceBuf>>) {
        self.small_bytes.sub(layer.memory_bytes());
        if let Some(sent) = sent
            && let Err(e) = sent.file.mark_clean()
        {
            tracing::warn!(slice = %sent.id, error = %e, "an uploaded slice is not kept as cache");
        }
        if let Some(own) = layer.slice()
            && sent.is_none_or(|sent| !Arc::ptr_eq(sent, own))
        {
            own.file.discard();
        }
    }

    /// Forgets a layer that nobody wants any more, without an error.
    pub(crate) fn drop_layer(&self, claim: Claim) {
        self.give_back_layer(&claim);
        self.finish(claim, None, None);
    }

    /// A layer's bytes are gone although somebody wants them: from now on fsync and close say so.
    pub(crate) fn lose(&self, claim: Claim, why: &str) -> FsError {
        let ino = claim.node.ino;
        let bytes = claim.layer.map.bytes();
        self.counters.lost_files.add(1);
        tracing::error!(%ino, bytes, why, "unsaved bytes of a file are lost");
        let error = FsError::Io(format!("{bytes} unsaved bytes of inode {ino} are lost: {why}"));
        claim.node.state().lost = Some(error.clone());
        self.give_back_layer(&claim);
        self.finish(claim, None, None);
        error
    }

    fn give_back_layer(&self, claim: &Claim) {
        let quota = claim.node.state().attr.quota;
        self.give_back(quota, claim.layer.charged);
    }
}

/// What an upload gives to the commit.
type Uploaded = Result<(WriteData, Option<Arc<SliceBuf>>), BlocksError>;

fn packed_files(files: Vec<usize>, outcome: FsResult<Vec<(usize, Vec<Extent>)>>) -> Vec<(usize, Uploaded)> {
    match outcome {
        Ok(extents) => extents.into_iter().map(|(i, e)| (i, Ok((WriteData::Extents(e), None)))).collect(),
        Err(e) => files.into_iter().map(|i| (i, Err(BlocksError::Bucket(e.clone())))).collect(),
    }
}

fn of_shape(jobs: &[Job], shape: Shape) -> Vec<usize> {
    (0..jobs.len()).filter(|&i| jobs[i].shape == shape).collect()
}
