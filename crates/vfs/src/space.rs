//! fallocate and copy_file_range.

use crate::handles::Handle;
use crate::node::Node;
use crate::read::Access;
use crate::vfs::Vfs;
use crate::write::FILE_SIZE_MAX;
use carafe_meta::{Ctx, Falloc};
use carafe_types::{FsError, FsResult};
use std::sync::Arc;

/// Bytes that are copied at a time where slices cannot be shared.
const COPY: usize = 1 << 20;

/// The most that is copied so in one call; the caller goes on with the rest.
const COPY_CALL: u64 = 64 << 20;

impl Vfs {
    /// Reserves space, punches holes, writes zeroes.
    ///
    /// # Errors
    /// `Invalid` for an empty range; `TooBig`; `NoSpace`, `QuotaExceeded`; `BadHandle`; those of a flush.
    pub async fn fallocate(&self, ctx: &Ctx, fh: u64, mode: Falloc, offset: u64, len: u64) -> FsResult<()> {
        let handle = self.handle(fh).await?;
        handle.check_write()?;
        if offset.checked_add(len).is_none_or(|end| end > FILE_SIZE_MAX) {
            return Err(FsError::TooBig);
        }
        let node = &handle.node;
        loop {
            self.flush_if_dirty(node).await?;
            let _order = node.order.lock().await;
            if node.state().is_dirty() {
                continue;
            }
            let attr = self.meta.fallocate(ctx, node.ino, mode, offset, len).await?;
            let mut state = node.state();
            self.kept.advance(node.ino, state.attr.dataver, attr.dataver);
            state.learn(&attr);
            return Ok(());
        }
    }

    /// Copies `len` bytes from one open file to another without reading them where that can be. Returns how many.
    ///
    /// # Errors
    /// `Invalid` for overlapping ranges of one file; those of reading and writing.
    pub async fn copy_file_range(
        &self,
        _ctx: &Ctx,
        from: (u64, u64),
        to: (u64, u64),
        len: u64,
    ) -> FsResult<u64> {
        let (source, target) = (self.handle(from.0).await?, self.handle(to.0).await?);
        source.check_read()?;
        target.check_write()?;
        let (src, dst) = (&source.node, &target.node);
        let overlap = from.1 < to.1.saturating_add(len) && to.1 < from.1.saturating_add(len);
        if src.ino == dst.ino && overlap {
            return Err(FsError::Invalid("the ranges overlap"));
        }
        loop {
            self.flush_if_dirty(src).await?;
            self.flush_if_dirty(dst).await?;
            let shared = {
                let _order = dst.order.lock().await;
                if dst.state().is_dirty() {
                    continue;
                }
                let shared = self.meta.copy_range(src.ino, from.1, dst.ino, to.1, len).await;
                if shared.is_ok() {
                    let found = self.meta.getattr(dst.ino).await?;
                    let mut state = dst.state();
                    state.learn(&found.attr);
                    state.contents.clear();
                    // The kernel drops the pages of the range itself.
                    self.kept.forget(dst.ino);
                }
                shared
            };
            return match shared {
                Err(FsError::NotSupported) => self.copy_bytes(&source, from.1, &target, to, len).await,
                other => other,
            };
        }
    }

    async fn copy_bytes(
        &self,
        source: &Handle,
        from: u64,
        target: &Handle,
        to: (u64, u64),
        len: u64,
    ) -> FsResult<u64> {
        debug_assert!(!target.appends() || to.1 == 0, "the kernel refuses O_APPEND targets");
        // The source ends where it ends now, also if it is the target and grows by this.
        let end = source.node.state().size();
        let len = len.min(COPY_CALL).min(end.saturating_sub(from));
        let mut done = 0;
        while done < len {
            let n = COPY.min((len - done) as usize);
            let access = Access { unit: COPY as u64, ahead: None };
            let bytes = self.read_node(&source.node, from + done, n, &access).await?;
            if bytes.is_empty() {
                break;
            }
            done += u64::from(self.write(to.0, to.1 + done, bytes, false).await?);
        }
        Ok(done)
    }

    async fn flush_if_dirty(&self, node: &Arc<Node>) -> FsResult<()> {
        if node.state().is_dirty() {
            self.strong().flush_nodes(vec![node.clone()]).await?;
        }
        Ok(())
    }
}
