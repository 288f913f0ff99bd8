//! Tests on a real control plane: one file per behaviour, named as a sentence.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the line that did")]

mod harness;

mod a_broken_connection_heals;
mod a_changed_chart_upgrades;
mod a_crash_at_any_call_is_resumed;
mod a_custom_resource_asks_to_go_back;
mod a_custom_resource_becomes_objects;
mod a_hanging_helm_stops_nobody;
mod a_kind_may_come_late_and_come_again;
mod a_persons_rollback_is_held;
mod a_persons_work_on_records_is_seen_at_once;
mod a_release_brings_what_it_needs;
mod a_release_is_taken_over_in_place;
mod a_resource_at_rest_costs_nothing;
mod a_wrong_start_ends_in_one_clear_line;
mod an_autoscaler_keeps_its_replicas;
mod bad_input_changes_nothing;
mod data_is_never_replaced;
mod deletion_leaves_nothing_behind;
mod drift_is_healed;
mod every_chart_lives_and_dies;
mod helm_renders_what_a_person_expects;
mod helm_sees_our_releases;
mod hooks_are_never_ordinary_objects;
mod nobody_elses_objects_are_taken;
mod prune_removes_only_what_is_ours;
mod the_benchmark_counts;
mod the_docs_are_true;
mod the_end_is_quick_and_clean;
mod the_fields_of_a_watch_take_effect;
mod the_lab_behaves_like_a_cluster;
mod the_sample_operator_works;
mod the_status_tells_why;
mod the_urgent_go_ahead;
mod what_helm_made_can_be_handed_over;
mod what_is_meant_to_end_is_not_started_again;
mod what_is_newer_pre_empts;
mod what_we_applied_can_be_read_back;
mod yaml_is_read_as_kubernetes_reads_it;
