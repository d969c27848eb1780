//! The files of a journal: `<number as 16 hex digits>.journal`, a head, then records.
//!
//! Head, little-endian: `"CARAFEJL" | version (4) | boot id (16) | fs uuid (16) | session uuid (16) | session (8) | generation (8) |
//! life (8) | number (8) | first lsn (8) | crc32c of all before (4)`. *Life* is the number of the first segment that the same `Journal`
//! wrote: each life may end with a torn record, and starts its lsns at 1.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::JournalHeader;
use crate::error::CacheError;

const MAGIC: &[u8; 8] = b"CARAFEJL";
const VERSION: u32 = 1;

/// Bytes of the head.
pub(super) const HEAD_BYTES: usize = 8 + 4 + 3 * 16 + 5 * 8 + 4;

/// A segment that tokens point to.
pub(super) struct Segment {
    pub(super) path: PathBuf,
    /// Tokens held.
    pub(super) live: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) closed: AtomicBool,
}

/// The segment that takes records.
pub(super) struct OpenSegment {
    pub(super) segment: Arc<Segment>,
    pub(super) file: File,
    pub(super) bytes: u64,
    pub(super) life: u64,
    pub(super) seq: u64,
    /// Checksum of its head, from which those of its records go on.
    pub(super) seed: u32,
}

/// The head of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHead {
    pub(super) header: JournalHeader,
    pub(super) life: u64,
    pub(super) seq: u64,
    pub(super) first_lsn: u64,
    /// Checksum of the head.
    pub(super) seed: u32,
}

impl OpenSegment {
    /// Creates segment `seq` with its head.
    pub(super) fn create(
        dir: &Path,
        header: &JournalHeader,
        life: u64,
        seq: u64,
        first_lsn: u64,
    ) -> Result<Self, CacheError> {
        let path = dir.join(format!("{seq:016x}.journal"));
        let (head, seed) = SegmentHead { header: *header, life, seq, first_lsn, seed: 0 }.encode();
        let created = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = created.map_err(|e| CacheError::path("creating", &path, e))?;
        if let Err(e) = super::write_all(&file, &head, 0) {
            // Without its head it would be reported as damage.
            let _best_effort = fs::remove_file(&path);
            return Err(CacheError::path("writing", &path, e));
        }
        let bytes = HEAD_BYTES as u64;
        let segment = Segment {
            path,
            live: AtomicU64::new(0),
            bytes: AtomicU64::new(bytes),
            closed: AtomicBool::new(false),
        };
        Ok(OpenSegment { segment: Arc::new(segment), file, bytes, life, seq, seed })
    }

    pub(super) fn has_records(&self) -> bool {
        self.bytes > HEAD_BYTES as u64
    }
}

impl SegmentHead {
    fn encode(&self) -> (Vec<u8>, u32) {
        let mut out = Vec::with_capacity(HEAD_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        let header = &self.header;
        for uuid in [header.boot_id, header.fs_uuid, header.session_uuid] {
            out.extend_from_slice(&uuid);
        }
        for number in [header.session, header.generation, self.life, self.seq, self.first_lsn] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        (out, crc)
    }

    /// Reads a head, or says why it is none.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let bytes = bytes.get(..HEAD_BYTES).ok_or("it ends within its head")?;
        let (body, crc) = bytes.split_last_chunk().ok_or("it ends within its head")?;
        if !body.starts_with(MAGIC) {
            return Err("it is not a journal segment");
        }
        let seed = u32::from_le_bytes(*crc);
        if seed != crc32c::crc32c(body) {
            return Err("its head is damaged");
        }
        if body[8..12] != VERSION.to_le_bytes() {
            return Err("it was written by another version");
        }
        let uuid = |i: usize| body[12 + i * 16..].first_chunk().copied().unwrap_or_default();
        let number = |i: usize| body[60 + i * 8..].first_chunk().copied().map_or(0, u64::from_le_bytes);
        let header = JournalHeader {
            boot_id: uuid(0),
            fs_uuid: uuid(1),
            session_uuid: uuid(2),
            session: number(0),
            generation: number(1),
        };
        Ok(SegmentHead { header, life: number(2), seq: number(3), first_lsn: number(4), seed })
    }
}

/// The segments in a directory with their numbers, ascending. An absent directory has none.
pub(super) fn list(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut segments = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let number =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".journal"));
        if let Some(seq) = number.filter(|n| n.len() == 16).and_then(|n| u64::from_str_radix(n, 16).ok()) {
            segments.push((seq, path));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_head_is_read_back_and_a_flipped_bit_is_seen(uuid: [u8; 16], n: u64, flip in 0..HEAD_BYTES * 8) {
            let header = JournalHeader { boot_id: uuid, fs_uuid: [2; 16], session_uuid: [3; 16], session: n, generation: 5 };
            let head = SegmentHead { header, life: 6, seq: n, first_lsn: 8, seed: 0 };
            let (mut bytes, seed) = head.encode();
            prop_assert_eq!(SegmentHead::decode(&bytes), Ok(SegmentHead { seed, ..head }));
            bytes[flip / 8] ^= 1 << (flip % 8);
            prop_assert!(SegmentHead::decode(&bytes).is_err());
            prop_assert!(SegmentHead::decode(&bytes[..flip / 8]).is_err());
        }
    }
}
