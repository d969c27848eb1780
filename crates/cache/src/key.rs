//! The name of a slice: the uuid of the session that wrote it and a number which that session never uses twice.
//!
//! Because a name is never given to other bytes (metadata.md, 1: ids are in keys by uuid), a cached frame can be stale in no way: it is
//! either right or damaged.

use std::fmt;
use std::str::FromStr;

use crate::error::CacheError;

/// Number of directories (and index logs, and locks of the map) over which slices are spread.
pub(crate) const SHARDS: usize = 256;

/// The name of a slice, everywhere: in the store, in the bucket and here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceKey {
    /// Random uuid of the session that wrote the slice, as a big-endian number.
    pub session_uuid: u128,
    /// Number of the slice in that session.
    pub n: u64,
}

impl SliceKey {
    /// Names slice `n` of the session with these uuid bytes.
    pub fn new(session_uuid: [u8; 16], n: u64) -> Self {
        SliceKey { session_uuid: u128::from_be_bytes(session_uuid), n }
    }

    /// The 24 bytes used in the index: uuid, then number, big-endian.
    pub(crate) fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&self.session_uuid.to_be_bytes());
        bytes[16..].copy_from_slice(&self.n.to_be_bytes());
        bytes
    }

    /// The shard: a checksum spreads the consecutive numbers of one session evenly.
    pub(crate) fn shard(self) -> usize {
        crc32c::crc32c(&self.to_bytes()) as usize % SHARDS
    }
}

impl fmt::Display for SliceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}-{:x}", self.session_uuid, self.n)
    }
}

impl fmt::Debug for SliceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for SliceKey {
    type Err = CacheError;

    /// Reads back exactly what `Display` writes: a file with any other name is not a slice.
    fn from_str(name: &str) -> Result<Self, CacheError> {
        let bad = || CacheError::BadName { name: name.chars().take(80).collect() };
        let (uuid, n) = name.split_once('-').ok_or_else(bad)?;
        let session_uuid = u128::from_str_radix(uuid, 16).map_err(|_| bad())?;
        let n = u64::from_str_radix(n, 16).map_err(|_| bad())?;
        let key = SliceKey { session_uuid, n };
        if key.to_string() == name { Ok(key) } else { Err(bad()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_as_the_same_key() {
        for key in [SliceKey { session_uuid: 0, n: 0 }, SliceKey { session_uuid: u128::MAX, n: u64::MAX }] {
            assert_eq!(key.to_string().parse::<SliceKey>().unwrap(), key);
        }
    }

    #[test]
    fn other_spellings_of_a_name_are_refused() {
        for name in
            ["", "-", "index", "0-0", "+0000000000000000000000000000000-0", &format!("{:032X}-0", u128::MAX)]
        {
            assert!(name.parse::<SliceKey>().is_err(), "{name}");
        }
    }

    #[test]
    fn consecutive_slices_of_a_session_spread_over_all_shards() {
        let mut used = [0; SHARDS];
        (0..SHARDS as u64 * 16).for_each(|n| used[SliceKey { session_uuid: 7, n }.shard()] += 1);
        assert!(used.iter().all(|&n| n > 0 && n < 64));
    }
}
