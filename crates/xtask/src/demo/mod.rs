//! `cargo xtask demo`: ClickHouse on a volume, from nothing to checked answers, in one command.
//!
//! What happens is what a cluster does: a file system is formatted, the CSI driver runs, a volume is created, staged and published through
//! gRPC, and the application works in the published directory. The gRPC client is `examples/csi_volume.rs`, built after
//! `setup` has installed the protobuf compiler; the application is `e2e/demo/demo.py`.

mod driver;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use carafe_testkit::{ChdbEnv, FileSystem, RedisServer, S3Server, tools};
use clap::Args;

use crate::setup::{Scope, setup};
use crate::sh;
use driver::Driver;

const BUCKET: &str = "carafe-demo";
const CAPACITY_BYTES: u64 = 4 << 30;

/// What the file system stands on.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Keep the metadata in a Redis server that the demo starts, instead of the embedded engine.
    #[arg(long)]
    redis: bool,
    /// Keep the bytes in an S3 server that the demo starts, instead of a local folder.
    #[arg(long)]
    s3: bool,
    /// TPC-H scale factor: 0.1 is 600,000 rows.
    #[arg(long, default_value = "0.1")]
    scale: String,
}

/// Plays the demo; everything it made is gone when it ends.
pub(crate) fn demo(root: &Path, arguments: &DemoArgs) -> Result<()> {
    setup(root, Scope::Demo)?;
    if std::env::var_os("CARAFE_BIN").is_none() {
        build(root)?;
    }
    let home = tempfile::Builder::new().prefix("carafe-demo-").tempdir()?;
    // The services outlive the driver: locals are dropped in the opposite order.
    let redis = arguments.redis.then(RedisServer::start_durable).transpose()?;
    let s3 = arguments.s3.then(|| S3Server::start_with_bucket(BUCKET)).transpose()?;
    let fs = file_system(home.path(), redis.as_ref(), s3.as_ref())?;
    println!("\nfile system: metadata {}, bytes {}", fs.meta_url, fs.bucket);
    fs.format()?;
    let rows = generate(home.path(), &arguments.scale)?;
    let mut driver = Driver::start(&fs, home.path())?;
    play(&driver, home.path(), &rows)?;
    driver.stop()?;
    println!("\nThe volume is deleted, the services are stopped, nothing is left.");
    Ok(())
}

/// The binary and the gRPC client. Debug profile, like the tests: what is built here is built once.
fn build(root: &Path) -> Result<()> {
    println!("building (the first time takes minutes)");
    let build = |arguments: &[&str]| sh::run(&mut sh::cargo(root, arguments));
    build(&[
        "build",
        "--quiet",
        "-p",
        "carafe-cli",
        "-p",
        "carafe-xtask",
        "--bins",
        "--example",
        "csi_volume",
    ])
}

fn file_system(home: &Path, redis: Option<&RedisServer>, s3: Option<&S3Server>) -> Result<FileSystem> {
    let embedded = FileSystem::embedded(home)?;
    let mut fs = match s3 {
        Some(s3) => FileSystem::on_s3(embedded.meta_url, s3, BUCKET),
        None => embedded,
    };
    if let Some(redis) = redis {
        fs = fs.with_meta_url(redis.url(0));
    }
    fs.name = "demo".to_owned();
    Ok(fs)
}

fn generate(home: &Path, scale: &str) -> Result<PathBuf> {
    let out = home.join("tpch");
    let mut command = Command::new(tools::tpchgen()?);
    command.args(["parquet", "--tables=lineitem", "-s", scale, "-o"]).arg(&out);
    sh::capture(&mut command).context("generate TPC-H data")?;
    Ok(out.join("lineitem.parquet"))
}

fn play(driver: &Driver, home: &Path, rows: &Path) -> Result<()> {
    let local = home.join("local");
    std::fs::create_dir_all(&local)?;
    let script = ChdbEnv::find()?.script("e2e/demo/demo.py");
    let mut program = vec![script.get_program().to_owned()];
    program.extend(script.get_args().map(ToOwned::to_owned));
    program.extend(["--volume".into(), "{volume}".into(), "--local".into(), local.into_os_string()]);
    program.extend(["--rows".into(), rows.as_os_str().to_owned()]);
    driver.volume("clickhouse", CAPACITY_BYTES, &program)
}
