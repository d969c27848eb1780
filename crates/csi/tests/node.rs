//! The Node service with real mounts, asked over its socket.

mod support;

use carafe_csi::client::mount_capability;
use carafe_csi::mount::table::MountTable;
use carafe_proto::csi::v1::volume_capability::access_mode::Mode;
use carafe_proto::csi::v1::volume_usage::Unit;
use carafe_proto::csi::v1::*;
use rustix::mount::MountFlags;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use support::*;
use tonic::Code;

#[tokio::test]
async fn a_volume_lives_from_stage_to_unstage_and_leaves_nothing_behind() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    plugin.stage(&volume).await.unwrap();
    plugin.publish(&volume, "pod-a").await.unwrap();
    plugin.publish(&volume, "pod-b").await.unwrap();
    fs::write(plugin.pod_path("pod-a/file"), "hello").unwrap();
    assert_eq!(fs::read_to_string(plugin.pod_path("pod-b/file")).unwrap(), "hello");
    let inside = plugin.dir.path("fs").join(&volume.volume_context["path"]);
    assert_eq!(fs::read_to_string(inside.join("file")).unwrap(), "hello");
    assert_eq!(fs::metadata(inside).unwrap().permissions().mode() & 0o7777, 0o777);

    plugin.unpublish(&volume, "pod-a").await.unwrap();
    plugin.unpublish(&volume, "pod-b").await.unwrap();
    plugin.unstage(&volume).await.unwrap();
    assert_eq!(plugin.dir.mounts_below("pods"), 0);
    assert_eq!(fs::read_dir(plugin.dir.path("pods")).unwrap().count(), 0);
    let dir = plugin.dir.clone();
    eventually("the idle mount ends", || dir.mounts_below("base") == 0).await;
}

#[tokio::test]
async fn every_call_may_be_repeated_in_every_state() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    plugin.unpublish(&volume, "pod").await.unwrap();
    plugin.unstage(&volume).await.unwrap();
    for _ in 0..2 {
        plugin.stage(&volume).await.unwrap();
    }
    for _ in 0..3 {
        plugin.publish(&volume, "pod").await.unwrap();
    }
    assert_eq!((plugin.dir.mounts_at("pods/staging"), plugin.dir.mounts_at("pods/pod")), (1, 1));
    for _ in 0..2 {
        plugin.unpublish(&volume, "pod").await.unwrap();
    }
    for _ in 0..2 {
        plugin.unstage(&volume).await.unwrap();
    }
}

#[tokio::test]
async fn a_reader_cannot_write_though_the_volume_is_writable_elsewhere() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    plugin.stage(&volume).await.unwrap();
    plugin.publish(&volume, "writer").await.unwrap();
    let readonly = NodePublishVolumeRequest { readonly: true, ..plugin.publish_request(&volume, "reader") };
    plugin.client.node.node_publish_volume(readonly.clone()).await.unwrap();
    let capability = Some(mount_capability(Mode::MultiNodeReaderOnly));
    let reader =
        NodePublishVolumeRequest { volume_capability: capability, ..plugin.publish_request(&volume, "rox") };
    plugin.client.node.node_publish_volume(reader).await.unwrap();
    fs::write(plugin.pod_path("writer/file"), "x").unwrap();
    for target in ["reader", "rox"] {
        let refused = fs::write(plugin.pod_path(&format!("{target}/other")), "x").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        assert!(fs::read(plugin.pod_path(&format!("{target}/file"))).is_ok());
    }
    plugin.client.node.node_publish_volume(readonly).await.unwrap();
    let other_mode = plugin.publish(&volume, "reader").await.unwrap_err();
    assert_eq!(other_mode.code(), Code::AlreadyExists, "{other_mode}");
}

#[tokio::test]
async fn mount_flags_become_attributes_of_the_mount() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    let mut request = plugin.publish_request(&volume, "pod");
    if let Some(volume_capability::AccessType::Mount(mount)) =
        &mut request.volume_capability.as_mut().unwrap().access_type
    {
        mount.mount_flags = vec!["noexec".into(), "noatime,nosuid".into()];
    }
    plugin.client.node.node_publish_volume(request).await.unwrap();
    let table = MountTable::read().unwrap();
    let options = &table.top(&plugin.dir.path("pods/pod")).unwrap().options;
    assert!(["noexec", "noatime", "nosuid"].iter().all(|flag| options.contains(flag)), "{options}");
}

#[tokio::test]
async fn a_single_writer_has_one_target_and_gets_another_after_the_first() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    let single = |plugin: &Plugin, target: &str| NodePublishVolumeRequest {
        volume_capability: Some(mount_capability(Mode::SingleNodeSingleWriter)),
        ..plugin.publish_request(&volume, target)
    };
    plugin.stage(&volume).await.unwrap();
    let (first, second) = (single(&plugin, "first"), single(&plugin, "second"));
    plugin.client.node.node_publish_volume(first.clone()).await.unwrap();
    plugin.client.node.node_publish_volume(first).await.unwrap();
    let refused = plugin.client.node.node_publish_volume(second.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("first"), "{refused}");
    assert!(!plugin.dir.path("pods/second").exists());
    plugin.unpublish(&volume, "first").await.unwrap();
    plugin.client.node.node_publish_volume(second).await.unwrap();
}

#[tokio::test]
async fn publishing_heals_by_itself_when_the_volume_is_not_staged() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    plugin.publish(&volume, "pod").await.unwrap();
    fs::write(plugin.pod_path("pod/file"), "x").unwrap();
    let nowhere = NodePublishVolumeRequest {
        staging_target_path: String::new(),
        ..plugin.publish_request(&volume, "pod")
    };
    let refused = plugin.client.node.node_publish_volume(nowhere).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn a_symbolic_link_on_the_way_to_a_volume_is_never_followed() {
    let mut plugin = Plugin::start().await;
    fs::create_dir(plugin.dir.path("fs/real")).unwrap();
    std::os::unix::fs::symlink("/etc", plugin.dir.path("fs/link")).unwrap();
    std::os::unix::fs::symlink("real", plugin.dir.path("fs/inner")).unwrap();
    for path in ["link", "inner", "link/ssh"] {
        let volume = Volume {
            volume_id: "static".into(),
            volume_context: map(&[("path", path)]),
            ..Volume::default()
        };
        let refused = plugin.publish(&volume, "pod").await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    }
    let volume =
        Volume { volume_id: "static".into(), volume_context: map(&[("path", "../x")]), ..Volume::default() };
    assert_eq!(plugin.publish(&volume, "pod").await.unwrap_err().code(), Code::InvalidArgument);
    let volume =
        Volume { volume_id: "static".into(), volume_context: map(&[("path", "none")]), ..Volume::default() };
    assert_eq!(plugin.publish(&volume, "pod").await.unwrap_err().code(), Code::NotFound);
    assert_eq!(plugin.dir.mounts_below("pods"), 0);
    assert!(!plugin.dir.path("pods/pod").exists(), "a failed publish leaves no bare directory");
    let volume =
        Volume { volume_id: "static".into(), volume_context: map(&[("path", "/real")]), ..Volume::default() };
    plugin.publish(&volume, "pod").await.unwrap();
}

#[tokio::test]
async fn static_volumes_that_overlap_are_refused_until_the_other_is_gone() {
    let mut plugin = Plugin::start().await;
    fs::create_dir_all(plugin.dir.path("fs/outer/inner")).unwrap();
    let volume = |id: &str, path: &str| Volume {
        volume_id: id.into(),
        volume_context: map(&[("path", path)]),
        ..Volume::default()
    };
    let (outer, inner) = (volume("outer", "outer"), volume("inner", "outer/inner"));
    plugin.publish(&inner, "pod-inner").await.unwrap();
    let refused = plugin.publish(&outer, "pod-outer").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(
        refused.message().contains("\"outer/inner\"") && refused.message().contains("isolation"),
        "{refused}"
    );
    assert!(!plugin.dir.path("pods/pod-outer").exists(), "nothing half-made is left behind");
    // The very same directory by another name is no overlap.
    plugin.publish(&volume("again", "outer/inner"), "pod-again").await.unwrap();
    for (volume, pod) in [(&inner, "pod-inner"), (&inner, "pod-again")] {
        plugin.unpublish(volume, pod).await.unwrap();
    }
    plugin.publish(&outer, "pod-outer").await.unwrap();
    let refused = plugin.publish(&inner, "pod-inner").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn a_mount_of_somebody_else_on_the_target_is_left_alone() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    let target = plugin.dir.path("pods/pod");
    fs::create_dir(&target).unwrap();
    rustix::mount::mount("precious", &target, "tmpfs", MountFlags::empty(), None::<&std::ffi::CStr>).unwrap();
    let refused = plugin.publish(&volume, "pod").await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists);
    assert!(refused.message().contains("precious"), "{refused}");
    assert_eq!(plugin.dir.mounts_at("pods/pod"), 1);
}

#[tokio::test]
async fn a_dead_target_is_covered_by_a_new_mount_and_both_go_with_unpublish() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    for name in ["staging", "pod"] {
        let point = plugin.dir.path("pods").join(name);
        fs::create_dir(&point).unwrap();
        mount_dead(&point);
    }
    let stats = NodeGetVolumeStatsRequest {
        volume_id: volume.volume_id.clone(),
        volume_path: plugin.pod_path("pod"),
        ..Default::default()
    };
    assert_eq!(plugin.client.node.node_get_volume_stats(stats).await.unwrap_err().code(), Code::Internal);
    plugin.stage(&volume).await.unwrap();
    plugin.publish(&volume, "pod").await.unwrap();
    fs::write(plugin.pod_path("pod/file"), "x").unwrap();
    assert_eq!(plugin.dir.mounts_at("pods/pod"), 2);
    plugin.unpublish(&volume, "pod").await.unwrap();
    plugin.unstage(&volume).await.unwrap();
    assert_eq!(plugin.dir.mounts_below("pods"), 0);
    assert!(!plugin.dir.path("pods/pod").exists());
}

#[tokio::test]
async fn a_volume_is_unpublished_though_its_daemon_is_dead_or_its_files_are_open() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    plugin.publish(&volume, "busy").await.unwrap();
    let open = fs::File::create(plugin.pod_path("busy/file")).unwrap();
    plugin.unpublish(&volume, "busy").await.unwrap();
    assert!(!plugin.dir.path("pods/busy").exists());
    assert!(open.metadata().is_ok());
    let dead = plugin.dir.path("pods/dead");
    fs::create_dir(&dead).unwrap();
    mount_dead(&dead);
    plugin.unpublish(&volume, "dead").await.unwrap();
    assert!(!dead.exists());
}

#[tokio::test]
async fn files_that_were_written_beside_the_volume_are_not_deleted() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    fs::create_dir(plugin.dir.path("pods/pod")).unwrap();
    fs::write(plugin.dir.path("pods/pod/stray"), "x").unwrap();
    let refused = plugin.unpublish(&volume, "pod").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(plugin.dir.path("pods/pod/stray").exists());
}

#[tokio::test]
async fn statistics_are_those_of_the_mount_and_only_of_a_mount_of_ours() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    plugin.stage(&volume).await.unwrap();
    plugin.publish(&volume, "pod").await.unwrap();
    fs::write(plugin.pod_path("pod/file"), vec![1; 1 << 20]).unwrap();
    let stats = |path: String| NodeGetVolumeStatsRequest {
        volume_id: volume.volume_id.clone(),
        volume_path: path,
        ..Default::default()
    };
    let told =
        plugin.client.node.node_get_volume_stats(stats(plugin.pod_path("pod"))).await.unwrap().into_inner();
    let bytes = told.usage.iter().find(|usage| usage.unit == i32::from(Unit::Bytes)).unwrap();
    assert_eq!((bytes.total, bytes.used, bytes.available), (16 << 20, 1 << 20, 15 << 20));
    assert!(told.usage.iter().any(|usage| usage.unit == i32::from(Unit::Inodes) && usage.used > 1));
    for path in [plugin.pod_path("nothing"), "/proc".to_owned(), "some/path".to_owned()] {
        let missing = plugin.client.node.node_get_volume_stats(stats(path)).await.unwrap_err();
        assert_eq!(missing.code(), Code::NotFound);
    }
    let expand = NodeExpandVolumeRequest {
        volume_id: volume.volume_id.clone(),
        volume_path: plugin.pod_path("pod"),
        ..Default::default()
    };
    assert_eq!(
        plugin.client.node.node_expand_volume(expand).await.unwrap().into_inner().capacity_bytes,
        16 << 20
    );
}

#[tokio::test]
async fn calls_without_their_required_fields_are_refused() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    let node = &mut plugin.client.node;
    let (stage, publish) = (NodeStageVolumeRequest::default(), NodePublishVolumeRequest::default());
    assert_eq!(node.node_stage_volume(stage).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(node.node_publish_volume(publish).await.unwrap_err().code(), Code::InvalidArgument);
    let relative = NodeUnpublishVolumeRequest { volume_id: "v".into(), target_path: "relative".into() };
    assert_eq!(node.node_unpublish_volume(relative).await.unwrap_err().code(), Code::InvalidArgument);
    let mut request = plugin.stage_request(&volume);
    request.volume_capability = None;
    let refused = plugin.client.node.node_stage_volume(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let info = plugin.client.node.node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.node_id, "node-a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_at_the_same_time_end_in_one_mount_each() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..40 {
        let mut node = plugin.client.node.clone();
        let (stage, publish) =
            (plugin.stage_request(&volume), plugin.publish_request(&volume, &format!("p{}", n % 4)));
        calls.spawn(async move {
            if n % 5 == 0 {
                node.node_stage_volume(stage).await.map(drop)
            } else {
                node.node_publish_volume(publish).await.map(drop)
            }
        });
    }
    while let Some(result) = calls.join_next().await {
        if let Err(status) = result.unwrap() {
            assert_eq!(status.code(), Code::Aborted, "{status}");
        }
    }
    for n in 0..4 {
        assert_eq!(plugin.dir.mounts_at(&format!("pods/p{n}")), 1);
    }
    assert_eq!(plugin.dir.mounts_at("pods/staging"), 1);
}

#[tokio::test]
async fn a_plugin_that_restarts_goes_on_with_the_mounts_that_are_there() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    plugin.stage(&volume).await.unwrap();
    plugin.publish(&volume, "pod").await.unwrap();
    let dir = plugin.stop().await;
    assert_eq!(dir.mounts_below("base"), 1, "a mount in use outlives the plugin");
    let config = config(&dir);
    let mut plugin = Plugin::with(dir, config).await;
    plugin.stage(&volume).await.unwrap();
    plugin.publish(&volume, "pod").await.unwrap();
    plugin.publish(&volume, "pod-b").await.unwrap();
    assert_eq!(plugin.dir.mounts_below("base"), 1);
    assert_eq!(plugin.dir.mounts_at("pods/pod"), 1);
    for target in ["pod", "pod-b"] {
        plugin.unpublish(&volume, target).await.unwrap();
    }
    plugin.unstage(&volume).await.unwrap();
    let dir = plugin.stop().await;
    assert_eq!(dir.mounts_below("base") + dir.mounts_below("pods"), 0);
}

#[tokio::test]
async fn an_fs_group_gets_the_directory_of_the_volume_once() {
    use carafe_proto::csi::v1::volume_capability::AccessType;
    use std::os::unix::fs::MetadataExt;
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    let inside = plugin.dir.path("fs").join(&volume.volume_context["path"]);
    std::fs::write(inside.join("before"), "x").unwrap();
    let with = |mut request: NodePublishVolumeRequest, group: &str| {
        let access = request.volume_capability.as_mut().and_then(|c| c.access_type.as_mut());
        if let Some(AccessType::Mount(mount)) = access {
            mount.volume_mount_group = group.to_owned();
        }
        request
    };
    for (target, group) in [("one", "101"), ("two", "202")] {
        let request = with(plugin.publish_request(&volume, target), group);
        plugin.client.node.node_publish_volume(request).await.unwrap();
        let root = std::fs::metadata(&inside).unwrap();
        assert_eq!((root.gid(), root.mode() & 0o7777), (101, 0o2777), "{group}");
    }
    assert_eq!(std::fs::metadata(inside.join("before")).unwrap().gid(), 0, "nothing below is touched");
    // A volume with a group of its own keeps it.
    let request =
        CreateVolumeRequest { parameters: map(&[("gid", "7"), ("mode", "750")]), ..create("pvc-2", 1) };
    let own = plugin.client.controller.create_volume(request).await.unwrap().into_inner().volume.unwrap();
    let request = with(plugin.publish_request(&own, "three"), "101");
    plugin.client.node.node_publish_volume(request).await.unwrap();
    let root = std::fs::metadata(plugin.dir.path("fs").join(&own.volume_context["path"])).unwrap();
    assert_eq!((root.gid(), root.mode() & 0o7777), (7, 0o750));
}

#[tokio::test]
async fn inline_volumes_and_misspelt_attributes_are_refused_with_what_to_do() {
    let mut plugin = Plugin::start().await;
    let cases = [
        (map(&[("csi.storage.k8s.io/ephemeral", "true")]), "volumeClaimTemplate"),
        (map(&[("pth", "a"), ("cahce", "disk")]), r#""cahce", "pth""#),
        (map(&[("path", "a"), ("fileSystem", "mine"), ("cacheSize", "lots")]), r#""cacheSize" is "lots""#),
    ];
    for (volume_context, part) in cases {
        let volume = Volume { volume_id: "static".into(), volume_context, ..Volume::default() };
        let status = plugin.publish(&volume, "a").await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
        assert!(status.message().contains(part), "{part} is not in {status}");
    }
}
