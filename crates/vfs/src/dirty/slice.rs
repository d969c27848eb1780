//! A slice that is being written: a file of the cache whose full blocks go up while the writer goes on.
//!
//! Bytes below `closed` are on their way to the bucket and never change again; bytes above may be overwritten in place
//! when the application rewrites what it has just written (a header, a footer), so such rewrites cost no new bytes.

use carafe_cache::{CacheError, ReadOutcome, SliceFile};
use carafe_types::{SessionUuid, SliceId};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// Where a block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// Not in the bucket.
    Local,
    /// Somebody uploads it.
    Busy,
    /// In the bucket.
    Sent,
}

/// The write buffer of a large file.
#[derive(Debug)]
pub(crate) struct SliceBuf {
    /// Its number in its session.
    pub(crate) id: SliceId,
    /// The session: names the objects.
    pub(crate) session: SessionUuid,
    /// The cache file.
    pub(crate) file: Arc<SliceFile>,
    block_size: u64,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Where the next byte is appended.
    tail: u64,
    /// Bytes below are immutable.
    closed: u64,
    blocks: Vec<Block>,
}

/// The result of asking for a block to upload.
pub(crate) enum Turn {
    /// It is this caller's: call [`SliceBuf::sent`] or [`SliceBuf::not_sent`].
    Mine,
    /// It is in the bucket.
    Sent,
    /// Another caller is at it: wait for [`SliceBuf::change`].
    Wait,
}

impl SliceBuf {
    /// A buffer whose first `tail` bytes are written already.
    pub(crate) fn new(
        (id, session): (SliceId, SessionUuid),
        file: Arc<SliceFile>,
        block_size: u64,
        tail: u64,
    ) -> Arc<Self> {
        let state = Mutex::new(State { tail, ..State::default() });
        Arc::new(SliceBuf { id, session, file, block_size, state, changed: Notify::new() })
    }

    /// One past the last byte.
    pub(crate) fn tail(&self) -> u64 {
        self.state.lock().tail
    }

    /// Bytes below this never change again.
    pub(crate) fn closed(&self) -> u64 {
        self.state.lock().closed
    }

    /// Gives out `len` bytes at the end. One writer at a time.
    pub(crate) fn append(&self, len: u64) -> u64 {
        let mut state = self.state.lock();
        let at = state.tail;
        state.tail += len;
        at
    }

    /// Closes the blocks that are full now; returns their indices.
    pub(crate) fn close_full(&self) -> std::ops::Range<u64> {
        let mut state = self.state.lock();
        let first = state.closed / self.block_size;
        let full = state.tail / self.block_size;
        state.closed = state.closed.max(full * self.block_size);
        let count = state.blocks.len().max(full as usize);
        state.blocks.resize(count, Block::Local);
        first..full.max(first)
    }

    /// Closes everything; returns how many blocks there are.
    pub(crate) fn close_all(&self) -> u64 {
        let mut state = self.state.lock();
        let count = state.tail.div_ceil(self.block_size);
        state.closed = state.tail;
        state.blocks.resize(count as usize, Block::Local);
        count
    }

    /// The bytes of a closed block.
    pub(crate) fn block_range(&self, index: u64) -> std::ops::Range<u64> {
        let start = index * self.block_size;
        start..(start + self.block_size).min(self.tail())
    }

    /// Asks to upload a block.
    pub(crate) fn take_block(&self, index: u64) -> Turn {
        let mut state = self.state.lock();
        match state.blocks[index as usize] {
            Block::Sent => Turn::Sent,
            Block::Busy => Turn::Wait,
            Block::Local => {
                state.blocks[index as usize] = Block::Busy;
                Turn::Mine
            }
        }
    }

    /// The block is in the bucket.
    pub(crate) fn sent(&self, index: u64) {
        self.set(index, Block::Sent);
    }

    /// It is not.
    pub(crate) fn not_sent(&self, index: u64) {
        self.set(index, Block::Local);
    }

    fn set(&self, index: u64, block: Block) {
        self.state.lock().blocks[index as usize] = block;
        self.changed.notify_waiters();
    }

    /// How many blocks may have been given to the bucket.
    pub(crate) fn blocks(&self) -> u64 {
        self.state.lock().blocks.len() as u64
    }

    /// Whether the block is in the bucket.
    pub(crate) fn is_sent(&self, index: u64) -> bool {
        self.state.lock().blocks[index as usize] == Block::Sent
    }

    /// Whether any block was given to the bucket.
    pub(crate) fn has_closed(&self) -> bool {
        self.closed() > 0
    }

    /// Waits until no block is `Busy` at `index`.
    pub(crate) async fn settled(&self, index: u64) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.state.lock().blocks[index as usize] != Block::Busy {
                return;
            }
            changed.await;
        }
    }

    /// Reads bytes that were written. `verified` checks every frame, for what goes to the bucket.
    ///
    /// # Errors
    /// As the cache says; `LostDirty` if the bytes are not there.
    pub(crate) fn read(&self, at: u64, buf: &mut [u8], verified: bool) -> Result<(), CacheError> {
        let outcome = if verified { self.file.read_verified(at, buf) } else { self.file.read_at(at, buf) }?;
        match outcome {
            ReadOutcome::Bytes => Ok(()),
            ReadOutcome::Missing(_) | ReadOutcome::Corrupt(_) => {
                Err(CacheError::LostDirty { key: self.file.key(), range: at..at + buf.len() as u64 })
            }
        }
    }
}
