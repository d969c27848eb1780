//! The systems that are measured, and the services that they share.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use carafe_testkit::{
    FileSystem, LatencyProxy, Mount, MountOptions, RedisOptions, RedisServer, S3Keys, S3Server,
    ServerProcess, detach, free_port, is_mounted, tools,
};
use tempfile::TempDir;

use crate::sh;

/// Objects of 4 MiB.
const WARM_UP_OBJECTS: u32 = 64;

/// Services of all systems. Each system has a database, a bucket and a proxy of its own, so that requests are counted apart.
pub(crate) struct World {
    pub(crate) redis: RedisServer,
    s3: S3Server,
    delay: Duration,
    home: TempDir,
}

impl World {
    pub(crate) fn start(delay: Duration) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("carafe-bench-").tempdir()?;
        // What the manuals of all systems here ask for: an append-only file, synced every second (the server's default).
        // `always` would slow whoever sends more commands.
        let extra = ["--appendonly", "yes"].map(str::to_owned).to_vec();
        let redis = RedisServer::start(RedisOptions { extra, ..RedisOptions::default() })?;
        let s3 = S3Server::start()?;
        warm_up(&s3)?;
        Ok(Self { redis, s3, delay, home })
    }

    fn proxy(&self) -> Result<LatencyProxy> {
        LatencyProxy::start(self.s3.port(), self.delay)
    }

    /// A directory of this run.
    pub(crate) fn dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.home.path().join(name);
        fs::create_dir_all(&dir)?;
        Ok(dir)
    }
}

/// A server that has just started makes its first volumes and grows its heap: whoever writes first would pay for that, with half of
/// the throughput.
fn warm_up(s3: &S3Server) -> Result<()> {
    let bucket = "bench-warm-up";
    s3.create_bucket(bucket)?;
    let (client, body) = (s3.client(), vec![7; 4 << 20]);
    (0..WARM_UP_OBJECTS).try_for_each(|n| client.put(bucket, &format!("{n}"), &body))
}

/// A file system that can be mounted and unmounted at will.
pub(crate) trait Rival {
    fn name(&self) -> &str;
    /// Mounts.
    fn start(&mut self) -> Result<()>;
    /// Unmounts; what was written is in the bucket then. Nothing mounted is fine.
    fn stop(&mut self);
    /// The mount point.
    fn path(&self) -> &Path;
    fn cache_dir(&self) -> PathBuf;
    /// The S3 server as this system sees it.
    fn proxy(&self) -> &LatencyProxy;
    /// Of the daemon, with its children.
    fn resident_bytes(&mut self) -> u64;

    /// Unmounts, empties the local cache, and mounts again: nothing is known locally.
    fn cool(&mut self) -> Result<()> {
        self.stop();
        empty(&self.cache_dir())?;
        self.start()
    }

    /// Waits until no request to the bucket has come for a while.
    fn settle(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        let mut before = self.proxy().traffic();
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1500));
            let now = self.proxy().traffic();
            if now == before {
                return;
            }
            before = now;
        }
    }
}

fn empty(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("empty {}", dir.display()))?;
    }
    Ok(fs::create_dir_all(dir)?)
}

/// The product.
pub(crate) struct Carafe {
    fs: FileSystem,
    options: MountOptions,
    dir: PathBuf,
    cache: PathBuf,
    proxy: LatencyProxy,
    mount: Option<Mount>,
}

impl Carafe {
    pub(crate) fn format(world: &World, database: u8) -> Result<Self> {
        let proxy = world.proxy()?;
        world.s3.create_bucket("bench-carafe")?;
        let fs = FileSystem::on_redis_and_proxy(&world.redis, &proxy, "bench-carafe")
            .with_meta_url(world.redis.url(database));
        fs.format()?;
        let (dir, cache) = (world.dir("carafe")?, world.dir("carafe-cache")?);
        let options = MountOptions {
            dir: Some(dir.clone()),
            cache_dir: Some(cache.clone()),
            ..MountOptions::default()
        };
        Ok(Self { fs, options, dir, cache, proxy, mount: None })
    }
}

impl Rival for Carafe {
    fn name(&self) -> &str {
        "carafe"
    }

    fn start(&mut self) -> Result<()> {
        self.mount = Some(self.fs.mount_with(self.options.clone())?);
        Ok(())
    }

    fn stop(&mut self) {
        if let Some(mut mount) = self.mount.take()
            && let Err(error) = mount.unmount()
        {
            eprintln!("carafe did not unmount well: {error:#}");
        }
    }

    fn path(&self) -> &Path {
        &self.dir
    }

    fn cache_dir(&self) -> PathBuf {
        self.cache.clone()
    }

    fn proxy(&self) -> &LatencyProxy {
        &self.proxy
    }

    fn resident_bytes(&mut self) -> u64 {
        self.mount.as_mut().map_or(0, |mount| mount.process().resident_bytes())
    }
}

/// The rival, with its defaults and perhaps an option.
pub(crate) struct JuiceFs {
    name: String,
    url: String,
    options: Vec<String>,
    dir: PathBuf,
    cache: PathBuf,
    log: PathBuf,
    proxy: LatencyProxy,
    daemon: Option<ServerProcess>,
}

impl JuiceFs {
    pub(crate) fn format(world: &World, name: &str, database: u8, options: &[&str]) -> Result<Self> {
        let proxy = world.proxy()?;
        let bucket = format!("bench-{name}");
        world.s3.create_bucket(&bucket)?;
        let url = world.redis.url(database);
        let keys = S3Keys::admin();
        let mut command = Command::new(tools::juicefs()?);
        command.args(["format", &url, name, "--storage", "s3", "--no-update"]);
        command.args(["--bucket", &format!("{}/{bucket}", proxy.endpoint())]);
        command.env("ACCESS_KEY", keys.access).env("SECRET_KEY", keys.secret);
        sh::capture(&mut command).context("juicefs format")?;
        Ok(Self {
            name: name.to_owned(),
            url,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            dir: world.dir(name)?,
            cache: world.dir(&format!("{name}-cache"))?,
            log: world.home.path().join(format!("{name}.log")),
            proxy,
            daemon: None,
        })
    }
}

impl Rival for JuiceFs {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&mut self) -> Result<()> {
        let mut command = Command::new(tools::juicefs()?);
        command
            .args(["mount", &self.url])
            .arg(&self.dir)
            .arg("--cache-dir")
            .arg(&self.cache)
            .args(&self.options);
        // Nothing of this changes what is measured: no report to its makers, no port that another one may have, no system log.
        command.args([
            "--no-usage-report",
            "--no-syslog",
            "--metrics",
            &format!("127.0.0.1:{}", free_port()),
        ]);
        let mut daemon = ServerProcess::spawn("juicefs", command, &self.log)?;
        daemon.wait_ready(Duration::from_secs(30), || is_mounted(&self.dir))?;
        fs::metadata(&self.dir)?;
        self.daemon = Some(daemon);
        Ok(())
    }

    fn stop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let unmounted = tools::juicefs().and_then(|program| {
                sh::capture(Command::new(program).arg("umount").arg("--flush").arg(&self.dir))
            });
            if let Err(error) = unmounted.and_then(|_| daemon.wait_exit(Duration::from_secs(120))) {
                eprintln!("{} did not unmount well: {error:#}", self.name);
            }
            detach(&self.dir);
        }
    }

    fn path(&self) -> &Path {
        &self.dir
    }

    fn cache_dir(&self) -> PathBuf {
        self.cache.clone()
    }

    fn proxy(&self) -> &LatencyProxy {
        &self.proxy
    }

    fn resident_bytes(&mut self) -> u64 {
        // Its daemon is a pair of processes: one that watches and one that serves.
        let Some(daemon) = &self.daemon else { return 0 };
        let children =
            fs::read_to_string(format!("/proc/{0}/task/{0}/children", daemon.pid())).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        daemon.resident_bytes() + children.map(ServerProcess::resident_bytes_of).sum::<u64>()
    }
}

impl Drop for JuiceFs {
    fn drop(&mut self) {
        self.stop();
    }
}
