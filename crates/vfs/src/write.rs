//! Accepting writes.
//!
//! A write is taken in these steps, in the order of the file's writers: quota is reserved for what the file grows, so
//! that a full volume says so *here*; the bytes go to the layer's buffer; the journal learns of them. Room in the write
//! buffer is waited for before, without holding the file.

use crate::dirty::{Buffer, Layer, Placed, SliceBuf};
use crate::handles::Handle;
use crate::journal::Entry;
use crate::local::{key_of, to_fs_error};
use crate::node::Node;
use crate::vfs::Vfs;
use bytes::Bytes;
use carafe_cache::{CacheError, DirtyPermit};
use carafe_meta::DirtyWatch;
use carafe_types::{FsError, FsResult, InodeNo, Timestamp};
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
        handle.check_write()?;
        if data.is_empty() {
            return Ok(0);
        }
        let append = handle.appends() && !self.meta.holds_alone(handle.node.ino);
        let incoming = Incoming { data: &data, offset, to_end: handle.appends(), kill_set_id, append };
        self.write_node(&handle, incoming).await?;
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
        loop {
            let step = {
                let _order = node.order.lock().await;
                self.try_write(node, &incoming, room.as_ref().map_or(0, DirtyPermit::bytes)).await?
            };
            match step {
                Step::Done => return Ok(()),
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
    async fn try_write(&self, node: &Arc<Node>, incoming: &Incoming<'_>, room: u64) -> FsResult<Step> {
        if let Some(e) = node.state().lost.clone() {
            return Err(e);
        }
        if incoming.append && !node.state().is_dirty() {
            self.refresh(node).await?;
        }
        self.begin_layer(node, incoming.append).await?;
        let len = incoming.data.len() as u64;
        let (at, growth, quota, slice, buffered) = {
            let state = node.state();
            let layer = state.dirty.as_ref().expect("begun above, and the order is held");
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
        let slice = match slice {
            None if spills => Some(self.spill(node).map_err(|e| to_fs_error(&e))?),
            other => other,
        };
        let written = match &slice {
            None => {
                self.take_in_memory(node, incoming.data, at, now);
                Ok(())
            }
            Some(slice) => self.take_in_slice(node, slice, incoming.data, at, now),
        };
        match written {
            Ok(()) => {}
            Err(e) if e.is_disk() => {
                // What is there goes up; what comes now begins a layer in memory.
                self.local.disk_failed(&e);
                return Ok(Step::Flush);
            }
            Err(e) => return Err(to_fs_error(&e)),
        }
        {
            let mut state = node.state();
            let layer = state.dirty.as_mut().expect("nobody freezes while the order is held");
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
            let layer = state.dirty.as_mut().expect("nobody freezes while the order is held");
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
            let layer = state.dirty.as_mut().expect("nobody freezes while the order is held");
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
        let (bytes, id) = {
            let mut state = node.state();
            let layer = state.dirty.as_mut().expect("nobody freezes while the order is held");
            match &layer.buf {
                Buffer::Slice(slice) => return Ok(slice.clone()),
                Buffer::Memory(bytes) => (bytes.clone(), layer.id),
            }
        };
        let slice = self.new_slice(bytes.len() as u64)?;
        if let Err(e) = slice.file.write_at(0, &bytes) {
            slice.file.discard();
            return Err(e);
        }
        self.log_change(node, id, &[Entry::Slice { layer: id, n: slice.id.n }]);
        if let Some(layer) = node.state().dirty.as_mut() {
            layer.buf = Buffer::Slice(slice.clone());
        }
        self.small_bytes.sub(bytes.len() as u64);
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

    /// Makes sure that the node has a layer that takes changes. The order is held.
    pub(crate) async fn begin_layer(&self, node: &Arc<Node>, append: bool) -> FsResult<()> {
        if node.state().dirty.is_some() {
            return Ok(());
        }
        self.watch_above(node).await?;
        let inline = self.bytes_that_go_along(node).await?;
        let now = self.meta.now();
        let id = self.log.new_layer();
        let (parent, size) = {
            let mut state = node.state();
            let mut layer = Layer::new(id, state.size(), now);
            layer.append = append;
            (layer.mtime, layer.ver) = match state.top() {
                Some(top) => (top.mtime, top.ver),
                None => (state.attr.mtime, Some(state.attr.dataver)),
            };
            if let Some(inline) = &inline {
                layer.take_along(inline);
                self.small_bytes.add(inline.len() as u64);
            }
            let parent = state.parent.unwrap_or(InodeNo(0));
            let base = layer.base;
            layer.unlogged = inline.is_none().then_some(parent);
            state.dirty = Some(layer);
            self.dirty.add(node.ino);
            (parent, base)
        };
        if let Some(data) = &inline {
            let begin = Entry::Begin { layer: id, ino: node.ino, parent, size };
            self.log.append(id, &[begin, Entry::Bytes { layer: id, offset: 0, mtime: now, data }]);
        }
        Ok(())
    }

    /// Tells the journal of a change, and of the layer if it does not know that yet. The order is held.
    pub(crate) fn log_change(&self, node: &Node, id: u64, entries: &[Entry<'_>]) {
        let begin = {
            let mut state = node.state();
            let layer = state.dirty.as_mut().filter(|l| l.id == id);
            layer.and_then(|l| l.unlogged.take().map(|dir| (dir, l.base)))
        };
        match begin {
            Some((parent, size)) => {
                let begin = Entry::Begin { layer: id, ino: node.ino, parent, size };
                let all: Vec<_> = std::iter::once(begin).chain(entries.iter().cloned()).collect();
                self.log.append(id, &all);
            }
            None => self.log.append(id, entries),
        }
    }

    /// A file is inline as a whole or not at all: if it is now, or will be when what is frozen is committed, its bytes go
    /// along with the new layer.
    async fn bytes_that_go_along(&self, node: &Arc<Node>) -> FsResult<Option<Bytes>> {
        enum Look {
            Nothing,
            Frozen(Bytes),
            Store,
        }
        let inline_max = u64::from(self.meta.superblock().inline_max);
        let look = {
            let state = node.state();
            match &state.frozen {
                Some(f) if f.size == 0 || f.size > inline_max => Look::Nothing,
                Some(f) => match whole_file(f, state.attr.size) {
                    Some(bytes) => Look::Frozen(bytes),
                    None => Look::Nothing,
                },
                None if state.attr.size == 0 => Look::Nothing,
                None => Look::Store,
            }
        };
        Ok(match look {
            Look::Nothing => None,
            Look::Frozen(bytes) => Some(bytes),
            Look::Store => self.window(node, 0).await?.inline.clone(),
        })
    }

    /// Stands in the lists of everything above, so that whoever publishes a directory finds out. A watch that holds still
    /// serves for the next layer, too.
    async fn watch_above(&self, node: &Node) -> FsResult<()> {
        if node.state().watch.as_ref().is_some_and(DirtyWatch::close_may_be_async) {
            return Ok(());
        }
        match self.meta.watch_above(node.ino).await {
            Ok(watch) => node.state().watch = Some(watch),
            // It has no name: nobody can publish it.
            Err(FsError::NotFound) if node.state().unlinked => node.state().watch = None,
            Err(e) => return Err(e),
        }
        Ok(())
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

/// All bytes of the file, if a layer in memory has them.
fn whole_file(layer: &Layer, committed: u64) -> Option<Bytes> {
    let here = committed == 0 || layer.map.covers(0..layer.size);
    if !here || layer.slice().is_some() {
        return None;
    }
    let mut whole = vec![0; layer.size as usize];
    for p in layer.map.iter() {
        layer.copy_memory(&p, &mut whole[p.offset as usize..][..p.len as usize]);
    }
    Some(Bytes::from(whole))
}
