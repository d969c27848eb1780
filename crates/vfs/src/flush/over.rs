//! Laying a layer over content that another session has changed meanwhile.
//!
//! A file is inline as a whole or not at all, so a layer over an inline file holds bytes that this session did not write.
//! If another session commits first, those are out of date: the layer is made anew from what is in the store now and what
//! was written *here*. Appended bytes move to the new end.

use super::shape::Job;
use crate::dirty::{Buffer, Layer};
use crate::journal::Entry;
use crate::local::to_fs_error;
use crate::node::Claim;
use crate::vfs::Vfs;
use carafe_types::{FsResult, InodeNo};
use std::sync::Arc;

/// How often a layer may lose against other sessions before its flush fails.
pub(super) const TIMES_MAX: u32 = 100;

/// Bytes that are moved at a time.
const COPY: u64 = 1 << 20;

impl Vfs {
    /// Replaces the claimed layer by one over the present content.
    ///
    /// # Errors
    /// Store errors; `Io` if written bytes cannot be read any more.
    pub(super) async fn lay_over(self: &Arc<Self>, claim: Claim) -> FsResult<Claim> {
        let ino = claim.node.ino;
        let content = self.meta.content(ino, 0..1).await?;
        let job = Job::new(claim);
        let new = self.made_over(&job, content.attr.size, content.inline.as_deref());
        let mut new = new.map_err(|e| to_fs_error(&e))?;
        new.ver = Some(content.attr.dataver);
        let old = job.claim.layer.clone();
        self.small_bytes.add(new.memory_bytes());
        self.small_bytes.sub(old.memory_bytes());
        if let Some(slice) = old.slice() {
            slice.file.discard();
        }
        self.tell_journal(ino, &new);
        self.log.done(&[old.id]);
        let mut claim = job.claim;
        claim.replace(Arc::new(new));
        claim.node.state().learn(&content.attr);
        Ok(claim)
    }

    fn made_over(
        &self,
        job: &Job,
        size: u64,
        inline: Option<&[u8]>,
    ) -> Result<Layer, carafe_cache::CacheError> {
        let old = &job.claim.layer;
        let mut new = Layer::new(self.log.new_layer(), old.session, size, old.mtime);
        new.append = old.append;
        new.kill_set_id = old.kill_set_id;
        new.charged = old.charged;
        new.since = old.since;
        new.laid_over = old.laid_over + 1;
        if let Some(inline) = inline {
            new.take_along(inline);
        }
        let runs = old.own_runs();
        let bytes: u64 = runs.iter().map(|(_, len)| len).sum();
        if bytes > self.o.spill_bytes {
            let along = match &new.buf {
                Buffer::Memory(along) => along.clone(),
                Buffer::Slice(_) => Vec::new(),
            };
            let slice = self.new_slice(along.len() as u64)?;
            slice.file.write_at(0, &along)?;
            new.buf = Buffer::Slice(slice);
        }
        for (offset, len) in runs {
            let mut done = 0;
            while done < len {
                let n = COPY.min(len - done);
                let bytes = job.read(offset + done..offset + done + n)?;
                // Where the end of the file was is where its end is now.
                let to = if old.append { offset - old.base + size } else { offset };
                self.write_layer(&mut new, to + done, &bytes)?;
                done += n;
            }
        }
        if !old.append {
            new.size = new.size.max(old.size);
        }
        new.mtime = old.mtime;
        new.touched = true;
        Ok(new)
    }

    fn write_layer(&self, layer: &mut Layer, at: u64, bytes: &[u8]) -> Result<(), carafe_cache::CacheError> {
        let (end, now) = (at + bytes.len() as u64, layer.mtime);
        let Some(slice) = layer.slice().cloned() else {
            layer.write_memory(at, bytes, now);
            return Ok(());
        };
        let placed = layer.place(at..end);
        for p in &placed {
            let part = &bytes[(p.piece.offset - at) as usize..][..p.piece.len as usize];
            slice.file.write_at(p.piece.at, part)?;
        }
        layer.wrote(&placed, at..end, now);
        Ok(())
    }

    fn tell_journal(&self, ino: InodeNo, layer: &Layer) {
        let (id, mtime) = (layer.id, layer.mtime);
        let begin = Entry::Begin { layer: id, ino, parent: InodeNo(0), size: layer.base };
        self.log.append(id, &[begin]);
        match &layer.buf {
            Buffer::Memory(bytes) => {
                for p in layer.map.iter() {
                    let data = &bytes[p.at as usize..][..p.len as usize];
                    self.log.append(id, &[Entry::Bytes { layer: id, offset: p.offset, mtime, data }]);
                }
            }
            Buffer::Slice(slice) => {
                self.log.append(id, &[Entry::Slice { layer: id, n: slice.id.n }]);
                for p in layer.map.iter() {
                    let placed = Entry::Placed { layer: id, offset: p.offset, len: p.len, at: p.at, mtime };
                    self.log.append(id, &[placed]);
                }
            }
        }
        self.log.append(id, &[Entry::Size { layer: id, size: layer.size, mtime }]);
    }
}
