//! Slices of blocks: full blocks go up while the writer goes on, the rest at the flush.

use super::shape::{Job, PIECES_MAX};
use crate::dirty::{Buffer, SliceBuf, Turn};
use crate::pieces::{Piece, PieceMap};
use crate::vfs::Vfs;
use carafe_cache::CacheError;
use carafe_types::record::{Extent, ExtentKind};
use carafe_types::{FsError, FsResult, InodeNo};
use futures::{StreamExt, TryStreamExt, stream};
use std::sync::Arc;
use std::time::Instant;

/// Bytes moved at a time when a layer is rewritten.
const COPY: u64 = 1 << 20;

/// Why a slice did not go up.
#[derive(Debug)]
pub(crate) enum BlocksError {
    /// The bucket did not take it in time.
    Bucket(FsError),
    /// The cache does not give back what was written to it.
    Lost(CacheError),
}

/// A slice that is in the bucket, and which bytes of the file it holds.
#[derive(Debug)]
pub(crate) struct Sent {
    /// The slice.
    pub(crate) slice: Arc<SliceBuf>,
    /// The extents to commit.
    pub(crate) extents: Vec<Extent>,
}

impl Vfs {
    /// Sends full blocks off, behind the back of the writer.
    ///
    /// A layer in crumbs waits for its flush, which puts it in order first.
    pub(crate) fn send_full_blocks(self: &Arc<Self>, ino: InodeNo, slice: &Arc<SliceBuf>, map: &PieceMap) {
        if map.len() > PIECES_MAX {
            return;
        }
        for index in slice.close_full() {
            let file_offset = map.offset_of(index * self.remote.block_size());
            let (vfs, slice) = (self.clone(), slice.clone());
            tokio::spawn(async move {
                // One try: what fails here is tried again by the flush, which tells the application.
                if let Err(e) = vfs.send_block(&slice, index, (ino, file_offset), Instant::now()).await {
                    tracing::debug!(%ino, slice = %slice.id, index, error = ?e, "block stays here for now");
                }
            });
        }
    }

    /// Sends all that is not in the bucket yet, and says what to commit.
    pub(crate) async fn send_slice(&self, job: &Job, deadline: Instant) -> Result<Sent, BlocksError> {
        let layer = &job.claim.layer;
        match &layer.buf {
            Buffer::Slice(slice) if slice.has_closed() || layer.map.len() <= PIECES_MAX => {
                let extents = self.send_all(job, slice, &layer.map, deadline).await?;
                Ok(Sent { slice: slice.clone(), extents })
            }
            _ => {
                let (slice, map) = self.in_file_order(job).map_err(BlocksError::Lost)?;
                let sent = self.send_all(job, &slice, &map, deadline).await;
                if sent.is_err() {
                    // The next try makes a new one; the layer keeps its own.
                    slice.file.discard();
                }
                Ok(Sent { extents: sent?, slice })
            }
        }
    }

    async fn send_all(
        &self,
        job: &Job,
        slice: &Arc<SliceBuf>,
        map: &PieceMap,
        deadline: Instant,
    ) -> Result<Vec<Extent>, BlocksError> {
        let count = slice.close_all();
        let len = slice.tail();
        slice.file.seal(len).map_err(BlocksError::Lost)?;
        let ino = job.claim.node.ino;
        let blocks = stream::iter(0..count).map(|index| {
            let file_offset = map.offset_of(index * self.remote.block_size());
            self.send_block(slice, index, (ino, file_offset), deadline)
        });
        blocks.buffer_unordered(self.o.upload_parallel).try_for_each(|()| async { Ok(()) }).await?;
        let extent = |p: Piece| Extent {
            offset: p.offset,
            len: p.len,
            kind: ExtentKind::Blocks,
            slice: slice.id,
            slice_off: p.at,
            slice_len: len,
        };
        Ok(map.iter().map(extent).collect())
    }

    /// Sends one closed block, or waits for whoever sends it.
    async fn send_block(
        &self,
        slice: &Arc<SliceBuf>,
        index: u64,
        of: (InodeNo, u64),
        deadline: Instant,
    ) -> Result<(), BlocksError> {
        loop {
            match slice.take_block(index) {
                Turn::Sent => return Ok(()),
                Turn::Wait => slice.settled(index).await,
                Turn::Mine => break,
            }
        }
        let mut busy = Busy { slice, index, sent: false };
        let _turn = self.upload_turn().await;
        let range = slice.block_range(index);
        let (id, object) = self.remote.block(slice, index, of).map_err(BlocksError::Lost)?;
        let put = || self.remote.put(&id, object.clone());
        self.until(deadline, put).await.map_err(BlocksError::Bucket)?;
        self.counters.blocks.add(1);
        self.counters.uploaded.add(range.end - range.start);
        busy.sent = true;
        Ok(())
    }

    /// Copies a layer into a new slice in the order of the file: one extent for each run.
    fn in_file_order(&self, job: &Job) -> Result<(Arc<SliceBuf>, PieceMap), CacheError> {
        let total = job.bytes();
        let _room = self.local.force_room(total);
        let slice = self.new_slice(0)?;
        let mut map = PieceMap::default();
        for (offset, len) in job.claim.layer.map.runs() {
            let mut at = offset;
            while at < offset + len {
                let n = COPY.min(offset + len - at);
                let bytes = job.read(at..at + n)?;
                let place = slice.append(n);
                slice.file.write_at(place, &bytes)?;
                map.insert(Piece { offset: at, len: n, at: place });
                at += n;
            }
        }
        Ok((slice, map))
    }

    /// Takes the blocks of a slice that nobody wants any more out of the bucket again, in the background. What fails is left
    /// to the collector.
    pub(crate) fn unsend(&self, slice: &Arc<SliceBuf>) {
        if slice.blocks() == 0 {
            return;
        }
        let (remote, slice) = (self.remote.clone(), slice.clone());
        tokio::spawn(async move {
            let mut sent = Vec::new();
            for index in 0..slice.blocks() {
                slice.settled(index).await;
                if slice.is_sent(index) {
                    sent.push(index);
                }
            }
            if let Err(e) = remote.delete_blocks(&slice, &sent).await {
                tracing::debug!(slice = %slice.id, error = %e, "blocks of a removed file are left to the collector");
            }
        });
    }

    /// Tries until it works or the time is over. At least once.
    ///
    /// # Errors
    /// The last failure. `Unavailable` for what may pass.
    pub(crate) async fn until<F: Future<Output = Result<(), carafe_object::ObjectError>>>(
        &self,
        deadline: Instant,
        put: impl Fn() -> F,
    ) -> FsResult<()> {
        let mut pause = std::time::Duration::from_millis(250);
        loop {
            let e = match put().await {
                Ok(()) => return Ok(()),
                Err(e) => e,
            };
            self.counters.upload_errors.add(1);
            if Instant::now() + pause >= deadline {
                return Err(crate::remote::to_fs_error(&e));
            }
            tracing::warn!(error = %e, "an upload failed and is tried again; its data stays in the cache");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(std::time::Duration::from_secs(10));
        }
    }
}

/// Gives a block back if it was not sent.
struct Busy<'a> {
    slice: &'a Arc<SliceBuf>,
    index: u64,
    sent: bool,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        if self.sent {
            self.slice.sent(self.index);
        } else {
            self.slice.not_sent(self.index);
        }
    }
}
