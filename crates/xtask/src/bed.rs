//! A mounted file system and the services below it, for suites that are programs of their own.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use carafe_testkit::{FileSystem, Mount, RedisServer, S3Server};
use tempfile::TempDir;

use crate::sh;

/// Where metadata and bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// A Redis server that syncs every command, and an S3 server.
    RedisS3,
    /// The embedded engine and a local folder.
    Embedded,
}

/// The fields are dropped in their order: the mount first, then what it stands on.
pub(crate) struct Bed {
    pub(crate) mount: Mount,
    redis: Option<RedisServer>,
    s3: Option<S3Server>,
    _home: TempDir,
}

impl Bed {
    /// Starts the services, formats and mounts.
    pub(crate) fn start(engine: Engine) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("carafe-bed-").tempdir()?;
        let (redis, s3) = match engine {
            Engine::RedisS3 => {
                (Some(RedisServer::start_durable()?), Some(S3Server::start_with_bucket("carafe")?))
            }
            Engine::Embedded => (None, None),
        };
        let fs = match (&redis, &s3) {
            (Some(redis), Some(s3)) => FileSystem::on_redis_and_s3(redis, s3, "carafe"),
            _ => FileSystem::embedded(home.path())?,
        };
        let mount = fs.format_and_mount()?;
        Ok(Self { mount, redis, s3, _home: home })
    }

    /// The mount point.
    pub(crate) fn path(&self) -> &Path {
        self.mount.path()
    }

    /// The Redis server of [`Engine::RedisS3`].
    pub(crate) fn redis(&mut self) -> Result<&mut RedisServer> {
        self.redis.as_mut().context("this engine has no redis server")
    }

    /// The S3 server of [`Engine::RedisS3`].
    pub(crate) fn s3(&mut self) -> Result<&mut S3Server> {
        self.s3.as_mut().context("this engine has no s3 server")
    }

    /// Unmounts in order and asks `fsck`, which must find nothing. What a suite left behind is checked too.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.mount.unmount()?;
        self.mount.file_system().verb("fsck", &[])?;
        Ok(())
    }
}

/// Runs a program on a fresh mount, then unmounts and checks. Shows the daemon's log when something fails.
pub(crate) fn run_on(embedded: bool, program: &[String]) -> Result<()> {
    let bed = Bed::start(if embedded { Engine::Embedded } else { Engine::RedisS3 })?;
    let dir = bed.path().display().to_string();
    let words: Vec<String> = program.iter().map(|word| word.replace("{volume}", &dir)).collect();
    let mut command = Command::new(&words[0]);
    let result = sh::run(command.args(&words[1..]));
    if result.is_err() {
        eprintln!("the daemon's log:\n{}", bed.mount.log_text());
    }
    result.and(bed.finish())
}
