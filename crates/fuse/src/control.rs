//! Extended attributes that are no attributes: the wire between `carafe info`, `carafe umount`, `carafe cache` and the
//! daemon that serves a mount.
//!
//! A name that begins with `carafe.` never reaches the file system. Reading one is a question, setting one an order.
//! They are listed nowhere, so no backup ever copies them. No socket is needed, and whoever sees the mount point finds
//! its daemon, through any number of bind mounts and containers.

use crate::vfs::Ctx;
use bytes::Bytes;
use carafe_types::{FsError, FsResult, InodeNo};
use futures::future::BoxFuture;
use std::fmt;
use std::sync::Arc;

const PREFIX: &[u8] = b"carafe.";

/// Answers questions and takes orders about a mount.
pub trait Control: fmt::Debug + Send + Sync {
    /// The answer to the question `what` (without `carafe.`), asked of an inode.
    fn get(&self, ino: InodeNo, what: &str) -> BoxFuture<'_, FsResult<Bytes>>;

    /// Obeys the order `what`. Only root and the daemon's own user get here.
    fn set(&self, what: &str, value: Bytes) -> BoxFuture<'_, FsResult<()>>;
}

pub(crate) fn is_control(name: &[u8]) -> bool {
    name.starts_with(PREFIX)
}

/// No control, no such attribute.
pub(crate) async fn get(control: Option<Arc<dyn Control>>, ino: InodeNo, name: &[u8]) -> FsResult<Bytes> {
    let control = control.ok_or(FsError::NoAttribute)?;
    control.get(ino, what(name)?).await
}

pub(crate) async fn set(
    control: Option<Arc<dyn Control>>,
    ctx: &Ctx,
    name: &[u8],
    value: Bytes,
) -> FsResult<()> {
    if ctx.uid != 0 && ctx.uid != rustix::process::geteuid().as_raw() {
        return Err(FsError::NotPermitted);
    }
    let control = control.ok_or(FsError::NotSupported)?;
    control.set(what(name)?, value).await
}

fn what(name: &[u8]) -> FsResult<&str> {
    std::str::from_utf8(&name[PREFIX.len()..]).map_err(|_| FsError::NoAttribute)
}
