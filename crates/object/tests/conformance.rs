//! The conformance suite over everything that needs no server: memory, a directory, and the decorators.

#![expect(clippy::unwrap_used, reason = "a failure in a helper of a test is a failure of the test")]

mod common;

use carafe_object::decorate::{Counting, Failing, LimitOptions, Limited, Retry, RetryPolicy};
use carafe_object::store::StoreClient;
use carafe_object::{Bucket, BucketOptions};
use std::sync::Arc;

#[tokio::test]
async fn memory_conforms() {
    common::conforms(&StoreClient::memory()).await;
}

#[tokio::test]
async fn every_decorator_conforms() {
    common::conforms(&Retry::new(StoreClient::memory(), "twin", RetryPolicy::default())).await;
    common::conforms(&Limited::new(StoreClient::memory(), LimitOptions { reads: 1, writes: 1 })).await;
    common::conforms(&Counting::new(StoreClient::memory(), Arc::default())).await;
    common::conforms(&Failing::new(StoreClient::memory()).0).await;
}

#[tokio::test]
async fn a_directory_conforms_and_is_left_without_rubbish() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}/bucket", dir.path().display());
    let bucket = Bucket::open(&url, &BucketOptions { create: true, ..BucketOptions::default() }).unwrap();
    common::conforms(&*bucket.client()).await;
    bucket.check().await.unwrap();
    assert_eq!(std::fs::read_dir(dir.path().join("bucket")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_bucket_in_memory_passes_its_check() {
    let bucket = Bucket::open("memory:", &BucketOptions::default()).unwrap();
    common::conforms(&*bucket.client()).await;
    bucket.check().await.unwrap();
}
