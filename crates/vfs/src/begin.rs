//! Beginning a layer: what must be so before the first dirty byte.
//!
//! 1. This session stands in the lists of all directories above, so that whoever publishes one of them finds out.
//! 2. If the file is inline, its bytes are in the layer: it is inline as a whole or not at all.

use crate::dirty::Layer;
use crate::journal::Entry;
use crate::node::Node;
use crate::vfs::Vfs;
use bytes::Bytes;
use carafe_meta::DirtyWatch;
use carafe_types::{FsError, FsResult, InodeNo};
use std::sync::Arc;

impl Vfs {
    /// Makes sure that the node has a layer that takes changes. The order is held, and the node is watched.
    pub(crate) async fn begin_layer(&self, node: &Arc<Node>, append: bool) -> FsResult<()> {
        if node.state().dirty.is_some() {
            return Ok(());
        }
        let inline = self.bytes_that_go_along(node).await?;
        let now = self.meta.now();
        let id = self.log.new_layer();
        let (parent, size) = {
            let mut state = node.state();
            let mut layer = Layer::new(id, self.meta.session().no, state.size(), now);
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

    /// Whether a watch of before serves for the next layer, too.
    pub(crate) fn is_watched(&self, node: &Node) -> bool {
        node.state().watch.as_ref().is_some_and(DirtyWatch::close_may_be_async)
    }

    /// Stands in the lists of everything above, so that whoever publishes a directory finds out.
    pub(crate) async fn watch_above(&self, node: &Node) -> FsResult<()> {
        match self.meta.watch_above(node.ino).await {
            Ok(watch) => node.state().watch = Some(watch),
            // It has no name: nobody can publish it.
            Err(FsError::NotFound) if node.state().unlinked => node.state().watch = None,
            Err(e) => return Err(e),
        }
        Ok(())
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
