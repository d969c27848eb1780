//! Snapshots and clones over a real server.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "../../meta/tests/common/mod.rs"]
mod common;
#[path = "../../meta/tests/common/snapshots.rs"]
mod snapshots;

use carafe_meta::format::{FormatOptions, format};
use carafe_meta::store::MetaStore;
use carafe_testkit::RedisServer;
use snapshots::*;
use std::sync::Arc;

async fn on_redis() -> (RedisServer, Arc<dyn MetaStore>) {
    let server = RedisServer::start_durable().unwrap();
    let store = carafe_meta_redis::open(&server.url(0), &carafe_meta_redis::Options::default()).unwrap();
    format(&*store, FormatOptions::new("snapshots", "file:///none")).await.unwrap();
    (server, store)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_on_redis_are_equal_and_independent() {
    let (_server, store) = on_redis().await;
    copies_are_equal_and_independent(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn later_writes_on_redis_never_change_a_snapshot() {
    let (_server, store) = on_redis().await;
    later_writes_stay_apart(store, 77, 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_on_redis_under_load_is_one_moment() {
    let (_server, store) = on_redis().await;
    a_snapshot_under_load_is_one_moment(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_copies_on_redis_leave_nothing_behind() {
    let (_server, store) = on_redis().await;
    refusals_leave_nothing_behind(store).await;
}
