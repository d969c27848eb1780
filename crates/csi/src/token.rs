//! List tokens: where a listing goes on.
//!
//! A token is `base64url(version, file system uuid, last id, crc32c)`. It names the last entry that was told, not a
//! position, so that volumes created or deleted between two pages neither repeat nor hide others. It is no secret and
//! needs no memory here; the checksum only tells a mistyped token from a real one.

use crate::error::CsiError;
use data_encoding::BASE64URL_NOPAD;
use uuid::Uuid;

const VERSION: u8 = 1;
/// Version, uuid, checksum.
const FRAME: usize = 1 + 16 + 4;

/// The last entry of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListToken {
    /// File systems are listed in the order of their uuid.
    pub(crate) fs: Uuid,
    /// The last volume id of the page.
    pub(crate) last: String,
}

impl ListToken {
    pub(crate) fn encode(&self) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(self.fs.as_bytes());
        bytes.extend_from_slice(self.last.as_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        BASE64URL_NOPAD.encode(&bytes)
    }

    pub(crate) fn decode(text: &str) -> Result<Self, CsiError> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| CsiError::BadToken)?;
        if bytes.len() < FRAME || bytes[0] != VERSION {
            return Err(CsiError::BadToken);
        }
        let (body, sum) = bytes.split_at(bytes.len() - 4);
        if crc32c::crc32c(body).to_le_bytes() != sum {
            return Err(CsiError::BadToken);
        }
        let fs = Uuid::from_slice(&body[1..17]).map_err(|_| CsiError::BadToken)?;
        let last = String::from_utf8(body[17..].to_vec()).map_err(|_| CsiError::BadToken)?;
        Ok(Self { fs, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_token_reads_back(fs: u128, last in ".{0,64}") {
            let token = ListToken { fs: Uuid::from_u128(fs), last };
            prop_assert_eq!(ListToken::decode(&token.encode()).unwrap(), token);
        }

        #[test]
        fn any_other_text_is_refused(text in ".{0,80}") {
            prop_assert!(matches!(ListToken::decode(&text), Err(CsiError::BadToken)));
        }
    }
}
