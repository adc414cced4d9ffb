//! Every deliberate fault is caught by a rule's test or by a law in random worlds.

use std::panic::catch_unwind;

use super::laws::{GANGS, OPERATORS, shape};
use super::{
    attempts, avoiding, directing, division, members, preempting, prefilling, rebuilding, reserving, snapshots,
    starvation, turns, workers,
};
use crate::fault::Fault;
use crate::testing::{Choices, Law, World};

const RULES: &[fn()] = &[
    attempts::a_job_goes_from_submit_to_its_end,
    attempts::the_gate_opens_at_not_before,
    attempts::what_never_started_expires,
    attempts::what_comes_back_unstarted_after_its_time_expires,
    attempts::an_assignment_that_nobody_accepts_is_revoked_and_counts_nothing,
    attempts::retries_wait_and_prefer_another_worker,
    attempts::only_listed_exit_codes_are_retried,
    attempts::a_poison_job_ends_after_max_infra,
    attempts::a_permanent_cause_fails_at_once,
    attempts::a_cancel_ends_what_waits_and_tells_what_runs,
    attempts::the_fence_judges_in_order,
    attempts::an_overtaken_attempt_that_runs_is_killed,
    attempts::of_what_nothing_is_left_nothing_returns,
    attempts::ids_are_taken_once_and_time_never_runs_back,
    avoiding::a_command_that_cannot_start_is_tried_once_more_on_another_worker,
    avoiding::a_command_that_cannot_start_twice_is_the_jobs_own_failure,
    avoiding::without_another_worker_a_command_that_cannot_start_fails_at_once,
    avoiding::a_command_that_cannot_start_is_retried_where_its_code_is_named,
    avoiding::a_second_try_waits_for_a_busy_worker_and_lets_others_use_the_first,
    avoiding::a_task_that_is_held_back_gets_a_reservation_like_others_that_wait,
    avoiding::a_worker_is_avoided_only_while_another_could_hold_the_job,
    avoiding::an_operator_places_what_is_held_back_only_where_it_has_not_failed,
    avoiding::what_is_held_back_is_counted_as_waiting,
    avoiding::a_task_that_is_held_back_can_be_cancelled,
    avoiding::a_gang_is_tried_once_more_without_the_worker_that_could_not_start_it,
    avoiding::elements_of_one_array_count_singly_against_a_worker,
    avoiding::one_task_counts_once_and_a_permanent_cause_never,
    avoiding::infrastructure_losses_wait_twice_as_long_each_time,
    avoiding::the_first_loss_of_a_worker_is_made_good_at_once,
    avoiding::twelve_typos_of_one_user_leave_the_workers_to_everybody,
    avoiding::a_bad_worker_beside_a_good_one_fails_no_element,
    avoiding::a_second_try_is_still_one_after_a_restart,
    directing::an_operator_places_a_job_past_policy_and_order,
    directing::filters_and_limits_hold_for_operators_as_well,
    directing::an_urgent_job_enters_a_worker_that_drains_if_it_fits_nowhere_else,
    directing::the_deadline_of_a_drain_holds_for_urgent_jobs_as_well,
    directing::two_attempts_never_overlap_where_that_is_forbidden_whatever_ended_the_worker,
    directing::a_result_that_comes_meanwhile_ends_the_wait,
    directing::live_work_of_an_incarnation_that_left_is_adopted_on_the_next,
    division::limits_of_submits,
    division::what_can_never_be_placed_is_refused_at_submit,
    division::deny_refuses_what_would_only_wait,
    division::limits_of_placements_make_jobs_wait_and_an_end_lets_them_go,
    division::priority_then_submission_inside_a_tenant_and_band,
    division::backed_up_bands_share_and_a_lone_one_takes_all,
    division::tenants_share_by_weight,
    division::paused_tenants_are_not_ready,
    division::a_blocked_class_wakes_with_a_hint_when_something_it_fits_ends,
    division::a_new_kind_of_worker_wakes_what_only_it_can_run,
    division::arrays_run_at_most_max_parallel_and_wait_on_their_own_ends,
    division::past_max_failures_the_rest_of_an_array_is_cancelled,
    division::elements_of_an_array_are_checked,
    division::a_gang_starts_whole_or_not_at_all_on_fewest_workers,
    division::members_share_a_label,
    division::the_first_failing_member_ends_the_gang_and_one_outcome_counts,
    division::one_rejected_member_revokes_the_rest,
    division::a_run_puts_no_more_on_a_worker_than_it_holds,
    division::policies_choose_as_they_say,
    division::three_jobs_of_a_quarter_are_in_the_reported_band,
    members::a_gang_that_comes_back_whole_is_adopted,
    members::a_gang_of_which_a_member_is_missing_or_has_not_started_is_not_adopted,
    members::a_gang_that_was_given_up_on_two_workers_is_not_adopted,
    members::a_gang_is_adopted_if_the_limits_allow_all_of_it_and_nothing_newer_was_issued,
    preempting::only_preemptible_attempts_at_least_4_worse_that_run_are_ended,
    preempting::who_starts_elsewhere_keeps_nothing_and_pays_once,
    preempting::a_victim_gets_its_grace_and_goes_back_to_its_old_place_with_nothing_counted,
    preempting::what_victims_held_is_kept_for_the_job_they_were_ended_for,
    preempting::at_most_so_many_attempts_are_preempted_in_a_minute,
    prefilling::a_worker_is_fed_what_its_slots_will_do_within_the_horizon,
    prefilling::nothing_is_sent_ahead_of_who_is_not_known_to_be_fast,
    prefilling::window_is_zero_above_h,
    prefilling::without_results_the_expected_time_counts,
    prefilling::an_end_passes_the_slot_to_the_oldest_that_waits,
    prefilling::an_end_without_anybody_waiting_frees_the_slot,
    prefilling::an_unstarted_end_passes_the_slot_as_well,
    prefilling::a_start_before_its_inheritance_is_heard_of_is_counted,
    prefilling::a_quota_is_neither_exceeded_nor_in_the_way,
    prefilling::a_better_claim_that_the_slot_could_serve_goes_first,
    prefilling::more_urgent_work_takes_back_what_waits,
    prefilling::an_idle_worker_takes_what_waits_elsewhere_once_the_queue_is_empty,
    prefilling::a_drain_and_a_cancel_take_back_what_waits,
    prefilling::arrays_stay_within_their_window_and_gangs_are_not_sent_ahead,
    prefilling::a_lost_worker_loses_what_waits_and_a_late_start_is_adopted,
    prefilling::after_a_reconnect_the_slot_of_who_is_gone_is_that_of_who_runs,
    prefilling::a_revoke_is_said_again_over_a_reconnect,
    prefilling::after_a_reconnect_what_has_not_started_is_taken_back,
    prefilling::nothing_is_sent_ahead_where_the_class_may_not_be_placed_any_more,
    prefilling::failed_jobs_and_paused_tenants_are_not_sent_ahead_to_the_same_worker,
    prefilling::inherited_starts_are_charged_to_their_band,
    rebuilding::after_a_restart_workers_are_unhealthy_and_what_returns_in_time_runs_on,
    rebuilding::what_has_not_returned_in_reassign_after_is_lost_and_its_next_token_is_greater,
    rebuilding::what_a_worker_no_longer_has_is_placed_again,
    rebuilding::gates_time_limits_and_delays_go_on,
    rebuilding::an_array_keeps_its_window_its_ends_and_its_failures,
    rebuilding::a_drain_survives_and_a_deadline_that_passed_meanwhile_counts,
    rebuilding::a_worker_that_left_is_remembered_for_its_incarnation,
    rebuilding::rows_that_contradict_each_other_start_nothing,
    rebuilding::after_a_restart_every_job_still_comes_to_the_same_end,
    reserving::whoever_waits_longest_is_not_passed_over_for_ever,
    starvation::a_tenant_reserves_for_its_first_job_that_its_limits_stopped_for_long,
    starvation::until_then_its_own_smaller_jobs_go_on,
    starvation::who_fits_beside_all_that_is_reserved_still_starts,
    starvation::other_tenants_and_other_limits_are_not_reserved,
    starvation::quota_reservations_end_with_the_job_with_its_place_and_with_its_chance,
    starvation::the_longest_waiting_is_reserved_for_first_and_then_the_next,
    starvation::an_array_is_reserved_for_element_by_element,
    starvation::quota_reservations_survive_a_snapshot,
    starvation::an_explanation_tells_whom_the_tenant_reserves_for,
    starvation::a_job_that_no_worker_could_hold_is_not_reserved_for,
    starvation::who_no_worker_could_hold_stands_in_nobodys_way,
    snapshots::a_restored_scheduler_goes_on_as_the_original,
    snapshots::a_snapshot_is_checked_when_it_is_read,
    turns::a_run_is_as_long_as_run_max_the_quota_and_a_256th_of_the_fleet_allow,
    turns::whatever_gives_a_worker_room_wakes_who_fits_there,
    turns::a_band_that_stops_being_ready_passes_what_it_is_owed_and_forgets_what_it_owes,
    workers::a_worker_that_never_comes_fails,
    workers::a_live_worker_id_is_not_declared_again,
    workers::silence_makes_suspect_then_lost_then_failed,
    workers::a_heartbeat_keeps_a_worker,
    workers::late_adoption_keeps_live_and_finished_work,
    workers::nobody_speaks_of_what_another_worker_had,
    workers::a_worker_that_was_forgotten_comes_as_another_incarnation,
    workers::a_final_job_is_known_until_its_lost_attempts_have_ended,
    workers::once_another_token_was_issued_the_old_one_is_stale,
    workers::what_a_worker_lost_over_a_reconnect_is_placed_again,
    workers::ten_failed_starts_of_different_jobs_bring_probation_that_doubles,
    workers::a_bad_report_stops_new_work_until_a_good_one,
    workers::five_losses_in_ten_minutes_end_the_incarnation,
    workers::a_drain_lets_work_finish_and_then_shuts_down,
    workers::a_drain_is_withdrawn_unless_the_host_shuts_down,
    workers::a_cordon_refuses_placements_and_nothing_else,
    workers::a_smaller_worker_keeps_its_work_and_gets_none_until_it_fits_again,
    workers::goodbye_loses_what_ran_and_a_refused_one_fails,
];

/// Which law every fault breaks in random worlds, and by which world it was noticed when this was written.
const LAWS: &[(Fault, Law, u64)] = &[
    (Fault::NoFence, Law::Answers, 37),
    (Fault::AnybodysAttempt, Law::Answers, GANGS + 44),
    (Fault::HastyOverlap, Law::Deadlines, 14),
    (Fault::ForgetAnswers, Law::Answers, 4),
    (Fault::SameToken, Law::Token, 0),
    (Fault::NoCapacity, Law::Capacity, 14),
    (Fault::KeepCapacity, Law::Fairness, 13),
    (Fault::HastyRelease, Law::Capacity, 37),
    (Fault::NoCordon, Law::Token, 9),
    (Fault::NoDrain, Law::Token, 12),
    (Fault::NoQuota, Law::Quota, 23),
    (Fault::NoCharge, Law::Quota, 0),
    (Fault::NoWake, Law::WorkConservation, 0),
    (Fault::HastySkip, Law::WorkConservation, 2),
    (Fault::ForgetSequence, Law::Order, 15),
    (Fault::NoCredit, Law::Bands, 15),
    (Fault::NoFairness, Law::Fairness, 5),
    (Fault::NoBackoff, Law::Deadlines, 6),
    (Fault::NoInfraLimit, Law::Deadlines, 609),
    (Fault::NoAdoption, Law::Answers, 37),
    (Fault::PartialGang, Law::Bookkeeping, 4),
    (Fault::NoWindow, Law::Order, 8),
    (Fault::NoMaxFailures, Law::Deadlines, 4),
    (Fault::NoExpiry, Law::Deadlines, 0),
    (Fault::ForgetTimers, Law::Deadlines, 6),
    (Fault::DeafToHeartbeats, Law::Deadlines, 0),
    (Fault::AnyVictim, Law::Preemption, 7),
    (Fault::HastyPreemption, Law::Preemption, 78),
    (Fault::NoHold, Law::Preemption, 92),
    (Fault::RebuiltTokens, Law::Equivalence, 24),
    (Fault::RebuiltCapacity, Law::Equivalence, 30),
    (Fault::KeepSlot, Law::Prefill, 73),
    (Fault::NoHorizon, Law::Prefill, 72),
    (Fault::JumpQueue, Law::Fairness, 73),
    (Fault::KeepPrefilled, Law::WorkConservation, 204),
    (Fault::SpendQuotaReservation, Law::NoStarvation, 78),
    (Fault::FreeInheritance, Law::Bands, 78),
    (Fault::AssignAnywhere, Law::Token, OPERATORS + 1),
    (Fault::EverybodyIsUrgent, Law::Token, OPERATORS + 2),
    (Fault::PartialAdoption, Law::Answers, GANGS + 1),
    (Fault::NoAvoidance, Law::Avoidance, 6),
    (Fault::NoSecondTry, Law::Avoidance, 6),
];

/// The law that breaks in a random world, by effects and model alone.
fn broken(seed: u64) -> Option<Law> {
    let world = World::new(shape(seed), Choices::from_seed(seed)).unwrap();
    let mut world = world.by_effects_alone();
    (0..150).find_map(|_| world.step().err()).map(|broken| broken.law)
}

/// Faults by which somebody starves under siege, and in which world.
const STARVES: &[(Fault, u64)] = &[(Fault::ForgetEldest, 185), (Fault::SpendQuotaReservation, 23)];

/// Whether somebody starves in a random world.
fn starves(seed: u64) -> bool {
    let mut world = World::new(shape(seed), Choices::from_seed(seed)).unwrap();
    let lived = (0..150).all(|_| world.step().is_ok());
    lived && world.besiege().is_err_and(|broken| broken.law == Law::NoStarvation)
}

#[test]
fn faults_by_which_somebody_starves_are_noticed_under_siege() {
    for (fault, seed) in STARVES {
        assert!(!starves(*seed), "without a fault nobody does");
        Fault::inject(Some(*fault));
        let caught = std::iter::once(*seed).chain(0..400).find(|seed| starves(*seed));
        Fault::inject(None);
        assert!(caught.is_some(), "{fault:?} is not noticed");
        if caught != Some(*seed) {
            println!("{fault:?}: world {caught:?}, not {seed}");
        }
    }
}

/// Each fault is noticed by the very law that it breaks, in the world that noticed it before or in some other.
#[test]
fn every_deliberate_fault_breaks_its_law_in_random_worlds() {
    let mut missed = Vec::new();
    for (fault, law, seed) in LAWS {
        Fault::inject(Some(*fault));
        let caught = std::iter::once(*seed)
            .chain(0..400)
            .chain(OPERATORS..OPERATORS + 60)
            .chain(GANGS..GANGS + 60)
            .find(|seed| broken(*seed) == Some(*law));
        Fault::inject(None);
        match caught {
            Some(caught) if caught == *seed => {}
            Some(caught) => println!("{fault:?}: world {caught}, not {seed}"),
            None => missed.push((fault, law)),
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
    let healthy = LAWS.iter().find_map(|(.., seed)| Some((seed, broken(*seed)?)));
    assert_eq!(healthy, None, "without a fault all laws hold in the same worlds");
}

/// Whether a rule's test fails. Its inline snapshots are looked at again for every fault, which has to be allowed: else they
/// fail from the second time on, and every fault would seem to be caught.
fn fails(rule: fn()) -> bool {
    insta::allow_duplicates! { catch_unwind(rule).is_err() }
}

#[test]
fn every_deliberate_fault_is_caught_by_a_law_or_a_rule() {
    let mut missed = Vec::new();
    for fault in Fault::ALL {
        Fault::inject(Some(fault));
        let caught = LAWS.iter().any(|(known, ..)| *known == fault) || RULES.iter().any(|rule| fails(*rule));
        Fault::inject(None);
        if !caught {
            missed.push(fault);
        }
    }
    assert!(missed.is_empty(), "nobody notices {missed:?}");
    let failing = RULES.iter().filter(|rule| fails(**rule)).count();
    assert_eq!(failing, 0, "without a fault all rules hold, however often they were tried");
}
