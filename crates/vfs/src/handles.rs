//! Open files.
//!
//! A handle's number says what it is: the inode, and how it may be used. So a daemon that takes over from a dead one
//! understands the handles that applications still hold, without having been told of them. Two opens of one file in the
//! same way share a number and are counted.

use crate::node::Node;
use crate::read::{Access, Streams};
use crate::vfs::Vfs;
use carafe_types::{FileKind, FsError, FsResult, InodeNo};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::*};

const READS: u64 = 1;
const WRITES: u64 = 2;
const APPENDS: u64 = 4;
/// Bits below the inode number.
const FLAG_BITS: u32 = 3;

/// The number of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fh(pub(crate) u64);

impl Fh {
    /// The number for an inode opened with these flags of `open(2)`.
    pub(crate) fn new(ino: InodeNo, flags: i32) -> Self {
        let access = match flags & libc::O_ACCMODE {
            libc::O_RDONLY => READS,
            libc::O_WRONLY => WRITES,
            _ => READS | WRITES,
        };
        let append = if flags & libc::O_APPEND != 0 { APPENDS } else { 0 };
        Fh(ino.0 << FLAG_BITS | access | append)
    }

    fn ino(self) -> InodeNo {
        InodeNo(self.0 >> FLAG_BITS)
    }
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Handle {
    fh: Fh,
    /// The inode.
    pub(crate) node: Arc<Node>,
    /// Opens that share it.
    count: AtomicU32,
    streams: Mutex<Streams>,
}

impl Handle {
    /// # Errors
    /// `BadHandle` if it was not opened for reading.
    pub(crate) fn check_read(&self) -> FsResult<()> {
        if self.fh.0 & READS == 0 { Err(FsError::BadHandle) } else { Ok(()) }
    }

    /// # Errors
    /// `BadHandle` if it was not opened for writing.
    pub(crate) fn check_write(&self) -> FsResult<()> {
        if self.fh.0 & WRITES == 0 { Err(FsError::BadHandle) } else { Ok(()) }
    }

    /// Whether every write goes to the end.
    pub(crate) fn appends(&self) -> bool {
        self.fh.0 & APPENDS != 0
    }

    /// How to serve a read.
    pub(crate) fn note_read(&self, offset: u64, len: u64, window_max: u64) -> Access {
        self.streams.lock().note(offset, len, window_max)
    }
}

const SHARDS: usize = 16;

/// All handles.
#[derive(Debug)]
pub(crate) struct Handles {
    shards: Vec<RwLock<HashMap<u64, Arc<Handle>>>>,
}

impl Default for Handles {
    fn default() -> Self {
        Handles { shards: (0..SHARDS).map(|_| RwLock::default()).collect() }
    }
}

impl Handles {
    fn shard(&self, fh: Fh) -> &RwLock<HashMap<u64, Arc<Handle>>> {
        &self.shards[(fh.0 >> FLAG_BITS) as usize % SHARDS]
    }

    /// One more open of `node` as `fh`.
    pub(crate) fn open(&self, fh: Fh, node: &Arc<Node>) {
        let mut shard = self.shard(fh).write();
        let handle = shard.entry(fh.0).or_insert_with(|| {
            Arc::new(Handle { fh, node: node.clone(), count: AtomicU32::new(0), streams: Mutex::default() })
        });
        handle.count.fetch_add(1, SeqCst);
    }

    fn get(&self, fh: Fh) -> Option<Arc<Handle>> {
        self.shard(fh).read().get(&fh.0).cloned()
    }

    /// One open less; the handle, if there was one.
    pub(crate) fn close(&self, fh: Fh) -> Option<Arc<Handle>> {
        let mut shard = self.shard(fh).write();
        let handle = shard.get(&fh.0)?.clone();
        if handle.count.fetch_sub(1, SeqCst) == 1 {
            shard.remove(&fh.0);
        }
        Some(handle)
    }
}

impl Vfs {
    /// The handle behind a number; one that a daemon before this one gave out is made anew.
    ///
    /// # Errors
    /// `BadHandle` if there is no such file any more.
    pub(crate) async fn handle(&self, fh: u64) -> FsResult<Arc<Handle>> {
        match self.handles.get(Fh(fh)) {
            Some(handle) => Ok(handle),
            None => self.revive(Fh(fh)).await,
        }
    }

    async fn revive(&self, fh: Fh) -> FsResult<Arc<Handle>> {
        let found = match self.meta.opened(fh.ino()).await {
            Ok(found) => found,
            Err(FsError::NotFound) => return Err(FsError::BadHandle),
            Err(e) => return Err(e),
        };
        if found.attr.kind != FileKind::Regular {
            return Err(FsError::BadHandle);
        }
        tracing::debug!(ino = %fh.ino(), "a handle of an earlier daemon is in use");
        let node = self.open_node(&found.attr);
        // Locks may have been taken through it.
        node.locked.store(true, SeqCst);
        self.handles.open(fh, &node);
        self.handles.get(fh).ok_or(FsError::BadHandle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_says_which_inode_and_what_may_be_done() {
        let fh = Fh::new(InodeNo(12_345), libc::O_RDWR | libc::O_APPEND | libc::O_CREAT);
        assert_eq!((fh.ino(), fh.0 & 7), (InodeNo(12_345), READS | WRITES | APPENDS));
        assert_eq!(Fh::new(InodeNo(1), libc::O_WRONLY).0 & 7, WRITES);
        assert_ne!(Fh::new(InodeNo(1), libc::O_RDONLY), Fh::new(InodeNo(2), libc::O_RDONLY));
    }
}
