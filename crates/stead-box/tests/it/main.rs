//! Real boxes on the real kernel: as root, and again as an ordinary user.
//!
//! Each case takes a [`Home`]. `cases!` turns it into two tests: `root::…` runs it here, `own::…`
//! runs it in a child process without root. Every home compares the host's resources when it is
//! dropped and fails if any are left over.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a panic is how a test fails, and a skipped test prints why"
)]

mod census;
mod exec;
mod home;
mod lifecycle;
mod limits;
mod network;
mod probe;
mod spares;
mod streams;

/// Defines `root::name` and `own::name` for each case.
macro_rules! cases {
    ($($module:ident :: $case:ident),+ $(,)?) => {
        mod root {
            $(#[test] fn $case() { crate::home::as_root(crate::$module::$case); })+
        }
        mod own {
            $(#[test] fn $case() { crate::home::as_ordinary_user(concat!("own::", stringify!($case)), crate::$module::$case); })+
        }
    };
}

cases! {
    exec::commands_run_as_ordered,
    exec::what_cannot_start_says_why,
    exec::the_result_comes_with_the_exit_not_with_the_pipes,
    exec::usual_programs_work,
    exec::a_timeout_leaves_nobody,
    lifecycle::a_removed_box_leaves_nothing,
    lifecycle::a_box_is_found_again,
    lifecycle::a_dead_box_is_started_again_over_its_files,
    lifecycle::hostile_trees_are_removed,
    lifecycle::a_start_that_is_broken_off_leaves_nothing,
    lifecycle::a_killed_init_takes_everything_with_it,
    lifecycle::a_box_that_cannot_be_as_ordered_is_not_started,
    lifecycle::a_hostile_base_spoils_only_itself,
    lifecycle::the_doctor_says_what_this_host_can_do,
    lifecycle::without_user_namespaces_nothing_starts,
    spares::a_box_from_a_spare_is_like_any_other,
    spares::a_spare_that_does_not_fit_or_is_gone_harms_nobody,
    spares::a_spare_nobody_takes_leaves_nothing,
    streams::output_is_resumed_without_loss_or_repeat,
    streams::what_is_no_longer_kept_shows_as_a_gap,
    streams::a_slow_reader_stalls_nobody,
    streams::input_signals_and_terminals_reach_the_command,
    streams::file_tools_and_shell_see_one_tree,
    streams::whole_files_go_in_and_out,
    streams::several_files_are_put_together_or_not_at_all,
    streams::nonsense_on_the_socket_harms_only_its_sender,
    limits::what_holds_is_said_and_what_does_not_is_not,
    limits::a_fork_bomb_hits_the_limit_and_is_ended,
    limits::memory_past_the_limit_is_said_to_be_that,
    limits::no_kind_of_memory_goes_past_the_limit,
    limits::empty_files_run_out,
    limits::a_write_past_the_disk_limit_gets_enospc,
    limits::endless_output_costs_bounded_memory,
    network::without_a_network_there_is_no_route,
    network::every_tcp_port_of_every_address_is_caught,
    network::own_servers_work_and_a_foreign_address_steals_nothing,
    network::the_resolver_is_the_servers,
    network::udp_and_ipv6_fail_at_once,
    network::commands_cannot_change_the_network,
    network::a_spare_without_a_network_serves_a_box_with_one,
    network::sockets_are_lent_again_and_again,
    network::a_dead_box_leaves_no_network,
    probe::the_probe_is_refused_inside_and_allowed_outside,
    probe::every_call_is_refused_or_on_the_list,
}
