//! What every [`ObjectClient`] has to do, whatever store or decorator it is.

use bytes::Bytes;
use carafe_object::{ByteRange, ObjectClient, ObjectError};
use futures::TryStreamExt;
use std::time::{Duration, SystemTime};

/// Runs all of it in an empty bucket, and leaves it empty.
pub(crate) async fn conforms(client: &dyn ObjectClient) {
    objects_come_back_whole_and_in_ranges(client).await;
    an_object_is_replaced_as_a_whole(client).await;
    short_objects_are_torn_not_short(client).await;
    missing_objects_are_not_found(client).await;
    listings_are_complete_and_can_go_on_anywhere(client).await;
    deletes_forgive_what_is_missing(client).await;
    assert_eq!(keys(client, "", None).await, Vec::<String>::new());
}

async fn keys(client: &dyn ObjectClient, prefix: &str, after: Option<&str>) -> Vec<String> {
    let mut keys: Vec<_> = client.list(prefix, after).map_ok(|o| o.key).try_collect().await.unwrap();
    keys.sort();
    keys
}

async fn objects_come_back_whole_and_in_ranges(client: &dyn ObjectClient) {
    let body: Vec<u8> = (0..300_000u32).map(|i| (i / 3) as u8).collect();
    client.put("d/aa/x-1/0", body.clone().into()).await.unwrap();
    assert_eq!(client.head("d/aa/x-1/0").await, Ok(300_000));
    assert_eq!(client.get("d/aa/x-1/0", ByteRange::Whole).await.unwrap(), body);
    for (range, want) in [
        (ByteRange::Exact(0..1), &body[..1]),
        (ByteRange::Exact(1000..200_000), &body[1000..200_000]),
        (ByteRange::Exact(299_999..300_000), &body[299_999..]),
        (ByteRange::Exact(5..5), &[]),
        (ByteRange::UpTo(299_000..400_000), &body[299_000..]),
        (ByteRange::Last(10), &body[299_990..]),
        (ByteRange::Last(1_000_000), &body[..]),
    ] {
        assert_eq!(client.get("d/aa/x-1/0", range.clone()).await.unwrap(), want, "{range:?}");
    }
}

async fn an_object_is_replaced_as_a_whole(client: &dyn ObjectClient) {
    client.put("d/aa/x-1/0", Bytes::from_static(b"new")).await.unwrap();
    assert_eq!(client.get("d/aa/x-1/0", ByteRange::Whole).await.unwrap(), "new");
}

async fn short_objects_are_torn_not_short(client: &dyn ObjectClient) {
    client.put("d/aa/short", Bytes::from_static(b"0123456789")).await.unwrap();
    client.put("d/aa/empty", Bytes::new()).await.unwrap();
    for (key, range) in [
        ("d/aa/short", ByteRange::Exact(5..11)),
        ("d/aa/short", ByteRange::Exact(10..11)),
        ("d/aa/short", ByteRange::Exact(1_000..2_000)),
        ("d/aa/short", ByteRange::UpTo(10..20)),
        ("d/aa/empty", ByteRange::Exact(0..1)),
    ] {
        let e = client.get(key, range.clone()).await.unwrap_err();
        assert!(matches!(&e, ObjectError::Corrupt { object, .. } if object == key), "{key} {range:?}: {e}");
    }
    assert_eq!(client.get("d/aa/empty", ByteRange::Whole).await.unwrap(), "");
    assert_eq!(client.get("d/aa/empty", ByteRange::Last(10)).await.unwrap(), "");
    assert_eq!(client.head("d/aa/empty").await, Ok(0));
}

async fn missing_objects_are_not_found(client: &dyn ObjectClient) {
    let missing = ObjectError::NotFound { object: "d/none".into() };
    assert_eq!(client.get("d/none", ByteRange::Whole).await, Err(missing.clone()));
    assert_eq!(client.get("d/none", ByteRange::Exact(5..10)).await, Err(missing.clone()));
    assert_eq!(client.get("d/none", ByteRange::UpTo(5..10)).await, Err(missing.clone()));
    assert_eq!(client.get("d/none", ByteRange::Last(5)).await, Err(missing.clone()));
    assert_eq!(client.head("d/none").await, Err(missing));
}

async fn listings_are_complete_and_can_go_on_anywhere(client: &dyn ObjectClient) {
    let before = SystemTime::now();
    for i in 0..25 {
        client.put(&format!("d/ab/n-{i:02}/p"), vec![0; i].into()).await.unwrap();
    }
    client.put("d/abc", Bytes::new()).await.unwrap();
    client.put("other", Bytes::new()).await.unwrap();
    let all: Vec<_> = client.list("d/ab", None).try_collect().await.unwrap();
    assert_eq!(all.len(), 25, "a prefix ends at a slash: d/abc is not below d/ab");
    let tenth = all.iter().find(|o| o.key == "d/ab/n-10/p").unwrap();
    assert_eq!(tenth.size, 10);
    let slack = Duration::from_secs(60);
    assert!(tenth.modified > before - slack && tenth.modified < before + slack, "{:?}", tenth.modified);
    assert_eq!(keys(client, "d/ab/", None).await.len(), 25);
    assert_eq!(keys(client, "", None).await.len(), 30);
    assert_eq!(keys(client, "d/ab", Some("d/ab/n-10/p")).await[0], "d/ab/n-11/p");
    assert_eq!(keys(client, "d/ab", Some("d/ab/n-24/p")).await, Vec::<String>::new());
    assert_eq!(keys(client, "nothing/here", None).await, Vec::<String>::new());
}

async fn deletes_forgive_what_is_missing(client: &dyn ObjectClient) {
    let mut all = keys(client, "", None).await;
    all.push("d/none/x".into());
    assert_eq!(client.delete(&all).await, Ok(31));
    assert_eq!(client.delete(&["d/none/x".into()]).await, Ok(1));
    assert_eq!(client.delete(&[]).await, Ok(0));
}
