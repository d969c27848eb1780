//! Snapshots and clones in a file.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "../../meta/tests/common/mod.rs"]
mod common;
#[path = "../../meta/tests/common/snapshots.rs"]
mod snapshots;

use carafe_meta::format::{FormatOptions, format};
use carafe_meta::store::MetaStore;
use carafe_meta_embedded::{EmbeddedStore, Sync};
use snapshots::*;
use std::sync::Arc;
use tempfile::TempDir;

async fn in_a_file() -> (TempDir, Arc<dyn MetaStore>) {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(EmbeddedStore::open(&dir.path().join("meta.redb"), Sync::EverySec).unwrap());
    format(&*store, FormatOptions::new("snapshots", "file:///none")).await.unwrap();
    (dir, store)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_in_a_file_are_equal_and_independent() {
    let (_dir, store) = in_a_file().await;
    copies_are_equal_and_independent(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn later_writes_in_a_file_never_change_a_snapshot() {
    let (_dir, store) = in_a_file().await;
    later_writes_stay_apart(store, 5, 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_in_a_file_under_load_is_one_moment() {
    let (_dir, store) = in_a_file().await;
    a_snapshot_under_load_is_one_moment(store).await;
}
