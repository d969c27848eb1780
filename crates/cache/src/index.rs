//! Records of the index: what survives a restart about clean slices.
//!
//! A record is `crc32c of the rest (4) | length of the body (2) | body`, little-endian. Bodies start with a kind and the slice's key:
//!
//! * `Frames`: length of the slice (all ones: unknown), segment, mask of frames, then their checksums. Adds to what was known.
//! * `Gone`: segment, mask of frames that are here no more.
//! * `Removed`: the whole slice.
//!
//! Bytes read back are not trusted: a body has at most 301 bytes, and nothing is allocated by what a length says.

use crate::frames::{MAX_SLICE_BYTES, SEGMENT_BYTES, bits, frames_in, low_bits};
use crate::key::SliceKey;

/// `crc | length`.
const HEAD: usize = 6;

/// Kind, key, length, segment, mask and 64 checksums.
const BODY_MAX: usize = 1 + 24 + 8 + 4 + 8 + 64 * 4;

const FRAMES: u8 = 1;
const GONE: u8 = 2;
const REMOVED: u8 = 3;

/// A change of what is known about a clean slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: SliceKey,
    pub(crate) change: Change,
}

/// The change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Frames are here, with these checksums in the order of the bits.
    Frames { len: Option<u64>, segment: u32, mask: u64, crcs: Vec<u32> },
    /// Frames are not here any more.
    Gone { segment: u32, mask: u64 },
    /// Nothing is here any more.
    Removed,
}

impl Record {
    /// Appends the encoded record.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; HEAD]);
        match &self.change {
            Change::Frames { len, segment, mask, crcs } => {
                out.push(FRAMES);
                out.extend_from_slice(&self.key.to_bytes());
                out.extend_from_slice(&len.unwrap_or(u64::MAX).to_le_bytes());
                out.extend_from_slice(&segment.to_le_bytes());
                out.extend_from_slice(&mask.to_le_bytes());
                crcs.iter().for_each(|crc| out.extend_from_slice(&crc.to_le_bytes()));
            }
            Change::Gone { segment, mask } => {
                out.push(GONE);
                out.extend_from_slice(&self.key.to_bytes());
                out.extend_from_slice(&segment.to_le_bytes());
                out.extend_from_slice(&mask.to_le_bytes());
            }
            Change::Removed => {
                out.push(REMOVED);
                out.extend_from_slice(&self.key.to_bytes());
            }
        }
        let body = (out.len() - start - HEAD) as u16;
        out[start + 4..start + HEAD].copy_from_slice(&body.to_le_bytes());
        let crc = crc32c::crc32c(&out[start + 4..]);
        out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads the record at the start of `bytes` and its encoded length. `None`: torn or damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Record, usize)> {
        let body_len = u16::from_le_bytes(*bytes.get(4..)?.first_chunk()?) as usize;
        if body_len > BODY_MAX {
            return None;
        }
        let crc = u32::from_le_bytes(*bytes.first_chunk()?);
        if crc32c::crc32c(bytes.get(4..HEAD + body_len)?) != crc {
            return None;
        }
        let mut body = Body(bytes.get(HEAD..HEAD + body_len)?);
        let kind = body.take::<1>()?[0];
        let uuid = u128::from_be_bytes(body.take()?);
        let key = SliceKey { session_uuid: uuid, n: u64::from_be_bytes(body.take()?) };
        let change = match kind {
            FRAMES => body.frames()?,
            GONE => Change::Gone { segment: body.segment()?, mask: body.u64()? },
            REMOVED => Change::Removed,
            _ => return None,
        };
        body.0.is_empty().then_some((Record { key, change }, HEAD + body_len))
    }
}

/// The rest of a body.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn segment(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes).filter(|&n| u64::from(n) < MAX_SLICE_BYTES / SEGMENT_BYTES)
    }

    fn frames(&mut self) -> Option<Change> {
        let len = Some(self.u64()?).filter(|&len| len != u64::MAX);
        let (segment, mask) = (self.segment()?, self.u64()?);
        let room = low_bits(frames_in(segment, len) as u64);
        if len.is_some_and(|len| len > MAX_SLICE_BYTES) || mask & !room != 0 {
            return None;
        }
        let crcs = bits(mask).map(|_| self.take().map(u32::from_le_bytes)).collect::<Option<_>>()?;
        Some(Change::Frames { len, segment, mask, crcs })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn records() -> impl Strategy<Value = Record> {
        let frames =
            (any::<bool>(), 0u32..100, any::<u64>(), any::<u32>()).prop_map(|(known, segment, mask, crc)| {
                let len = known.then_some(200 * SEGMENT_BYTES);
                let crcs = bits(mask).map(|bit| crc ^ bit).collect();
                Change::Frames { len, segment, mask, crcs }
            });
        let gone = (0u32..100, any::<u64>()).prop_map(|(segment, mask)| Change::Gone { segment, mask });
        let change = prop_oneof![frames, gone, Just(Change::Removed)];
        (any::<u128>(), any::<u64>(), change)
            .prop_map(|(session_uuid, n, change)| Record { key: SliceKey { session_uuid, n }, change })
    }

    proptest! {
        #[test]
        fn a_record_is_read_back_whole_and_never_in_part(record in records(), flip in any::<prop::sample::Index>()) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let whole = bytes.len();
            prop_assert_eq!(Record::decode(&bytes), Some((record, whole)));
            prop_assert_eq!(Record::decode(&bytes[..flip.index(whole)]), None);
            bytes[flip.index(whole)] ^= 1;
            prop_assert_eq!(Record::decode(&bytes), None);
        }

        #[test]
        fn any_bytes_are_decoded_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _either = Record::decode(&bytes);
            // The same with a right checksum, so that the body is looked at.
            let mut framed = vec![0; 4];
            framed.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
            framed.extend_from_slice(&bytes);
            let crc = crc32c::crc32c(&framed[4..]);
            framed[..4].copy_from_slice(&crc.to_le_bytes());
            let _either = Record::decode(&framed);
        }
    }
}
