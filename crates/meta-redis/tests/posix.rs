//! The reference model of POSIX over a real server: several sessions, 0 differences.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "../../meta/tests/common/mod.rs"]
mod common;
#[path = "../../meta/tests/common/posix.rs"]
mod posix;

use carafe_meta::format::{FormatOptions, format};
use carafe_meta::store::MetaStore;
use carafe_testkit::RedisServer;
use posix::{all_at_once, take_turns};
use std::sync::Arc;

async fn on_redis() -> (RedisServer, Arc<dyn MetaStore>) {
    let server = RedisServer::start_durable().unwrap();
    let store = carafe_meta_redis::open(&server.url(0), &carafe_meta_redis::Options::default()).unwrap();
    format(&*store, FormatOptions::new("posix", "file:///none")).await.unwrap();
    (server, store)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_session_on_redis_does_what_posix_says() {
    let (_server, store) = on_redis().await;
    take_turns(store, 1, 1, 1500, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sessions_on_redis_taking_turns_see_the_same_at_every_step() {
    let (_server, store) = on_redis().await;
    take_turns(store, 2, 2, 400, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_of_redis_change_nothing_of_it() {
    let (_server, store) = on_redis().await;
    take_turns(store, 2, 3, 80, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_at_the_same_time_on_redis_leave_a_sound_tree() {
    let (_server, store) = on_redis().await;
    all_at_once(store, 4, 150).await;
}
