//! A real S3 server: SeaweedFS with master, volume server, filer and S3 gateway in one process.
//!
//! Its defaults suit a data centre, so four things are told otherwise: volumes are small and not preallocated, nothing reports to
//! anybody outside, every port and socket is its own (two tests run side by side), and a bucket is not made by the first upload
//! (a test of "the bucket is missing" needs it to be missing).

mod client;
mod sign;

pub use client::S3Client;

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::net::free_port;
use crate::process::ServerProcess;
use crate::standby::Standby;
use crate::tools;

const START: Duration = Duration::from_secs(60);

/// An access key and its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Keys {
    /// The key's id.
    pub access: String,
    /// The key's secret.
    pub secret: String,
}

impl S3Keys {
    fn new(access: &str, secret: &str) -> Self {
        Self { access: access.to_owned(), secret: secret.to_owned() }
    }

    /// Keys that may do everything.
    pub fn admin() -> Self {
        Self::new("carafe-admin", "carafe-admin-secret")
    }

    /// Keys that may read, write and list, but make no bucket.
    pub fn writer() -> Self {
        Self::new("carafe-writer", "carafe-writer-secret")
    }

    /// Keys that are valid, but may only read.
    pub fn reader() -> Self {
        Self::new("carafe-reader", "carafe-reader-secret")
    }
}

/// The ports of the parts; each part has one for HTTP and one for gRPC.
#[derive(Debug, Clone, Copy)]
struct Ports {
    master: [u16; 2],
    volume: [u16; 2],
    filer: [u16; 2],
    s3: [u16; 2],
}

/// A running server; its data directory lives as long as the guard.
#[derive(Debug)]
pub struct S3Server {
    ports: Ports,
    dir: TempDir,
    process: ServerProcess,
}

impl S3Server {
    /// Starts a server and waits until it accepts an upload.
    ///
    /// # Errors
    /// If `weed` is not installed or does not start; the message has the end of its log.
    pub fn start() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("carafe-s3-").tempdir()?;
        fs::write(dir.path().join("s3.json"), identities())?;
        let mut last = None;
        for _ in 0..3 {
            let pair = || [free_port(), free_port()];
            let ports = Ports { master: pair(), volume: pair(), filer: pair(), s3: pair() };
            match launch(ports, dir.path()) {
                Ok(process) => return Ok(Self { ports, dir, process }),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("three tries failed")).context("start an s3 server")
    }

    /// A started server with one bucket.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with_bucket(bucket: &str) -> Result<Self> {
        let server = Self::start()?;
        server.create_bucket(bucket)?;
        Ok(server)
    }

    /// The S3 port.
    pub fn port(&self) -> u16 {
        self.ports.s3[0]
    }

    /// The endpoint URL.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port())
    }

    /// The variables that the usual S3 clients, `carafe` among them, take endpoint and keys from.
    pub fn environment(&self) -> Vec<(String, String)> {
        s3_environment(&self.endpoint(), &S3Keys::admin())
    }

    /// A client with the admin's keys.
    pub fn client(&self) -> S3Client {
        S3Client::new(self.port(), S3Keys::admin())
    }

    /// Creates a bucket.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn create_bucket(&self, bucket: &str) -> Result<()> {
        self.client().create_bucket(bucket)
    }

    /// The process.
    pub fn process(&mut self) -> &mut ServerProcess {
        &mut self.process
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts the server again on the same ports and data; kills it first if it runs.
    ///
    /// # Errors
    /// If it does not start.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill();
        self.process = launch(self.ports, self.dir.path()).context("restart an s3 server")?;
        Ok(())
    }

    /// Prepares the next process of the server, for [`restart_by`](Self::restart_by).
    ///
    /// # Errors
    /// If no process can be made.
    pub fn standby(&self) -> Result<Standby> {
        Standby::prepare("weed", &command(self.ports, self.dir.path())?, &log(self.dir.path()))
    }

    /// As [`restart`](Self::restart), without making a process.
    ///
    /// # Errors
    /// If it does not start.
    pub fn restart_by(&mut self, standby: Standby) -> Result<()> {
        self.process.kill();
        self.process = standby.go()?;
        wait(&mut self.process, self.ports.s3[0]).context("restart an s3 server")
    }
}

/// The variables for an endpoint and keys, for example those of a proxy before the server.
pub(crate) fn s3_environment(endpoint: &str, keys: &S3Keys) -> Vec<(String, String)> {
    [
        ("AWS_ACCESS_KEY_ID", keys.access.as_str()),
        ("AWS_SECRET_ACCESS_KEY", keys.secret.as_str()),
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ALLOW_HTTP", "true"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

fn launch(ports: Ports, dir: &Path) -> Result<ServerProcess> {
    let mut process = ServerProcess::spawn("weed", command(ports, dir)?, &log(dir))?;
    wait(&mut process, ports.s3[0])?;
    Ok(process)
}

fn command(ports: Ports, dir: &Path) -> Result<Command> {
    fs::create_dir_all(dir.join("data"))?;
    let mut command = Command::new(tools::weed()?);
    command.arg("server").args(arguments(ports, dir)).current_dir(dir);
    Ok(command)
}

fn log(dir: &Path) -> PathBuf {
    dir.join("weed.log")
}

fn wait(process: &mut ServerProcess, port: u16) -> Result<()> {
    process.wait_ready(START, || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
    // The gateway listens before the volume server has joined: ready means that an upload succeeds.
    let probe = S3Client::new(port, S3Keys::admin());
    process.wait_ready(START, || {
        probe.create_bucket("ready").and_then(|()| probe.put("ready", "probe", b"x")).is_ok()
    })
}

fn arguments(ports: Ports, dir: &Path) -> Vec<String> {
    let path = |name: &str| dir.join(name).display().to_string();
    let mut arguments = vec![
        format!("-dir={}", path("data")),
        "-ip=127.0.0.1".to_owned(),
        "-ip.bind=127.0.0.1".to_owned(),
        "-master.telemetry=false".to_owned(),
        "-master.volumeSizeLimitMB=1024".to_owned(),
        "-master.electionTimeout=1s".to_owned(),
        "-volume.max=200".to_owned(),
        "-volume.minFreeSpace=1".to_owned(),
        "-volume.preStopSeconds=0".to_owned(),
        "-filer".to_owned(),
        format!("-filer.localSocket={}", path("filer.sock")),
        "-s3".to_owned(),
        format!("-s3.config={}", path("s3.json")),
        format!("-s3.localSocket={}", path("s3.sock")),
        "-s3.autoCreateBucket=false".to_owned(),
        "-s3.port.iceberg=0".to_owned(),
        "-s3.port.lance=0".to_owned(),
    ];
    for (name, [http, grpc]) in
        [("master", ports.master), ("volume", ports.volume), ("filer", ports.filer), ("s3", ports.s3)]
    {
        arguments.extend([format!("-{name}.port={http}"), format!("-{name}.port.grpc={grpc}")]);
    }
    arguments
}

fn identities() -> String {
    let identity = |keys: S3Keys, actions: &str| {
        format!(
            r#"{{"name":"{0}","credentials":[{{"accessKey":"{0}","secretKey":"{1}"}}],"actions":[{actions}]}}"#,
            keys.access, keys.secret
        )
    };
    let admin = identity(S3Keys::admin(), r#""Admin","Read","Write","List","Tagging""#);
    let writer = identity(S3Keys::writer(), r#""Read","Write","List""#);
    let reader = identity(S3Keys::reader(), r#""Read","List""#);
    format!(r#"{{"identities":[{admin},{writer},{reader}]}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_survive_kill_and_restart_and_readers_cannot_write() {
        let mut server = S3Server::start_with_bucket("bucket").unwrap();
        let client = server.client();
        for n in 0..3 {
            client.put("bucket", &format!("dir/a b+{n}"), b"hello").unwrap();
        }
        let reader = S3Client::new(server.port(), S3Keys::reader());
        assert!(reader.put("bucket", "x", b"").unwrap_err().to_string().contains("403"));
        assert!(client.put("missing", "x", b"").unwrap_err().to_string().contains("NoSuchBucket"));

        server.kill();
        assert!(client.get("bucket", "dir/a b+0").is_err());
        server.restart().unwrap();
        assert_eq!(client.get("bucket", "dir/a b+0").unwrap(), b"hello");
        assert_eq!(client.list("bucket", "dir/").unwrap().len(), 3);
        client.delete("bucket", "dir/a b+1").unwrap();
        assert_eq!(client.list("bucket", "").unwrap().len(), 2);
    }
}
