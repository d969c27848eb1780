//! The extended attributes of one inode, ACLs among them.

use super::DecodeError;
use crate::varint::{Cursor, put_bytes, put_u64};
use bytes::Bytes;
use std::collections::BTreeMap;

const VERSION: u8 = 1;

/// Name to value, in order of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Xattrs(pub BTreeMap<Bytes, Bytes>);

impl Xattrs {
    /// The longest value, as Linux allows (XATTR_SIZE_MAX).
    pub const MAX_VALUE: usize = 65_536;

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_u64(&mut out, self.0.len() as u64);
        for (name, value) in &self.0 {
            put_bytes(&mut out, name);
            put_bytes(&mut out, value);
        }
        out
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`DecodeError`] for anything that [`Xattrs::encode`] cannot have written.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut c = Cursor::new("xattr", bytes);
        c.version(VERSION)?;
        let mut all = BTreeMap::new();
        for _ in 0..c.u64()? {
            all.insert(c.bytes()?, c.bytes()?);
        }
        c.end()?;
        Ok(Xattrs(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_read_back() {
        let x =
            Xattrs([("user.a", "1"), ("user.b", "")].map(|(k, v)| (Bytes::from(k), Bytes::from(v))).into());
        assert_eq!(Xattrs::decode(&x.encode()), Ok(x));
        assert!(Xattrs::decode(&[1, 200]).is_err());
    }
}
