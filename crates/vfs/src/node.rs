//! The inodes that are open or dirty here.
//!
//! What a node does, and in which order:
//! 1. *Changes of one file are ordered*: a write, a truncation and the freezing for a flush each hold [`Node::order`];
//!    it is handed out in order of arrival. Reads take no part in it.
//! 2. *Two layers at most*: `dirty`, which takes writes, over `frozen`, which is on its way to the bucket. A flush that
//!    failed leaves `frozen` where it is, and the next one goes on with it.
//! 3. *One flush at a time*: whoever sets `flushing` owns `frozen` until the [`Claim`] is dropped. Flushes that need
//!    several nodes take them in order of inode numbers, so that no two wait for each other.
//!
//! Lock order: `order`, then `state`; nothing else is locked or awaited under `state`.

use crate::content::Contents;
use crate::dirty::Layer;
use carafe_meta::DirtyWatch;
use carafe_types::{Attr, EntryName, FsError, InodeNo};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use tokio::sync::Notify;

/// An inode that is open or dirty.
#[derive(Debug)]
pub(crate) struct Node {
    /// Which.
    pub(crate) ino: InodeNo,
    /// Held by whoever changes content or size, or freezes.
    pub(crate) order: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    /// Locks were taken through this session.
    pub(crate) locked: AtomicBool,
    /// Told whenever a flush of this node ends.
    settled: Notify,
}

/// What `Node::state` protects.
#[derive(Debug)]
pub(crate) struct State {
    /// A directory that holds it, if known.
    pub(crate) parent: Option<InodeNo>,
    /// Its name there, if known: for the footer of packs only.
    pub(crate) name: Option<EntryName>,
    /// Attributes as last heard from the store: size and `dataver` are those of the last commit.
    pub(crate) attr: Attr,
    /// Open handles.
    pub(crate) open: u32,
    /// When the last handle was closed.
    pub(crate) closed_at: Option<Instant>,
    /// Changes since the last freeze.
    pub(crate) dirty: Option<Layer>,
    /// Changes on their way to the bucket.
    pub(crate) frozen: Option<Arc<Layer>>,
    /// Somebody owns `frozen`.
    flushing: bool,
    /// The commit of `frozen` is part of an operation that may wait for other sessions: they must not be made to wait for
    /// it.
    pub(crate) publishing: bool,
    /// Dirty bytes are lost: the error of every fsync and close until the last handle is closed.
    pub(crate) lost: Option<FsError>,
    /// It has no name any more: nothing of it needs to be kept.
    pub(crate) unlinked: bool,
    /// Extents as read from the store.
    pub(crate) contents: Contents,
    /// Keeps this session in the lists of the directories above while something is dirty.
    pub(crate) watch: Option<DirtyWatch>,
}

impl State {
    /// The error of a change whose layer was lost under it.
    pub(crate) fn gone(&self) -> FsError {
        self.lost.clone().unwrap_or_else(|| FsError::Fenced("what was being written is lost".into()))
    }

    /// Whether somebody owns what is frozen.
    pub(crate) fn is_flushing(&self) -> bool {
        self.flushing
    }

    /// Whether anything is not committed.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty.is_some() || self.frozen.is_some()
    }

    /// The newest layer.
    pub(crate) fn top(&self) -> Option<&Layer> {
        self.dirty.as_ref().or(self.frozen.as_deref())
    }

    /// The size that readers and `stat` see.
    pub(crate) fn size(&self) -> u64 {
        self.top().map_or(self.attr.size, |l| l.size)
    }

    /// Takes attributes from the store, if they are not older than what is known.
    pub(crate) fn learn(&mut self, attr: &Attr) {
        if attr.dataver != self.attr.dataver {
            self.contents.clear();
        }
        self.attr.clone_from(attr);
    }

    /// Whether a commit to come clears set-id bits.
    pub(crate) fn clears_set_ids(&self) -> bool {
        self.dirty.iter().chain(self.frozen.as_deref()).any(|layer| layer.kill_set_id)
    }

    /// Puts what is dirty over attributes from the store.
    pub(crate) fn overlay(&self, attr: &mut Attr) {
        if let Some(top) = self.top() {
            attr.size = top.size;
            attr.mtime = top.mtime;
            attr.ctime = attr.ctime.max(top.ctime);
        }
        if self.clears_set_ids() {
            // The commit clears them; nobody may see them meanwhile.
            let group = if attr.mode & 0o010 != 0 { 0o2000 } else { 0 };
            attr.mode &= !(0o4000 | group);
        }
    }

    /// Whether a rename or flush of `dir` concerns what is dirty here. In doubt it does: the directories above may have
    /// moved, and a file with several names is known by one of them only.
    pub(crate) fn may_be_below(&self, dir: InodeNo) -> bool {
        let Some(watch) = &self.watch else { return true };
        self.attr.nlink > 1 || watch.is_below(dir) || !watch.close_may_be_async()
    }

    /// How long since the first change that is not committed.
    pub(crate) fn dirty_since(&self) -> Option<Instant> {
        self.frozen.as_ref().map(|f| f.since).or(self.dirty.as_ref().map(|d| d.since))
    }
}

impl Node {
    fn new(attr: Attr) -> Arc<Self> {
        let ino = attr.ino;
        let state = State {
            parent: None,
            name: None,
            attr,
            open: 0,
            closed_at: None,
            dirty: None,
            frozen: None,
            flushing: false,
            publishing: false,
            lost: None,
            unlinked: false,
            contents: Contents::default(),
            watch: None,
        };
        Arc::new(Node {
            ino,
            order: tokio::sync::Mutex::new(()),
            state: Mutex::new(state),
            locked: AtomicBool::new(false),
            settled: Notify::new(),
        })
    }

    /// The state; for a moment only.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits until no flush of this node is part of a publishing operation.
    pub(crate) async fn published(&self) {
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            if !self.state().publishing {
                return;
            }
            settled.await;
        }
    }

    /// Takes the right to flush: freezes what is dirty if nothing is frozen yet. `None` if there is nothing to flush.
    pub(crate) async fn claim(self: &Arc<Self>) -> Option<Claim> {
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            {
                let _order = self.order.lock().await;
                let mut state = self.state();
                if !state.flushing {
                    if state.frozen.is_none() {
                        state.frozen = state.dirty.take().map(Arc::new);
                    }
                    let layer = state.frozen.clone()?;
                    state.flushing = true;
                    return Some(Claim { node: self.clone(), layer });
                }
            }
            settled.await;
        }
    }
}

/// The right to flush a node's frozen layer; given up on drop, when the layer stays for the next try.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Whose.
    pub(crate) node: Arc<Node>,
    /// What.
    pub(crate) layer: Arc<Layer>,
}

impl Claim {
    /// Puts another layer in the place of the claimed one.
    pub(crate) fn replace(&mut self, layer: Arc<Layer>) {
        self.node.state().frozen = Some(layer.clone());
        self.layer = layer;
    }

    /// The layer is committed, or nobody wants it: takes it out.
    pub(crate) fn finish(self, then: impl FnOnce(&mut State)) -> Arc<Layer> {
        let mut state = self.node.state();
        state.frozen = None;
        then(&mut state);
        drop(state);
        self.layer.clone()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut state = self.node.state();
        state.flushing = false;
        state.publishing = false;
        drop(state);
        self.node.settled.notify_waiters();
    }
}

const SHARDS: usize = 64;

/// All nodes by inode number.
#[derive(Debug)]
pub(crate) struct NodeTable {
    shards: Vec<Mutex<HashMap<InodeNo, Arc<Node>>>>,
}

impl Default for NodeTable {
    fn default() -> Self {
        NodeTable { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl NodeTable {
    fn shard(&self, ino: InodeNo) -> &Mutex<HashMap<InodeNo, Arc<Node>>> {
        &self.shards[ino.0 as usize % SHARDS]
    }

    /// The node, if the inode is open or dirty.
    pub(crate) fn get(&self, ino: InodeNo) -> Option<Arc<Node>> {
        self.shard(ino).lock().get(&ino).cloned()
    }

    /// The node, made if need be, with `f` done to its state before anybody can remove it.
    pub(crate) fn get_or_insert<T>(&self, attr: &Attr, f: impl FnOnce(&mut State) -> T) -> (Arc<Node>, T) {
        let mut shard = self.shard(attr.ino).lock();
        let node = shard.entry(attr.ino).or_insert_with(|| Node::new(attr.clone())).clone();
        let out = f(&mut node.state());
        (node, out)
    }

    /// Forgets the node if it is closed and clean.
    pub(crate) fn drop_if_idle(&self, node: &Node) -> bool {
        let mut shard = self.shard(node.ino).lock();
        let idle = {
            let state = node.state();
            state.open == 0 && !state.is_dirty() && !state.flushing
        };
        idle && shard.remove(&node.ino).is_some()
    }

    /// Calls `f` with every node.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Arc<Node>)) {
        for shard in &self.shards {
            let nodes: Vec<_> = shard.lock().values().cloned().collect();
            nodes.iter().for_each(&mut f);
        }
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }
}
