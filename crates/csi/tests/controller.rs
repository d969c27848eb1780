//! The Identity and Controller services, asked over their socket.

mod support;

use carafe_csi::client::mount_capability;
use carafe_csi::store::{MemoryFileSystems, MemoryStore};
use carafe_csi::{Config, FsAddress, VolumeId};
use carafe_proto::csi::v1::volume_capability::access_mode::Mode;
use carafe_proto::csi::v1::volume_capability::{AccessType, BlockVolume};
use carafe_proto::csi::v1::*;
use std::sync::Arc;
use support::*;
use tonic::Code;
use uuid::Uuid;

#[tokio::test]
async fn the_plugin_tells_who_it_is_and_only_what_it_can() {
    let mut plugin = Plugin::start().await;
    let info = plugin.client.identity.get_plugin_info(GetPluginInfoRequest {}).await.unwrap().into_inner();
    assert_eq!((info.name.as_str(), info.vendor_version.as_str()), ("csi.carafe.dev", "0.0.0-test"));
    let probe = plugin.client.identity.probe(ProbeRequest {}).await.unwrap().into_inner();
    assert_eq!(probe.ready, Some(true));
    let told =
        plugin.client.controller.controller_get_capabilities(ControllerGetCapabilitiesRequest {}).await;
    assert_eq!(told.unwrap().into_inner().capabilities.len(), 11);
    let attach = ControllerPublishVolumeRequest::default();
    let unserved = plugin.client.controller.controller_publish_volume(attach).await.unwrap_err();
    assert_eq!(unserved.code(), Code::Unimplemented);
}

#[tokio::test]
async fn the_same_name_is_the_same_volume_and_another_size_or_parameter_is_an_error() {
    let mut plugin = Plugin::start().await;
    let first = plugin.create("pvc-1").await;
    assert_eq!((first.capacity_bytes, first.volume_id.len()), (1 << 20, 57));
    assert_eq!(first.volume_context["path"], format!("volumes/{}", first.volume_id));
    assert_eq!(plugin.create("pvc-1").await, first);
    let bigger = plugin.client.controller.create_volume(create("pvc-1", 2 << 20)).await.unwrap_err();
    assert_eq!(bigger.code(), Code::AlreadyExists);
    assert!(bigger.message().contains("1048576") && bigger.message().contains("2097152"), "{bigger}");
    let other = CreateVolumeRequest { parameters: map(&[("uid", "7")]), ..create("pvc-1", 1 << 20) };
    assert_eq!(plugin.client.controller.create_volume(other).await.unwrap_err().code(), Code::AlreadyExists);
}

#[tokio::test]
async fn a_request_that_can_never_work_is_refused_with_every_reason() {
    let mut plugin = Plugin::start().await;
    let mut block = mount_capability(Mode::SingleNodeWriter);
    block.access_type = Some(AccessType::Block(BlockVolume {}));
    let good = create("pvc-1", 1);
    let cases = [
        (CreateVolumeRequest { name: String::new(), ..good.clone() }, "has no name"),
        (CreateVolumeRequest { volume_capabilities: vec![], ..good.clone() }, "has no volume_capabilities"),
        (CreateVolumeRequest { volume_capabilities: vec![block], ..good.clone() }, "volumeMode Filesystem"),
        (CreateVolumeRequest { parameters: map(&[("a", ""), ("b", "")]), ..good.clone() }, r#""a", "b""#),
        (CreateVolumeRequest { secrets: map(&[("meta", "x")]), ..good.clone() }, r#""meta""#),
        (
            CreateVolumeRequest {
                volume_content_source: Some(VolumeContentSource::default()),
                ..good.clone()
            },
            "volume_content_source.type",
        ),
    ];
    for (request, part) in cases {
        let status = plugin.client.controller.create_volume(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(part), "{part:?} is not in {status}");
    }
    let range = Some(CapacityRange { required_bytes: 9, limit_bytes: 5 });
    let request = CreateVolumeRequest { capacity_range: range, ..good };
    assert_eq!(plugin.client.controller.create_volume(request).await.unwrap_err().code(), Code::OutOfRange);
}

#[tokio::test]
async fn deleting_twice_or_what_was_never_there_succeeds() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    let directory = plugin.dir.path("fs").join(&volume.volume_context["path"]);
    assert!(directory.is_dir());
    for id in [volume.volume_id.as_str(), volume.volume_id.as_str(), "a static volume"] {
        let request = DeleteVolumeRequest { volume_id: id.to_owned(), ..Default::default() };
        plugin.client.controller.delete_volume(request).await.unwrap();
    }
    assert!(!directory.exists());
    let nothing = plugin.client.controller.delete_volume(DeleteVolumeRequest::default()).await.unwrap_err();
    assert_eq!(nothing.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_volume_is_never_deleted_through_the_wrong_secret_or_none() {
    let dir = Scratch::new();
    let other = "redis://other/0";
    let stores = memory(&dir).with(other, MemoryStore::new(Uuid::from_u128(2)));
    let unconfigured = Config { file_systems: vec![], controller: Some(Arc::new(stores)), ..config(&dir) };
    let mut plugin = Plugin::with(dir, unconfigured).await;
    let id = VolumeId::new(FS, "pvc-1").to_string();
    let delete = |secrets| DeleteVolumeRequest { volume_id: id.clone(), secrets };
    let none = plugin.client.controller.delete_volume(delete(map(&[]))).await.unwrap_err();
    assert_eq!(none.code(), Code::FailedPrecondition);
    assert!(none.message().contains("meta-url"), "{none}");
    let wrong =
        plugin.client.controller.delete_volume(delete(map(&[("meta-url", other)]))).await.unwrap_err();
    assert_eq!(wrong.code(), Code::FailedPrecondition);
    assert!(wrong.message().contains(&FS.to_string()), "{wrong}");
    let right = plugin.client.controller.delete_volume(delete(map(&[("metaurl", URL)]))).await;
    assert!(right.is_ok());
    let gone = plugin.client.controller.delete_volume(delete(map(&[("meta-url", "redis://nobody")]))).await;
    assert_eq!(gone.unwrap_err().code(), Code::Unavailable);
    let told =
        plugin.client.controller.controller_get_capabilities(ControllerGetCapabilitiesRequest {}).await;
    assert_eq!(
        told.unwrap().into_inner().capabilities.len(),
        6,
        "nothing is told that needs a configuration"
    );
}

#[tokio::test]
async fn a_volume_grows_to_the_byte_and_is_told_so() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    let expand = |id: &str, required_bytes, limit_bytes| ControllerExpandVolumeRequest {
        volume_id: id.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes, limit_bytes }),
        ..Default::default()
    };
    let grown =
        plugin.client.controller.controller_expand_volume(expand(&volume.volume_id, 1_048_577, 0)).await;
    let grown = grown.unwrap().into_inner();
    assert_eq!((grown.capacity_bytes, grown.node_expansion_required), (1_048_577, false));
    let less =
        plugin.client.controller.controller_expand_volume(expand(&volume.volume_id, 5, 0)).await.unwrap();
    assert_eq!(less.into_inner().capacity_bytes, 1_048_577);
    let shrink = plugin.client.controller.controller_expand_volume(expand(&volume.volume_id, 5, 9)).await;
    assert_eq!(shrink.unwrap_err().code(), Code::OutOfRange);
    for unknown in [VolumeId::new(FS, "other").to_string(), "static".to_owned()] {
        let missing = plugin.client.controller.controller_expand_volume(expand(&unknown, 5, 0)).await;
        assert_eq!(missing.unwrap_err().code(), Code::NotFound);
    }
    let get = ControllerGetVolumeRequest { volume_id: volume.volume_id.clone() };
    let told =
        plugin.client.controller.controller_get_volume(get).await.unwrap().into_inner().volume.unwrap();
    assert_eq!((told.capacity_bytes, told.volume_id), (1_048_577, volume.volume_id));
}

#[tokio::test]
async fn capabilities_are_confirmed_or_the_reason_is_told() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    let request = ValidateVolumeCapabilitiesRequest {
        volume_id: volume.volume_id,
        volume_context: volume.volume_context,
        volume_capabilities: vec![mount_capability(Mode::SingleNodeSingleWriter)],
        ..Default::default()
    };
    let mut block = request.clone();
    block.volume_capabilities[0].access_type = Some(AccessType::Block(BlockVolume {}));
    let unknown = ValidateVolumeCapabilitiesRequest { volume_id: "nobody's".into(), ..request.clone() };
    let controller = &mut plugin.client.controller;
    let confirmed = controller.validate_volume_capabilities(request).await.unwrap().into_inner();
    assert!(confirmed.confirmed.is_some());
    let refused = controller.validate_volume_capabilities(block).await.unwrap().into_inner();
    assert!(refused.confirmed.is_none() && refused.message.contains("block"), "{refused:?}");
    assert_eq!(controller.validate_volume_capabilities(unknown).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn volumes_of_several_file_systems_are_listed_page_by_page_each_once() {
    let dir = Scratch::new();
    let urls = ["redis://b/0", "redis://a/0", "redis://empty/0"];
    let mut stores = MemoryFileSystems::default();
    for (n, url) in urls.iter().enumerate() {
        stores = stores.with(url, MemoryStore::new(Uuid::from_u128(9 - n as u128)).with_limit(100));
    }
    let file_systems = urls.iter().map(|url| FsAddress::new(url, None).unwrap()).collect();
    let config = Config { file_systems, controller: Some(Arc::new(stores)), ..config(&dir) };
    let mut plugin = Plugin::with(dir, config).await;
    let controller = &mut plugin.client.controller;
    let capacity = controller.get_capacity(GetCapacityRequest::default()).await.unwrap().into_inner();
    assert_eq!(capacity.available_capacity, 300);
    let mut made = Vec::new();
    for n in 0..7 {
        let secrets = map(&[("meta-url", urls[n % 2])]);
        let request = CreateVolumeRequest { secrets, ..create(&format!("pvc-{n}"), 10) };
        made.push(controller.create_volume(request).await.unwrap().into_inner().volume.unwrap().volume_id);
    }
    let (mut seen, mut starting_token) = (Vec::new(), String::new());
    loop {
        let page = ListVolumesRequest { max_entries: 2, starting_token };
        let page = controller.list_volumes(page).await.unwrap().into_inner();
        assert!(page.entries.len() <= 2);
        seen.extend(page.entries.into_iter().map(|entry| entry.volume.unwrap().volume_id));
        starting_token = page.next_token;
        if starting_token.is_empty() {
            break;
        }
    }
    let mut sorted = seen.clone();
    sorted.sort();
    made.sort();
    assert_eq!(sorted, made);
    let bad = ListVolumesRequest { max_entries: 0, starting_token: "not a token".into() };
    assert_eq!(controller.list_volumes(bad).await.unwrap_err().code(), Code::Aborted);
    let negative = ListVolumesRequest { max_entries: -1, starting_token: String::new() };
    assert_eq!(controller.list_volumes(negative).await.unwrap_err().code(), Code::InvalidArgument);
    let capacity = controller.get_capacity(GetCapacityRequest::default()).await.unwrap().into_inner();
    assert_eq!(capacity.available_capacity, 230);
}
