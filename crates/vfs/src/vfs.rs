//! The file system as its users call it: [`Vfs`], its start and its end.

use crate::coherence::{HookSide, Invalidate};
use crate::dirs::DirHandles;
use crate::dirty::{DirtySet, Layer};
use crate::flush::{Gathering, Sweep};
use crate::handles::Handles;
use crate::journal::Log;
use crate::keep::Kept;
use crate::local::Local;
use crate::node::{Node, NodeTable, State};
use crate::options::VfsOptions;
use crate::places::Places;
use crate::quotas::Quotas;
use crate::read::Fetcher;
use crate::remote::Remote;
use crate::rooms::Rooms;
use crate::stats::{Counter, Counters, InQueue, VfsStats};
use bytes::Bytes;
use carafe_cache::{CacheError, SliceKey};
use carafe_meta::Client;
use carafe_types::{Attr, FsError, FsResult, InodeNo, QuotaId, SessionUuid, SliceId, Timestamp};
use parking_lot::RwLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Rooms kept for answers to large reads: about as many as the kernel has under way.
const ANSWERS: usize = 8;

/// Why a mount does not start.
#[derive(Debug, thiserror::Error)]
pub enum VfsError {
    /// The cache directory or its journal cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The store does not answer what a mount must know.
    #[error("metadata: {0}")]
    Meta(#[from] FsError),
}

/// Attributes, and how long they and the name that led to them may be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What `stat` tells, dirty data included.
    pub attr: Attr,
    /// Lifetime of the name (answers about names) or of the attributes (answers about inodes).
    pub ttl: Duration,
    /// Nobody else can change the file system.
    pub(crate) fixed: bool,
}

impl Entry {
    /// How long attributes may be kept by a kernel that has not known the inode: an invalidation cannot reach them while
    /// the answer is under way, so only where there is none to come.
    pub fn fresh_attr_ttl(&self) -> Duration {
        if self.fixed { self.ttl } else { Duration::ZERO }
    }
}

/// The answer to a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The name is there.
    Found(Entry),
    /// It is not.
    Absent {
        /// How long that may be kept.
        ttl: Duration,
    },
}

/// A file that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The handle.
    pub fh: u64,
    /// Pages that the kernel has from an earlier open are still right.
    pub keep_cache: bool,
    /// Reads and writes of this handle pass the page cache by.
    pub direct_io: bool,
}

/// A mounted file system without a kernel. See the crate.
pub struct Vfs {
    me: Weak<Vfs>,
    pub(crate) meta: Arc<Client>,
    pub(crate) o: VfsOptions,
    pub(crate) remote: Arc<Remote>,
    pub(crate) local: Arc<Local>,
    pub(crate) log: Log,
    pub(crate) fetcher: Arc<Fetcher>,
    /// Where answers to large reads are put together.
    pub(crate) answers: Rooms,
    /// Objects on their way to the bucket.
    pub(crate) uploads: Semaphore,
    pub(crate) gathering: Gathering,
    pub(crate) sweep: Arc<Sweep>,
    pub(crate) nodes: NodeTable,
    pub(crate) handles: Handles,
    pub(crate) dirs: DirHandles,
    pub(crate) dirty: DirtySet,
    pub(crate) kept: Kept,
    pub(crate) quotas: Quotas,
    pub(crate) places: Places,
    /// Bytes of dirty files in memory.
    pub(crate) small_bytes: Counter,
    /// Bytes by which dirty files will grow when they are committed: taken from the quota, not yet shown as used there.
    pub(crate) growing_bytes: Counter,
    pub(crate) counters: Counters,
    /// Only one process can have this file system open.
    pub(crate) fixed: bool,
    invalidator: RwLock<Option<Arc<dyn Invalidate>>>,
    stopping: AtomicBool,
}

impl std::fmt::Debug for Vfs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vfs").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Vfs {
    /// Starts: takes up what a daemon before this one left in the journal, and begins to flush in the background.
    ///
    /// # Errors
    /// [`VfsError`].
    pub async fn new(meta: Arc<Client>, o: VfsOptions) -> Result<Arc<Vfs>, VfsError> {
        let remote = Arc::new(Remote::new(o.bucket.clone(), meta.clone(), o.upload_parallel));
        let local = Arc::new(Local::new(&o));
        let left = crate::recover::look(&meta, &o)?;
        let quota = meta.quota_of(InodeNo::ROOT).await?;
        let vfs = Arc::new_cyclic(|me| Vfs {
            me: me.clone(),
            fetcher: Fetcher::new(remote.clone(), local.clone(), o.fetch_bytes_max),
            log: left.log,
            answers: Rooms::new(ANSWERS),
            uploads: Semaphore::new(o.upload_parallel.max(1)),
            gathering: Gathering::default(),
            sweep: Arc::default(),
            nodes: NodeTable::default(),
            handles: Handles::default(),
            dirs: DirHandles::default(),
            dirty: DirtySet::default(),
            kept: Kept::default(),
            quotas: Quotas::default(),
            places: Places::default(),
            small_bytes: Counter::default(),
            growing_bytes: Counter::default(),
            counters: Counters::default(),
            fixed: meta.store().single_process(),
            invalidator: RwLock::new(None),
            stopping: AtomicBool::new(false),
            remote,
            local,
            meta,
            o,
        });
        vfs.quotas.set_usual(quota);
        vfs.meta.set_hooks(Arc::new(HookSide(vfs.me.clone())));
        vfs.take_up(left.found).await?;
        tokio::spawn(crate::flush::run_background(vfs.me.clone()));
        Ok(vfs)
    }

    /// The directory that is mounted: `statfs` tells its quota.
    ///
    /// # Errors
    /// `NotFound`; store errors.
    pub async fn set_root(&self, ino: InodeNo) -> FsResult<()> {
        self.quotas.set_usual(self.meta.quota_of(ino).await?);
        Ok(())
    }

    /// Tells how the kernel's copies are voided.
    pub fn set_invalidator(&self, kernel: Arc<dyn Invalidate>) {
        *self.invalidator.write() = Some(kernel);
    }

    pub(crate) fn invalidator(&self) -> Option<Arc<dyn Invalidate>> {
        self.invalidator.read().clone()
    }

    /// The metadata client below.
    pub fn meta(&self) -> &Arc<Client> {
        &self.meta
    }

    /// The store's clock, estimated.
    pub fn now(&self) -> Timestamp {
        self.meta.now()
    }

    /// Flushes everything that is dirty now.
    ///
    /// # Errors
    /// The first file's error; the others are flushed all the same.
    pub async fn sync(&self) -> FsResult<()> {
        let nodes = self.dirty_nodes(self.dirty.all());
        self.strong().flush_nodes(nodes).await?;
        self.barrier().await
    }

    /// Ends in good order: flushes everything and ends the session.
    ///
    /// # Errors
    /// What could not be flushed. It stays in the journal, for the next daemon, and the session then stays, too.
    pub async fn shutdown(&self) -> FsResult<()> {
        // What closes now goes up now.
        let mut flushed = Ok(());
        for _ in 0..3 {
            flushed = self.sync().await;
            if self.dirty.len() == 0 {
                break;
            }
        }
        self.stopping.store(true, SeqCst);
        self.sweep.press();
        if let Err(e) = &flushed {
            tracing::error!(error = %e, files = self.dirty.len(), "not everything could be flushed; the journal keeps it for the next mount");
            return flushed;
        }
        self.log.idle();
        self.meta.close().await;
        Ok(())
    }

    /// Stops as a killed process would: nothing is flushed, nobody is told. For tests.
    #[doc(hidden)]
    pub fn abandon(&self) {
        self.stopping.store(true, SeqCst);
        self.sweep.press();
    }

    /// Sizes and counters of the cache on disk.
    pub fn cache_stats(&self) -> carafe_cache::CacheStats {
        self.local.disk().stats()
    }

    /// Evicts everything that is only a copy; returns the bytes freed.
    pub fn drop_clean_cache(&self) -> u64 {
        self.local.disk().drop_clean()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(SeqCst)
    }

    /// A look at what is going on.
    pub fn stats(&self) -> VfsStats {
        let c = &self.counters;
        VfsStats {
            nodes: self.nodes.len() as u64,
            dirty_files: self.dirty.len() as u64,
            small_bytes: self.small_bytes.get(),
            reads: c.reads.get(),
            read_bytes: c.read_bytes.get(),
            writes: c.writes.get(),
            written_bytes: c.written_bytes.get(),
            packs: c.packs.get(),
            blocks: c.blocks.get(),
            inline_files: c.inline_files.get(),
            uploaded_bytes: c.uploaded.get(),
            upload_errors: c.upload_errors.get(),
            commits: c.commits.get(),
            lost_files: c.lost_files.get(),
            fetches: self.fetcher.counts.flights.get(),
            fetched_bytes: self.fetcher.counts.bytes.get(),
            uploads_waiting: c.uploads_waiting.get(),
            uploads_running: self.o.upload_parallel.max(1).saturating_sub(self.uploads.available_permits())
                as u64,
            journal_bytes: self.log.bytes(),
            memory_mode: self.local.in_memory_mode(),
        }
    }

    /// Waits for a place among the uploads that run at once.
    pub(crate) async fn upload_turn(&self) -> Option<SemaphorePermit<'_>> {
        let _queue = InQueue::enter(&self.counters.uploads_waiting);
        // Never closed; without a permit an upload would only be one too many.
        self.uploads.acquire().await.ok()
    }

    pub(crate) fn strong(&self) -> Arc<Vfs> {
        self.me.upgrade().expect("a method runs only while somebody holds the vfs")
    }

    /// A number for a new slice, and the session that names its objects.
    pub(crate) fn next_slice(&self) -> (SliceId, SessionUuid) {
        loop {
            let id = self.meta.next_slice();
            let session = self.meta.session();
            // They differ only in the moment in which a fenced session is replaced.
            if session.no == id.session {
                return (id, session.uuid);
            }
        }
    }

    /// Keeps bytes that are in the bucket as cache.
    pub(crate) fn keep(&self, key: SliceKey, len: u64, chunks: &[Bytes]) {
        let mut at = 0;
        let kept = self.local.open(key, len).and_then(|file| {
            for chunk in chunks {
                file.fill(at, chunk)?;
                at += chunk.len() as u64;
            }
            Ok(())
        });
        if let Err(e) = kept {
            tracing::debug!(slice = %key, error = %e, "uploaded bytes are not kept as cache");
        }
    }

    /// Bytes of quota are reserved for the growth of a file.
    pub(crate) async fn reserve(&self, quota: QuotaId, bytes: u64) -> FsResult<()> {
        if bytes > 0 {
            self.meta.reserve(quota, bytes).await?;
            self.growing_bytes.add(bytes);
        }
        Ok(())
    }

    /// They are not needed.
    pub(crate) fn give_back(&self, quota: QuotaId, charged: i64) {
        let bytes = u64::try_from(charged).unwrap_or(0);
        self.growing_bytes.sub(bytes);
        self.meta.unreserve(quota, bytes);
    }

    /// A node has one layer less: it may be clean now.
    pub(crate) fn left_dirty(&self, node: &Node, state: &mut State) {
        if !state.is_dirty() {
            self.dirty.remove(node.ino);
            if state.open == 0 {
                state.watch = None;
            }
        }
    }

    /// Gives up what a layer that is in nobody's hands holds.
    pub(crate) fn forget_layer(&self, node: &Node, layer: Layer) {
        self.small_bytes.sub(layer.memory_bytes());
        if let Some(slice) = layer.slice() {
            slice.file.discard();
            self.unsend(slice);
        }
        let quota = node.state().attr.quota;
        self.give_back(quota, layer.charged);
        self.log.done(&[layer.id]);
    }

    /// What is dirty of a node is lost, whatever is done with it just now. Waits for nobody: a writer may hold the node's
    /// order while it waits for the very session that is gone.
    pub(crate) fn lose_node(&self, node: &Arc<Node>, why: &str) {
        let (error, dirty, frozen) = {
            let mut state = node.state();
            let layers = state.dirty.iter().chain(state.frozen.as_deref());
            let bytes: u64 = layers.map(|l| l.map.bytes()).sum();
            let error =
                FsError::Fenced(format!("{bytes} unsaved bytes of inode {} are lost: {why}", node.ino));
            state.lost = (state.open > 0).then(|| error.clone());
            // What is on its way finds out at its commit.
            let frozen = if state.is_flushing() { None } else { state.frozen.take() };
            let dirty = state.dirty.take();
            state.contents.clear();
            self.left_dirty(node, &mut state);
            (error, dirty, frozen)
        };
        tracing::error!(ino = %node.ino, error = %error, "unsaved data is lost");
        self.counters.lost_files.add(1);
        let frozen = frozen.and_then(Arc::into_inner);
        dirty.into_iter().chain(frozen).for_each(|layer| self.forget_layer(node, layer));
        self.nodes.drop_if_idle(node);
    }
}
