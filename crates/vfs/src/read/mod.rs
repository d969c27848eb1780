//! Reading: what is dirty here over what is committed.
//!
//! 1. Under the node's lock, for a moment: which parts of the range lie in which layer; bytes in memory are copied.
//! 2. Without any lock: bytes of slice files, then committed bytes from cache or bucket.
//! 3. What nobody has is zero.
//!
//! A range of a dirty layer that is committed meanwhile stays readable: its slice is the same file of the cache, and if
//! that was evicted in between, the read starts again and finds the extents.

mod fetch;
mod seek;
mod streams;

pub(crate) use fetch::{FetchError, Fetcher};
pub use seek::SeekWhence;
pub(crate) use streams::{Access, Streams};

use crate::content::Window;
use crate::dirty::{Buffer, Layer, SliceBuf};
use crate::node::{Node, State};
use crate::options::READ_AHEAD;
use crate::pieces::Part;
use crate::remote::SliceRef;
use crate::vfs::Vfs;
use bytes::Bytes;
use carafe_cache::SliceFile;
use carafe_types::record::Extent;
use carafe_types::{FsError, FsResult};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Answers from this size on are made in rooms that are used again.
const LARGE: usize = 128 << 10;

/// What is left to read after the look under the lock, in order and without overlap.
#[derive(Debug)]
enum Rest {
    /// Bytes of a slice that is not committed: place in the slice, and range of the output.
    Slice(Arc<SliceBuf>, u64, Range<usize>),
    /// Committed bytes: offset in the file, and range of the output.
    Committed(u64, Range<usize>),
}

/// Why a read has to start again, or fails.
#[derive(Debug)]
enum ReadError {
    /// An object or a buffer is gone: extents may be out of date.
    Gone(String),
    /// It fails.
    Failed(FsError),
}

impl From<FsError> for ReadError {
    fn from(e: FsError) -> Self {
        ReadError::Failed(e)
    }
}

impl From<FetchError> for ReadError {
    fn from(e: FetchError) -> Self {
        match e {
            FetchError::Gone(object) => ReadError::Gone(object),
            FetchError::Bucket(e) => ReadError::Failed(crate::remote::to_fs_error(&e)),
            FetchError::Cache(e) => ReadError::Failed(FsError::Io(e)),
        }
    }
}

impl Vfs {
    /// Reads up to `size` bytes at `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// `BadHandle`; `Io` naming the object when its bytes are damaged or gone; `Unavailable` after the patience.
    pub async fn read(&self, fh: u64, offset: u64, size: u32) -> FsResult<Bytes> {
        let handle = self.handle(fh).await?;
        handle.check_read()?;
        let quota = handle.node.state().attr.quota;
        let most = self.meta.setting(quota, READ_AHEAD).unwrap_or(self.o.readahead_bytes);
        let access = handle.note_read(offset, u64::from(size), most);
        let bytes = self.read_node(&handle.node, offset, size as usize, &access).await?;
        self.counters.reads.add(1);
        self.counters.read_bytes.add(bytes.len() as u64);
        if let Some(ahead) = access.ahead {
            self.read_ahead(&handle.node, ahead, access.unit).await;
        }
        Ok(bytes)
    }

    /// As [`Vfs::read`], of a node.
    pub(crate) async fn read_node(
        &self,
        node: &Node,
        offset: u64,
        size: usize,
        access: &Access,
    ) -> FsResult<Bytes> {
        let mut tries = 0;
        loop {
            match self.try_read(node, offset, size, access).await {
                Ok(bytes) => return Ok(bytes),
                Err(ReadError::Failed(e)) => return Err(e),
                Err(ReadError::Gone(object)) => {
                    tries += 1;
                    if tries > 1 {
                        let ino = node.ino;
                        return Err(FsError::Io(format!("object {object} of inode {ino} does not exist")));
                    }
                    node.state().contents.clear();
                }
            }
        }
    }

    async fn try_read(
        &self,
        node: &Node,
        offset: u64,
        size: usize,
        access: &Access,
    ) -> Result<Bytes, ReadError> {
        if !node.state().is_dirty() {
            // Learns of a size that others have changed.
            self.window(node, offset).await?;
        }
        let large = size >= LARGE;
        let mut out = if large { self.answers.take() } else { Vec::new() };
        out.clear();
        let rest = {
            let state = node.state();
            if let Some(e) = &state.lost {
                return Err(e.clone().into());
            }
            let end = offset.saturating_add(size as u64).min(state.size());
            out.resize(end.saturating_sub(offset) as usize, 0);
            look(&state, offset, &mut out)
        };
        for part in rest {
            match part {
                Rest::Slice(slice, at, to) => {
                    slice.read(at, &mut out[to], false).map_err(|e| gone_or_failed(&slice, &e.to_string()))?
                }
                Rest::Committed(from, to) => self.read_committed(node, from, &mut out[to], access).await?,
            }
        }
        Ok(if large { self.answers.bytes(out) } else { Bytes::from(out) })
    }

    async fn read_committed(
        &self,
        node: &Node,
        from: u64,
        out: &mut [u8],
        access: &Access,
    ) -> Result<(), ReadError> {
        let end = from + out.len() as u64;
        let mut at = from;
        while at < end {
            let window = self.window(node, at).await?;
            let part = at..end.min(window.range.end);
            if let Some(inline) = &window.inline {
                copy_inline(inline, part.start, &mut out[(part.start - from) as usize..][..len(&part)]);
            }
            for extent in window.within(part.clone()) {
                let into = &mut out[(extent.offset - from) as usize..][..extent.len as usize];
                let (slice, file) = self.open_extent(node, &extent).await?;
                self.fetcher.read(&slice, &file, extent.slice_off, into, access.unit).await?;
            }
            at = part.end;
        }
        Ok(())
    }

    /// The extents around `offset`, from memory if they may be believed.
    pub(crate) async fn window(&self, node: &Node, offset: u64) -> FsResult<Arc<Window>> {
        let epoch = {
            let mut state = node.state();
            if let Some(window) = state.contents.get(offset) {
                return Ok(window);
            }
            state.contents.epoch()
        };
        let range = Window::range_of(offset);
        let content = self.meta.content(node.ino, range.clone()).await?;
        let window = Arc::new(Window {
            range,
            inline: content.inline,
            extents: content.extents,
            sole: content.sole,
            at: Instant::now(),
        });
        let mut state = node.state();
        if state.contents.epoch() == epoch {
            state.learn(&content.attr);
            let epoch = state.contents.epoch();
            state.contents.put(window.clone(), epoch);
        }
        Ok(window)
    }

    async fn open_extent(&self, node: &Node, e: &Extent) -> Result<(SliceRef, Arc<SliceFile>), ReadError> {
        let session = self.remote.uuid_of(e.slice.session).await?;
        let slice = SliceRef { session, n: e.slice.n, kind: e.kind, len: e.slice_len };
        let known = node.state().contents.file(&slice);
        let file = match known {
            Some(file) => file,
            None => {
                let file = self.fetcher.open(&slice)?;
                node.state().contents.keep_file(&slice, file.clone());
                file
            }
        };
        Ok((slice, file))
    }

    /// Sends off fetches for a range that will be read soon, as far as its extents are known.
    async fn read_ahead(&self, node: &Node, range: Range<u64>, unit: u64) {
        let (window, end) = {
            let mut state = node.state();
            (state.contents.get(range.start), range.end.min(state.attr.size))
        };
        let Some(window) = window else { return };
        for extent in window.within(range.start..end) {
            let Ok((slice, file)) = self.open_extent(node, &extent).await else { return };
            let want = extent.slice_off..extent.slice_off + extent.len;
            self.fetcher.start(&slice, &file, want, unit, false);
        }
    }
}

fn gone_or_failed(slice: &SliceBuf, why: &str) -> ReadError {
    use carafe_cache::SliceState::{Clean, Gone};
    match slice.file.state() {
        Clean | Gone => ReadError::Gone(slice.id.to_string()),
        _ => ReadError::Failed(FsError::Io(why.to_owned())),
    }
}

/// Copies what layers have in memory, and says what is left.
fn look(state: &State, offset: u64, out: &mut [u8]) -> Vec<Rest> {
    let mut rest = Vec::with_capacity(1);
    let whole = offset..offset + out.len() as u64;
    if whole.is_empty() {
        return rest;
    }
    let layers = [state.dirty.as_ref(), state.frozen.as_deref()];
    look_into(&layers, state.attr.size, whole, offset, out, &mut rest);
    rest
}

fn look_into(
    layers: &[Option<&Layer>],
    committed: u64,
    range: Range<u64>,
    base: u64,
    out: &mut [u8],
    rest: &mut Vec<Rest>,
) {
    let to = |o: u64, l: u64| (o - base) as usize..(o - base + l) as usize;
    let Some((layer, below)) = layers.split_first() else {
        let end = range.end.min(committed);
        if range.start < end {
            rest.push(Rest::Committed(range.start, to(range.start, end - range.start)));
        }
        return;
    };
    let Some(layer) = layer else { return look_into(below, committed, range, base, out, rest) };
    for part in layer.map.parts(range) {
        match (part, &layer.buf) {
            (Part::Gap(o, l), _) => look_into(below, committed, o..o + l, base, out, rest),
            (Part::Piece(p), Buffer::Slice(slice)) => {
                rest.push(Rest::Slice(slice.clone(), p.at, to(p.offset, p.len)));
            }
            (Part::Piece(p), Buffer::Memory(_)) => {
                layer.copy_memory(&p, &mut out[to(p.offset, p.len)]);
            }
        }
    }
}

fn copy_inline(inline: &[u8], from: u64, out: &mut [u8]) {
    let from = usize::try_from(from).unwrap_or(usize::MAX).min(inline.len());
    let n = out.len().min(inline.len() - from);
    out[..n].copy_from_slice(&inline[from..from + n]);
}

fn len(range: &Range<u64>) -> usize {
    (range.end - range.start) as usize
}
