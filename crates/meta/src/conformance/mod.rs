//! The one suite that every engine passes: what [`MetaStore`] promises, one behaviour a case.
//!
//! An engine's tests give a [`Subject`], a store that begins empty, and write
//! `carafe_meta::conformance_suite!(make_subject);`, which makes one test of each case.

mod checks;
mod load;
mod model;
mod names;
mod queues;
mod quota;
mod sessions;
mod sharing;
mod watches;
mod world;
mod writes;

pub use checks::*;
pub use load::*;
pub use model::*;
pub use names::*;
pub use queues::*;
pub use quota::*;
pub use sessions::*;
pub use sharing::*;
pub use watches::*;
pub use writes::*;

use crate::store::MetaStore;
use async_trait::async_trait;
use carafe_types::SessionNo;
use std::sync::Arc;

/// An engine under test.
#[async_trait]
pub trait Subject: Send + Sync {
    /// A handle to the store; several handles speak to the same one, each as another client would.
    async fn open(&self) -> Arc<dyn MetaStore>;

    /// Lets the lease of a session end long ago.
    async fn expire(&self, sid: SessionNo);
}

/// Makes one `#[tokio::test]` of each case. `$make` is an async function that gives a fresh [`Subject`].
#[macro_export]
macro_rules! conformance_suite {
    ($make:path) => {
        $crate::conformance_suite! { @each $make;
            // checks
            a_check_holds_for_what_is_there_and_fails_for_anything_else
            a_name_is_compared_with_its_type_and_inode
            a_conflict_tells_the_fresh_value_of_every_check
            a_refused_commit_leaves_nothing_behind
            // writes
            every_kind_of_record_is_put_read_and_deleted
            a_bucket_gives_exactly_its_records
            writes_are_applied_in_the_order_given
            touch_writes_the_clock_of_the_commit
            subdirectories_are_counted_and_none_is_absent
            any_bytes_are_kept_as_they_are
            every_commit_has_its_place_in_the_order
            // names
            names_of_any_bytes_are_kept_apart_and_in_order
            a_name_is_replaced_within_one_commit
            five_thousand_names_come_in_pages_once_each
            the_same_name_in_other_directories_is_another_name
            // quota
            takes_stop_exactly_at_the_limit
            a_take_that_fails_in_one_quota_takes_from_none
            takes_of_one_quota_are_added_up_first
            a_limit_below_the_use_still_lets_give_back
            counters_are_exact_beyond_what_a_double_holds
            the_budget_for_inline_data_is_kept
            reserves_go_back_when_a_session_ends
            a_quota_that_is_gone_has_nothing_left
            // queues
            dead_inodes_come_out_when_due
            the_last_owner_of_a_slice_queues_its_objects
            a_pack_without_live_bytes_is_queued
            queued_objects_come_out_when_due_or_when_all_are_asked_for
            holders_of_an_open_inode_are_listed
            // watches
            the_only_watcher_is_sole
            a_second_watcher_asks_a_sole_one_to_share
            reading_without_watching_asks_a_sole_one_too
            what_is_shared_is_sole_again_after_the_others_left
            a_key_that_another_holds_alone_cannot_be_written
            a_new_key_is_held_alone_by_who_makes_it
            a_new_key_where_another_stands_is_refused
            alone_names_the_sessions_in_the_way
            flushing_sessions_are_not_in_the_way
            marks_survive_sharing_and_loading
            // sharing
            messages_come_in_order_after_their_commit
            a_message_to_nobody_is_dropped
            every_kind_of_message_arrives_as_sent
            the_watch_of_a_dead_session_does_not_count
            // sessions
            a_store_without_a_file_system_says_so
            a_file_system_is_made_once
            a_reaped_session_is_fenced_from_everything
            a_session_whose_lease_runs_is_not_reaped
            an_expired_session_is_named_and_renewal_saves_it
            a_session_is_resumed_by_its_uuid
            an_ended_session_is_not_resumed
            another_life_of_the_store_refuses_old_sessions
            numbers_are_never_given_twice
            // load
            a_snapshot_is_never_torn
            no_update_of_sixteen_tasks_is_lost
            a_quota_is_exact_under_sixteen_tasks
            five_hundred_records_are_one_commit
            a_value_of_a_megabyte_is_kept
            a_scan_of_buckets_finds_all
            volumes_come_in_pages_by_id
            snapshots_come_in_pages_by_id
            quotas_and_single_records_are_scanned
            // model
            random_histories_agree_with_the_memory_twin
        }
    };
    (@each $make:path; $($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let subject = $make().await;
                $crate::conformance::$case(&subject).await;
            }
        )*
    };
}
