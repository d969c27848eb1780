//! Opening, closing, syncing.

use crate::handles::Fh;
use crate::node::Node;
use crate::options::CLOSE_SYNC;
use crate::vfs::{Entry, Opened, Vfs};
use carafe_meta::{Ctx, DirtyWatch, NewNode, SetAttr};
use carafe_types::record::LockKind;
use carafe_types::{Attr, EntryName, FileKind, FsError, FsResult, InodeNo};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

/// Whether a handle goes past the kernel's page cache. O_APPEND does too: through the page cache the kernel cuts one `write(2)` at
/// the page where its own idea of the end lies (it sends a page that is not up to date on its own), and a record of another
/// mount could come between the pieces.
fn is_direct(flags: i32) -> bool {
    flags & (libc::O_DIRECT | libc::O_APPEND) != 0
}

impl Vfs {
    /// Opens a file with the flags of `open(2)`. `kill_set_id`: if O_TRUNC cuts it, set-id bits go.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`; those of truncation.
    pub async fn open(&self, ctx: &Ctx, ino: InodeNo, flags: i32, kill_set_id: bool) -> FsResult<Opened> {
        let found = self.meta.opened(ino).await?;
        match found.attr.kind {
            FileKind::Regular => {}
            kind => {
                self.meta.closed(ino);
                return Err(if kind == FileKind::Directory {
                    FsError::IsDirectory
                } else {
                    FsError::NotSupported
                });
            }
        }
        let node = self.open_node(&found.attr);
        let fh = Fh::new(ino, flags);
        self.handles.open(fh, &node);
        let keep_cache = self.kept.open(ino, found.attr.dataver);
        // Also for O_RDONLY: Linux asks for the right to write and truncates.
        if flags & libc::O_TRUNC != 0 {
            let set = SetAttr { size: Some(0), kill_setid: kill_set_id, ..SetAttr::default() };
            if let Err(e) = self.setattr(ctx, ino, Some(fh.0), &set).await {
                self.release(fh.0, None).await?;
                return Err(e);
            }
        }
        Ok(Opened { fh: fh.0, keep_cache, direct_io: is_direct(flags) })
    }

    /// Makes a file and opens it.
    ///
    /// # Errors
    /// `Exists`; those of [`Vfs::make`].
    pub async fn create(
        &self,
        ctx: &Ctx,
        dir: InodeNo,
        name: &EntryName,
        node: NewNode,
        flags: i32,
    ) -> FsResult<(Entry, Opened)> {
        let made = self.meta.create(ctx, dir, name, node).await?;
        // In memory: the commit has put this session into the list of the inode's bucket.
        self.meta.opened(made.attr.ino).await?;
        let fh = Fh::new(made.attr.ino, flags);
        let node = self.open_node(&made.attr);
        {
            let mut state = node.state();
            state.parent = Some(dir);
            state.name = Some(name.clone());
        }
        self.handles.open(fh, &node);
        self.kept.open(made.attr.ino, made.attr.dataver);
        let opened = Opened { fh: fh.0, keep_cache: true, direct_io: is_direct(flags) };
        Ok((self.made(made), opened))
    }

    /// The node of an inode that is opened once more.
    pub(crate) fn open_node(&self, attr: &Attr) -> Arc<Node> {
        let (node, ()) = self.nodes.get_or_insert(attr, |state| {
            if attr.dataver >= state.attr.dataver {
                state.learn(attr);
            }
            state.open += 1;
            state.closed_at = None;
        });
        node
    }

    /// `close(2)` of a descriptor: waits for the data where somebody else may look, otherwise only tells of losses. Locks
    /// of `owner` go.
    ///
    /// # Errors
    /// The loss of bytes that were accepted; those of the flush where it waits.
    pub async fn flush(&self, fh: u64, owner: u64) -> FsResult<()> {
        let handle = self.handle(fh).await?;
        let node = &handle.node;
        let (dirty, lost) = {
            let state = node.state();
            // Nobody can open an unlinked file any more.
            (state.is_dirty() && !state.unlinked, state.lost.clone())
        };
        let locked = node.locked.load(SeqCst);
        let flushed = if dirty && (locked || self.close_waits(node)) {
            self.strong().flush_nodes(vec![node.clone()]).await
        } else {
            Ok(())
        };
        if locked {
            self.meta.release_owner(node.ino, LockKind::Posix, owner).await?;
        }
        match lost {
            Some(e) => Err(e),
            None => flushed,
        }
    }

    /// Whether a close must wait until the data is durable.
    fn close_waits(&self, node: &Node) -> bool {
        let quota = {
            let state = node.state();
            if !state.watch.as_ref().is_some_and(DirtyWatch::close_may_be_async) {
                return true;
            }
            state.attr.quota
        };
        self.o.close_sync || self.meta.setting(quota, CLOSE_SYNC).unwrap_or(false)
    }

    /// The last descriptor of an open is gone. `flock_owner`: its flock goes, too.
    ///
    /// # Errors
    /// None that the kernel would pass on.
    pub async fn release(&self, fh: u64, flock_owner: Option<u64>) -> FsResult<()> {
        let Some(handle) = self.handles.close(Fh(fh)) else { return Ok(()) };
        let node = &handle.node;
        if let Some(owner) = flock_owner {
            if let Err(e) = self.flush_if_locked(node).await {
                tracing::warn!(ino = %node.ino, error = %e, "a lock goes before the data that was written under it");
            }
            self.meta.release_owner(node.ino, LockKind::Flock, owner).await?;
        }
        let (last, unlinked) = {
            let mut state = node.state();
            state.open = state.open.saturating_sub(1);
            if state.open == 0 {
                state.closed_at = Some(Instant::now());
                state.lost = None;
            }
            (state.open == 0, state.unlinked)
        };
        if last {
            if node.locked.load(SeqCst) {
                if let Err(e) = self.flush_if_locked(node).await {
                    tracing::warn!(ino = %node.ino, error = %e, "locks go before the data that was written under them");
                }
                self.meta.release_all(node.ino, LockKind::Posix).await?;
            }
            if unlinked {
                self.drop_dirty(node).await;
            }
            self.nodes.drop_if_idle(node);
        }
        self.meta.closed(node.ino);
        Ok(())
    }

    /// Makes a file's data durable.
    ///
    /// # Errors
    /// The loss of bytes that were accepted; `Unavailable` after the patience, when the data stays dirty.
    pub async fn fsync(&self, fh: u64, _datasync: bool) -> FsResult<()> {
        let handle = self.handle(fh).await?;
        let (dirty, lost) = {
            let state = handle.node.state();
            (state.is_dirty(), state.lost.clone())
        };
        if let Some(e) = lost {
            return Err(e);
        }
        if dirty {
            self.strong().flush_nodes(vec![handle.node.clone()]).await?;
        }
        self.barrier().await
    }

    /// Waits for the store's own durability.
    pub(crate) async fn barrier(&self) -> FsResult<()> {
        let barrier = self.meta.store().barrier();
        match tokio::time::timeout(self.o.patience, barrier).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(FsError::Unavailable(e.to_string())),
            Err(_) => Err(FsError::Unavailable("the store does not confirm durability".into())),
        }
    }

    /// Forgets what is dirty of an inode that has no name and no handle any more.
    pub(crate) async fn drop_dirty(&self, node: &Arc<Node>) {
        // A layer that is on its way finds out by itself, from the store or from the next claim.
        let layer = {
            let _order = node.order.lock().await;
            let mut state = node.state();
            let layer = state.dirty.take();
            self.left_dirty(node, &mut state);
            layer
        };
        if let Some(layer) = layer {
            self.forget_layer(node, layer);
        }
        self.nodes.drop_if_idle(node);
    }
}
