//! A small S3 client for tests that look into the bucket, or damage it, behind the file system's back.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::S3Keys;
use super::sign::sign;

/// Answers longer than this are an error: the client holds them in memory.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// Signed requests to one S3 server on loopback, one connection each.
#[derive(Debug, Clone)]
pub struct S3Client {
    port: u16,
    keys: S3Keys,
}

/// Status and body of an answer.
struct Answer {
    status: u16,
    body: Vec<u8>,
}

impl S3Client {
    /// A client for the server on this port.
    pub fn new(port: u16, keys: S3Keys) -> Self {
        Self { port, keys }
    }

    /// Creates a bucket; one that exists already is fine.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn create_bucket(&self, bucket: &str) -> Result<()> {
        let answer = self.request("PUT", &format!("/{bucket}"), "", b"")?;
        let text = String::from_utf8_lossy(&answer.body);
        let exists = answer.status == 409 && text.contains("BucketAlready");
        ensure!(answer.status == 200 || exists, "create bucket {bucket}: {} {text}", answer.status);
        Ok(())
    }

    /// Writes an object.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn put(&self, bucket: &str, key: &str, body: &[u8]) -> Result<()> {
        self.expect_ok("PUT", &object_path(bucket, key), "", body).map(drop)
    }

    /// Reads an object.
    ///
    /// # Errors
    /// If it does not exist or the server refuses.
    pub fn get(&self, bucket: &str, key: &str) -> Result<Vec<u8>> {
        self.expect_ok("GET", &object_path(bucket, key), "", b"")
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn delete(&self, bucket: &str, key: &str) -> Result<()> {
        self.expect_ok("DELETE", &object_path(bucket, key), "", b"").map(drop)
    }

    /// Keys and sizes in bytes of all objects under a prefix.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn list(&self, bucket: &str, prefix: &str) -> Result<BTreeMap<String, u64>> {
        let mut objects = BTreeMap::new();
        let mut token: Option<String> = None;
        loop {
            let more = token.map(|token| format!("continuation-token={}&", encode(&token, false)));
            let query = format!("{}list-type=2&prefix={}", more.unwrap_or_default(), encode(prefix, false));
            let body = self.expect_ok("GET", &format!("/{bucket}"), &query, b"")?;
            let text = String::from_utf8(body)?;
            for entry in text.split("<Contents>").skip(1) {
                let key = element(entry, "Key").context("an entry without a key")?;
                let size = element(entry, "Size").and_then(|size| size.parse().ok()).unwrap_or(0);
                objects.insert(key, size);
            }
            token = element(&text, "NextContinuationToken").filter(|_| text.contains("<IsTruncated>true"));
            if token.is_none() {
                return Ok(objects);
            }
        }
    }

    fn expect_ok(&self, method: &str, path: &str, query: &str, body: &[u8]) -> Result<Vec<u8>> {
        let answer = self.request(method, path, query, body)?;
        let fine = (200..300).contains(&answer.status);
        ensure!(fine, "{method} {path}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
        Ok(answer.body)
    }

    fn request(&self, method: &str, path: &str, query: &str, body: &[u8]) -> Result<Answer> {
        let host = format!("127.0.0.1:{}", self.port);
        let signed = sign(&self.keys, &host, method, path, query, body);
        let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nx-amz-date: {}\r\nx-amz-content-sha256: {}\r\nAuthorization: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            signed.date,
            signed.content_sha256,
            signed.authorization,
            body.len()
        );
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).context("connect to the s3 server")?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let mut raw = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut raw)?;
        parse(&raw)
    }
}

fn parse(raw: &[u8]) -> Result<Answer> {
    let end = raw.windows(4).position(|window| window == b"\r\n\r\n").context("an answer without a head")?;
    let head = String::from_utf8_lossy(&raw[..end]).to_ascii_lowercase();
    let status = head.split_whitespace().nth(1).context("an answer without a status")?.parse()?;
    let body = &raw[end + 4..];
    let body = if head.contains("transfer-encoding: chunked") { unchunk(body)? } else { body.to_vec() };
    Ok(Answer { status, body })
}

fn unchunk(mut raw: &[u8]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = raw.windows(2).position(|window| window == b"\r\n").context("a chunk without a length")?;
        let length = usize::from_str_radix(std::str::from_utf8(&raw[..line])?.trim(), 16)?;
        if length == 0 {
            return Ok(body);
        }
        let Some(chunk) = raw.get(line + 2..line + 2 + length) else { bail!("a chunk is cut short") };
        body.extend_from_slice(chunk);
        raw = raw.get(line + 4 + length..).unwrap_or_default();
    }
}

fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once(&format!("</{name}>"))?;
    Some(value.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">").replace("&#34;", "\""))
}

fn object_path(bucket: &str, key: &str) -> String {
    format!("/{bucket}/{}", encode(key, true))
}

fn encode(text: &str, keep_slash: bool) -> String {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || (keep_slash && byte == b'/');
    text.bytes().map(|b| if plain(b) { (b as char).to_string() } else { format!("%{b:02X}") }).collect()
}
