//! Against a real S3 server (SeaweedFS), with real keys: what the library, the protocol and a service make of it.
//!
//! Needs the `weed` program, which `cargo xtask setup` installs. Without it these tests fail; leave them out
//! with `cargo test -p carafe-object --lib --test conformance`.

#![expect(clippy::unwrap_used, reason = "a failure in a helper of a test is a failure of the test")]

mod common;

use bytes::Bytes;
use carafe_object::client::Verb;
use carafe_object::{
    BlockTrailer, Bucket, BucketOptions, FsMarker, MemberInfo, ObjectError, PackBuilder, Secret,
    encode_block, parse_key,
};
use carafe_testkit::{S3Keys, S3Server};
use carafe_types::{Generation, InodeNo, SessionUuid};
use futures::TryStreamExt;
use std::time::{Duration, Instant};

/// The bucket that exists.
const BUCKET: &str = "carafe-test";

fn server() -> S3Server {
    S3Server::start_with_bucket(BUCKET).unwrap()
}

fn options(endpoint: &str, keys: S3Keys) -> BucketOptions {
    BucketOptions {
        endpoint: Some(endpoint.into()),
        access_key: Some(keys.access),
        secret_key: Some(Secret::new(keys.secret)),
        ..BucketOptions::default()
    }
}

/// The test bucket under a prefix of its own.
fn open(server: &S3Server, prefix: &str, keys: S3Keys) -> Bucket {
    Bucket::open(&format!("s3://{BUCKET}/{prefix}"), &options(&server.endpoint(), keys)).unwrap()
}

#[tokio::test]
async fn a_real_server_conforms() {
    let server = server();
    common::conforms(&*open(&server, "conformance", S3Keys::writer()).client()).await;
}

#[tokio::test]
async fn a_good_bucket_passes_its_check_and_stays_empty() {
    let server = server();
    let bucket = open(&server, "check", S3Keys::writer());
    let start = Instant::now();
    bucket.check().await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(4));
    assert!(bucket.list("").try_next().await.unwrap().is_none());
}

#[tokio::test]
async fn thousands_of_objects_are_listed_in_pages_and_deleted_in_bulk() {
    let server = server();
    let bucket = open(&server, "bulk", S3Keys::writer());
    let keys: Vec<String> = (0..1_205).map(|i| format!("d/00/{i:04}")).collect();
    let put = |key: &String| {
        let (bucket, key) = (bucket.clone(), key.clone());
        async move { bucket.put(&key, Bytes::from_static(b"x")).await }
    };
    futures::future::try_join_all(keys.iter().map(put)).await.unwrap();
    let mut listed: Vec<_> = bucket.list("d/00").map_ok(|o| o.key).try_collect().await.unwrap();
    listed.sort();
    assert_eq!(listed, keys);
    assert_eq!(bucket.delete_many(&keys).await, Ok(1_205));
    assert_eq!(bucket.snapshot().of(Verb::Delete).requests, 2);
    assert!(bucket.list("d/00").try_next().await.unwrap().is_none());
}

#[tokio::test]
async fn a_key_without_rights_is_denied() {
    let server = server();
    let [reader, writer] = [S3Keys::reader(), S3Keys::writer()].map(|keys| open(&server, "denied", keys));
    writer.put("k", Bytes::from_static(b"v")).await.unwrap();
    assert_eq!(reader.get("k").await.unwrap(), "v");
    let e = reader.put("k", Bytes::from_static(b"w")).await.unwrap_err();
    assert!(matches!(&e, ObjectError::Denied { verb: Verb::Put, target, .. } if target == "k"), "{e}");
    let e = reader.delete_many(&["k".into()]).await.unwrap_err();
    assert!(matches!(&e, ObjectError::Denied { verb: Verb::Delete, .. }), "{e}");
    assert_eq!(writer.get("k").await.unwrap(), "v", "neither was done");
    let e = reader.check().await.unwrap_err();
    assert!(matches!(&e, ObjectError::Denied { verb: Verb::Put, .. }), "{e}");
    assert_eq!(reader.snapshot().retries, 0, "a denial is not tried again");
}

#[tokio::test]
async fn a_wrong_key_is_told_from_a_missing_right() {
    let server = server();
    let unknown = S3Keys { access: "nobody".into(), ..S3Keys::writer() };
    let mistyped = S3Keys { secret: "not the secret".into(), ..S3Keys::writer() };
    for keys in [unknown, mistyped] {
        let bucket = open(&server, "wrong", keys.clone());
        for e in [bucket.check().await.unwrap_err(), bucket.put("k", Bytes::new()).await.unwrap_err()] {
            assert!(matches!(e, ObjectError::WrongKey { .. }), "{e}");
            assert!(!format!("{e} {e:?}").contains(&keys.secret));
        }
    }
}

#[tokio::test]
async fn a_missing_bucket_is_named_and_not_created() {
    let server = server();
    // The administrator might create it.
    let bucket = Bucket::open("s3://no-such-bucket", &options(&server.endpoint(), S3Keys::admin())).unwrap();
    for _ in 0..2 {
        let e = bucket.check().await.unwrap_err();
        assert!(matches!(&e, ObjectError::NoBucket { bucket, .. } if bucket == "s3://no-such-bucket"), "{e}");
    }
    let e = bucket.get("k").await.unwrap_err();
    assert!(matches!(e, ObjectError::NoBucket { .. }), "{e}");
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_fails_the_check_in_time() {
    // A port nobody listens on; a listener that never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        closed.local_addr().unwrap()
    };
    for address in [refused, silent.local_addr().unwrap()] {
        let bucket =
            Bucket::open("s3://b", &options(&format!("http://{address}"), S3Keys::writer())).unwrap();
        let start = Instant::now();
        let e = bucket.check().await.unwrap_err();
        assert!(matches!(e, ObjectError::Unreachable { .. }), "{e}");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn blocks_packs_and_the_marker_live_in_a_real_bucket() {
    let server = server();
    let bucket = open(&server, "formats", S3Keys::writer());
    let marker = FsMarker::new(uuid::Uuid::from_u128(7), "test", 1_700_000_000).unwrap();
    bucket.write_marker(&marker).await.unwrap();
    assert_eq!(bucket.verify_marker(marker.uuid).await.unwrap(), marker);

    let session = SessionUuid([5; 16]);
    let payload: Vec<u8> = (0..4u32 << 20).map(|i| (i >> 5) as u8).collect();
    let trailer = BlockTrailer {
        session,
        n: 1,
        block: 0,
        generation: Generation(1),
        inode: InodeNo(65),
        file_offset: 0,
    };
    bucket.put(&trailer.id().key(), encode_block([&payload[..]], &trailer)).await.unwrap();
    let got = bucket.read_payload(&trailer.id(), 1_000_000..1_200_000, None).await.unwrap();
    assert_eq!(got.concat(), payload[1_000_000..1_200_000]);

    let mut pack = PackBuilder::new(session, 2, Generation(1));
    let placed = pack
        .add(MemberInfo { inode: 66, name: b"columns.txt".to_vec(), ..MemberInfo::default() }, b"small")
        .unwrap();
    let id = pack.id();
    bucket.put(&id.key(), pack.finish()).await.unwrap();
    let got = bucket.read_payload(&id, placed.offset..placed.offset + placed.length, None).await.unwrap();
    assert_eq!(got.concat(), b"small");
    assert_eq!(bucket.read_pack_footer(&id).await.unwrap().members[0].info.name, b"columns.txt");

    let found: Vec<_> = bucket.list("").try_collect().await.unwrap();
    let ours: Vec<_> = found.iter().filter_map(|o| parse_key(&o.key)).collect();
    assert_eq!((found.len(), ours.len()), (3, 2), "the marker is no data object");
    let all: Vec<_> = found.into_iter().map(|o| o.key).collect();
    bucket.delete_many(&all).await.unwrap();
}
