//! What every [`VolumeStore`] must do, as a test that runs on any of them.

use super::{NewSnapshot, NewVolume, StoreError, VolumeStore};
use crate::id::{SnapshotId, VolumeId};
use crate::request::VolumePath;
use carafe_types::record::{CopySource, VolumeState};
use std::collections::BTreeMap;

/// Runs the whole suite on an empty registry, and leaves it empty.
///
/// # Panics
/// When the store does not conform.
pub async fn run(store: &dyn VolumeStore) {
    a_volume_is_made_once(store).await;
    paths_are_disjoint(store).await;
    listing_goes_on_behind_the_last_entry(store).await;
    a_quota_only_grows(store).await;
    an_unknown_volume_is_absent(store).await;
    copies_are_made_once_and_stay(store).await;
    settings_are_merged(store).await;
    a_volume_that_was_left_is_adopted(store).await;
    assert!(all(store).await.is_empty(), "the suite cleans up after itself");
}

fn new(store: &dyn VolumeStore, name: &str, path: &str) -> NewVolume {
    NewVolume {
        id: VolumeId::new(store.fs(), name),
        name: name.to_owned(),
        path: VolumePath::new(path).expect("the suite's paths are valid"),
        capacity: Some(1_000_000_007),
        inode_limit: None,
        uid: 101,
        gid: 102,
        mode: 0o2775,
        parameters: BTreeMap::from([("uid".to_owned(), "101".to_owned())]),
        settings: BTreeMap::new(),
        source: None,
        adopt: false,
    }
}

async fn all(store: &dyn VolumeStore) -> Vec<String> {
    let records = store.list_volumes(None, 1000).await.expect("listing works");
    records.into_iter().map(|record| record.id).collect()
}

async fn a_volume_is_made_once(store: &dyn VolumeStore) {
    let asked = new(store, "once", "conformance/once");
    let record = store.create_volume(&asked).await.expect("a new volume");
    assert_eq!((record.id.as_str(), record.name.as_str()), (asked.id.as_str(), "once"));
    assert_eq!((record.path.as_str(), record.capacity), ("conformance/once", 1_000_000_007));
    assert_eq!(record.parameters, asked.parameters);
    let bigger = NewVolume { capacity: Some(2_000_000_000), ..asked.clone() };
    let again = store.create_volume(&bigger).await.expect("the same id again");
    assert_eq!(again, record, "a second creation changes nothing and answers what is there");
    assert_eq!(store.get_volume(&asked.id).await, Ok(Some(record)));
    assert_eq!(store.delete_volume(&asked.id).await, Ok(()));
    assert_eq!(store.get_volume(&asked.id).await, Ok(None));
    let unlimited =
        store.create_volume(&NewVolume { capacity: None, ..asked.clone() }).await.expect("no quota");
    assert_eq!(unlimited.capacity, 0, "no quota is recorded as 0");
    assert_eq!(store.delete_volume(&asked.id).await, Ok(()));
}

async fn paths_are_disjoint(store: &dyn VolumeStore) {
    let outer = new(store, "outer", "conformance/tree/outer");
    store.create_volume(&outer).await.expect("the first at this path");
    for path in ["conformance/tree/outer", "conformance/tree/outer/in", "conformance/tree"] {
        let other = new(store, "other", path);
        let refused = store.create_volume(&other).await;
        assert!(matches!(refused, Err(StoreError::PathTaken { .. })), "{path}: {refused:?}");
        assert_eq!(store.get_volume(&other.id).await, Ok(None), "nothing is left of a refused volume");
    }
    assert_eq!(store.delete_volume(&outer.id).await, Ok(()));
    let second = new(store, "second", "conformance/tree/outer");
    store.create_volume(&second).await.expect("the path of a deleted volume is free");
    assert_eq!(store.delete_volume(&second.id).await, Ok(()));
}

async fn listing_goes_on_behind_the_last_entry(store: &dyn VolumeStore) {
    let mut ids = Vec::new();
    for n in 0..5 {
        let asked = new(store, &format!("list-{n}"), &format!("conformance/list/{n}"));
        store.create_volume(&asked).await.expect("a new volume");
        ids.push(asked.id);
    }
    ids.sort();
    let mut seen = Vec::new();
    loop {
        let last = seen.last().cloned();
        let page = store.list_volumes(last.as_deref(), 2).await.expect("a page");
        let ended = page.len() < 2;
        seen.extend(page.into_iter().map(|record| record.id));
        if ended {
            break;
        }
    }
    assert_eq!(
        seen,
        ids.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "each once, in the order of ids"
    );
    for id in &ids {
        assert_eq!(store.delete_volume(id).await, Ok(()));
    }
}

async fn a_quota_only_grows(store: &dyn VolumeStore) {
    let asked = new(store, "grow", "conformance/grow");
    store.create_volume(&asked).await.expect("a new volume");
    let grown = store.expand_volume(&asked.id, 1_000_000_008).await.expect("one byte more");
    assert_eq!(grown.capacity, 1_000_000_008);
    let same = store.expand_volume(&asked.id, 5).await.expect("less than it has");
    assert_eq!(same.capacity, 1_000_000_008, "a quota never shrinks");
    assert_eq!(store.delete_volume(&asked.id).await, Ok(()));
}

async fn an_unknown_volume_is_absent(store: &dyn VolumeStore) {
    let id = VolumeId::new(store.fs(), "never made");
    assert_eq!(store.get_volume(&id).await, Ok(None));
    assert_eq!(store.delete_volume(&id).await, Ok(()), "deleting it succeeds");
    let refused = store.expand_volume(&id, 5).await;
    assert_eq!(refused, Err(StoreError::NotFound(id.to_string())));
    assert!(store.available_bytes().await.is_ok());
}

async fn copies_are_made_once_and_stay(store: &dyn VolumeStore) {
    let origin = new(store, "origin", "conformance/origin");
    store.create_volume(&origin).await.expect("a new volume");
    let id = |name: &str| SnapshotId::new(store.fs(), name);
    let asked = NewSnapshot { id: id("cut"), name: "cut".to_owned(), source: origin.id.clone() };
    let cut = store.create_snapshot(&asked).await.expect("a new snapshot");
    assert_eq!((cut.state, cut.capacity, cut.name.as_str()), (VolumeState::Ready, 1_000_000_007, "cut"));
    assert_eq!(store.create_snapshot(&asked).await, Ok(cut.clone()), "the same one again");
    assert_eq!(store.get_snapshot(&asked.id).await, Ok(Some(cut.clone())));
    let none =
        NewSnapshot { id: id("none"), source: VolumeId::new(store.fs(), "never made"), ..asked.clone() };
    let refused = store.create_snapshot(&none).await;
    assert_eq!(refused, Err(StoreError::NotFound(none.source.to_string())));
    let sources = [CopySource::Snapshot(cut.id.clone()), CopySource::Volume(origin.id.to_string())];
    for (name, source) in ["of snapshot", "of volume"].into_iter().zip(sources) {
        let copy = NewVolume { source: Some(source), ..new(store, name, &format!("conformance/{name}")) };
        let record = store.create_volume(&copy).await.expect("a copy");
        assert_eq!((record.state, &record.source), (VolumeState::Ready, &copy.source));
        assert_eq!(store.delete_volume(&copy.id).await, Ok(()));
    }
    assert_eq!(store.delete_volume(&origin.id).await, Ok(()));
    assert_eq!(store.list_snapshots(None, 10).await, Ok(vec![cut.clone()]), "it outlives its volume");
    assert_eq!(store.list_snapshots(Some(&cut.id), 10).await, Ok(vec![]));
    assert_eq!(store.delete_snapshot(&asked.id).await, Ok(()));
    assert_eq!(store.delete_snapshot(&asked.id).await, Ok(()), "again");
    assert_eq!(store.get_snapshot(&asked.id).await, Ok(None));
    let gone =
        NewVolume { source: Some(CopySource::Snapshot(cut.id)), ..new(store, "late", "conformance/late") };
    assert!(matches!(store.create_volume(&gone).await, Err(StoreError::NotFound(_))));
}

async fn settings_are_merged(store: &dyn VolumeStore) {
    let volume = new(store, "settings", "conformance/settings");
    store.create_volume(&volume).await.expect("a new volume");
    let set = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    store.modify_volume(&volume.id, &set(&[("a", "1"), ("b", "2")]), None).await.expect("it is there");
    let record = store.modify_volume(&volume.id, &set(&[("b", "3")]), Some(50)).await.expect("it is there");
    assert_eq!(record.settings, set(&[("a", "1"), ("b", "3")]));
    assert_eq!(store.delete_volume(&volume.id).await, Ok(()));
    let gone = store.modify_volume(&volume.id, &set(&[]), None).await;
    assert_eq!(gone, Err(StoreError::NotFound(volume.id.to_string())));
}

async fn a_volume_that_was_left_is_adopted(store: &dyn VolumeStore) {
    let left = new(store, "left", "conformance/left");
    let old = store.create_volume(&left).await.expect("a new volume");
    let heir = NewVolume { adopt: true, ..new(store, "heir", "conformance/left") };
    let record = store.create_volume(&heir).await.expect("it is adopted");
    assert_eq!((record.root, record.quota), (old.root, old.quota));
    assert_eq!(store.create_volume(&heir).await, Ok(record));
    assert_eq!(store.get_volume(&left.id).await, Ok(None));
    assert_eq!(store.delete_volume(&heir.id).await, Ok(()));
    let fresh = NewVolume { adopt: true, ..new(store, "fresh", "conformance/fresh") };
    store.create_volume(&fresh).await.expect("with nothing to adopt a volume is made");
    assert_eq!(store.delete_volume(&fresh.id).await, Ok(()));
}
