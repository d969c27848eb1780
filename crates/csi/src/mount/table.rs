//! The mount table of this process.
//!
//! A line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)):
//! `36 35 98:0 /root/dir /mount/point rw,noatime master:1 - fstype source superoptions`. Spaces, tabs, newlines and
//! backslashes in paths and sources are octal escapes (`\040`). Mounts may be stacked on one point; the one whose id is
//! not the parent of another at the same point is on top.

use super::MountError;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Unique while it is mounted.
    pub id: u64,
    /// The mount it is mounted on.
    pub parent: u64,
    /// Major and minor number of the file system: the same for all binds of one mount.
    pub device: (u32, u32),
    /// The directory of the file system that is shown here.
    pub root: PathBuf,
    /// Where.
    pub point: PathBuf,
    /// Options of this mount, with commas between.
    pub options: String,
    /// For example `fuse.carafe`.
    pub fs_type: String,
    /// What was mounted; for FUSE the name that the daemon chose.
    pub source: String,
}

impl MountEntry {
    /// Whether this mount (not the file system behind it) is read-only.
    pub fn read_only(&self) -> bool {
        self.options.split(',').any(|option| option == "ro")
    }
}

/// The mounts of a mount namespace, in the kernel's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountTable(pub Vec<MountEntry>);

impl MountTable {
    /// Reads the table of this process.
    ///
    /// # Errors
    /// When `/proc` is not mounted, or has a line that cannot be understood.
    pub fn read() -> Result<Self, MountError> {
        let bytes = std::fs::read("/proc/self/mountinfo").map_err(|e| MountError::Table(e.to_string()))?;
        Self::parse(&bytes)
    }

    /// Reads the text of a mount table.
    ///
    /// # Errors
    /// The first line that is not as documented.
    pub fn parse(bytes: &[u8]) -> Result<Self, MountError> {
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let entry = |line: &[u8]| {
            parse_line(line)
                .ok_or_else(|| MountError::Table(format!("the line {:?}", String::from_utf8_lossy(line))))
        };
        lines.map(entry).collect::<Result<_, _>>().map(Self)
    }

    /// What is seen at `point`: the uppermost mount there.
    pub fn top(&self, point: &Path) -> Option<&MountEntry> {
        let at = || self.0.iter().filter(|entry| entry.point == point);
        at().find(|entry| !at().any(|other| other.parent == entry.id && other.id != entry.id))
            .or_else(|| at().next_back())
    }

    /// The other mounts that show the same file system as the mount at `source`, which is not counted.
    pub fn references<'a>(&'a self, source: &'a Path) -> impl Iterator<Item = &'a MountEntry> {
        let device = self.top(source).map(|entry| entry.device);
        self.0.iter().filter(move |entry| Some(entry.device) == device && entry.point != source)
    }
}

fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut next = || fields.next();
    let id = number(next()?)?;
    let parent = number(next()?)?;
    let (major, minor) = std::str::from_utf8(next()?).ok()?.split_once(':')?;
    let root = path(next()?);
    let point = path(next()?);
    let options = text(next()?);
    // Any number of propagation fields, then a dash.
    while next()? != b"-" {}
    let fs_type = text(next()?);
    let source = text(&unescape(next()?));
    let device = (major.parse().ok()?, minor.parse().ok()?);
    Some(MountEntry { id, parent, device, root, point, options, fs_type, source })
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

fn path(field: &[u8]) -> PathBuf {
    OsString::from_vec(unescape(field)).into()
}

/// Replaces `\ooo` by the byte it stands for; any other backslash stays.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] if *first == b'\\' => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = tail;
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
90 22 0:50 / /var/mnt/m1 rw,nosuid,nodev shared:7 master:3 - fuse.carafe carafe:m1 rw,user_id=0
91 22 0:50 /volumes/a /pods/with\\040space/mount ro,nosuid shared:8 - fuse.carafe carafe:m1 rw
92 22 0:51 /volumes/a /pods/stacked rw - fuse.carafe carafe:m0 rw
93 92 0:50 /volumes/a /pods/stacked rw - fuse.carafe carafe:m1 rw
94 22 0:60 / /tmp/back\\134slash rw - tmpfs none rw
";

    fn table() -> MountTable {
        MountTable::parse(TABLE.as_bytes()).unwrap()
    }

    #[test]
    fn a_line_is_read_with_its_escapes() {
        let entry = table().0[2].clone();
        assert_eq!(entry.point, Path::new("/pods/with space/mount"));
        assert_eq!((entry.device, entry.root.to_str()), ((0, 50), Some("/volumes/a")));
        assert_eq!((entry.fs_type.as_str(), entry.source.as_str()), ("fuse.carafe", "carafe:m1"));
        assert!(entry.read_only() && !table().0[1].read_only());
        assert_eq!(table().0[5].point, Path::new("/tmp/back\\slash"));
    }

    #[test]
    fn the_upper_one_of_two_stacked_mounts_is_seen_in_whatever_order_they_are_listed() {
        let mut table = table();
        assert_eq!(table.top(Path::new("/pods/stacked")).unwrap().id, 93);
        table.0.reverse();
        assert_eq!(table.top(Path::new("/pods/stacked")).unwrap().id, 93);
        assert_eq!(table.top(Path::new("/pods")), None);
    }

    #[test]
    fn references_are_the_other_mounts_of_the_same_file_system() {
        let table = table();
        let points: Vec<_> = table.references(Path::new("/var/mnt/m1")).map(|entry| entry.id).collect();
        assert_eq!(points, [91, 93]);
        assert_eq!(table.references(Path::new("/nothing")).count(), 0);
    }

    #[test]
    fn the_table_of_this_process_can_be_read() {
        assert!(MountTable::read().unwrap().top(Path::new("/proc")).is_some());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_table_or_an_error(bytes: Vec<u8>) {
            let _ = MountTable::parse(&bytes);
        }

        #[test]
        fn escaped_bytes_come_back(bytes: Vec<u8>) {
            let escaped: Vec<u8> = bytes.iter().flat_map(|byte| format!("\\{byte:03o}").into_bytes()).collect();
            prop_assert_eq!(unescape(&escaped), bytes);
        }
    }
}
