//! Signatures of S3 requests (AWS Signature Version 4, as its public documentation describes it).

use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use super::S3Keys;

const REGION: &str = "us-east-1";

/// The headers that authenticate one request.
pub(super) struct Signed {
    pub(super) date: String,
    pub(super) content_sha256: String,
    pub(super) authorization: String,
}

/// Signs `method path?query` with the body for `host`. Path and query must be percent-encoded already, and the query sorted.
pub(super) fn sign(keys: &S3Keys, host: &str, method: &str, path: &str, query: &str, body: &[u8]) -> Signed {
    let date = timestamp(SystemTime::now());
    let day = &date[..8];
    let content_sha256 = hex(&Sha256::digest(body));
    let names = "host;x-amz-content-sha256;x-amz-date";
    let canonical = format!(
        "{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{content_sha256}\nx-amz-date:{date}\n\n{names}\n{content_sha256}"
    );
    let scope = format!("{day}/{REGION}/s3/aws4_request");
    let to_sign =
        format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let mut key = format!("AWS4{}", keys.secret).into_bytes();
    for part in [day, REGION, "s3", "aws4_request"] {
        key = hmac(&key, part.as_bytes());
    }
    let signature = hex(&hmac(&key, to_sign.as_bytes()));
    let access = &keys.access;
    let authorization =
        format!("AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={names}, Signature={signature}");
    Signed { date, content_sha256, authorization }
}

/// HMAC-SHA256 (RFC 2104) for keys of at most one block of 64 bytes, or longer ones hashed first.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0u8; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let pad = |byte: u8| block.map(|b| b ^ byte);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `20260131T235959Z`.
fn timestamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Year, month and day of a count of days since 1970-01-01.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month as u64 + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn timestamps_know_leap_days() {
        let at = |seconds| timestamp(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "19700101T000000Z");
        assert_eq!(at(951_782_400), "20000229T000000Z");
        assert_eq!(at(1_767_225_599), "20251231T235959Z");
    }

    #[test]
    fn hmac_gives_the_published_answer() {
        // RFC 4231, test case 2.
        let mac = hex(&hmac(b"Jefe", b"what do ya want for nothing?"));
        assert_eq!(mac, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}
