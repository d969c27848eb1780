//! LEB128 integers and the cursor that every decoder reads through.

use crate::record::DecodeError;
use bytes::Bytes;

/// Appends `v` in 1 to 10 bytes.
pub(crate) fn put_u64(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Appends a signed value, small for small magnitudes.
pub(crate) fn put_i64(out: &mut Vec<u8>, v: i64) {
    put_u64(out, ((v << 1) ^ (v >> 63)) as u64);
}

/// Appends length and bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, b: &[u8]) {
    put_u64(out, b.len() as u64);
    out.extend_from_slice(b);
}

/// Reads a record front to back; every method fails instead of reading past the end.
pub(crate) struct Cursor<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(what: &'static str, rest: &'a [u8]) -> Self {
        Cursor { what, rest }
    }

    pub(crate) fn short(&self) -> DecodeError {
        DecodeError::Truncated { what: self.what }
    }

    pub(crate) fn bad(&self, field: &'static str) -> DecodeError {
        DecodeError::Invalid { what: self.what, field }
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        let (&first, rest) = self.rest.split_first().ok_or_else(|| self.short())?;
        self.rest = rest;
        Ok(first)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        let mut v = 0u64;
        for shift in (0..70).step_by(7) {
            let b = self.u8()?;
            if shift == 63 && b > 1 {
                break;
            }
            v |= u64::from(b & 0x7f) << shift;
            if b < 0x80 {
                return Ok(v);
            }
        }
        Err(self.bad("varint"))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.u64()?).map_err(|_| self.bad("32-bit number"))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, DecodeError> {
        let v = self.u64()?;
        Ok((v >> 1) as i64 ^ -((v & 1) as i64))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.short())?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn bytes(&mut self) -> Result<Bytes, DecodeError> {
        let len = usize::try_from(self.u64()?).map_err(|_| self.short())?;
        if len > self.rest.len() {
            return Err(self.short());
        }
        let (head, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(Bytes::copy_from_slice(head))
    }

    /// Demands the version `known`: an older program must not guess at what a newer one wrote.
    pub(crate) fn version(&mut self, known: u8) -> Result<(), DecodeError> {
        match self.u8()? {
            v if v == known => Ok(()),
            found => Err(DecodeError::Version { what: self.what, found, known }),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn end(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::Trailing { what: self.what, bytes: self.rest.len() })
        }
    }
}
