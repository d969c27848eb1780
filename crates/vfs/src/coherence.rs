//! What other sessions make this one do.
//!
//! Hooks run on the client's tasks, and a flush in them never waits for another session's flush: commits go to keys that
//! this session stands in already.

use crate::vfs::Vfs;
use async_trait::async_trait;
use carafe_meta::Hooks;
use carafe_meta::store::WatchKey;
use carafe_types::{EntryName, InodeNo, QuotaId};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How the kernel's copies are voided; given by whoever serves the kernel. Calls may wait for locks of the kernel, so
/// they are made on threads of their own.
pub trait Invalidate: Send + Sync {
    /// Attributes and all pages of an inode.
    fn inode(&self, ino: InodeNo);
    /// Attributes of an inode.
    fn attributes(&self, ino: InodeNo);
    /// A name.
    fn entry(&self, dir: InodeNo, name: &EntryName);
    /// All names at once; false where the kernel cannot.
    fn epoch(&self) -> bool;
}

/// How long another session waits for what is just being published here. A commit takes milliseconds; what takes longer
/// waits for other sessions.
const PUBLISHING: Duration = Duration::from_secs(2);

/// The vfs as the client knows it.
pub(crate) struct HookSide(pub(crate) Weak<Vfs>);

#[async_trait]
impl Hooks for HookSide {
    async fn share(&self, key: WatchKey) {
        let Some(vfs) = self.0.upgrade() else { return };
        vfs.flush_key(key).await;
        vfs.void(key).await;
    }

    async fn flush_below(&self, dir: InodeNo) {
        let Some(vfs) = self.0.upgrade() else { return };
        vfs.flush_for_others(vfs.dirty_below(dir)).await;
    }

    async fn fenced(&self) {
        let Some(vfs) = self.0.upgrade() else { return };
        vfs.lose_everything();
    }

    fn return_reserve(&self, _quota: QuotaId) {
        // Bytes are reserved call by call and belong to dirty files; what is idle is the client's own.
    }

    fn unlocked(&self, ino: InodeNo) {
        // The client wakes who waits; what others wrote under the lock must be seen.
        if let Some(node) = self.0.upgrade().and_then(|vfs| vfs.nodes.get(ino)) {
            node.state().contents.clear();
        }
    }
}

impl Vfs {
    /// Flushes what is dirty under a key, open files too: whoever looks next sees at least what was closed.
    async fn flush_key(self: &Arc<Self>, key: WatchKey) {
        let concerned = |ino: &InodeNo| match key {
            WatchKey::Bucket(b) => ino.bucket() == b,
            WatchKey::Names(dir) => self.nodes.get(*ino).is_some_and(|n| n.state().parent == Some(dir)),
        };
        self.flush_for_others(self.dirty.all().into_iter().filter(concerned).collect()).await;
    }

    /// Flushes for another session, which waits for it.
    ///
    /// What this session is just publishing is waited for only for a moment: the publishing rename may itself wait for
    /// that other session, and each would wait for the other. It becomes visible as a whole when the rename does.
    async fn flush_for_others(self: &Arc<Self>, inos: Vec<InodeNo>) {
        let mut nodes = self.dirty_nodes(inos);
        let published = futures::future::join_all(nodes.iter().map(|n| n.published()));
        if tokio::time::timeout(PUBLISHING, published).await.is_err() {
            nodes.retain(|n| !n.state().publishing);
        }
        if let Err(e) = self.flush_nodes(nodes).await {
            tracing::warn!(error = %e, "not everything could be flushed for another session");
        }
    }

    /// Forgets what this session and the kernel keep of a key.
    async fn void(self: &Arc<Self>, key: WatchKey) {
        if let WatchKey::Bucket(b) = key {
            let open = (0..64).filter_map(|slot| self.nodes.get(b.inode(slot)));
            open.for_each(|n| n.state().contents.clear());
        }
        let Some(kernel) = self.invalidator() else { return };
        let void = move || match key {
            WatchKey::Bucket(b) => (0..64).for_each(|slot| kernel.attributes(b.inode(slot))),
            WatchKey::Names(dir) => {
                // Without epochs, names run out by their lifetime: they are not voided one by one, which could wait for a
                // lock of the directory that a request to us holds.
                kernel.epoch();
                kernel.attributes(dir);
            }
        };
        if tokio::task::spawn_blocking(void).await.is_err() {
            tracing::error!(?key, "voiding the kernel's copies failed");
        }
    }

    /// This session was taken for dead: what was not committed never will be.
    fn lose_everything(&self) {
        for ino in self.dirty.all() {
            let Some(node) = self.nodes.get(ino) else { continue };
            self.lose_node(&node, "the session was fenced");
        }
        self.nodes.for_each(|n| n.state().contents.clear());
    }
}
