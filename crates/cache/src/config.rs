//! Settings of a cache on disk: data, given by the caller once.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of [`crate::Cache::open`].
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// The cache directory; below it each file system has a directory of its own.
    pub dir: PathBuf,
    /// Most bytes of slices that may lie on the disk.
    pub size_bytes: u64,
    /// Share of the disk, 0.0 to 1.0, that stays free whatever `size_bytes` says.
    pub free_ratio: f64,
    /// The file system.
    pub fs_uuid: [u8; 16],
    /// This boot of the node, see [`read_boot_id`]. Dirty bytes of another boot are not trusted: nothing here is synced.
    pub boot_id: [u8; 16],
    /// How long a frame that was found right may be read without checking it again; zero checks each read.
    pub verify_every: Duration,
}

impl CacheConfig {
    /// Ten per cent of the disk stay free, frames are checked again after ten minutes.
    pub fn new(dir: impl Into<PathBuf>, size_bytes: u64, fs_uuid: [u8; 16], boot_id: [u8; 16]) -> Self {
        CacheConfig {
            dir: dir.into(),
            size_bytes,
            free_ratio: 0.1,
            fs_uuid,
            boot_id,
            verify_every: Duration::from_secs(600),
        }
    }
}

/// The kernel's random name of this boot (`/proc/sys/kernel/random/boot_id`, random(4)).
///
/// # Errors
/// The file cannot be read, or does not hold a uuid.
pub fn read_boot_id() -> io::Result<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let hex: String = text.trim().chars().filter(|&c| c != '-').collect();
    match u128::from_str_radix(&hex, 16) {
        Ok(id) if hex.len() == 32 => Ok(id.to_be_bytes()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("boot id {text:?} is not a uuid"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_id_is_the_same_each_time_it_is_read() {
        let id = read_boot_id().unwrap();
        assert_ne!(id, [0; 16]);
        assert_eq!(id, read_boot_id().unwrap());
    }
}
