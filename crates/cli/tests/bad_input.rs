//! Every wrong input that a person can give has its own message and exit code, and comes soon.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test ends where it fails, and says why")]

use carafe_testkit::{RedisOptions, RedisServer, S3Keys, S3Server, ToolOutput, free_port};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A directory with an embedded store and a folder as bucket to be.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("mnt")).unwrap();
        Place { dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn meta(&self) -> String {
        format!("embedded://{}", self.path("meta.redb"))
    }

    fn bucket(&self) -> String {
        format!("file://{}", self.path("bucket"))
    }

    fn formatted() -> Self {
        let place = Place::new();
        carafe(&["format", &place.meta(), "one", "--bucket", &place.bucket()]).expect(0, "");
        place
    }
}

struct Ran(ToolOutput, Duration);

impl Ran {
    #[track_caller]
    fn expect(&self, code: i32, part: &str) {
        let text = format!("exit {} after {:?}\n{}{}", self.0.code, self.1, self.0.stdout, self.0.stderr);
        assert_eq!(self.0.code, code, "{text}");
        assert!(self.0.stderr.contains(part), "{part:?} is not in: {text}");
        assert!(code == 0 || self.1 < Duration::from_secs(8), "{text}");
    }

    #[track_caller]
    fn expect_soon(&self, code: i32, part: &str) {
        self.expect(code, part);
        assert!(self.1 < Duration::from_secs(5), "after {:?}", self.1);
    }
}

fn run(command: &mut Command) -> Ran {
    let begun = Instant::now();
    let output = ToolOutput::of(command).unwrap();
    Ran(output, begun.elapsed())
}

fn carafe(arguments: &[&str]) -> Ran {
    run(Command::new(env!("CARGO_BIN_EXE_carafe")).args(arguments))
}

#[test]
fn urls_that_name_nothing_are_told_what_would_be_right() {
    carafe(&["status", "mysql://host/db"]).expect(2, "known are redis, rediss, redis+unix and embedded");
    carafe(&["status", "embedded://relative"]).expect(2, "three slashes");
    carafe(&["status", "no url"]).expect(2, "write redis://");
    let place = Place::new();
    carafe(&["format", &place.meta(), "x", "--bucket", "hdfs://b"]).expect(2, "unknown bucket scheme");
    carafe(&["format", &place.meta(), "x", "--bucket", "s3://"]).expect(2, "lacks the name of the bucket");
    carafe(&["format", &place.meta(), "bad name", "--bucket", &place.bucket()]).expect(2, "a name has");
    carafe(&["frobnicate"]).expect(2, "unrecognized subcommand");
}

#[test]
fn a_store_that_is_not_there_is_told_within_five_seconds() {
    let place = Place::new();
    let url = format!("redis://127.0.0.1:{}/0", free_port());
    carafe(&["status", &url]).expect_soon(3, "cannot be reached");
    carafe(&["mount", &url, &place.path("mnt")]).expect_soon(3, "check address, port and network");
    // Nobody answers there at all: the network is reserved for documentation.
    carafe(&["status", "redis://192.0.2.1:6379/0"]).expect_soon(3, "cannot be reached");
    carafe(&["status", &place.meta()]).expect(6, "no file system in this store");
}

#[test]
fn a_wrong_password_is_told_and_never_shown() {
    let redis =
        RedisServer::start(RedisOptions { password: Some("right".into()), ..Default::default() }).unwrap();
    let url = format!("redis://127.0.0.1:{}/0", redis.port());
    carafe(&["status", &url]).expect(4, "CARAFE_META_PASSWORD");
    let wrong = run(Command::new(env!("CARGO_BIN_EXE_carafe"))
        .args(["status", &url])
        .env("CARAFE_META_PASSWORD", "hush-hush"));
    wrong.expect(4, "refuses us");
    assert!(!wrong.0.stderr.contains("hush-hush"));
    let in_url = carafe(&["status", &format!("redis://:hush-hush@127.0.0.1:{}/0", redis.port())]);
    in_url.expect(4, "was visible in the process list");
    assert!(!in_url.0.stderr.contains("hush-hush"), "{}", in_url.0.stderr);
    let right = run(Command::new(env!("CARGO_BIN_EXE_carafe"))
        .args(["status", &url])
        .env("CARAFE_META_PASSWORD", "right"));
    right.expect(6, "no file system");
}

#[test]
fn a_server_that_would_lose_data_is_refused() {
    let place = Place::new();
    let evicting = RedisServer::start(RedisOptions {
        appendonly: true,
        maxmemory: Some("64mb".into()),
        policy: Some("allkeys-lru".into()),
        ..Default::default()
    })
    .unwrap();
    let format = |url: &str| carafe(&["format", url, "x", "--bucket", &place.bucket()]);
    format(&evicting.url(0)).expect(6, "noeviction");
    let volatile = RedisServer::start_default().unwrap();
    format(&volatile.url(0)).expect(6, "--allow-volatile");
}

#[test]
fn buckets_that_are_missing_or_closed_are_told_apart() {
    let place = Place::new();
    let s3 = S3Server::start_with_bucket("mine").unwrap();
    let format = |bucket: &str, access: &str, secret: &str| {
        run(Command::new(env!("CARGO_BIN_EXE_carafe"))
            .args(["format", &place.meta(), "x", "--bucket", bucket, "--endpoint", &s3.endpoint()])
            .env("CARAFE_ACCESS_KEY", access)
            .env("CARAFE_SECRET_KEY", secret))
    };
    let (admin, reader) = (S3Keys::admin(), S3Keys::reader());
    format("s3://absent", &admin.access, &admin.secret).expect(3, "does not exist");
    format("s3://mine", "nobody", "nothing").expect(4, "");
    format("s3://mine", &reader.access, &reader.secret).expect(4, "denied");
    let away = format!("http://127.0.0.1:{}", free_port());
    run(Command::new(env!("CARGO_BIN_EXE_carafe"))
        .args(["format", &place.meta(), "x", "--bucket", "s3://mine", "--endpoint", &away])
        .env("CARAFE_ACCESS_KEY", &admin.access)
        .env("CARAFE_SECRET_KEY", &admin.secret))
    .expect_soon(3, "does not answer");
    format("s3://mine", &admin.access, &admin.secret).expect(0, "");
}

#[test]
fn a_second_format_changes_nothing() {
    let place = Place::formatted();
    carafe(&["format", &place.meta(), "two", "--bucket", &place.bucket()])
        .expect(6, "already holds the file system \"one\"");
    let other = format!("embedded://{}", place.path("other.redb"));
    carafe(&["format", &other, "two", "--bucket", &place.bucket()])
        .expect(6, "belongs to file system \"one\"");
    // What an installer repeats: the same name in the same bucket is there already, another one is refused all the same.
    carafe(&["format", &place.meta(), "one", "--bucket", &place.bucket(), "--if-absent"]).expect(0, "");
    carafe(&["format", &place.meta(), "two", "--bucket", &place.bucket(), "--if-absent"])
        .expect(6, "already holds the file system \"one\"");
    let status = carafe(&["status", &place.meta(), "--json"]);
    status.expect(0, "");
    assert!(status.0.stdout.contains("\"name\": \"one\""), "{}", status.0.stdout);
}

#[test]
fn a_bucket_of_another_file_system_is_not_mounted() {
    let (a, b) = (Place::formatted(), Place::formatted());
    std::fs::remove_dir_all(a.path("bucket")).unwrap();
    std::fs::rename(b.path("bucket"), a.path("bucket")).unwrap();
    carafe(&["mount", &a.meta(), &a.path("mnt"), "--no-cache-disk"]).expect(6, "belongs to file system");
    std::fs::remove_file(a.path("bucket/carafe-fs")).unwrap();
    carafe(&["mount", &a.meta(), &a.path("mnt"), "--no-cache-disk"]).expect(6, "holds no file system");
    std::fs::write(a.path("bucket/carafe-fs"), br#"{"format": 2}"#).unwrap();
    carafe(&["mount", &a.meta(), &a.path("mnt"), "--no-cache-disk"]).expect(6, "upgrade carafe");
}

#[test]
fn a_format_from_the_future_and_a_damaged_superblock_are_told_apart() {
    let place = Place::new();
    let redis = RedisServer::start_durable().unwrap();
    carafe(&["format", &redis.url(0), "x", "--bucket", &place.bucket()]).expect(0, "");
    let set = |text: &str| {
        redis.command(&["HSET", "{carafe}", "fmt", text]).unwrap();
    };
    set(r#"{"version": 9, "new": "things"}"#);
    carafe(&["mount", &redis.url(0), &place.path("mnt")]).expect(6, "version 9");
    set("{");
    carafe(&["mount", &redis.url(0), &place.path("mnt")]).expect(1, "damaged record superblock");
}

#[test]
fn mount_points_that_cannot_be_used_are_named() {
    let place = Place::formatted();
    let mount = |dir: &str| carafe(&["mount", &place.meta(), dir, "--no-cache-disk"]);
    mount(&place.path("absent")).expect(6, "mkdir -p");
    std::fs::write(place.path("file"), "x").unwrap();
    mount(&place.path("file")).expect(6, "no directory");
    mount(&place.path("bucket")).expect(6, "not empty");
    carafe(&["mount", &place.meta(), &place.path("mnt"), "--no-cache-disk", "-o", "ro,frobnicate"])
        .expect(2, "frobnicate");
    carafe(&["mount", &place.meta(), &place.path("mnt"), "--no-cache-disk", "--subdir", "gone"])
        .expect(6, "does not exist");
    carafe(&["umount", &place.path("mnt")]).expect(6, "nothing is mounted");
    carafe(&["umount", "/proc"]).expect(6, "no Carafe mount");
    carafe(&["info", &place.path("mnt")]).expect(6, "on no Carafe mount");
}

#[test]
fn a_background_mount_that_fails_says_why_where_it_was_started() {
    let place = Place::new();
    let log = place.path("log");
    let url = place.meta();
    let ran = carafe(&["mount", &url, &place.path("mnt"), "--background", "--log-file", &log]);
    ran.expect(6, "no file system in this store");
    assert!(Path::new(&log).exists());
}
