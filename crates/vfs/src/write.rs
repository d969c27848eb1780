//! Accepting writes.
//!
//! A write is taken in these steps, in the order of the file's writers: quota is reserved for what the file grows, so
//! that a full volume says so *here*; the bytes go to the layer's buffer; the journal learns of them. Room in the write
//! buffer is waited for before, without holding the file.

use crate::dirty::{Buffer, Placed, SliceBuf};
use crate::handles::Handle;
use crate::journal::Entry;
use crate::local::{key_of, to_fs_error};
use crate::node::Node;
use crate::vfs::Vfs;
use bytes::Bytes;
use carafe_cache::{CacheError, DirtyPermit};
use carafe_types::{FsError, FsResult, Timestamp};
use std::sync::Arc;

/// The longest file, bytes. Sums of offsets stay below 2^63.
pub(crate) const FILE_SIZE_MAX: u64 = 1 << 62;

/// What a write has to wait for before it is tried again.
enum Step {
    /// It is done.
    Done,
    /// For so many bytes of room in the write buffer.
    Room(u64),
    /// For a flush of the file.
    Flush,
    /// For a place in the lists of the directories above.
    Watch,
}

/// A write under way.
struct Incoming<'a> {
    data: &'a [u8],
    offset: u64,
    to_end: bool,
    kill_set_id: bool,
    /// A layer of its own that the commit moves to the end of the file.
    append: bool,
}

impl Vfs {
    /// Writes `data` at `offset`, or at the end if the handle was opened with O_APPEND. `kill_set_id`: the writer may not
    /// keep set-id bits on.
    ///
    /// # Errors
    /// `NoSpace`, `QuotaExceeded` exactly when the quota would be passed; `TooBig`; `BadHandle`; the loss of earlier
    /// bytes of this file; `Unavailable` after the patience.
    pub async fn write(&self, fh: u64, offset: u64, data: Bytes, kill_set_id: bool) -> FsResult<u32> {
        let handle = self.handle(fh).await?;
        let to_end = handle.appends();
        self.write_handle(&handle, offset, data, kill_set_id, to_end).await
    }

    /// Writes pages of a shared mapping at `offset`, also through a handle that was opened with O_APPEND.
    ///
    /// # Errors
    /// As [`Vfs::write`].
    pub async fn write_mapped(&self, fh: u64, offset: u64, data: Bytes, kill_set_id: bool) -> FsResult<u32> {
        let handle = self.handle(fh).await?;
        self.write_handle(&handle, offset, data, kill_set_id, false).await
    }

    async fn write_handle(
        &self,
        handle: &Handle,
        offset: u64,
        data: Bytes,
        kill_set_id: bool,
        to_end: bool,
    ) -> FsResult<u32> {
        handle.check_write()?;
        if data.is_empty() {
            return Ok(0);
        }
        let append = to_end && !self.meta.holds_alone(handle.node.ino);
        let incoming = Incoming { data: &data, offset, to_end, kill_set_id, append };
        self.write_node(handle, incoming).await?;
        if append {
            self.strong().flush_nodes(vec![handle.node.clone()]).await?;
        }
        self.counters.writes.add(1);
        self.counters.written_bytes.add(data.len() as u64);
        Ok(data.len() as u32)
    }

    async fn write_node(&self, handle: &Handle, incoming: Incoming<'_>) -> FsResult<()> {
        let node = &handle.node;
        let mut room: Option<DirtyPermit> = None;
        let mut watched = false;
        loop {
            let step = {
                let _order = node.order.lock().await;
                let room = room.as_ref().map_or(0, DirtyPermit::bytes);
                self.try_write(node, &incoming, room, watched).await?
            };
            match step {
                Step::Done => return Ok(()),
                Step::Watch => {
                    // Other sessions may have to give something up first, and they may be waiting for a flush of this file:
                    // so not with the order held.
                    self.watch_above(node).await?;
                    watched = true;
                }
                Step::Room(bytes) => {
                    drop(room.take());
                    room = Some(self.local.room(bytes, || self.sweep.press()).await?);
                }
                Step::Flush => {
                    drop(room.take());
                    self.strong().flush_nodes(vec![node.clone()]).await?;
                }
            }
        }
    }

    /// One try, with the file's order held.
    async fn try_write(
        &self,
        node: &Arc<Node>,
        incoming: &Incoming<'_>,
        room: u64,
        watched: bool,
    ) -> FsResult<Step> {
        if let Some(e) = node.state().lost.clone() {
            return Err(e);
        }
        if node.state().dirty.is_none() && !watched && !self.is_watched(node) {
            return Ok(Step::Watch);
        }
        if incoming.append && !node.state().is_dirty() {
            self.refresh(node).await?;
        }
        self.begin_layer(node, incoming.append).await?;
        let len = incoming.data.len() as u64;
        let (at, growth, quota, slice, buffered) = {
            let state = node.state();
            let Some(layer) = state.dirty.as_ref() else { return Err(state.gone()) };
            if layer.append != incoming.append {
                return Ok(Step::Flush);
            }
            let at = if incoming.to_end { layer.size } else { incoming.offset };
            let end = at.checked_add(len).filter(|end| *end <= FILE_SIZE_MAX).ok_or(FsError::TooBig)?;
            let growth = end.saturating_sub(layer.size);
            (at, growth, state.attr.quota, layer.slice().cloned(), layer.memory_bytes())
        };
        let spills = slice.is_none()
            && (buffered + len > self.o.spill_bytes || self.small_bytes.get() + len > self.o.small_bytes_max);
        let need = match &slice {
            Some(_) => len,
            None if spills => buffered + len,
            None => 0,
        };
        if room < need {
            return Ok(Step::Room(need));
        }
        if slice.as_ref().is_some_and(|s| s.tail() >= 2 * self.rotate_bytes()) {
            return Ok(Step::Flush);
        }
        self.reserve(quota, growth).await?;
        let taken = self.take(node, incoming, at, growth, slice, spills);
        if !matches!(taken, Ok(Step::Done)) {
            self.give_back(quota, growth as i64);
        }
        taken
    }

    /// Puts the bytes where they belong.
    fn take(
        &self,
        node: &Arc<Node>,
        incoming: &Incoming<'_>,
        at: u64,
        growth: u64,
        slice: Option<Arc<SliceBuf>>,
        spills: bool,
    ) -> FsResult<Step> {
        let now = self.meta.now();
        let spilled = match slice {
            None if spills => self.spill(node).map(Some),
            other => Ok(other),
        };
        let written = spilled.and_then(|slice| {
            match &slice {
                None => self.take_in_memory(node, incoming.data, at, now),
                Some(slice) => self.take_in_slice(node, slice, incoming.data, at, now)?,
            }
            Ok(slice)
        });
        let slice = match written {
            Ok(slice) => slice,
            Err(e) if e.is_disk() => {
                // What is there goes up; what comes now begins a layer in memory.
                self.local.disk_failed(&e);
                return Ok(Step::Flush);
            }
            Err(e) => return Err(to_fs_error(&e)),
        };
        {
            let mut state = node.state();
            let gone = state.gone();
            // Nobody freezes while the order is held, but a session that was fenced loses everything at once.
            let layer = state.dirty.as_mut().ok_or(gone)?;
            layer.charged += growth as i64;
            layer.kill_set_id |= incoming.kill_set_id;
        }
        if let Some(slice) = slice {
            self.go_on_with(node, &slice);
        }
        Ok(Step::Done)
    }

    fn take_in_memory(&self, node: &Node, data: &[u8], at: u64, now: Timestamp) {
        let id = {
            let mut state = node.state();
            let Some(layer) = state.dirty.as_mut() else { return };
            let before = layer.memory_bytes();
            layer.write_memory(at, data, now);
            self.small_bytes.add(layer.memory_bytes() - before);
            layer.id
        };
        self.log_change(node, id, &[Entry::Bytes { layer: id, offset: at, mtime: now, data }]);
    }

    fn take_in_slice(
        &self,
        node: &Node,
        slice: &Arc<SliceBuf>,
        data: &[u8],
        at: u64,
        now: Timestamp,
    ) -> Result<(), CacheError> {
        let end = at + data.len() as u64;
        let (id, placed) = {
            let mut state = node.state();
            let Some(layer) = state.dirty.as_mut() else { return Ok(()) };
            (layer.id, layer.place(at..end))
        };
        for Placed { piece, .. } in &placed {
            let part = &data[(piece.offset - at) as usize..][..piece.len as usize];
            slice.file.write_at(piece.at, part)?;
        }
        let entries: Vec<_> = placed
            .iter()
            .filter(|p| !p.in_place)
            .map(|p| Entry::Placed {
                layer: id,
                offset: p.piece.offset,
                len: p.piece.len,
                at: p.piece.at,
                mtime: now,
            })
            .collect();
        if !entries.is_empty() {
            self.log_change(node, id, &entries);
        }
        if let Some(layer) = node.state().dirty.as_mut() {
            layer.wrote(&placed, at..end, now);
        }
        Ok(())
    }

    /// Moves a layer's buffer from memory to a file of the cache.
    fn spill(&self, node: &Node) -> Result<Arc<SliceBuf>, CacheError> {
        let (bytes, id) = match node.state().dirty.as_ref().map(|l| (&l.buf, l.id)) {
            Some((Buffer::Slice(slice), _)) => return Ok(slice.clone()),
            Some((Buffer::Memory(bytes), id)) => (bytes.clone(), id),
            None => (Vec::new(), 0),
        };
        let slice = self.new_slice(bytes.len() as u64)?;
        if let Err(e) = slice.file.write_at(0, &bytes) {
            slice.file.discard();
            return Err(e);
        }
        self.log_change(node, id, &[Entry::Slice { layer: id, n: slice.id.n }]);
        if let Some(layer) = node.state().dirty.as_mut() {
            layer.buf = Buffer::Slice(slice.clone());
            self.small_bytes.sub(bytes.len() as u64);
        }
        Ok(slice)
    }

    /// A slice file whose first `tail` bytes are about to be written.
    pub(crate) fn new_slice(&self, tail: u64) -> Result<Arc<SliceBuf>, CacheError> {
        let (id, session) = self.next_slice();
        let file = self.local.create(key_of(session, id.n))?;
        Ok(SliceBuf::new((id, session), file, self.remote.block_size(), tail))
    }

    /// After a write to a slice: full blocks go up, and a slice that is long enough is committed, so that a file of any
    /// size needs a bounded part of the write buffer.
    fn go_on_with(&self, node: &Arc<Node>, slice: &Arc<SliceBuf>) {
        let me = self.strong();
        let rotate = {
            let mut state = node.state();
            let Some(layer) = state.dirty.as_mut() else { return };
            me.send_full_blocks(node.ino, slice, &layer.map);
            let due = !layer.rotating && slice.tail() >= self.rotate_bytes();
            layer.rotating |= due;
            due
        };
        if rotate {
            let node = node.clone();
            tokio::spawn(async move {
                if let Err(e) = me.flush_nodes(vec![node]).await {
                    tracing::debug!(error = %e, "a part of a long file stays dirty for now");
                }
            });
        }
    }

    async fn refresh(&self, node: &Node) -> FsResult<()> {
        let found = self.meta.getattr(node.ino).await?;
        node.state().learn(&found.attr);
        Ok(())
    }

    fn rotate_bytes(&self) -> u64 {
        self.local.rotate_bytes(self.remote.block_size())
    }
}
