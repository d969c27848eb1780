//! A real `redis-server` in a temporary directory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::net::free_port;
use crate::process::ServerProcess;
use crate::resp::{Reply, RespClient};
use crate::standby::Standby;
use crate::tools;

const START: Duration = Duration::from_secs(20);
const CALL: Duration = Duration::from_secs(10);

/// How the server is set up. The default: no password, no limit, nothing persisted, TCP.
#[derive(Debug, Clone, Default)]
pub struct RedisOptions {
    /// `requirepass`.
    pub password: Option<String>,
    /// `maxmemory` as Redis spells it, for example `8mb`.
    pub maxmemory: Option<String>,
    /// `maxmemory-policy`; Redis' own default is `noeviction`.
    pub policy: Option<String>,
    /// Appends every command to a file and syncs it (`appendfsync always`), so that `kill` loses nothing.
    pub appendonly: bool,
    /// Listens on a Unix socket only.
    pub unix: bool,
    /// Further arguments, for example `["--hz", "100"]`.
    pub extra: Vec<String>,
}

/// A running server; its data directory lives as long as the guard.
#[derive(Debug)]
pub struct RedisServer {
    options: RedisOptions,
    port: u16,
    dir: TempDir,
    process: ServerProcess,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// If `redis-server` is not installed or does not start; the message has the end of its log.
    pub fn start(options: RedisOptions) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("carafe-redis-").tempdir()?;
        // Another test process may take the port in between: then the server ends at once and another port is tried.
        let mut last = None;
        for _ in 0..3 {
            let port = if options.unix { 0 } else { free_port() };
            match launch(&options, port, dir.path()) {
                Ok(process) => return Ok(Self { options, port, dir, process }),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("three tries failed")).context("start a redis server")
    }

    /// A server with the default options.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_default() -> Result<Self> {
        Self::start(RedisOptions::default())
    }

    /// A server that loses nothing when it is killed.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_durable() -> Result<Self> {
        Self::start(RedisOptions { appendonly: true, ..RedisOptions::default() })
    }

    /// The TCP port; 0 with a Unix socket.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The Unix socket, when the server listens on one.
    pub fn socket(&self) -> PathBuf {
        socket(self.dir.path())
    }

    /// The address as a metadata URL with the given database number, password included.
    pub fn url(&self, database: u8) -> String {
        let user = self.options.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default();
        if self.options.unix {
            return format!("redis+unix://{user}{}?db={database}", self.socket().display());
        }
        format!("redis://{user}127.0.0.1:{}/{database}", self.port)
    }

    /// A new connection, already authenticated.
    ///
    /// # Errors
    /// If the server does not run.
    pub fn client(&self) -> Result<RespClient> {
        connect(&self.options, self.port, self.dir.path())
    }

    /// One command on a new connection.
    ///
    /// # Errors
    /// If the server does not run.
    pub fn command<A: AsRef<[u8]>>(&self, words: &[A]) -> Result<Reply> {
        self.client()?.call(words)
    }

    /// One number of `INFO`, for example `used_memory` or `total_commands_processed`.
    ///
    /// # Errors
    /// If the server does not run or has no such field.
    pub fn info(&self, field: &str) -> Result<u64> {
        let text = self.command(&["INFO", "everything"])?.text();
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value
            .and_then(|value| value.trim().parse().ok())
            .with_context(|| format!("no number {field} in INFO"))
    }

    /// The process.
    pub fn process(&mut self) -> &mut ServerProcess {
        &mut self.process
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts the server again on the same port and data; kills it first if it runs.
    ///
    /// # Errors
    /// If it does not start.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill();
        self.process = launch(&self.options, self.port, self.dir.path()).context("restart a redis server")?;
        Ok(())
    }

    /// Prepares the next process of the server, for [`restart_by`](Self::restart_by).
    ///
    /// # Errors
    /// If no process can be made.
    pub fn standby(&self) -> Result<Standby> {
        Standby::prepare(
            "redis-server",
            &command(&self.options, self.port, self.dir.path())?,
            &log(self.dir.path()),
        )
    }

    /// As [`restart`](Self::restart), without making a process.
    ///
    /// # Errors
    /// If it does not start.
    pub fn restart_by(&mut self, standby: Standby) -> Result<()> {
        self.process.kill();
        self.process = standby.go()?;
        wait(&mut self.process, &self.options, self.port, self.dir.path()).context("restart a redis server")
    }
}

fn launch(options: &RedisOptions, port: u16, dir: &Path) -> Result<ServerProcess> {
    let mut process = ServerProcess::spawn("redis-server", command(options, port, dir)?, &log(dir))?;
    wait(&mut process, options, port, dir)?;
    Ok(process)
}

fn command(options: &RedisOptions, port: u16, dir: &Path) -> Result<Command> {
    let mut command = Command::new(tools::redis_server()?);
    command.args(arguments(options, port, dir)).current_dir(dir);
    Ok(command)
}

fn log(dir: &Path) -> PathBuf {
    dir.join("redis.log")
}

fn wait(process: &mut ServerProcess, options: &RedisOptions, port: u16, dir: &Path) -> Result<()> {
    process.wait_ready(START, || {
        let pong = connect(options, port, dir).and_then(|mut client| client.call(&["PING"]));
        // LOADING is an error answer: the server is up, but not ready.
        matches!(pong, Ok(Reply::Status(_)))
    })
}

fn arguments(options: &RedisOptions, port: u16, dir: &Path) -> Vec<String> {
    let mut arguments: Vec<String> = Vec::new();
    let mut set = |name: &str, value: &str| arguments.extend([format!("--{name}"), value.to_owned()]);
    set("bind", "127.0.0.1");
    set("port", &port.to_string());
    set("dir", &dir.display().to_string());
    set("save", "");
    set("daemonize", "no");
    if options.unix {
        set("unixsocket", &socket(dir).display().to_string());
    }
    if options.appendonly {
        set("appendonly", "yes");
        set("appendfsync", "always");
    }
    if let Some(password) = &options.password {
        set("requirepass", password);
    }
    if let Some(limit) = &options.maxmemory {
        set("maxmemory", limit);
    }
    if let Some(policy) = &options.policy {
        set("maxmemory-policy", policy);
    }
    arguments.extend(options.extra.iter().cloned());
    arguments
}

fn connect(options: &RedisOptions, port: u16, dir: &Path) -> Result<RespClient> {
    let mut client =
        if options.unix { RespClient::unix(&socket(dir), CALL)? } else { RespClient::tcp(port, CALL)? };
    if let Some(password) = &options.password {
        client.call(&["AUTH", password])?;
    }
    Ok(client)
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("redis.sock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durable_server_keeps_its_data_and_port_over_kill_and_restart() {
        let mut redis = RedisServer::start_durable().unwrap();
        let port = redis.port();
        redis.command(&["SET", "a", "1"]).unwrap();
        redis.kill();
        assert!(redis.client().is_err());
        redis.restart().unwrap();
        assert_eq!((redis.port(), redis.command(&["GET", "a"]).unwrap().text()), (port, "1".to_owned()));
    }

    #[test]
    fn password_limit_and_policy_are_in_force() {
        let options = RedisOptions {
            password: Some("s3cret".to_owned()),
            maxmemory: Some("8mb".to_owned()),
            policy: Some("allkeys-lru".to_owned()),
            ..RedisOptions::default()
        };
        let redis = RedisServer::start(options).unwrap();
        assert_eq!(redis.info("maxmemory").unwrap(), 8 << 20);
        let mut stranger = RespClient::tcp(redis.port(), CALL).unwrap();
        assert!(
            matches!(stranger.call(&["GET", "a"]).unwrap(), Reply::Error(text) if text.starts_with("NOAUTH"))
        );
    }

    #[test]
    fn a_server_on_a_unix_socket_has_no_port() {
        let redis = RedisServer::start(RedisOptions { unix: true, ..RedisOptions::default() }).unwrap();
        assert_eq!(redis.command(&["PING"]).unwrap(), Reply::Status("PONG".to_owned()));
        assert!(redis.url(3).starts_with("redis+unix:///"), "{}", redis.url(3));
    }
}
