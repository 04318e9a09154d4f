//! One test suite for SQLite and for a real PostgreSQL.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a panic is how a test fails")]

mod blobs;
mod crash;
mod documents;
mod failing;
mod fixture;
mod garbage;
mod idempotency;
mod journal;
mod migrations;
mod opening;
mod project_storage;
mod reservations;
mod tables;
mod tamper;
mod usage;

/// `suite!(run_with: module::{test, …})` defines a test per function and database.
macro_rules! suite {
    ($run:ident: $($module:ident::{$($test:ident),* $(,)?})*) => {
        mod sqlite { $($(
            #[test]
            fn $test() { crate::fixture::$run(crate::fixture::Kind::Sqlite, crate::$module::$test) }
        )*)* }
        mod postgresql { $($(
            #[test]
            fn $test() { crate::fixture::$run(crate::fixture::Kind::Postgres, crate::$module::$test) }
        )*)* }
    };
}

suite! {
    without_fail_points:
    journal::{
        sequence_numbers_start_at_one_and_have_no_gaps,
        a_commit_on_an_old_head_is_a_conflict,
        unknown_and_existing_sessions_are_refused,
        a_commit_without_events_moves_only_the_projection,
        sixty_four_committers_at_once,
        appends_at_the_end_never_conflict,
        of_many_commits_on_one_head_one_wins,
        admission_lets_in_exactly_the_maximum,
        sessions_are_listed_in_pages,
        sessions_are_found_by_their_terms,
        live_and_due_sessions,
    }
    idempotency::{
        fifty_creates_with_one_key_make_one_session,
        the_same_key_with_another_body_is_a_mismatch,
        a_refused_commit_leaves_its_key_free,
        old_keys_are_forgotten,
    }
    documents::{
        create_replace_and_delete,
        a_stale_revision_is_refused,
        a_revision_is_never_given_twice,
        documents_are_listed_in_pages,
        concurrent_creates_make_one_document,
        a_refused_write_leaves_no_audit,
    }
    tables::{
        audit_is_read_in_order_and_filtered,
        audit_rows_know_their_project_and_time,
        a_setting_is_the_same_for_everybody,
        ping_and_close,
    }
    reservations::{
        t3_counters_equal_a_recomputation,
        t3_of_many_creations_exactly_the_quota_is_admitted,
        t3_a_quota_of_a_user_does_not_concern_another,
        t3_a_takeover_restores_reservations_from_the_journals,
        t3_a_sum_cannot_overflow,
    }
    project_storage::{
        t3_a_takeover_measures_the_uploads,
        t3_an_upload_counts_once_per_project_until_it_is_collected,
        t3_of_many_uploads_exactly_the_quota_is_admitted,
        t3_sessions_and_stored_items_share_the_disk_quota,
    }
    usage::{
        t3_tool_calls_count_per_day_for_live_and_ended_sessions,
        t3_usage_is_exact_over_midnight_pauses_and_ends,
        t3_usage_is_grouped_and_large_sums_stay_exact,
    }
    tamper::{
        an_intact_journal_verifies,
        edits_are_found,
        deletions_are_found,
        reorderings_are_found,
        a_truncated_tail_is_found,
        a_spliced_journal_is_found,
        records_beyond_the_head_are_found,
    }
    garbage::{
        a_document_holds_what_it_names_now,
        an_upload_is_removed_unless_it_is_referenced,
        only_what_nothing_refers_to_is_garbage,
        what_was_put_lately_is_left_alone_with_what_it_refers_to,
    }
    migrations::{
        every_older_schema_migrates_with_its_rows,
    }
    opening::{
        reopening_keeps_everything,
        a_newer_schema_is_refused,
        two_stores_share_a_database,
    }
    crash::{
        what_was_acknowledged_survives_a_kill,
    }
}

mod alone {
    suite! {
        with_fail_points:
        failing::{
            a_failed_audit_write_takes_everything_back,
            a_failed_audit_write_takes_a_document_back,
            a_failure_before_commit_leaves_nothing,
            a_lost_answer_is_an_unknown_outcome,
            one_failing_member_does_not_spoil_its_batch,
            a_panic_does_not_end_the_store,
        }
    }
}
