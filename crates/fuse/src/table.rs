//! The kernel's mount table, read without touching a mount point: a dead mount would not answer.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The file system type of every Carafe mount, as `findmnt` shows it.
pub const FS_TYPE: &str = "fuse.carafe";

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Where it is mounted.
    pub dir: PathBuf,
    /// For example `fuse.carafe` or `ext4`.
    pub fs_type: String,
    /// The source; `carafe:<name>` for a Carafe mount.
    pub source: OsString,
    /// Major and minor number of the device, for example `0:51`.
    pub device: String,
}

impl MountEntry {
    /// Whether it is a mount of Carafe.
    pub fn is_carafe(&self) -> bool {
        self.fs_type == FS_TYPE
    }
}

/// What is mounted on exactly `dir` (the topmost, should several lie over each other).
///
/// # Errors
/// When `/proc` cannot be read.
pub fn mounted_at(dir: &Path) -> io::Result<Option<MountEntry>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?).into_iter().rfind(|m| m.dir == dir))
}

/// Every Carafe mount of this mount namespace.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn carafe_mounts() -> io::Result<Vec<MountEntry>> {
    let all = parse(&std::fs::read("/proc/self/mountinfo")?);
    Ok(all.into_iter().filter(MountEntry::is_carafe).collect())
}

fn parse(table: &[u8]) -> Vec<MountEntry> {
    table.split(|b| *b == b'\n').filter_map(parse_line).collect()
}

/// `36 35 98:0 /root /mount/point options [optional fields] - type source super-options`
fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let dash = fields.iter().position(|f| *f == b"-")?;
    Some(MountEntry {
        device: String::from_utf8_lossy(fields.get(2)?).into_owned(),
        dir: PathBuf::from(OsString::from_vec(unescape(fields.get(4)?))),
        fs_type: String::from_utf8_lossy(fields.get(dash + 1)?).into_owned(),
        source: OsStr::from_bytes(&unescape(fields.get(dash + 2)?)).to_owned(),
    })
}

/// Undoes the octal escapes of the table (`\040` is a space).
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut at = 0;
    while at < field.len() {
        let octal = (field[at] == b'\\').then(|| field.get(at + 1..at + 4)).flatten();
        let code = octal.and_then(|o| u8::from_str_radix(std::str::from_utf8(o).ok()?, 8).ok());
        out.push(code.unwrap_or(field[at]));
        at += if code.is_some() { 4 } else { 1 };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 1 0:21 / /proc rw,nosuid - proc proc rw\n\
        90 1 0:51 / /mnt/a\\040b rw,nosuid,nodev shared:9 - fuse.carafe carafe:demo rw,user_id=0\n\
        garbage\n";

    #[test]
    fn a_carafe_mount_is_found_with_its_name_and_escapes() {
        let all = parse(TABLE);
        assert_eq!(all.len(), 2);
        assert!(!all[0].is_carafe() && all[1].is_carafe());
        assert_eq!(all[1].dir, Path::new("/mnt/a b"));
        assert_eq!(all[1].source, "carafe:demo");
        assert_eq!(all[1].device, "0:51");
    }

    #[test]
    fn proc_is_mounted_and_a_plain_directory_is_not() {
        assert!(mounted_at(Path::new("/proc")).unwrap().is_some());
        assert!(mounted_at(Path::new("/proc/self")).unwrap().is_none());
    }
}
