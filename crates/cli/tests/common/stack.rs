//! The real parts below a mount: Redis and an S3 server, or the embedded engine and a folder.

use carafe_testkit::{FileSystem, RedisOptions, RedisServer, S3Server};
use tempfile::TempDir;

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

    /// A plain directory on the local disk, made at the first call.
    pub(crate) fn plain(&self, name: &str) -> std::path::PathBuf {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}
