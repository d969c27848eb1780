//! Volumes of one mount never overlap.
//!
//! A directory inside another volume's would count for that volume's quota and be deleted with it, and neither owner would know. The
//! registry keeps volumes that the driver made apart; a static volume names any path, so the node looks at what the
//! mount shows already. Whoever means it says `isolation: volume` and gets a mount that shows nothing else. Two volumes with the
//! very same directory are one volume by two names, and are served.

use crate::error::CsiError;
use crate::mount::table::{MountEntry, MountTable};
use std::path::Path;

/// Where kubelet binds parts of a volume for its own use; they are inside the volume by intent.
const SUBPATHS: &str = "volume-subpaths";

/// Refuses `directory` (relative to the root of the file system that is mounted at `source`) if a bind of that mount shows a directory
/// around or inside it.
///
/// # Errors
/// [`CsiError::Overlap`] names the bind.
pub(super) fn refuse(id: &str, table: &MountTable, source: &Path, directory: &Path) -> Result<(), CsiError> {
    let Some(mount) = table.top(source) else { return Ok(()) };
    let overlapping = |entry: &&MountEntry| {
        let is_part = entry.point.components().any(|component| component.as_os_str() == SUBPATHS);
        let shown = entry.root.strip_prefix(&mount.root).ok();
        // What shows the whole file system is no volume.
        let shown = shown.filter(|shown| !is_part && !shown.as_os_str().is_empty());
        shown.is_some_and(|shown| {
            shown != directory && (shown.starts_with(directory) || directory.starts_with(shown))
        })
    };
    match table.references(source).find(overlapping) {
        None => Ok(()),
        Some(entry) => Err(CsiError::Overlap {
            id: id.to_owned(),
            directory: directory.to_owned(),
            other: entry.root.strip_prefix(&mount.root).unwrap_or(&entry.root).to_owned(),
            point: entry.point.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(roots: &[(&str, &str)], directory: &str) -> bool {
        let mut lines =
            "9 1 0:5 / /base/mnt/m rw - fuse.carafe carafe rw\n8 1 0:6 /a /other rw - ext4 disk rw\n"
                .to_owned();
        for (n, (root, point)) in roots.iter().enumerate() {
            lines.push_str(&format!("{} 1 0:5 {root} {point} rw - fuse.carafe carafe rw\n", n + 10));
        }
        let table = MountTable::parse(lines.as_bytes()).unwrap();
        refuse("v", &table, Path::new("/base/mnt/m"), Path::new(directory)).is_err()
    }

    #[test]
    fn a_directory_around_or_inside_anothers_is_refused_and_beside_it_or_the_same_is_not() {
        let shown = [("/a/b", "/pods/1/staging")];
        assert!(refused(&shown, "a") && refused(&shown, "a/b/c") && refused(&shown, ""));
        assert!(!refused(&shown, "a/b") && !refused(&shown, "a/bc") && !refused(&shown, "a/c"));
        assert!(!refused(&[], "a"), "another file system has a directory of the same name");
    }

    #[test]
    fn a_sub_path_of_the_volume_itself_is_no_other_volume() {
        assert!(!refused(&[("/a/b", "/var/lib/kubelet/pods/u/volume-subpaths/pv/c/0")], "a"));
    }
}
