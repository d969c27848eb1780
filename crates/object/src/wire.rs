//! Reading little-endian fields from bytes that may be anything: every step may end early, none panics.

/// A cursor over untrusted bytes.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The next `N` bytes, or nothing if fewer are left.
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    /// The next `n` bytes, not copied.
    pub(crate) fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[b]| b)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Length of the part of a trailer that no version moves: length, version, checksum and magic.
const SEAL: usize = 16;

/// Appends the end that all trailers share to `body`: its total length, `version`, the crc32c of all before, `magic`.
///
/// They stand at the *end*, so that a reader who holds the tail of an object finds them without knowing the version.
pub(crate) fn seal_trailer(mut body: Vec<u8>, version: u16, magic: [u8; 8]) -> Vec<u8> {
    let length = u16::try_from(body.len() + SEAL).expect("trailers are far smaller than 64 KiB");
    body.extend_from_slice(&length.to_le_bytes());
    body.extend_from_slice(&version.to_le_bytes());
    body.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
    body.extend_from_slice(&magic);
    body
}

/// Why a trailer was not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadTrailer {
    /// What is wrong with it.
    Corrupt(&'static str),
    /// It is whole (or too long to tell), with this version.
    Future(u16),
}

/// The counterpart of [`seal_trailer`]: the body of the trailer at the end of `tail`, `length` bytes in all.
pub(crate) fn open_trailer(
    tail: &[u8],
    length: usize,
    version: u16,
    magic: [u8; 8],
) -> Result<&[u8], BadTrailer> {
    let seal = tail.last_chunk::<SEAL>().ok_or(BadTrailer::Corrupt("too short for a trailer"))?;
    let mut fields = Reader::new(seal);
    let (Some(found_length), Some(found), Some(crc), Some(found_magic)) =
        (fields.u16(), fields.u16(), fields.u32(), fields.array::<8>())
    else {
        return Err(BadTrailer::Corrupt("too short for a trailer"));
    };
    if found_magic != magic {
        return Err(BadTrailer::Corrupt("no trailer of this kind at the end"));
    }
    let found_length = usize::from(found_length);
    if found == version && found_length != length {
        return Err(BadTrailer::Corrupt("the trailer states a wrong length"));
    }
    let Some(start) = tail.len().checked_sub(found_length).filter(|_| found_length >= SEAL) else {
        return Err(if found > version {
            BadTrailer::Future(found)
        } else {
            BadTrailer::Corrupt("the trailer is cut off")
        });
    };
    // The checksum and the magic are the last 12 bytes.
    let checked = &tail[start..tail.len() - 12];
    if crc32c::crc32c(checked) != crc {
        return Err(BadTrailer::Corrupt("the checksum of the trailer does not match"));
    }
    match found {
        v if v == version => Ok(&tail[start..tail.len() - SEAL]),
        v if v > version => Err(BadTrailer::Future(v)),
        _ => Err(BadTrailer::Corrupt("the trailer has a version that never was")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: [u8; 8] = *b"testing!";

    #[test]
    fn a_trailer_is_found_at_the_end_of_any_tail() {
        let sealed = seal_trailer(b"body".to_vec(), 1, MAGIC);
        let tail = [b"before".as_slice(), &sealed].concat();
        assert_eq!(open_trailer(&tail, 20, 1, MAGIC), Ok(b"body".as_slice()));
    }

    #[test]
    fn a_longer_trailer_of_a_later_version_is_told_from_damage() {
        let sealed = seal_trailer(vec![7; 100], 2, MAGIC);
        assert_eq!(open_trailer(&sealed, 20, 1, MAGIC), Err(BadTrailer::Future(2)));
        assert_eq!(open_trailer(&sealed[50..], 20, 1, MAGIC), Err(BadTrailer::Future(2)));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let sealed = seal_trailer(b"body".to_vec(), 1, MAGIC);
        for bit in 0..sealed.len() * 8 {
            let mut bad = sealed.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(open_trailer(&bad, 20, 1, MAGIC).is_err(), "bit {bit}");
        }
        for cut in 1..=sealed.len() {
            assert!(open_trailer(&sealed[cut..], 20, 1, MAGIC).is_err());
            assert!(open_trailer(&sealed[..sealed.len() - cut], 20, 1, MAGIC).is_err());
        }
    }
}
