//! A volume mounted on a directory by this process: for `carafe mount`, and for `carafe csi` with the embedded engine.

use crate::control::VolumeControl;
use crate::failure::{Exit, Failure, Outcome};
use crate::volume::Volume;
use carafe_fuse::{MountOptions, Mounted};
use carafe_types::{EntryName, FileKind, InodeNo};
use carafe_vfs::Lookup;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Mounts `volume`. `alone` says that the process lives for this mount and ends with it.
pub(crate) async fn mount(volume: Arc<Volume>, mut options: MountOptions, alone: bool) -> Outcome<Mounted> {
    options.control = Some(Arc::new(VolumeControl::new(volume.clone(), alone)));
    let runtime = Handle::current();
    // Mounting waits for the kernel, and for `fusermount3` where that is needed.
    tokio::task::spawn_blocking(move || carafe_fuse::mount(volume.vfs.clone(), runtime, &options))
        .await
        .map_err(|e| Failure::new(Exit::Failed, format!("mounting panicked: {e}")))?
        .map_err(Failure::from)
}

/// The directory at `path` below the root, as the root of a mount.
pub(crate) async fn find_root(volume: &Volume, path: &str) -> Outcome<InodeNo> {
    let mut at = InodeNo::ROOT;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let gone = |why: &str| Failure::new(Exit::Refused, format!("--subdir {path}: {part:?} {why}"));
        let name = EntryName::new(part.as_bytes()).map_err(|e| gone(&e.to_string()))?;
        match volume.vfs.lookup(at, &name).await? {
            Lookup::Found(entry) if entry.attr.kind == FileKind::Directory => at = entry.attr.ino,
            Lookup::Found(_) => return Err(gone("is no directory")),
            Lookup::Absent { .. } => {
                return Err(gone("does not exist").next("mount the whole file system and make it"));
            }
        }
    }
    volume.vfs.set_root(at).await?;
    Ok(at)
}
