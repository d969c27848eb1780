//! A local directory in the place of a mounted file system: the twin that tests of the node service run on.

use super::{LaunchError, ServingMount, Starter};
use crate::address::FsAddress;
use crate::mount::bind;
use crate::mount::table::{MountEntry, MountTable};
use crate::request::Attributes;
use async_trait::async_trait;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A [`Starter`] that "mounts" by a bind of a directory, which should be the root of a file system of its own (a tmpfs).
#[derive(Debug)]
pub struct LocalDirectory(PathBuf);

impl LocalDirectory {
    /// Every file system is `directory`.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }
}

struct LocalMount;

#[async_trait]
impl ServingMount for LocalMount {
    async fn ended(self: Box<Self>) -> Result<(), String> {
        Ok(())
    }
}

#[async_trait]
impl Starter for LocalDirectory {
    async fn start(&self, _: &FsAddress, point: &Path) -> Result<Box<dyn ServingMount>, LaunchError> {
        let source = bind::open_point(&self.0)?;
        bind::bind(&source, point, Attributes::default(), Instant::now() + Duration::from_secs(60))?;
        Ok(Box::new(LocalMount))
    }

    fn owns(&self, entry: &MountEntry) -> bool {
        let is_shown_by = |own: &MountEntry| own.device == entry.device && own.id != entry.id;
        MountTable::read().is_ok_and(|table| table.top(&self.0).is_some_and(is_shown_by))
    }
}
