//! Snapshots, clones and settings, asked over the socket.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use carafe_csi::store::MemoryStore;
use carafe_csi::{Config, FsAddress, SnapshotId, VolumeId};
use carafe_proto::csi::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use carafe_proto::csi::v1::*;
use std::sync::Arc;
use support::*;
use tonic::Code;
use uuid::Uuid;

fn snapshot(name: &str, volume: &str) -> CreateSnapshotRequest {
    CreateSnapshotRequest {
        name: name.to_owned(),
        source_volume_id: volume.to_owned(),
        ..CreateSnapshotRequest::default()
    }
}

fn from(source: Type, request: CreateVolumeRequest) -> CreateVolumeRequest {
    CreateVolumeRequest {
        volume_content_source: Some(VolumeContentSource { r#type: Some(source) }),
        ..request
    }
}

fn of_snapshot(id: &str) -> Type {
    Type::Snapshot(SnapshotSource { snapshot_id: id.to_owned() })
}

fn of_volume(id: &str) -> Type {
    Type::Volume(VolumeSource { volume_id: id.to_owned() })
}

#[tokio::test]
async fn a_snapshot_is_made_once_listed_found_and_deleted() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    let other = plugin.create("pvc-2").await;
    let controller = &mut plugin.client.controller;
    let request = snapshot("s", &volume.volume_id);
    let made = controller.create_snapshot(request.clone()).await.unwrap().into_inner().snapshot.unwrap();
    assert!(made.ready_to_use && made.creation_time.is_some());
    assert_eq!((made.size_bytes, made.source_volume_id.as_str()), (1 << 20, volume.volume_id.as_str()));
    let again = controller.create_snapshot(request).await.unwrap().into_inner().snapshot.unwrap();
    assert_eq!(again, made);
    let differs = controller.create_snapshot(snapshot("s", &other.volume_id)).await.unwrap_err();
    assert_eq!(differs.code(), Code::AlreadyExists);
    for n in 0..3 {
        controller.create_snapshot(snapshot(&format!("o{n}"), &other.volume_id)).await.unwrap();
    }
    let (mut seen, mut starting_token) = (Vec::new(), String::new());
    loop {
        let source_volume_id = other.volume_id.clone();
        let page =
            ListSnapshotsRequest { max_entries: 2, starting_token, source_volume_id, ..Default::default() };
        let page = controller.list_snapshots(page).await.unwrap().into_inner();
        seen.extend(page.entries.into_iter().map(|entry| entry.snapshot.unwrap().snapshot_id));
        starting_token = page.next_token;
        if starting_token.is_empty() {
            break;
        }
    }
    assert_eq!(seen.len(), 3);
    let by_id = |id: &str| ListSnapshotsRequest { snapshot_id: id.to_owned(), ..Default::default() };
    let found = controller.list_snapshots(by_id(&made.snapshot_id)).await.unwrap().into_inner().entries;
    assert_eq!(found[0].snapshot.as_ref(), Some(&made));
    assert!(controller.list_snapshots(by_id("nobody's")).await.unwrap().into_inner().entries.is_empty());
    let bad = ListSnapshotsRequest { starting_token: "none".into(), ..Default::default() };
    assert_eq!(controller.list_snapshots(bad).await.unwrap_err().code(), Code::Aborted);
    let get = |id: &str| GetSnapshotRequest { snapshot_id: id.to_owned(), ..Default::default() };
    assert_eq!(
        controller.get_snapshot(get(&made.snapshot_id)).await.unwrap().into_inner().snapshot,
        Some(made.clone())
    );
    for id in [made.snapshot_id.as_str(), made.snapshot_id.as_str(), "nobody's"] {
        let request = DeleteSnapshotRequest { snapshot_id: id.to_owned(), ..Default::default() };
        controller.delete_snapshot(request).await.unwrap();
    }
    for id in [made.snapshot_id.as_str(), "nobody's"] {
        assert_eq!(controller.get_snapshot(get(id)).await.unwrap_err().code(), Code::NotFound);
    }
}

#[tokio::test]
async fn a_snapshot_that_can_never_be_is_refused_with_the_reason() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    let good = snapshot("s", &volume.volume_id);
    let parameters = map(&[("csi.storage.k8s.io/volumesnapshot/name", "x"), ("copies", "2"), ("b", "")]);
    let cases = [
        (snapshot("", &volume.volume_id), Code::InvalidArgument, "has no name"),
        (snapshot("s", ""), Code::InvalidArgument, "source_volume_id"),
        (CreateSnapshotRequest { parameters, ..good }, Code::InvalidArgument, r#"["b", "copies"]"#),
        (snapshot("s", "nobody's"), Code::NotFound, "nobody's"),
        (snapshot("s", VolumeId::new(FS, "gone").as_str()), Code::NotFound, "deleted, or never created"),
    ];
    for (request, code, part) in cases {
        let status = plugin.client.controller.create_snapshot(request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(part), "{part:?} is not in {status}");
    }
}

#[tokio::test]
async fn a_volume_from_a_source_says_so_and_another_source_is_another_volume() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    let controller = &mut plugin.client.controller;
    let cut = controller.create_snapshot(snapshot("s", &volume.volume_id)).await.unwrap();
    let cut = cut.into_inner().snapshot.unwrap().snapshot_id;
    let restore = from(of_snapshot(&cut), create("restored", 1 << 20));
    let restored = controller.create_volume(restore.clone()).await.unwrap().into_inner().volume.unwrap();
    assert_eq!(restored.content_source, restore.volume_content_source);
    let again = controller.create_volume(restore).await.unwrap().into_inner().volume.unwrap();
    assert_eq!(again, restored);
    let clone = from(of_volume(&volume.volume_id), create("cloned", 2 << 20));
    assert!(controller.create_volume(clone).await.is_ok());
    let elsewhere = SnapshotId::new(Uuid::from_u128(9), "s").to_string();
    let cases = [
        (create("restored", 1 << 20), Code::AlreadyExists, "its source is snapshot"),
        (from(of_snapshot(&cut), create("small", 1 << 10)), Code::OutOfRange, "ask for as much"),
        (from(of_volume(&volume.volume_id), create("small", 1)), Code::OutOfRange, "ask for as much"),
        (from(of_snapshot("nobody's"), create("x", 1 << 20)), Code::NotFound, "no snapshot nobody's"),
        (from(of_volume("nobody's"), create("x", 1 << 20)), Code::NotFound, "no volume nobody's"),
        (from(of_snapshot(&elsewhere), create("x", 1 << 20)), Code::InvalidArgument, "same file system"),
        (from(of_snapshot(""), create("x", 1 << 20)), Code::InvalidArgument, "snapshot_id"),
    ];
    for (request, code, part) in cases {
        let status = controller.create_volume(request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(part), "{part:?} is not in {status}");
    }
}

#[tokio::test]
async fn settings_are_changed_in_use_and_wrong_ones_are_all_named() {
    let mut plugin = Plugin::start().await;
    let volume = plugin.create("pvc-1").await;
    let modify = |id: &str, pairs: &[(&str, &str)]| ControllerModifyVolumeRequest {
        volume_id: id.to_owned(),
        mutable_parameters: map(pairs),
        ..Default::default()
    };
    let good = [("closeSync", "true"), ("readAhead", "8Mi"), ("inodeLimit", "1000"), ("opsRate", "0")];
    let controller = &mut plugin.client.controller;
    controller.controller_modify_volume(modify(&volume.volume_id, &good)).await.unwrap();
    let bad = [("closesync", "true"), ("uploadRate", "fast"), ("trashDays", "-1")];
    let wrong = controller.controller_modify_volume(modify(&volume.volume_id, &bad)).await.unwrap_err();
    assert_eq!(wrong.code(), Code::InvalidArgument);
    for part in [r#""closesync""#, r#""uploadRate" is "fast""#, r#""trashDays" is "-1""#] {
        assert!(wrong.message().contains(part), "{part} is not in {wrong}");
    }
    for id in ["nobody's", VolumeId::new(FS, "gone").as_str()] {
        let missing = controller.controller_modify_volume(modify(id, &good)).await.unwrap_err();
        assert_eq!(missing.code(), Code::NotFound);
    }
    let at_birth = CreateVolumeRequest { mutable_parameters: map(&bad), ..create("pvc-2", 1) };
    assert_eq!(controller.create_volume(at_birth).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_pattern_places_the_volume_and_a_retained_one_is_adopted_only_when_asked() {
    use carafe_csi::claims::{Claim, MemoryClaims};
    let dir = Scratch::new();
    let claim = Claim { labels: [("shard".to_owned(), "0".to_owned())].into(), ..Claim::default() };
    let all = [("data-0", claim), ("data-1", Claim::default())];
    let claims = all.map(|(name, claim)| (("prod".to_owned(), name.to_owned()), claim)).into();
    let config = Config { claims: Some(Arc::new(MemoryClaims(claims))), ..config(&dir) };
    let mut plugin = Plugin::with(dir, config).await;
    let controller = &mut plugin.client.controller;
    let of = |name: &str, claim: &str, more: &[(&str, &str)]| {
        let names = [("csi.storage.k8s.io/pvc/namespace", "prod"), ("csi.storage.k8s.io/pvc/name", claim)];
        let pattern = [("pathPattern", "${pvc.namespace}/shard-${pvc.labels['shard']}")];
        let parameters = map(&[&names[..], &pattern, more].concat());
        CreateVolumeRequest { parameters, ..create(name, 1 << 20) }
    };
    let made = controller.create_volume(of("a", "data-0", &[])).await.unwrap().into_inner().volume.unwrap();
    assert_eq!(made.volume_context["path"], "prod/shard-0");
    let taken = controller.create_volume(of("b", "data-0", &[])).await.unwrap_err();
    assert_eq!(taken.code(), Code::AlreadyExists);
    assert!(taken.message().contains("choose another path"), "{taken}");
    let unlabelled = controller.create_volume(of("c", "data-1", &[])).await.unwrap_err();
    assert_eq!(unlabelled.code(), Code::InvalidArgument);
    assert!(unlabelled.message().contains("give the claim this label"), "{unlabelled}");
    let absent = controller.create_volume(of("c", "data-2", &[])).await.unwrap_err();
    assert_eq!(absent.code(), Code::FailedPrecondition);
    let heir = controller.create_volume(of("b", "data-0", &[("onPathExists", "adopt")])).await.unwrap();
    let heir = heir.into_inner().volume.unwrap();
    assert_eq!(heir.volume_context["path"], "prod/shard-0");
    let get = |id: &str| ControllerGetVolumeRequest { volume_id: id.to_owned() };
    assert_eq!(
        controller.controller_get_volume(get(&made.volume_id)).await.unwrap_err().code(),
        Code::NotFound
    );
    assert!(controller.controller_get_volume(get(&heir.volume_id)).await.is_ok());
}

#[tokio::test]
async fn a_file_system_is_chosen_by_its_name_and_an_unknown_one_is_told_with_those_there_are() {
    let dir = Scratch::new();
    let other = "redis://other/0";
    let stores = memory(&dir).with(other, MemoryStore::new(Uuid::from_u128(2)));
    let address = |url: &str, name: &str| {
        let mut address = FsAddress::new(url, None).unwrap();
        address.name = Some(name.to_owned());
        address
    };
    let file_systems = vec![address(URL, "main"), address(other, "archive")];
    let config = Config { file_systems, controller: Some(Arc::new(stores)), ..config(&dir) };
    let mut plugin = Plugin::with(dir, config).await;
    let controller = &mut plugin.client.controller;
    let on = |file_system: &str| {
        let parameters = map(&[("fileSystem", file_system)]);
        CreateVolumeRequest { parameters, ..create("pvc-1", 1 << 20) }
    };
    for (name, fs) in [("main", FS), ("archive", Uuid::from_u128(2)), (&FS.to_string(), FS)] {
        let volume = controller.create_volume(on(name)).await;
        let Ok(volume) = volume else {
            // The same name with other parameters is another volume's.
            assert_eq!(volume.unwrap_err().code(), Code::AlreadyExists);
            continue;
        };
        let volume = volume.into_inner().volume.unwrap();
        assert_eq!(volume.volume_id, VolumeId::new(fs, "pvc-1").to_string());
        assert_eq!(volume.volume_context["fileSystem"], name);
    }
    let unknown = controller.create_volume(on("mian")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::FailedPrecondition);
    assert!(unknown.message().contains("main, archive"), "{unknown}");
    let none = controller.create_volume(create("pvc-2", 1)).await.unwrap_err();
    assert_eq!(none.code(), Code::FailedPrecondition);
}
