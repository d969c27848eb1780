//! Lanes: connections on which a thread asks and waits on the spot.
//!
//! On the shared connection an answer reaches its caller by way of two other threads, each of which has to be woken; with a server
//! nearby that takes longer than the server's work. A thread that may wait for a moment ([`carafe_meta::brief`]) takes a lane
//! instead, writes, and blocks until the answer comes. What is subtle:
//!
//! 1. *Not for long.* After [`BRIEF`] the rest of the call is awaited like any other, on the same lane, and lanes rest for
//!    [`REST`]: a server that is far away, or stuck, does not hold up threads that serve.
//! 2. *Few.* Who finds no free lane uses the shared connection.
//! 3. *No order is promised* between lanes and the shared connection. Nothing needs one: who depends on an answer has it before he
//!    asks again, and answers that overtake each other are told apart by their place in the order of commits.
//! 4. *A lane with an answer outstanding is never used again* by somebody else: it comes back with the answer, or is closed.

use bytes::BytesMut;
use parking_lot::Mutex;
use redis::{RedisConnectionInfo, RedisError, RedisResult, Value, ValueCodec};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::codec::Decoder;

/// With more, threads that serve would mostly wait for a server that does one thing at a time.
const LANES: usize = 2;
/// How long a thread waits on the spot. The kernel rounds it up to its tick.
const BRIEF: Duration = Duration::from_millis(2);
/// How long no thread waits after one has waited in vain.
const REST: Duration = Duration::from_secs(1);
/// Room for an answer; most have less than 100 bytes, and the room is zeroed for each.
const READ: usize = 4 << 10;

/// The lanes of one connection to the server.
#[derive(Debug)]
pub(crate) struct Lanes {
    free: Mutex<Free>,
}

#[derive(Debug)]
struct Free {
    lanes: Vec<Lane>,
    rest_until: Option<Instant>,
}

#[derive(Debug)]
enum Socket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// One connection. Between calls nothing is outstanding on it.
struct Lane {
    socket: Socket,
    codec: ValueCodec,
    buffer: BytesMut,
}

/// A call that was not answered at once.
pub(crate) struct Late {
    lane: Lane,
    unsent: Vec<u8>,
}

/// What became of a call on a lane.
pub(crate) enum Spot {
    /// The answer, or what is wrong with the connection.
    Answer(RedisResult<Value>),
    /// It is under way: [`Lanes::finish`].
    Late(Late),
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lane").field(&self.socket).finish()
    }
}

impl Lanes {
    /// No lanes yet.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Lanes { free: Mutex::new(Free { lanes: Vec::new(), rest_until: None }) })
    }

    /// Opens lanes in the background by `connect`, for as long as the connection that they belong to.
    pub(crate) fn open<F>(
        self: &Arc<Self>,
        settings: RedisConnectionInfo,
        connect: impl Fn() -> F + Send + 'static,
    ) where
        F: Future<Output = io::Result<Stream>> + Send,
    {
        let lanes = Arc::downgrade(self);
        tokio::spawn(async move {
            for _ in 0..LANES {
                let made = match connect().await {
                    Ok(stream) => greeted(stream, &settings).await,
                    Err(e) => Err(e.into()),
                };
                let Some(lanes) = lanes.upgrade() else { return };
                match made {
                    Ok(lane) => lanes.free.lock().lanes.push(lane),
                    Err(error) => {
                        tracing::debug!(%error, "no lane to the server; the shared connection serves")
                    }
                }
            }
        });
    }

    /// Sends `request` and waits for a moment. `None` if there is no lane for it.
    pub(crate) fn ask(&self, request: &[u8]) -> Option<Spot> {
        let mut lane = {
            let mut free = self.free.lock();
            if free.rest_until.is_some_and(|until| Instant::now() < until) {
                return None;
            }
            free.rest_until = None;
            free.lanes.pop()?
        };
        let mut unsent = request;
        match lane.exchange(&mut unsent) {
            Ok(Some(value)) => {
                self.free.lock().lanes.push(lane);
                Some(Spot::Answer(Ok(value)))
            }
            Ok(None) => {
                self.free.lock().rest_until = Some(Instant::now() + REST);
                let unsent = unsent.to_vec();
                Some(Spot::Late(Late { lane, unsent }))
            }
            Err(e) => Some(Spot::Answer(Err(e))),
        }
    }

    /// Waits for the answer of a call that was late, at most for `timeout`.
    pub(crate) async fn finish(&self, late: Late, timeout: Duration) -> RedisResult<Value> {
        let Late { mut lane, unsent } = late;
        let silent = |_| RedisError::from(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
        let (value, lane) = tokio::time::timeout(timeout, async move {
            let mut stream = lane.socket.into_stream()?;
            stream.write_all(&unsent).await?;
            let value = answer(&mut stream, &mut lane.codec, &mut lane.buffer).await?;
            lane.socket = stream.into_socket()?;
            RedisResult::Ok((value, lane))
        })
        .await
        .map_err(silent)??;
        self.free.lock().lanes.push(lane);
        Ok(value)
    }
}

impl Lane {
    /// Writes what is unsent and reads the answer. `None` if either has to wait for longer than a moment.
    fn exchange(&mut self, unsent: &mut &[u8]) -> RedisResult<Option<Value>> {
        while !unsent.is_empty() {
            match self.socket.write(unsent) {
                Ok(n) => *unsent = &unsent[n..],
                Err(e) if is_late(&e) => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        loop {
            if let Some(value) = self.codec.decode(&mut self.buffer)? {
                return Ok(Some(value));
            }
            let have = self.buffer.len();
            self.buffer.resize(have + READ, 0);
            let read = self.socket.read(&mut self.buffer[have..]);
            self.buffer.truncate(have + read.as_ref().map_or(0, |n| *n));
            match read {
                Ok(0) => return Err(closed()),
                Ok(_) => {}
                Err(e) if is_late(&e) => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

fn is_late(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn closed() -> RedisError {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server has closed the connection").into()
}

/// A lane whose stream has been told who asks and which database is meant.
async fn greeted(mut stream: Stream, settings: &RedisConnectionInfo) -> RedisResult<Lane> {
    let (mut codec, mut buffer) = (ValueCodec::default(), BytesMut::new());
    let mut greetings = Vec::new();
    if let Some(password) = settings.password() {
        let mut auth = redis::cmd("AUTH");
        auth.arg(settings.username()).arg(password);
        greetings.push(auth);
    }
    if settings.db() != 0 {
        greetings.push(redis::cmd("SELECT").arg(settings.db()).clone());
    }
    for greeting in greetings {
        stream.write_all(&greeting.get_packed_command()).await?;
        answer(&mut stream, &mut codec, &mut buffer).await?.extract_error()?;
    }
    Ok(Lane { socket: stream.into_socket()?, codec, buffer })
}

async fn answer(stream: &mut Stream, codec: &mut ValueCodec, buffer: &mut BytesMut) -> RedisResult<Value> {
    loop {
        if let Some(value) = codec.decode(buffer)? {
            return Ok(value);
        }
        if stream.read_buf(buffer).await? == 0 {
            return Err(closed());
        }
    }
}

/// A socket that is awaited.
pub(crate) enum Stream {
    /// To a host.
    Tcp(tokio::net::TcpStream),
    /// On this machine.
    Unix(tokio::net::UnixStream),
}

impl Stream {
    fn into_socket(self) -> io::Result<Socket> {
        match self {
            Stream::Tcp(stream) => {
                let socket = stream.into_std()?;
                socket.set_nonblocking(false)?;
                socket.set_read_timeout(Some(BRIEF))?;
                socket.set_write_timeout(Some(BRIEF))?;
                Ok(Socket::Tcp(socket))
            }
            Stream::Unix(stream) => {
                let socket = stream.into_std()?;
                socket.set_nonblocking(false)?;
                socket.set_read_timeout(Some(BRIEF))?;
                socket.set_write_timeout(Some(BRIEF))?;
                Ok(Socket::Unix(socket))
            }
        }
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.write_all(bytes).await,
            Stream::Unix(stream) => stream.write_all(bytes).await,
        }
    }

    async fn read_buf(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read_buf(buffer).await,
            Stream::Unix(stream) => stream.read_buf(buffer).await,
        }
    }
}

impl Socket {
    fn into_stream(self) -> RedisResult<Stream> {
        Ok(match self {
            Socket::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                Stream::Tcp(tokio::net::TcpStream::from_std(socket)?)
            }
            Socket::Unix(socket) => {
                socket.set_nonblocking(true)?;
                Stream::Unix(tokio::net::UnixStream::from_std(socket)?)
            }
        })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.write(bytes),
            Socket::Unix(socket) => socket.write(bytes),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(buffer),
            Socket::Unix(socket) => socket.read(buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    /// Lanes to a server that takes its time for each answer, and hangs up on `QUIT`.
    async fn slow_server() -> Arc<Lanes> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut request = [0; 64];
                    while let Ok(n @ 1..) = stream.read(&mut request).await {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        if request[..n].starts_with(b"QUIT") || stream.write_all(b"+OK\r\n").await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        let lanes = Lanes::new();
        lanes.open(RedisConnectionInfo::default(), move || async move {
            Ok(Stream::Tcp(TcpStream::connect(address).await?))
        });
        while lanes.free.lock().lanes.len() < LANES {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        lanes
    }

    async fn late(lanes: &Arc<Lanes>, request: &'static [u8]) -> Late {
        let asking = lanes.clone();
        match tokio::task::spawn_blocking(move || asking.ask(request)).await.unwrap() {
            Some(Spot::Late(late)) => late,
            Some(Spot::Answer(answer)) => panic!("answered on the spot: {answer:?}"),
            None => panic!("no lane"),
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_late_answer_is_awaited_and_its_lane_serves_again() {
        let lanes = slow_server().await;
        for _ in 0..LANES + 1 {
            let late = late(&lanes, b"PING").await;
            assert!(lanes.free.lock().rest_until.take().is_some(), "lanes rest after a late answer");
            assert_eq!(lanes.finish(late, Duration::from_secs(30)).await.unwrap(), Value::Okay);
            assert_eq!(lanes.free.lock().lanes.len(), LANES);
        }
        lanes.free.lock().rest_until = Some(Instant::now() + Duration::from_secs(3600));
        assert!(lanes.ask(b"PING").is_none(), "who rests is not asked");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_lane_whose_answer_never_comes_is_closed() {
        let lanes = slow_server().await;
        let gone = late(&lanes, b"QUIT").await;
        assert!(lanes.finish(gone, Duration::from_secs(30)).await.is_err());
        lanes.free.lock().rest_until = None;
        let silent = late(&lanes, b"PING").await;
        let error = lanes.finish(silent, Duration::from_millis(1)).await.unwrap_err();
        assert!(error.is_io_error(), "{error}");
        assert!(lanes.free.lock().lanes.is_empty());
    }
}
