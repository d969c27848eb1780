//! Many small files in one object.

use super::shape::{Job, PACK_BYTES, RUNS_MAX};
use crate::local::key_of;
use crate::remote::member;
use crate::vfs::Vfs;
use carafe_cache::CacheError;
use carafe_object::PackBuilder;
use carafe_object::pack::MEMBERS_MAX;
use carafe_types::record::{Extent, ExtentKind};
use carafe_types::{FsResult, SliceId};
use std::time::Instant;

/// A pack as it will be written.
#[derive(Debug)]
pub(crate) struct Pack {
    id: SliceId,
    builder: PackBuilder,
    /// Position in the list of jobs, and the extents of that file.
    extents: Vec<(usize, Vec<Extent>)>,
}

/// A file whose bytes cannot be read from the cache any more.
pub(crate) type Lost = (usize, CacheError);

impl Vfs {
    /// Puts the jobs at these positions into as few packs as are of a good size. Files stay in order, so neighbours in
    /// a directory are neighbours in a pack.
    pub(crate) fn build_packs(&self, jobs: &[Job], small: &[usize]) -> (Vec<Pack>, Vec<Lost>) {
        let mut packs: Vec<Pack> = Vec::new();
        let mut lost = Vec::new();
        for &at in small {
            let full = |p: &Pack| {
                let (bytes, members) = (p.builder.payload_len(), p.builder.len());
                bytes > 0 && bytes + jobs[at].bytes() > PACK_BYTES || members + RUNS_MAX > MEMBERS_MAX
            };
            if packs.last().is_none_or(full) {
                packs.push(self.new_pack());
            }
            let pack = packs.last_mut().expect("one was pushed if there was none");
            if let Err(e) = pack.add(at, &jobs[at]) {
                lost.push((at, e));
            }
        }
        for pack in &mut packs {
            let len = pack.builder.payload_len();
            pack.extents.iter_mut().flat_map(|(_, e)| e).for_each(|e| e.slice_len = len);
        }
        packs.retain(|p| !p.builder.is_empty());
        (packs, lost)
    }

    fn new_pack(&self) -> Pack {
        let (id, session) = self.next_slice();
        Pack { id, builder: self.remote.new_pack(session, id.n), extents: Vec::new() }
    }

    /// Uploads a pack and keeps its bytes as cache. Returns the extents of its files.
    ///
    /// # Errors
    /// `Unavailable` or `Io` when the bucket did not take it before `deadline`.
    pub(crate) async fn upload_pack(
        &self,
        pack: Pack,
        deadline: Instant,
    ) -> FsResult<Vec<(usize, Vec<Extent>)>> {
        let Pack { builder, extents, .. } = pack;
        let len = builder.payload_len();
        let oid = builder.id();
        let object = builder.finish();
        let _turn = self.upload_turn().await;
        self.until(deadline, || self.remote.put(&oid, object.clone())).await?;
        self.counters.packs.add(1);
        self.counters.uploaded.add(len);
        match carafe_object::decode_chunks(&oid, &object, 0, 0..len) {
            Ok(chunks) => self.keep(key_of(oid.session, oid.n), len, &chunks),
            Err(e) => tracing::warn!(error = %e, "a pack just made does not verify"),
        }
        Ok(extents)
    }
}

impl Pack {
    /// Positions of its files in the list of jobs.
    pub(crate) fn files(&self) -> Vec<usize> {
        self.extents.iter().map(|(at, _)| *at).collect()
    }

    fn add(&mut self, at: usize, job: &Job) -> Result<(), CacheError> {
        let runs = job.claim.layer.map.runs();
        let mut read = Vec::with_capacity(runs.len());
        for &(offset, len) in &runs {
            read.push((offset, job.read(offset..offset + len)?));
        }
        let layer = &job.claim.layer;
        let state = job.claim.node.state();
        let mut extents = Vec::with_capacity(read.len());
        for (offset, bytes) in read {
            let info = member(&state.attr, state.parent, state.name.as_ref(), layer.mtime.0, offset);
            let placed = self.builder.add(info, &bytes);
            let placed = placed.expect("there is room for a file's runs, and names have at most 255 bytes");
            extents.push(Extent {
                offset,
                len: placed.length,
                kind: ExtentKind::Pack,
                slice: self.id,
                slice_off: placed.offset,
                slice_len: 0,
            });
        }
        self.extents.push((at, extents));
        Ok(())
    }
}
