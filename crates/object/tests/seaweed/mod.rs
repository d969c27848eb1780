//! A SeaweedFS server for the tests of one process: S3 with three identities, on free ports of 127.0.0.1.
//!
//! It ends with the process, also if that is killed: a shell holds the read end of a pipe whose write end is ours, and
//! ends the server when the pipe closes.

use bytes::Bytes;
use carafe_object::{Bucket, BucketOptions, Secret};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The bucket that exists.
pub(crate) const BUCKET: &str = "carafe-test";

/// An S3 key pair.
#[derive(Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) access_key: &'static str,
    pub(crate) secret_key: &'static str,
}

/// May do all.
pub(crate) const ADMIN: Identity = Identity { access_key: "admin-key", secret_key: "admin-secret" };
/// May read, write and list [`BUCKET`].
pub(crate) const WRITER: Identity = Identity { access_key: "writer-key", secret_key: "writer-secret" };
/// May read and list [`BUCKET`].
pub(crate) const READER: Identity = Identity { access_key: "reader-key", secret_key: "reader-secret" };

/// How long it may take to come up (about 5 s on an idle machine).
const START_TIME: Duration = Duration::from_secs(90);

/// Ends the server and removes its directory when standard input closes.
const GUARD: &str = r#"dir=$1; shift; "$@" >"$dir/log" 2>&1 & pid=$!; cat >/dev/null; kill -9 $pid; wait $pid; rm -rf "$dir""#;

pub(crate) struct Seaweed {
    endpoint: String,
    _guard: Child,
}

impl Seaweed {
    /// The server of this process, started at first use.
    pub(crate) fn shared() -> &'static Seaweed {
        static SERVER: OnceLock<Seaweed> = OnceLock::new();
        // A thread of its own: starting polls with a runtime, and the caller is inside another one.
        SERVER.get_or_init(|| {
            std::thread::spawn(Seaweed::start).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Its S3 address.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    fn start() -> Seaweed {
        let weed = find_weed();
        let dir = tempfile::Builder::new().prefix("carafe-s3-").tempdir().unwrap().keep();
        let (identities, data) = (dir.join("identities.json"), dir.join("data"));
        std::fs::create_dir(&data).unwrap();
        std::fs::File::create(&identities).unwrap().write_all(identities_json().as_bytes()).unwrap();
        let ports: Vec<String> = free_ports(8).iter().map(u16::to_string).collect();
        let guard = Command::new("sh")
            .args(["-c", GUARD, "sh"])
            .arg(&dir)
            .arg(&weed)
            .args(["server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", "-s3.iam=false"])
            .args(["-master.volumeSizeLimitMB=64", "-volume.max=30", "-volume.minFreeSpace=1MiB"])
            .arg(format!("-dir={}", data.display()))
            .arg(format!("-s3.config={}", identities.display()))
            .args(
                ["master.port", "master.port.grpc", "volume.port", "volume.port.grpc"]
                    .iter()
                    .chain(&["filer.port", "filer.port.grpc", "s3.port", "s3.port.grpc"])
                    .zip(&ports)
                    .map(|(flag, port)| format!("-{flag}={port}")),
            )
            .envs([("GOMEMLIMIT", "256MiB"), ("GOGC", "50")])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell to start the server in");
        let server = Seaweed { endpoint: format!("http://127.0.0.1:{}", ports[6]), _guard: guard };
        server.wait_until_up(&dir);
        server
    }

    /// Until the bucket takes an object; the first put of the administrator creates it.
    fn wait_until_up(&self, dir: &Path) {
        let options = BucketOptions {
            endpoint: Some(self.endpoint.clone()),
            access_key: Some(ADMIN.access_key.into()),
            secret_key: Some(Secret::new(ADMIN.secret_key)),
            retry: carafe_object::decorate::RetryPolicy::within(Duration::from_secs(1)),
            ..BucketOptions::default()
        };
        let bucket = Bucket::open(&format!("s3://{BUCKET}/ready"), &options).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let deadline = Instant::now() + START_TIME;
        while let Err(e) = runtime.block_on(bucket.put("ready", Bytes::new())) {
            if Instant::now() > deadline {
                let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
                let tail: Vec<_> = log.lines().rev().take(20).collect();
                panic!(
                    "the S3 server did not come up within {START_TIME:?}: {e}\nits last lines, newest first: {tail:#?}"
                );
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

fn find_weed() -> PathBuf {
    if let Some(path) = std::env::var_os("CARAFE_WEED") {
        let path = PathBuf::from(path);
        assert!(
            path.is_file(),
            "CARAFE_WEED={} is no file: set it to the SeaweedFS program `weed`",
            path.display()
        );
        return path;
    }
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&on_path)
        .map(|dir| dir.join("weed"))
        .find(|path| path.is_file())
        .expect("these tests need SeaweedFS: set CARAFE_WEED to its program `weed`, or put it on PATH")
}

/// Ports that were free a moment ago. All are held until the last is found, so they differ.
fn free_ports(n: usize) -> Vec<u16> {
    let held: Vec<_> = (0..n).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    held.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

fn identities_json() -> String {
    let identity = |name: &str, who: Identity, actions: &str| {
        let Identity { access_key, secret_key } = who;
        format!(
            r#"{{"name":"{name}","actions":[{actions}],"credentials":[{{"accessKey":"{access_key}","secretKey":"{secret_key}"}}]}}"#
        )
    };
    let on_bucket =
        |actions: &[&str]| actions.iter().map(|a| format!(r#""{a}:{BUCKET}""#)).collect::<Vec<_>>().join(",");
    let identities = [
        identity("admin", ADMIN, r#""Admin","Read","Write","List""#),
        identity("writer", WRITER, &on_bucket(&["Read", "Write", "List"])),
        identity("reader", READER, &on_bucket(&["Read", "List"])),
    ];
    format!(r#"{{"identities":[{}]}}"#, identities.join(","))
}
