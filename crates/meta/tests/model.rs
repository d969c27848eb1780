//! Random operations against a reference model of POSIX, by one session and by several taking turns: 0 differences.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;
#[path = "common/posix.rs"]
mod posix;

use carafe_meta::decorate::Call;
use carafe_meta::failing::Failing;
use common::*;
use posix::{all_at_once, take_turns};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_session_does_what_posix_says() {
    for seed in 0..12 {
        take_turns(World::new().await.memory, 1, seed, 1500, false).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sessions_taking_turns_see_the_same_at_every_step() {
    for seed in 100..106 {
        take_turns(World::new().await.memory, 2, seed, 500, false).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_sessions_taking_turns_see_the_same_at_every_step() {
    take_turns(World::new().await.memory, 3, 7, 400, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_change_nothing_of_it() {
    take_turns(World::new().await.memory, 2, 11, 150, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_at_the_same_time_leave_a_sound_tree() {
    for seed in 0..3u64 {
        // Later stores take their time, so that answers overtake each other.
        let slow = Arc::new(Failing::new(World::new().await.memory));
        slow.faults().delay(Call::Load, Duration::from_millis(seed));
        slow.faults().delay(Call::Commit, Duration::from_millis(seed));
        all_at_once(slow, seed, 150).await;
    }
}
