//! Attributes, extended attributes, statfs.
//!
//! The store knows the attributes of the last commit; sizes and times of what is dirty here are put over them.

use crate::dirty::Layer;
use crate::journal::Entry as Log;
use crate::node::Node;
use crate::vfs::{Entry, Vfs};
use crate::write::FILE_SIZE_MAX;
use bytes::Bytes;
use carafe_meta::{Ctx, Found, SetAttr, StatFs, XattrMode};
use carafe_types::{Attr, FsError, FsResult, InodeNo};
use std::sync::Arc;

/// S_ISUID and S_ISGID.
const SET_IDS: u16 = 0o6000;

impl Vfs {
    /// What `stat` tells.
    ///
    /// # Errors
    /// `NotFound`; store errors.
    pub async fn getattr(&self, ino: InodeNo, _fh: Option<u64>) -> FsResult<Entry> {
        let found = self.meta.getattr(ino).await?;
        Ok(self.shown(found))
    }

    /// Changes attributes; `size` truncates.
    ///
    /// # Errors
    /// `NotFound`, `NotPermitted`, `TooBig`, `NoSpace` when a file grows beyond its quota; store errors.
    pub async fn setattr(&self, ctx: &Ctx, ino: InodeNo, _fh: Option<u64>, set: &SetAttr) -> FsResult<Entry> {
        let Some(node) = self.nodes.get(ino) else {
            return self.meta.setattr(ctx, ino, set).await.map(|f| self.shown(f));
        };
        if set.mode.is_some_and(|mode| mode & SET_IDS != 0) && node.state().clears_set_ids() {
            // The commit of what was written before would clear the bits that are set now.
            self.strong().flush_nodes(vec![node.clone()]).await?;
        }
        match set.size {
            Some(size) => self.truncate(ctx, &node, size, set).await,
            None => {
                let _order = node.order.lock().await;
                let found = self.meta.setattr(ctx, ino, set).await?;
                self.note_times(&node, set);
                Ok(self.shown(found))
            }
        }
    }

    /// A modification time that was set must survive the commit of bytes written before.
    fn note_times(&self, node: &Arc<Node>, set: &SetAttr) {
        let Some(mtime) = set.mtime else { return };
        let id = {
            let mut state = node.state();
            let Some(layer) = state.dirty.as_mut() else { return };
            layer.mtime = mtime;
            layer.id
        };
        self.log_change(node, id, &[Log::Mtime { layer: id, mtime }]);
    }

    async fn truncate(&self, ctx: &Ctx, node: &Arc<Node>, size: u64, set: &SetAttr) -> FsResult<Entry> {
        if size > FILE_SIZE_MAX {
            return Err(FsError::TooBig);
        }
        loop {
            {
                let _order = node.order.lock().await;
                let local = {
                    let state = node.state();
                    match (&state.dirty, &state.frozen) {
                        // What is on its way would come back over the cut.
                        (_, Some(_)) => None,
                        (Some(layer), None) => Some(size >= state.attr.size && !layer.append),
                        (None, None) => Some(false),
                    }
                };
                match local {
                    Some(true) => return self.truncate_here(ctx, node, size, set).await,
                    Some(false) => return self.truncate_stored(ctx, node, size, set).await,
                    None => {}
                }
            }
            self.strong().flush_nodes(vec![node.clone()]).await?;
        }
    }

    /// The size changes only within what is not committed: the store need not know yet. The order is held.
    async fn truncate_here(&self, ctx: &Ctx, node: &Arc<Node>, size: u64, set: &SetAttr) -> FsResult<Entry> {
        let (before, quota) = {
            let state = node.state();
            (state.size(), state.attr.quota)
        };
        self.reserve(quota, size.saturating_sub(before)).await?;
        let now = self.meta.now();
        let id = {
            let mut state = node.state();
            let gone = state.gone();
            let layer = state.dirty.as_mut().ok_or(gone)?;
            self.resize_layer(layer, size, now);
            layer.charged += size as i64 - before as i64;
            layer.kill_set_id |= set.kill_setid;
            layer.id
        };
        self.give_back(quota, before.saturating_sub(size) as i64);
        self.log_change(node, id, &[Log::Size { layer: id, size, mtime: now }]);
        let rest = SetAttr { size: None, ..*set };
        let found = if has_more(&rest) {
            self.meta.setattr(ctx, node.ino, &rest).await?
        } else {
            self.meta.getattr(node.ino).await?
        };
        self.note_times(node, set);
        Ok(self.shown(found))
    }

    /// The store cuts or extends the file, and what is dirty is cut with it. The order is held.
    async fn truncate_stored(
        &self,
        ctx: &Ctx,
        node: &Arc<Node>,
        size: u64,
        set: &SetAttr,
    ) -> FsResult<Entry> {
        let found = self.meta.setattr(ctx, node.ino, set).await?;
        let now = found.attr.mtime;
        let cut = {
            let mut state = node.state();
            self.kept.advance(node.ino, state.attr.dataver, found.attr.dataver);
            state.learn(&found.attr);
            let quota = state.attr.quota;
            state.dirty.as_mut().map(|layer| {
                self.resize_layer(layer, size, now);
                layer.base = size;
                layer.ver = Some(found.attr.dataver);
                // What is left lies within the committed size.
                let back = std::mem::take(&mut layer.charged);
                (layer.id, quota, back)
            })
        };
        if let Some((id, quota, back)) = cut {
            self.give_back(quota, back);
            self.log_change(node, id, &[Log::Size { layer: id, size, mtime: now }]);
        }
        self.note_times(node, set);
        Ok(self.shown(found))
    }

    fn resize_layer(&self, layer: &mut Layer, size: u64, now: carafe_types::Timestamp) {
        let before = layer.memory_bytes();
        layer.set_size(size, now);
        self.small_bytes.sub(before - layer.memory_bytes());
    }

    /// Puts what is dirty over attributes from the store.
    pub(crate) fn overlay(&self, attr: &mut Attr) {
        if let Some(node) = self.nodes.get(attr.ino) {
            let mut state = node.state();
            if attr.dataver >= state.attr.dataver {
                state.learn(attr);
            }
            state.overlay(attr);
        }
    }

    /// An answer about an inode.
    pub(crate) fn shown(&self, found: Found) -> Entry {
        let Found { mut attr, ttl, .. } = found;
        self.quotas.learn(&attr);
        self.overlay(&mut attr);
        Entry { attr, ttl, fixed: self.fixed }
    }

    /// An answer about a name.
    pub(crate) fn made(&self, found: Found) -> Entry {
        let Found { mut attr, entry_ttl, .. } = found;
        self.quotas.learn(&attr);
        self.overlay(&mut attr);
        Entry { attr, ttl: entry_ttl, fixed: self.fixed }
    }

    /// The quota around an inode, from memory.
    ///
    /// # Errors
    /// None; it is a result for the caller's convenience.
    pub fn statfs(&self, ino: InodeNo) -> FsResult<StatFs> {
        let mut stat = self.meta.statfs(self.quotas.around(ino));
        // What is reserved counts as free in the store; what is written here is not free any more.
        stat.free_bytes = stat.free_bytes.saturating_sub(self.growing_bytes.get());
        Ok(stat)
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`; store errors.
    pub async fn getxattr(&self, ino: InodeNo, name: &[u8]) -> FsResult<Bytes> {
        self.meta.getxattr(ino, name).await
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `Exists`, `NoAttribute` as `mode` says; `AttributeTooBig`; store errors.
    pub async fn setxattr(
        &self,
        _ctx: &Ctx,
        ino: InodeNo,
        name: &[u8],
        value: Bytes,
        mode: XattrMode,
    ) -> FsResult<()> {
        self.meta.setxattr(ino, name, &value, mode).await
    }

    /// Names of all extended attributes.
    ///
    /// # Errors
    /// Store errors.
    pub async fn listxattr(&self, ino: InodeNo) -> FsResult<Vec<Bytes>> {
        self.meta.listxattr(ino).await
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`; store errors.
    pub async fn removexattr(&self, _ctx: &Ctx, ino: InodeNo, name: &[u8]) -> FsResult<()> {
        self.meta.removexattr(ino, name).await
    }
}

fn has_more(set: &SetAttr) -> bool {
    let times = set.atime.is_some() || set.mtime.is_some() || set.ctime.is_some();
    times || set.mode.is_some() || set.uid.is_some() || set.gid.is_some()
}
