//! The commands of README.md's "By hand", run as they stand there: what a reader replaces is replaced, and nothing else.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails, and says why")]

use std::path::Path;
use std::process::Command;

use carafe_testkit::{RedisOptions, RedisServer, S3Keys, S3Server, ToolOutput, detach, is_mounted};
use tempfile::TempDir;

/// The commands below a comment of the section, to its end or the next empty line.
fn commands(comment: &str) -> String {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("By hand")).unwrap();
    let lines = section.lines().skip_while(|line| !line.contains(comment)).skip(1);
    let code: Vec<&str> = lines.map_while(|line| line.strip_prefix("    ")).collect();
    assert!(code.len() >= 4, "README.md has no commands below {comment:?}");
    code.join("\n")
}

/// A home for what the commands make, with `carafe` as a function in place of the page's alias: caches and logs, which the page leaves to
/// their usual places, go into the home too, and `bench` measures with less than a gigabyte.
struct Reader(TempDir);

impl Reader {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().canonicalize().unwrap().join(name).display().to_string()
    }

    #[track_caller]
    fn run(&self, commands: &str, replaced: &[(&str, &str)]) -> String {
        let mut script = commands.to_owned();
        for (there, here) in replaced {
            assert!(script.contains(there), "README.md no longer has {there:?}");
            script = script.replace(there, here);
        }
        let (cache, log) = (self.path("cache"), self.path("log"));
        let alias = format!(
            "carafe() {{ case $1 in mount) set -- \"$@\" --cache-dir {cache} --log-file {log};; \
             bench) set -- \"$@\" --big-file-size 4M --small-file-count 5;; esac; {} \"$@\"; }}",
            env!("CARGO_BIN_EXE_carafe")
        );
        let script = format!("set -euo pipefail\n{alias}\n{script}");
        ToolOutput::of(Command::new("bash").arg("-c").arg(&script)).unwrap().ok().unwrap()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        detach(Path::new(&self.path("mnt")));
    }
}

#[test]
fn the_commands_of_the_readme_run_on_a_file_and_a_folder() {
    let reader = Reader::new();
    let (meta, bucket, mount) = (reader.path("var"), reader.path("bucket"), reader.path("mnt"));
    let source = reader.path("etc");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(format!("{source}/hosts"), "127.0.0.1 localhost\n").unwrap();
    let replaced = [
        ("/var/lib/carafe", meta.as_str()),
        ("/srv/demo", &bucket),
        ("/mnt/demo", &mount),
        ("/etc ", &format!("{source} ")),
    ];
    let said = reader.run(&commands("# metadata in a local file"), &replaced);
    assert!(said.contains(&mount), "`carafe info` says nothing of {mount}: {said}");
    assert!(!is_mounted(Path::new(&mount)));
    assert!(std::fs::read_dir(&bucket).unwrap().next().is_some(), "nothing arrived in the bucket");
}

#[test]
fn the_commands_of_the_readme_run_on_redis_and_s3() {
    let options =
        RedisOptions { password: Some("hush".to_owned()), appendonly: true, ..RedisOptions::default() };
    let (redis, s3) =
        (RedisServer::start(options).unwrap(), S3Server::start_with_bucket("my-bucket").unwrap());
    let reader = Reader::new();
    let (mount, keys) = (reader.path("mnt"), S3Keys::admin());
    let replaced = [
        ("AWS_ACCESS_KEY_ID=...", format!("AWS_ACCESS_KEY_ID={}", keys.access)),
        ("AWS_SECRET_ACCESS_KEY=...", format!("AWS_SECRET_ACCESS_KEY={}", keys.secret)),
        ("CARAFE_META_PASSWORD=...", "CARAFE_META_PASSWORD=hush".to_owned()),
        ("redis.example:6379", format!("127.0.0.1:{}", redis.port())),
        ("--region eu-west-1", format!("--region eu-west-1 --endpoint {}", s3.endpoint())),
        ("/mnt/prod", mount.clone()),
    ];
    let replaced: Vec<(&str, &str)> = replaced.iter().map(|(there, here)| (*there, here.as_str())).collect();
    let mut script = commands("# metadata in Redis");
    script.push_str("\ncarafe umount /mnt/prod");
    let said = reader.run(&script, &replaced);
    assert!(said.contains("prod"), "`carafe status` says nothing of the file system: {said}");
    assert!(!is_mounted(Path::new(&mount)));
}
