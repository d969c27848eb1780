//! Locks between mounts.
//!
//! Who unlocks has flushed before, and who locks reads anew: so data that is written and read under locks is the same on
//! all mounts.

use crate::node::Node;
use crate::vfs::Vfs;
use carafe_meta::Ctx;
use carafe_types::record::{Held, LockKind, LockType};
use carafe_types::{FsError, FsResult};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// A lock that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// Family.
    pub kind: LockKind,
    /// The kernel's owner value.
    pub owner: u64,
    /// First byte; 0 for flock.
    pub start: u64,
    /// Last byte, inclusive; `u64::MAX` for flock and "to the end".
    pub end: u64,
    /// `None` unlocks.
    pub typ: Option<LockType>,
    /// The process, for F_GETLK.
    pub pid: u32,
}

impl LockRequest {
    fn of(&self, node: &Node) -> carafe_meta::LockRequest {
        let LockRequest { kind, owner, start, end, typ, .. } = *self;
        carafe_meta::LockRequest { ino: node.ino, kind, owner, start, end, typ }
    }

    fn ctx(&self) -> Ctx {
        Ctx { pid: self.pid, ..Ctx::ROOT }
    }
}

impl Vfs {
    /// The lock that is in the way of `request`, if any.
    ///
    /// # Errors
    /// `BadHandle`; store errors.
    pub async fn getlk(&self, fh: u64, request: &LockRequest) -> FsResult<Option<Held>> {
        let handle = self.handle(fh).await?;
        self.meta.lock_test(&request.of(&handle.node)).await
    }

    /// Sets or drops a lock. `wait`: how long to wait for whoever holds it; dropping the future ends the wait, too.
    ///
    /// # Errors
    /// `WouldBlock` when it is held all the time; `Deadlock`; `BadHandle`; those of the flush before an unlock.
    pub async fn setlk(&self, fh: u64, request: &LockRequest, wait: Option<Duration>) -> FsResult<()> {
        let handle = self.handle(fh).await?;
        let node = &handle.node;
        let (ctx, of) = (request.ctx(), request.of(node));
        if request.typ.is_none() {
            self.flush_if_locked(node).await?;
            return self.meta.lock(&ctx, &of).await;
        }
        node.locked.store(true, SeqCst);
        match wait {
            None => self.meta.lock(&ctx, &of).await?,
            Some(wait) => match tokio::time::timeout(wait, self.meta.lock_wait(&ctx, &of)).await {
                Ok(done) => done?,
                Err(_) => return Err(FsError::WouldBlock),
            },
        }
        // What others wrote under the lock must be seen.
        node.state().contents.clear();
        Ok(())
    }

    /// Before a lock goes: what was written under it is seen by the next holder.
    pub(crate) async fn flush_if_locked(&self, node: &Arc<Node>) -> FsResult<()> {
        if node.locked.load(SeqCst) && node.state().is_dirty() {
            self.strong().flush_nodes(vec![node.clone()]).await?;
        }
        Ok(())
    }
}
