//! Mounts served by child processes: a shell script stands in for `carafe mount`.

#![allow(clippy::unwrap_used, reason = "a test and its helpers")]

mod support;

use carafe_csi::{ChildOptions, ChildProcess, Config, NodeConfig, SharedMounts, SharedOptions};
use carafe_proto::csi::v1::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;
use support::*;
use tonic::Code;

/// Serves a tmpfs, which shows only with the volume's directory in it, until it is unmounted; then writes that it has
/// flushed.
const SERVES: &str = r#"
printf '%s\n' "$@" > "$0.argv"
printf '%s %s\n' "$CARAFE_META_PASSWORD" "$CARAFE_SECRET_KEY" > "$0.secrets"
mkdir "$0.made" && mount -t tmpfs carafe-twin "$0.made" && mkdir "$0.made/data"
mount --bind "$0.made" "$3" && umount "$0.made" && rmdir "$0.made"
while mountpoint -q "$3"; do sleep 0.02; done
sleep 0.1; echo flushed > "$0.flushed"
"#;

fn config_with(dir: &Scratch, script: &str, ready_timeout: Duration) -> Config {
    let program = dir.path("carafe-twin.sh");
    fs::write(&program, format!("#!/bin/sh\n{script}")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let starter = ChildProcess::new(ChildOptions {
        program,
        arguments: vec!["--cache-size".into(), "1GiB".into()],
        logs: dir.path("logs"),
        fs_type: "tmpfs".into(),
    });
    let options =
        SharedOptions { linger: Duration::ZERO, ready_timeout, ..SharedOptions::new(dir.path("base")) };
    let launcher = Arc::new(SharedMounts::new(starter, options));
    Config { node: Some(NodeConfig { node_id: "node-a".into(), launcher }), ..config(dir) }
}

async fn plugin(script: &str) -> Plugin {
    let dir = Scratch::new();
    let config = config_with(&dir, script, Duration::from_secs(20));
    Plugin::with(dir, config).await
}

fn volume() -> Volume {
    Volume { volume_id: "static".into(), volume_context: map(&[("path", "data")]), ..Volume::default() }
}

#[tokio::test]
async fn a_child_serves_gets_its_secrets_unseen_and_ends_by_being_unmounted() {
    let mut plugin = plugin(SERVES).await;
    let pairs = [("meta-url", "redis://:hush@host/1"), ("access-key", "AK"), ("secret-key", "psst")];
    let stage = NodeStageVolumeRequest { secrets: map(&pairs), ..plugin.stage_request(&volume()) };
    plugin.client.node.node_stage_volume(stage).await.unwrap();
    plugin.publish(&volume(), "pod").await.unwrap();
    fs::write(plugin.pod_path("pod/file"), "x").unwrap();
    let argv = fs::read_to_string(plugin.dir.path("carafe-twin.sh.argv")).unwrap();
    let argv: Vec<_> = argv.lines().collect();
    assert_eq!((argv[0], argv[1], &argv[3..]), ("mount", "redis://host/1", &["--cache-size", "1GiB"][..]));
    let secrets = fs::read_to_string(plugin.dir.path("carafe-twin.sh.secrets")).unwrap();
    assert_eq!(secrets, "hush psst\n");
    plugin.unpublish(&volume(), "pod").await.unwrap();
    plugin.unstage(&volume()).await.unwrap();
    let dir = plugin.stop().await;
    assert!(dir.path("carafe-twin.sh.flushed").exists(), "the plugin waits for what was written");
    assert_eq!(dir.mounts_below("base"), 0);
}

#[tokio::test]
async fn the_last_words_of_a_child_that_ends_too_soon_are_the_error() {
    let mut plugin = plugin("echo 'redis at host:6379 refused the password' >&2; exit 4").await;
    let refused = plugin.stage(&volume()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert!(refused.message().contains("refused the password"), "{refused}");
    assert!(refused.message().contains("exit status: 4"), "{refused}");
    assert_eq!(plugin.dir.mounts_below(""), 1, "only the test's own tmpfs");
}

#[tokio::test]
async fn a_child_that_does_not_get_ready_is_killed_and_its_program_missing_is_told() {
    let dir = Scratch::new();
    let pid = dir.path("carafe-twin.sh.pid");
    let config = config_with(&dir, r#"echo $$ > "$0.pid"; exec sleep 600"#, Duration::from_millis(300));
    let mut plugin = Plugin::with(dir, config).await;
    assert_eq!(plugin.stage(&volume()).await.unwrap_err().code(), Code::DeadlineExceeded);
    let pid = fs::read_to_string(pid).unwrap();
    let stat = format!("/proc/{}/stat", pid.trim());
    let ended = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    eventually("the child is gone", ended).await;
    fs::remove_file(plugin.dir.path("carafe-twin.sh")).unwrap();
    let missing = plugin.stage(&volume()).await.unwrap_err();
    assert_eq!(missing.code(), Code::FailedPrecondition, "{missing}");
}

#[tokio::test]
async fn a_child_outlives_its_plugin_and_the_next_one_adopts_it() {
    let mut plugin = plugin(SERVES).await;
    plugin.stage(&volume()).await.unwrap();
    let dir = plugin.stop().await;
    assert!(dir.path("pods/staging/.").exists());
    fs::remove_file(dir.path("carafe-twin.sh.argv")).unwrap();
    let config = config_with(&dir, SERVES, Duration::from_secs(20));
    let mut plugin = Plugin::with(dir, config).await;
    plugin.publish(&volume(), "pod").await.unwrap();
    assert!(!plugin.dir.path("carafe-twin.sh.argv").exists(), "no second child was started");
    plugin.unpublish(&volume(), "pod").await.unwrap();
    plugin.unstage(&volume()).await.unwrap();
    let dir = plugin.stop().await;
    assert_eq!(dir.mounts_below("base"), 0);
}

#[tokio::test]
async fn a_dead_mount_of_the_file_system_is_replaced() {
    let mut plugin = plugin(SERVES).await;
    plugin.stage(&volume()).await.unwrap();
    let source = fs::read_dir(plugin.dir.path("base/mnt")).unwrap().next().unwrap().unwrap().path();
    plugin.unstage(&volume()).await.unwrap();
    let dir = plugin.dir.clone();
    eventually("the idle mount ends", || dir.mounts_below("base") == 0).await;
    fs::create_dir_all(&source).unwrap();
    mount_dead(&source);
    plugin.stage(&volume()).await.unwrap();
    assert_eq!(plugin.dir.mounts_below("base"), 1);
    assert!(plugin.dir.path("pods/staging/.").exists());
}

#[tokio::test]
async fn a_call_whose_caller_gave_up_runs_to_its_end() {
    let mut plugin = plugin(&format!("sleep 0.4\n{SERVES}")).await;
    let request = plugin.stage_request(&volume());
    let call = plugin.client.node.node_stage_volume(request);
    assert!(tokio::time::timeout(Duration::from_millis(100), call).await.is_err());
    let busy = plugin.stage(&volume()).await.unwrap_err();
    assert_eq!(busy.code(), Code::Aborted, "{busy}");
    let dir = plugin.dir.clone();
    eventually("the volume is staged", || dir.mounts_at("pods/staging") == 1).await;
}
