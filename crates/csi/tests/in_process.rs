//! Mounts that the plugin's own process serves, by a callback.
#![allow(clippy::unwrap_used, reason = "a test and its helpers")]

mod support;

use carafe_csi::launcher::{Refusal, RefusalKind, ServingMount};
use carafe_csi::{Config, InProcess, NodeConfig, SharedMounts, SharedOptions};
use carafe_proto::csi::v1::Volume;
use rustix::mount::MountFlags;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::*;
use tonic::Code;

struct Served(Arc<AtomicUsize>);

#[tonic::async_trait]
impl ServingMount for Served {
    async fn ended(self: Box<Self>) -> Result<(), String> {
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.0.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

fn config_with(dir: &Scratch, serving: &Arc<AtomicUsize>, started: &Arc<AtomicUsize>) -> Config {
    let (serving, started) = (Arc::clone(serving), Arc::clone(started));
    let starter = InProcess::new("tmpfs", move |address, point| {
        let (serving, started) = (Arc::clone(&serving), Arc::clone(&started));
        async move {
            if address.public_url().host_str() == Some("fenced") {
                return Err(Refusal { kind: RefusalKind::Unfit, reason: "format 9 is too new".into() });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            rustix::mount::mount("in-process", &point, "tmpfs", MountFlags::empty(), None::<&std::ffi::CStr>)
                .unwrap();
            for name in ["a", "b"] {
                std::fs::create_dir(point.join(name)).unwrap();
            }
            started.fetch_add(1, Ordering::SeqCst);
            serving.fetch_add(1, Ordering::SeqCst);
            Ok(Box::new(Served(serving)) as Box<dyn ServingMount>)
        }
    });
    let options = SharedOptions { linger: Duration::ZERO, ..SharedOptions::new(dir.path("base")) };
    let launcher = Arc::new(SharedMounts::new(starter, options));
    Config { node: Some(NodeConfig { node_id: "node-a".into(), launcher }), ..config(dir) }
}

fn volume(name: &str) -> Volume {
    Volume { volume_id: name.into(), volume_context: map(&[("path", name)]), ..Volume::default() }
}

#[tokio::test]
async fn volumes_of_one_file_system_share_one_mount_that_ends_with_the_last_of_them() {
    let dir = Scratch::new();
    let (serving, started) = (Arc::default(), Arc::default());
    let config = config_with(&dir, &serving, &started);
    let mut plugin = Plugin::with(dir, config).await;
    let (mut one, mut other) = (plugin.client.node.clone(), plugin.client.node.clone());
    let (a, b) =
        (plugin.publish_request(&volume("a"), "pod-a"), plugin.publish_request(&volume("b"), "pod-b"));
    let (a, b) = tokio::join!(one.node_publish_volume(a), other.node_publish_volume(b));
    assert!(a.is_ok() && b.is_ok(), "{a:?} {b:?}");
    assert_eq!(started.load(Ordering::SeqCst), 1, "both waited for one mount");
    plugin.unpublish(&volume("a"), "pod-a").await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(serving.load(Ordering::SeqCst), 1, "the other volume still refers to it");
    plugin.unpublish(&volume("b"), "pod-b").await.unwrap();
    let dir = plugin.stop().await;
    assert_eq!(serving.load(Ordering::SeqCst), 0, "the end is waited for");
    assert_eq!(dir.mounts_below("base"), 0);
}

#[tokio::test]
async fn a_refusal_of_the_callback_is_told_with_its_kind() {
    let dir = Scratch::new();
    let config = config_with(&dir, &Arc::default(), &Arc::default());
    let mut plugin = Plugin::with(dir, config).await;
    let mut request = plugin.stage_request(&volume("a"));
    request.secrets = map(&[("meta-url", "redis://fenced")]);
    let refused = plugin.client.node.node_stage_volume(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("format 9"), "{refused}");
}
