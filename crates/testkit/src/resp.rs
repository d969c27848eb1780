//! A Redis client of the smallest kind, for tests that look behind the file system's back.
//!
//! It shares no code with the engine under test: a fault in that client cannot hide here.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// What Redis answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// `+OK` and the like.
    Status(String),
    /// `-ERR ...`, without the minus sign.
    Error(String),
    /// An integer.
    Int(i64),
    /// A binary string.
    Bulk(Vec<u8>),
    /// No value.
    Nil,
    /// A list.
    Array(Vec<Reply>),
}

impl Reply {
    /// The answer as text; lists are joined by newlines.
    pub fn text(&self) -> String {
        match self {
            Self::Status(text) | Self::Error(text) => text.clone(),
            Self::Int(number) => number.to_string(),
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Nil => String::new(),
            Self::Array(items) => items.iter().map(Self::text).collect::<Vec<_>>().join("\n"),
        }
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// One connection.
pub struct RespClient {
    stream: BufReader<Box<dyn Stream>>,
}

impl std::fmt::Debug for RespClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RespClient")
    }
}

impl RespClient {
    /// Connects to a port of the loopback address; each call may take `timeout`.
    ///
    /// # Errors
    /// If nobody listens.
    pub fn tcp(port: u16, timeout: Duration) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).context("connect to redis")?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(Box::new(stream)) })
    }

    /// Connects to a Unix socket; each call may take `timeout`.
    ///
    /// # Errors
    /// If nobody listens.
    pub fn unix(path: &Path, timeout: Duration) -> Result<Self> {
        let stream = UnixStream::connect(path).context("connect to redis")?;
        stream.set_read_timeout(Some(timeout))?;
        Ok(Self { stream: BufReader::new(Box::new(stream)) })
    }

    /// Sends one command and reads its answer. An error answer is a [`Reply::Error`], not an `Err`.
    ///
    /// # Errors
    /// If the connection breaks or the answer is not RESP2.
    pub fn call<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Result<Reply> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request)?;
        self.read_reply()
    }

    fn read_reply(&mut self) -> Result<Reply> {
        let line = self.read_line()?;
        let (kind, rest) = line.split_at_checked(1).context("an empty answer from redis")?;
        Ok(match kind {
            "+" => Reply::Status(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Int(rest.parse()?),
            "$" => match rest.parse::<i64>()? {
                length if length < 0 => Reply::Nil,
                length => self.read_bulk(length as usize)?,
            },
            "*" => match rest.parse::<i64>()? {
                length if length < 0 => Reply::Nil,
                length => Reply::Array((0..length).map(|_| self.read_reply()).collect::<Result<_>>()?),
            },
            _ => bail!("unknown answer from redis: {line:?}"),
        })
    }

    fn read_bulk(&mut self, length: usize) -> Result<Reply> {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(Reply::Bulk(bytes))
    }

    fn read_line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            bail!("redis closed the connection");
        }
        Ok(line.trim_end().to_owned())
    }
}
