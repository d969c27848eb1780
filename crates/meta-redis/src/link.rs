//! One connection that all calls share, made again when it breaks.
//!
//! The crate's own connection manager would hide what matters here: whether a request may have been carried out. A call
//! that met a broken connection is sent again and says so ([`Sent::again`]), so that a commit can ask for the reply that
//! the server has kept.

use crate::driver::Driver;
use crate::fault::Fault;
use crate::lane::{Lanes, Spot, Stream};
use crate::script::Request;
use crate::target::{Patience, Target};
use carafe_meta::brief;
use carafe_meta::store::StoreError;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ConnectionAddr, Pipeline, RedisError, RedisResult, Value};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_secs(1);

struct Current {
    epoch: u64,
    connection: Option<Connection>,
}

/// A queue of requests to the server, who empties it, and lanes beside it. Under TLS the crate's own task empties it, and there are
/// no lanes.
#[derive(Clone)]
struct Connection {
    queue: MultiplexedConnection,
    driver: Option<Arc<Driver>>,
    lanes: Option<Arc<Lanes>>,
}

impl Connection {
    /// The result of `call`, a request through the queue.
    async fn carry<T>(driver: Option<Arc<Driver>>, call: impl Future<Output = T>) -> T {
        match driver {
            Some(driver) => driver.carry(call).await,
            None => call.await,
        }
    }
}

/// The connection to the server.
pub(crate) struct Link {
    pub(crate) target: Target,
    pub(crate) patience: Patience,
    current: Mutex<Current>,
    connecting: tokio::sync::Mutex<()>,
}

/// An answer, and what it took.
pub(crate) struct Sent {
    pub(crate) value: Result<Value, StoreError>,
    /// An earlier copy of the request may have been carried out, or may yet be.
    pub(crate) again: bool,
}

/// The times within which one call is tried.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) response: Duration,
    pub(crate) unreachable: Duration,
    pub(crate) refusing: Duration,
}

/// Pauses between tries, growing.
struct Pauses {
    start: Instant,
    next: Duration,
}

impl Pauses {
    fn new() -> Self {
        Pauses { start: Instant::now(), next: FIRST_PAUSE }
    }

    /// Waits, or says that the time is over.
    async fn pause(&mut self, limit: Duration) -> bool {
        if self.start.elapsed() + self.next > limit {
            return false;
        }
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(LAST_PAUSE);
        true
    }
}

impl Link {
    pub(crate) fn new(target: Target, patience: Patience) -> Self {
        let current = Mutex::new(Current { epoch: 0, connection: None });
        Link { target, patience, current, connecting: tokio::sync::Mutex::new(()) }
    }

    /// As patient as the options say.
    pub(crate) fn usual(&self) -> Limits {
        let Patience { response, unreachable, refusing, .. } = self.patience;
        Limits { response, unreachable, refusing }
    }

    /// For questions that a person or a lease waits for.
    pub(crate) fn brief(&self, limit: Duration) -> Limits {
        let Limits { response, unreachable, refusing } = self.usual();
        Limits {
            response: response.min(limit),
            unreachable: unreachable.min(limit),
            refusing: refusing.min(limit),
        }
    }

    /// Runs a script.
    pub(crate) async fn run(&self, request: &Request) -> Result<Value, StoreError> {
        self.send(request, self.usual(), |_| None).await.value
    }

    /// Runs a script within `limits`. When it has to be sent again after a broken connection, `resent` may give a request
    /// that says so.
    pub(crate) async fn send(
        &self,
        request: &Request,
        limits: Limits,
        resent: impl Fn(&Request) -> Option<Request>,
    ) -> Sent {
        let mut again = false;
        let mut changed: Option<Request> = None;
        let mut whole = false;
        let mut pauses = Pauses::new();
        loop {
            let current = changed.as_ref().unwrap_or(request);
            let fault = match self.once(&current.command(whole), limits.response).await {
                Ok(value) => return Sent { value: Ok(value), again },
                Err(fault) => fault,
            };
            let give_up = match fault {
                Fault::NoScript if !whole => {
                    whole = true;
                    continue;
                }
                Fault::NoScript => Some(StoreError::Engine("the server keeps no scripts".to_owned())),
                Fault::Final(error) => Some(error),
                Fault::Refusing(reason) => {
                    (!pauses.pause(limits.refusing).await).then_some(StoreError::Refusing(reason))
                }
                Fault::Broken(reason) => {
                    again = true;
                    changed = resent(request).or(changed);
                    let address = self.target.address.clone();
                    (!pauses.pause(limits.unreachable).await)
                        .then_some(StoreError::Unreachable { address, reason })
                }
            };
            if let Some(error) = give_up {
                return Sent { value: Err(error), again };
            }
        }
    }

    /// Runs a plain command that may be repeated.
    pub(crate) async fn command(&self, cmd: &Cmd, limits: Limits) -> Result<Value, StoreError> {
        let mut pauses = Pauses::new();
        loop {
            match self.once(cmd, limits.response).await {
                Ok(value) => return Ok(value),
                Err(fault) => self.again(fault, &mut pauses, limits).await?,
            }
        }
    }

    /// Runs plain commands that may be repeated, in one round trip.
    pub(crate) async fn pipeline(&self, pipe: &Pipeline, count: usize) -> Result<Vec<Value>, StoreError> {
        let limits = self.usual();
        let mut pauses = Pauses::new();
        loop {
            match self.once_all(pipe, count, limits.response).await {
                Ok(values) => return Ok(values),
                Err(fault) => self.again(fault, &mut pauses, limits).await?,
            }
        }
    }

    async fn again(&self, fault: Fault, pauses: &mut Pauses, limits: Limits) -> Result<(), StoreError> {
        let (limit, error) = match fault {
            Fault::Final(error) => return Err(error),
            Fault::NoScript => return Err(StoreError::Engine("a plain command needs no script".to_owned())),
            Fault::Refusing(reason) => (limits.refusing, StoreError::Refusing(reason)),
            Fault::Broken(reason) => {
                let address = self.target.address.clone();
                (limits.unreachable, StoreError::Unreachable { address, reason })
            }
        };
        if pauses.pause(limit).await { Ok(()) } else { Err(error) }
    }

    async fn once(&self, cmd: &Cmd, timeout: Duration) -> Result<Value, Fault> {
        let (epoch, Connection { mut queue, driver, lanes }) = self.connection().await?;
        let lanes = lanes.filter(|_| brief::is_allowed());
        let asked = lanes.and_then(|lanes| lanes.ask(&cmd.get_packed_command()).map(|spot| (lanes, spot)));
        let result = match asked {
            Some((_, Spot::Answer(result))) => result,
            Some((lanes, Spot::Late(late))) => lanes.finish(late, timeout).await,
            None => {
                queue.set_response_timeout(timeout);
                Connection::carry(driver, queue.send_packed_command(cmd)).await
            }
        };
        let result = result.and_then(Value::extract_error);
        result.map_err(|e| self.settle(epoch, &e))
    }

    async fn once_all(&self, pipe: &Pipeline, count: usize, timeout: Duration) -> Result<Vec<Value>, Fault> {
        let (epoch, Connection { mut queue, driver, .. }) = self.connection().await?;
        queue.set_response_timeout(timeout);
        let result = Connection::carry(driver, queue.send_packed_commands(pipe, 0, count)).await;
        let result = result.and_then(|values| values.into_iter().map(Value::extract_error).collect());
        result.map_err(|e| self.settle(epoch, &e))
    }

    fn settle(&self, epoch: u64, error: &RedisError) -> Fault {
        let fault = Fault::of(error, &self.target.address);
        // After a failover the same address may lead to the new primary, by a new connection only.
        if matches!(fault, Fault::Broken(_)) || error.code() == Some("READONLY") {
            self.discard(epoch);
        }
        fault
    }

    fn discard(&self, epoch: u64) {
        let mut current = self.current.lock();
        if current.epoch == epoch {
            current.connection = None;
        }
    }

    fn standing(&self) -> Option<(u64, Connection)> {
        let current = self.current.lock();
        current.connection.as_ref().map(|c| (current.epoch, c.clone()))
    }

    async fn connection(&self) -> Result<(u64, Connection), Fault> {
        if let Some(standing) = self.standing() {
            return Ok(standing);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(standing) = self.standing() {
            return Ok(standing);
        }
        let made = self.connect().await.map_err(|e| Fault::of(&e, &self.target.address))?;
        let mut current = self.current.lock();
        current.epoch += 1;
        current.connection = Some(made.clone());
        Ok((current.epoch, made))
    }

    async fn connect(&self) -> RedisResult<Connection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.patience.connect))
            .set_response_timeout(Some(self.patience.response));
        let client = &self.target.client;
        let address = client.get_connection_info().addr().clone();
        let made = async {
            match reach(&address).await? {
                Some(Stream::Tcp(stream)) => self.over(stream, config).await,
                Some(Stream::Unix(stream)) => self.over(stream, config).await,
                None => {
                    let queue = client.get_multiplexed_async_connection_with_config(&config).await?;
                    Ok(Connection { queue, driver: None, lanes: None })
                }
            }
        };
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the connection is not made in time");
        tokio::time::timeout(self.patience.connect, made).await.map_err(late)?
    }

    async fn over<S>(&self, stream: S, config: AsyncConnectionConfig) -> RedisResult<Connection>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let info = self.target.client.get_connection_info();
        let settings = info.redis_settings();
        let (queue, work) = MultiplexedConnection::new_with_config(settings, stream, config).await?;
        let lanes = Lanes::new();
        let address = info.addr().clone();
        lanes.open(settings.clone(), move || {
            let address = address.clone();
            async move { reach(&address).await?.ok_or_else(|| io::Error::other("no plain connection")) }
        });
        Ok(Connection { queue, driver: Some(Driver::start(work)), lanes: Some(lanes) })
    }
}

/// A plain connection to `address`; `None` where TLS is wanted.
async fn reach(address: &ConnectionAddr) -> io::Result<Option<Stream>> {
    Ok(match address {
        ConnectionAddr::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            Some(Stream::Tcp(stream))
        }
        ConnectionAddr::Unix(path) => Some(Stream::Unix(UnixStream::connect(path).await?)),
        _ => None,
    })
}
