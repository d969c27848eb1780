//! What every [`VolumeStore`] must do, as a test that runs on any of them.

use super::{NewVolume, StoreError, VolumeStore};
use crate::id::VolumeId;
use crate::request::VolumePath;
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
