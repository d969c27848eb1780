//! The library's stores behind our core trait; the general behaviour is in `tests/conformance.rs`.

use super::*;

#[tokio::test]
async fn a_prefix_is_added_to_keys_and_taken_off_listings() {
    let store = Arc::new(object_store::memory::InMemory::new());
    let (inner, outer) = (StoreClient::new(store.clone(), "b", "a/b"), StoreClient::new(store, "b", ""));
    inner.put("x/1", Bytes::from_static(b"one")).await.unwrap();
    outer.put("a/other", Bytes::new()).await.unwrap();
    assert_eq!(outer.head("a/b/x/1").await.unwrap(), 3);
    let keys = |client: &StoreClient, prefix: &str| {
        client.list(prefix, None).map_ok(|o| o.key).try_collect::<Vec<_>>()
    };
    assert_eq!(keys(&inner, "").await.unwrap(), ["x/1"]);
    assert_eq!(keys(&inner, "x").await.unwrap(), ["x/1"]);
    assert_eq!(keys(&outer, "").await.unwrap(), ["a/b/x/1", "a/other"]);
}

#[tokio::test]
async fn impossible_keys_are_errors_of_every_verb() {
    let client = StoreClient::memory();
    let bad = "a//b";
    assert!(client.put(bad, Bytes::new()).await.is_err());
    assert!(client.get(bad, ByteRange::Whole).await.is_err());
    assert!(client.head(bad).await.is_err());
    assert!(client.delete(&[bad.to_owned()]).await.is_err());
    assert!(client.list("", Some(bad)).try_collect::<Vec<_>>().await.is_err());
}

#[test]
fn debug_names_the_bucket_only() {
    assert_eq!(format!("{:?}", StoreClient::memory()), r#"StoreClient { bucket: "memory:", .. }"#);
}
