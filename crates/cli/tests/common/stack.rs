//! The real parts below a mount: Redis and an S3 server, or the embedded engine and a folder.

use carafe_testkit::{FileSystem, RedisOptions, RedisServer, S3Server};
use tempfile::TempDir;

/// A server that dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Redis,
    S3,
}

/// Servers, and the file system on them. Mounts must be dropped before it.
pub(crate) struct Stack {
    pub(crate) redis: Option<RedisServer>,
    pub(crate) s3: Option<S3Server>,
    pub(crate) fs: FileSystem,
    dir: TempDir,
}

impl Stack {
    /// A Redis that loses nothing when it is killed, and an S3 server; formatted.
    pub(crate) fn redis_and_s3() -> Self {
        Self::redis_with(RedisOptions { appendonly: true, ..RedisOptions::default() })
    }

    /// A Redis with these options, and an S3 server; formatted.
    pub(crate) fn redis_with(options: RedisOptions) -> Self {
        let redis = RedisServer::start(options).unwrap();
        let s3 = S3Server::start_with_bucket("model").unwrap();
        let fs = FileSystem::on_redis_and_s3(&redis, &s3, "model");
        fs.format().unwrap();
        Self { redis: Some(redis), s3: Some(s3), fs, dir: tempfile::tempdir().unwrap() }
    }

    /// A Redis and a folder as its bucket; formatted.
    pub(crate) fn redis_and_folder() -> Self {
        let redis = RedisServer::start_durable().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let bucket = dir.path().join("bucket");
        std::fs::create_dir(&bucket).unwrap();
        let fs = FileSystem::on_folder(redis.url(0), &bucket);
        fs.format().unwrap();
        Self { redis: Some(redis), s3: None, fs, dir }
    }

    /// The embedded engine and a folder; formatted.
    pub(crate) fn embedded() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fs = FileSystem::embedded(dir.path()).unwrap();
        fs.format().unwrap();
        Self { redis: None, s3: None, fs, dir }
    }

    /// Kills servers, lets `meanwhile` happen, and starts them again. Works while threads of the test hold files of a mount open.
    pub(crate) fn without(&mut self, victims: &[Victim], meanwhile: impl FnOnce()) {
        let redis =
            victims.contains(&Victim::Redis).then(|| self.redis.as_mut().expect("a stack with Redis"));
        let s3 = victims.contains(&Victim::S3).then(|| self.s3.as_mut().expect("a stack with S3"));
        // The next processes are made while all is well.
        let mut redis = redis.map(|server| (server.standby().unwrap(), server));
        let mut s3 = s3.map(|server| (server.standby().unwrap(), server));
        if let Some((_, server)) = &mut redis {
            server.kill();
        }
        if let Some((_, server)) = &mut s3 {
            server.kill();
        }
        meanwhile();
        if let Some((next, server)) = s3 {
            server.restart_by(next).unwrap();
        }
        if let Some((next, server)) = redis {
            server.restart_by(next).unwrap();
        }
    }

    /// A plain directory on the local disk, made at the first call.
    pub(crate) fn plain(&self, name: &str) -> std::path::PathBuf {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}
