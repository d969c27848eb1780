//! A Carafe file system as a test names it: a metadata URL, a bucket, and the environment that holds the keys.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::mount::{Mount, MountOptions};
use crate::proxy::LatencyProxy;
use crate::redis::RedisServer;
use crate::s3::{S3Keys, S3Server, s3_environment};
use crate::tools;

/// What a program printed, and how it ended.
#[derive(Debug, Clone)]
pub struct ToolOutput {
    /// The exit code; -1 after a signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl ToolOutput {
    /// Runs a command to its end.
    ///
    /// # Errors
    /// If it cannot be started. A bad exit code is no error here: see [`ok`](Self::ok).
    pub fn of(command: &mut Command) -> Result<Self> {
        let output = command
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("run {:?}", command.get_program()))?;
        Ok(Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// The standard output of a program that ended well.
    ///
    /// # Errors
    /// If the exit code is not 0: the message has what it wrote.
    pub fn ok(self) -> Result<String> {
        if self.code != 0 {
            bail!("exit code {}\n{}{}", self.code, self.stdout, self.stderr);
        }
        Ok(self.stdout)
    }
}

/// Names a file system; it is created by [`format`](Self::format) and used through [`mount`](Self::mount).
#[derive(Debug, Clone)]
pub struct FileSystem {
    /// The metadata URL.
    pub meta_url: String,
    /// The name given at format.
    pub name: String,
    /// The bucket URL.
    pub bucket: String,
    /// The S3 endpoint, when the bucket is on one.
    pub s3_endpoint: Option<String>,
    /// Variables for every `carafe` process, for example the S3 keys.
    pub environment: Vec<(String, String)>,
}

impl FileSystem {
    /// A file system with its metadata at `meta_url` and its bytes in a local folder.
    pub fn on_folder(meta_url: impl Into<String>, folder: &Path) -> Self {
        Self {
            meta_url: meta_url.into(),
            name: "test".to_owned(),
            bucket: format!("file://{}", folder.display()),
            s3_endpoint: None,
            environment: Vec::new(),
        }
    }

    /// The embedded engine and a folder as its bucket, both inside `dir`.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn embedded(dir: &Path) -> Result<Self> {
        let bucket = dir.join("bucket");
        std::fs::create_dir_all(&bucket)?;
        Ok(Self::on_folder(format!("embedded://{}", dir.join("meta.redb").display()), &bucket))
    }

    /// Database 0 of a Redis server, and a bucket of an S3 server that exists already.
    pub fn on_redis_and_s3(redis: &RedisServer, s3: &S3Server, bucket: &str) -> Self {
        Self::on_s3_endpoint(redis.url(0), &s3.endpoint(), bucket)
    }

    /// As [`on_redis_and_s3`](Self::on_redis_and_s3), with the S3 server behind a proxy.
    pub fn on_redis_and_proxy(redis: &RedisServer, proxy: &LatencyProxy, bucket: &str) -> Self {
        Self::on_s3_endpoint(redis.url(0), &proxy.endpoint(), bucket)
    }

    /// Metadata anywhere, and a bucket of an S3 server that exists already.
    pub fn on_s3(meta_url: impl Into<String>, s3: &S3Server, bucket: &str) -> Self {
        Self::on_s3_endpoint(meta_url.into(), &s3.endpoint(), bucket)
    }

    fn on_s3_endpoint(meta_url: String, endpoint: &str, bucket: &str) -> Self {
        Self {
            meta_url,
            name: "test".to_owned(),
            bucket: format!("s3://{bucket}"),
            s3_endpoint: Some(endpoint.to_owned()),
            environment: s3_environment(endpoint, &S3Keys::admin()),
        }
    }

    /// The same file system reached by another metadata URL, for example through a proxy.
    #[must_use]
    pub fn with_meta_url(mut self, meta_url: impl Into<String>) -> Self {
        self.meta_url = meta_url.into();
        self
    }

    /// A `carafe` command with the environment of this file system.
    ///
    /// # Errors
    /// If the binary has not been built.
    pub fn command(&self) -> Result<Command> {
        let mut command = Command::new(tools::carafe()?);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    /// Runs `carafe` with these arguments to its end.
    ///
    /// # Errors
    /// If the binary has not been built or cannot be started.
    pub fn carafe(&self, arguments: &[&str]) -> Result<ToolOutput> {
        ToolOutput::of(self.command()?.args(arguments))
    }

    /// `carafe VERB META_URL FLAGS`, which must end well; returns its standard output.
    ///
    /// # Errors
    /// If it ends badly: the message has what it wrote.
    pub fn verb(&self, verb: &str, flags: &[&str]) -> Result<String> {
        let arguments = [&[verb, self.meta_url.as_str()], flags].concat();
        self.carafe(&arguments)?.ok().with_context(|| format!("carafe {verb}"))
    }

    /// The arguments of `carafe format` for this file system.
    pub fn format_arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> =
            ["format", &self.meta_url, &self.name, "--bucket", &self.bucket].map(str::to_owned).to_vec();
        if let Some(endpoint) = &self.s3_endpoint {
            arguments.extend(["--s3-endpoint".to_owned(), endpoint.clone()]);
        }
        arguments
    }

    /// `carafe format`.
    ///
    /// # Errors
    /// If it ends badly: the message has what it wrote.
    pub fn format(&self) -> Result<()> {
        let arguments = self.format_arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.carafe(&arguments)?.ok().map(drop).context("carafe format")
    }

    /// Mounts with the default options in a temporary directory.
    ///
    /// # Errors
    /// If the daemon does not come up: the message has the end of its log.
    pub fn mount(&self) -> Result<Mount> {
        self.mount_with(MountOptions::default())
    }

    /// Mounts in a temporary directory.
    ///
    /// # Errors
    /// If the daemon does not come up: the message has the end of its log.
    pub fn mount_with(&self, options: MountOptions) -> Result<Mount> {
        Mount::start(self.clone(), options)
    }

    /// [`format`](Self::format), then [`mount`](Self::mount).
    ///
    /// # Errors
    /// As these.
    pub fn format_and_mount(&self) -> Result<Mount> {
        self.format()?;
        self.mount()
    }

    /// Where the embedded engine keeps its file.
    pub fn embedded_path(&self) -> Option<PathBuf> {
        self.meta_url.strip_prefix("embedded://").map(PathBuf::from)
    }
}
