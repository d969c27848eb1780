//! A TCP proxy on loopback that makes a local server as slow, or as unreliable, as a distant one.
//!
//! Without it a bucket on the same machine answers in under a millisecond and flatters every file system that waits for
//! it. The first byte of each answer is held back for a set time; requests are counted by their first word, which is the verb of
//! HTTP.
//!
//! Neither protocol is parsed. Both HTTP/1.1 (without pipelining) and RESP take turns, so bytes from the client that come after
//! bytes from the server start a new request. The interim answer `100 Continue` is passed on at once: it ends no turn.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// What has passed through the proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests by verb: `GET`, `PUT`, `POST` (multipart and bulk delete), `DELETE`, `HEAD`; `other` for what is not HTTP.
    pub requests: BTreeMap<String, u64>,
    /// Bytes from clients to the server.
    pub bytes_up: u64,
    /// Bytes from the server to clients.
    pub bytes_down: u64,
}

impl Traffic {
    /// How many requests of this verb there were.
    pub fn count(&self, verb: &str) -> u64 {
        self.requests.get(verb).copied().unwrap_or(0)
    }

    /// How many requests there were.
    pub fn total(&self) -> u64 {
        self.requests.values().sum()
    }
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    delay_us: AtomicU64,
    answers_to_lose: AtomicU64,
    traffic: Mutex<Traffic>,
    /// Counts up to end all connections.
    epoch: watch::Sender<u64>,
    /// Nothing is passed on while true.
    stalled: watch::Sender<bool>,
    refusing: AtomicBool,
}

/// A running proxy; dropping it ends its connections.
#[derive(Debug)]
pub struct LatencyProxy {
    port: u16,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

impl LatencyProxy {
    /// Listens on a free loopback port and passes everything on to `target_port` of the loopback address.
    ///
    /// # Errors
    /// If no port can be bound.
    pub fn start(target_port: u16, delay: Duration) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("latency-proxy")
            .enable_all()
            .build()?;
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            target: SocketAddr::from(([127, 0, 0, 1], target_port)),
            delay_us: AtomicU64::new(delay.as_micros() as u64),
            answers_to_lose: AtomicU64::new(0),
            traffic: Mutex::default(),
            epoch: watch::Sender::new(0),
            stalled: watch::Sender::new(false),
            refusing: AtomicBool::new(false),
        });
        // Entered, not blocked on: the caller may itself be inside a runtime.
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        runtime.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { port, shared, runtime: Some(runtime) })
    }

    /// The port that clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address as an HTTP endpoint.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Changes how long the first byte of each answer is held back.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.delay_us.store(delay.as_micros() as u64, Ordering::Relaxed);
    }

    /// What has passed since the start or the last [`reset`](Self::reset).
    pub fn traffic(&self) -> Traffic {
        self.shared.traffic.lock().clone()
    }

    /// Counts from zero again, and returns what was counted.
    pub fn reset(&self) -> Traffic {
        std::mem::take(&mut *self.shared.traffic.lock())
    }

    /// The next `count` answers are lost: the server has carried the request out, and the client's connection breaks.
    pub fn lose_answers(&self, count: u64) {
        self.shared.answers_to_lose.store(count, Ordering::Relaxed);
    }

    /// Ends all connections; new ones are accepted.
    pub fn break_connections(&self) {
        self.shared.epoch.send_modify(|epoch| *epoch += 1);
    }

    /// While true, connections stay open and nothing passes: a network that drops packets.
    pub fn stall(&self, stalled: bool) {
        self.shared.stalled.send_replace(stalled);
    }

    /// While true, new connections are closed at once and the old ones are ended: a server that is down.
    pub fn refuse(&self, refusing: bool) {
        self.shared.refusing.store(refusing, Ordering::Relaxed);
        if refusing {
            self.break_connections();
        }
    }
}

impl Drop for LatencyProxy {
    fn drop(&mut self) {
        // A runtime may not be dropped inside another one by waiting for it, as an async test would do.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        if !shared.refusing.load(Ordering::Relaxed) {
            tokio::spawn(serve(client, Arc::clone(&shared)));
        }
    }
}

/// One connection, until one side closes it or all are broken.
async fn serve(client: TcpStream, shared: Arc<Shared>) {
    let mut epoch = shared.epoch.subscribe();
    let Ok(server) = TcpStream::connect(shared.target).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    let waiting = AtomicBool::new(false);
    tokio::select! {
        () = async {
            tokio::join!(
                pump_requests(client_read, server_write, &shared, &waiting),
                pump_answers(server_read, client_write, &shared, &waiting),
            );
        } => {}
        _ = epoch.changed() => {}
    }
}

/// Passes bytes to the server. `waiting` is true from a request's first byte until its answer begins.
async fn pump_requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    waiting: &AtomicBool,
) {
    let mut buffer = vec![0; 256 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        shared.pass().await;
        let begins = !waiting.swap(true, Ordering::AcqRel);
        shared.count_up(&buffer[..length], begins);
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

/// Passes bytes to the client, the first of each answer after the delay.
async fn pump_answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    waiting: &AtomicBool,
) {
    let mut buffer = vec![0; 256 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        shared.pass().await;
        let bytes = &buffer[..length];
        if waiting.load(Ordering::Acquire) && !bytes.starts_with(b"HTTP/1.1 100") {
            if shared.loses_answer() {
                // Half-closing is not enough: the client must see its connection end.
                shared.epoch.send_modify(|epoch| *epoch += 1);
                return;
            }
            tokio::time::sleep(Duration::from_micros(shared.delay_us.load(Ordering::Relaxed))).await;
            waiting.store(false, Ordering::Release);
        }
        shared.traffic.lock().bytes_down += length as u64;
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

impl Shared {
    async fn pass(&self) {
        if *self.stalled.borrow() {
            let _ = self.stalled.subscribe().wait_for(|stalled| !stalled).await;
        }
    }

    fn loses_answer(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        self.answers_to_lose.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    fn count_up(&self, bytes: &[u8], begins: bool) {
        let mut traffic = self.traffic.lock();
        traffic.bytes_up += bytes.len() as u64;
        if begins {
            *traffic.requests.entry(verb(bytes)).or_default() += 1;
        }
    }
}

fn verb(request: &[u8]) -> String {
    let word: Vec<u8> = request.iter().copied().take_while(u8::is_ascii_uppercase).take(8).collect();
    match String::from_utf8(word) {
        Ok(word) if word.len() >= 3 && request.get(word.len()) == Some(&b' ') => word,
        _ => "other".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::redis::RedisServer;
    use crate::resp::RespClient;

    #[test]
    fn each_answer_comes_later_by_the_delay_and_is_counted() {
        let redis = RedisServer::start_default().unwrap();
        let proxy = LatencyProxy::start(redis.port(), Duration::from_millis(20)).unwrap();
        let mut client = RespClient::tcp(proxy.port(), Duration::from_secs(5)).unwrap();
        let start = Instant::now();
        for _ in 0..5 {
            client.call(&["PING"]).unwrap();
        }
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(100) && took < Duration::from_millis(400), "{took:?}");
        assert_eq!(proxy.traffic().count("other"), 5);
    }

    #[test]
    fn a_lost_answer_breaks_the_connection_after_the_server_has_acted() {
        let redis = RedisServer::start_default().unwrap();
        let proxy = LatencyProxy::start(redis.port(), Duration::ZERO).unwrap();
        let mut client = RespClient::tcp(proxy.port(), Duration::from_secs(5)).unwrap();
        proxy.lose_answers(1);
        assert!(client.call(&["SET", "a", "1"]).is_err());
        assert_eq!(redis.command(&["GET", "a"]).unwrap().text(), "1");
        assert!(RespClient::tcp(proxy.port(), Duration::from_secs(5)).unwrap().call(&["PING"]).is_ok());
    }

    #[test]
    fn a_stalled_proxy_answers_when_it_goes_on() {
        let redis = RedisServer::start_default().unwrap();
        let proxy = LatencyProxy::start(redis.port(), Duration::ZERO).unwrap();
        let mut client = RespClient::tcp(proxy.port(), Duration::from_millis(200)).unwrap();
        proxy.stall(true);
        assert!(client.call(&["PING"]).is_err());
        proxy.stall(false);
        let mut client = RespClient::tcp(proxy.port(), Duration::from_secs(5)).unwrap();
        assert!(client.call(&["PING"]).is_ok());
    }

    #[test]
    fn verbs_are_known_by_the_first_word() {
        assert_eq!(verb(b"PUT /a HTTP/1.1\r\n"), "PUT");
        assert_eq!(verb(b"DELETE /a HTTP/1.1\r\n"), "DELETE");
        assert_eq!(verb(b"*1\r\n$4\r\nPING\r\n"), "other");
        assert_eq!(verb(b""), "other");
    }
}
