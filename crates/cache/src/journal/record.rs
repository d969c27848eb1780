//! A record: `crc32c of the rest (4) | payload length (4) | lsn (8) | kind (1) | payload`, little-endian.
//!
//! The checksum goes on from that of the segment's head, which holds random uuids: a payload of a user, however made, is never taken for
//! a record when a reader looks for the next valid one behind damage.

use std::fs::File;
use std::io::{self, IoSlice};

use rustix::io::pwritev;

/// Bytes before the payload.
pub(super) const HEAD_BYTES: usize = 17;

/// Largest payload of a journal record.
pub const MAX_RECORD_BYTES: usize = 16 << 20;

/// Parts given to one system call; Linux takes 1024 (UIO_MAXIOV).
const PARTS_MAX: usize = 1000;

/// The head of a record as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) crc: u32,
    pub(super) len: usize,
    pub(super) lsn: u64,
    pub(super) kind: u8,
}

impl Head {
    /// Reads a head. `None`: no record begins so.
    pub(super) fn decode(bytes: &[u8; HEAD_BYTES]) -> Option<Head> {
        let (crc, rest) = bytes.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let (lsn, rest) = rest.split_first_chunk()?;
        let len = u32::from_le_bytes(*len) as usize;
        (len <= MAX_RECORD_BYTES).then_some(Head {
            crc: u32::from_le_bytes(*crc),
            len,
            lsn: u64::from_le_bytes(*lsn),
            kind: *rest.first()?,
        })
    }

    /// Whether `record`, head and payload, has the checksum that its head says. `seed` is the checksum of the segment's head.
    pub(super) fn matches(&self, record: &[u8], seed: u32) -> bool {
        record.get(4..).is_some_and(|rest| crc32c::crc32c_append(seed, rest) == self.crc)
    }
}

/// Puts the head of a record into `head`.
pub(super) fn encode_head(head: &mut Vec<u8>, seed: u32, kind: u8, lsn: u64, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    head.clear();
    head.extend_from_slice(&[0; 4]);
    head.extend_from_slice(&(len as u32).to_le_bytes());
    head.extend_from_slice(&lsn.to_le_bytes());
    head.push(kind);
    let crc = parts
        .iter()
        .fold(crc32c::crc32c_append(seed, &head[4..]), |crc, part| crc32c::crc32c_append(crc, part));
    head[..4].copy_from_slice(&crc.to_le_bytes());
}

/// Writes a record with one system call, as long as the disk takes it at once.
pub(super) fn write(file: &File, at: u64, head: &[u8], parts: &[&[u8]]) -> io::Result<()> {
    let total = head.len() + parts.iter().map(|part| part.len()).sum::<usize>();
    let written = if parts.len() < PARTS_MAX {
        let mut slices = Vec::with_capacity(parts.len() + 1);
        slices.push(IoSlice::new(head));
        slices.extend(parts.iter().map(|part| IoSlice::new(part)));
        match pwritev(file, &slices, at) {
            Ok(n) if n == total => return Ok(()),
            Ok(n) => n,
            Err(rustix::io::Errno::INTR) => 0,
            Err(e) => return Err(e.into()),
        }
    } else {
        0
    };
    // A short write is rare (the disk just became full, or a signal): the rest in one piece, and its error is the answer.
    let mut whole = Vec::with_capacity(total);
    whole.extend_from_slice(head);
    parts.iter().for_each(|part| whole.extend_from_slice(part));
    super::write_all(file, &whole[written..], at + written as u64)
}
