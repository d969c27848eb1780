//! Publish: what is below a name is durable before the name is seen.
//!
//! A column store writes a part into `tmp_x`, never syncs, and publishes it by one rename of the directory. Here the
//! bytes of all its files go up together, and the commit that names them is the rename itself.

use super::commit::Failures;
use crate::node::Node;
use crate::vfs::Vfs;
use carafe_meta::{Ctx, Lookup, RenameMode, Renamed};
use carafe_types::{EntryName, FileKind, FsError, FsResult, InodeNo};
use std::sync::Arc;
use std::time::Instant;

/// Files that a rename commits itself; more are committed before it.
const WITH_RENAME: usize = 490;

/// A rename, owned.
#[derive(Clone, Debug)]
pub(crate) struct RenameCall {
    pub(crate) ctx: Ctx,
    pub(crate) from: (InodeNo, EntryName),
    pub(crate) to: (InodeNo, EntryName),
    pub(crate) mode: RenameMode,
}

impl Vfs {
    /// Renames, with everything dirty below what gets a new name.
    pub(crate) async fn rename_published(self: &Arc<Self>, call: RenameCall) -> FsResult<Renamed> {
        let nodes = if self.dirty.len() == 0 { Vec::new() } else { self.dirty_under_rename(&call).await? };
        if nodes.is_empty() {
            return self.rename_now(&call, &[]).await;
        }
        if !self.is_all_ours(&call).await? {
            // Others may have to give something up before this rename can be: nothing is held meanwhile.
            self.flush_nodes(nodes).await?;
            return self.rename_now(&call, &[]).await;
        }
        let vfs = self.clone();
        let task = tokio::spawn(async move { vfs.publish(nodes, call).await });
        task.await.unwrap_or_else(|e| Err(FsError::Io(format!("the rename was cut off: {e}"))))
    }

    async fn rename_now(&self, call: &RenameCall, publish: &[carafe_meta::FileWrite]) -> FsResult<Renamed> {
        let (from, to) = ((call.from.0, &call.from.1), (call.to.0, &call.to.1));
        self.meta.rename(&call.ctx, from, to, call.mode, publish).await
    }

    async fn publish(self: Arc<Self>, nodes: Vec<Arc<Node>>, call: RenameCall) -> FsResult<Renamed> {
        let deadline = Instant::now() + self.o.patience;
        let mut failed = Failures::new();
        let jobs = self.claim_jobs(&nodes).await;
        let mut ready = self.upload(jobs, deadline, &mut failed).await;
        if let Some(e) = failed.into_values().next() {
            return Err(e);
        }
        let mut failed = Failures::new();
        let with_rename = ready.split_off(ready.len().saturating_sub(WITH_RENAME));
        self.commit(ready, deadline, &mut failed).await;
        let with_rename = self.drop_foreign(with_rename, &mut failed);
        if let Some(e) = failed.into_values().next() {
            return Err(e);
        }
        self.note_sent(&with_rename);
        with_rename.iter().for_each(|r| r.claim.node.state().publishing = true);
        let writes: Vec<_> = with_rename.iter().map(|r| r.write.clone()).collect();
        match self.rename_now(&call, &writes).await {
            Ok(renamed) => {
                self.finish_all(with_rename, None);
                Ok(renamed)
            }
            Err(e) => {
                // The rename is refused (EEXIST, ENOTEMPTY, ...) or one of the files is; what is uploaded is not thrown
                // away, and the rename then fails or succeeds for its own reasons.
                let mut failed = Failures::new();
                self.commit(with_rename, deadline, &mut failed).await;
                match failed.into_values().next() {
                    Some(failure) => Err(failure),
                    None if is_about_files(&e) => self.rename_now(&call, &[]).await,
                    None => Err(e),
                }
            }
        }
    }

    /// Whether the rename concerns nobody else, as far as this session knows: then no other session is waited for.
    async fn is_all_ours(&self, call: &RenameCall) -> FsResult<bool> {
        for (dir, name) in [&call.from, &call.to] {
            let sole = match self.meta.lookup(*dir, name).await? {
                Lookup::Found(f) if f.attr.kind == FileKind::Directory => {
                    let inside = self.meta.list(f.attr.ino, None, 1, false).await?;
                    !f.entry_ttl.is_zero() && f.sole && !inside.ttl.is_zero()
                }
                Lookup::Found(f) => !f.entry_ttl.is_zero() && f.sole,
                Lookup::Absent { ttl } => !ttl.is_zero(),
            };
            if !sole || !self.meta.holds_alone(*dir) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn dirty_under_rename(&self, call: &RenameCall) -> FsResult<Vec<Arc<Node>>> {
        let mut inos = self.dirty_under(&call.from).await?;
        if call.mode == RenameMode::Exchange {
            inos.extend(self.dirty_under(&call.to).await?);
        }
        Ok(self.dirty_nodes(inos))
    }

    async fn dirty_under(&self, (dir, name): &(InodeNo, EntryName)) -> FsResult<Vec<InodeNo>> {
        Ok(match self.meta.lookup(*dir, name).await? {
            Lookup::Found(f) if f.attr.kind == FileKind::Directory => self.dirty_below(f.attr.ino),
            Lookup::Found(f) => vec![f.attr.ino],
            Lookup::Absent { .. } => Vec::new(),
        })
    }

    /// The dirty ones among inodes, in order.
    pub(crate) fn dirty_nodes(&self, mut inos: Vec<InodeNo>) -> Vec<Arc<Node>> {
        inos.sort();
        inos.dedup();
        let nodes = inos.into_iter().filter_map(|i| self.nodes.get(i));
        nodes.filter(|n| n.state().is_dirty()).collect()
    }

    /// Dirty files that are, or may be, somewhere below a directory.
    pub(crate) fn dirty_below(&self, dir: InodeNo) -> Vec<InodeNo> {
        let nodes = self.dirty.all().into_iter().filter_map(|i| self.nodes.get(i));
        nodes.filter(|n| n.state().may_be_below(dir)).map(|n| n.ino).collect()
    }
}

/// Whether a refused rename may succeed without the files that it was to publish.
fn is_about_files(e: &FsError) -> bool {
    matches!(e, FsError::NotFound | FsError::NoSpace(_))
}
