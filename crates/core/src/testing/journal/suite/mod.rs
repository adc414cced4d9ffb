//! Conformance suite of the journal port: what every journal must do, one check a function. Owns the list of checks and
//! the values they write.

mod append;
mod create;
mod list;
mod reopen;
mod snapshot;

use serde_json::json;

use crate::ports::journal::{FlowJournal, FlowRecord, JournalEntry};
use crate::spec::flow::{FlowSpec, JobFlow};
use crate::testing::suite::{Broken, Suite, SuiteFailure};
use crate::time::Time;

/// Runs each named check on a journal of its own.
macro_rules! checks {
    ($suite:ident, $make:ident: $($module:ident::{$($check:ident),+ $(,)?}),+ $(,)?) => {
        $($({
            let journal = $make($suite.next()).await;
            $suite.check(stringify!($check), $module::$check(&journal)).await;
        })+)+
    };
}

/// Runs each named pair of checks: one writes, the other reads after the journal was dropped and opened again.
macro_rules! reopened {
    ($suite:ident, $make:ident: $($check:ident),+ $(,)?) => {
        $({
            let number = $suite.next();
            let journal = $make(number).await;
            let written = reopen::$check::write(&journal).await;
            drop(journal);
            let journal = $make(number).await;
            $suite
                .check(stringify!($check), async {
                    written?;
                    reopen::$check::read(&journal).await
                })
                .await;
        })+
    };
}

/// Checks a journal against its port. `open` opens the journal of a number: empty the first time, later with what was
/// written to it before it was dropped. Gives the names of the checks, at least 40.
///
/// # Errors
/// Every check that does not hold, with the reason.
pub async fn journal_suite<J: FlowJournal>(open: impl AsyncFn(u32) -> J) -> Result<Vec<&'static str>, SuiteFailure> {
    let mut suite = Suite::new("journal");
    checks! { suite, open:
        create::{
            a_new_flow_loads_as_it_was_written,
            a_new_flow_has_no_entries,
            a_rich_flow_comes_back_whole,
            options_of_any_shape_come_back,
            a_uid_exists_once,
            a_name_exists_once_in_a_namespace,
            a_name_is_free_in_another_namespace,
            no_namespace_is_the_default_one,
            a_refused_flow_leaves_no_trace,
            an_unknown_flow_is_not_found,
            uids_are_compared_byte_by_byte,
            a_name_is_free_after_deletion,
        },
        append::{
            entries_come_back_in_order,
            numbers_go_on_over_appends,
            a_stale_append_conflicts,
            a_future_append_conflicts,
            a_conflict_writes_nothing,
            an_unknown_flow_takes_no_entries,
            a_deleted_flow_takes_no_entries,
            nothing_appended_changes_nothing,
            nothing_appended_late_conflicts,
            equal_entries_are_kept_apart,
            any_text_comes_back,
            any_time_comes_back,
            a_large_batch_comes_back,
            a_large_entry_comes_back,
            flows_count_apart,
            one_of_many_at_once_wins,
            many_flows_at_once_all_win,
        },
        snapshot::{
            a_snapshot_drops_what_it_covers,
            a_snapshot_keeps_later_entries,
            numbers_go_on_after_a_snapshot,
            a_later_snapshot_replaces,
            an_equal_snapshot_replaces,
            an_earlier_snapshot_conflicts,
            a_snapshot_of_the_future_is_invalid,
            a_snapshot_before_the_first_entry_is_kept,
            an_unknown_flow_takes_no_snapshot,
            any_bytes_come_back,
            a_large_snapshot_comes_back,
        },
        list::{
            an_empty_journal_lists_nothing,
            a_new_flow_is_listed_as_pending,
            a_summary_comes_back,
            a_later_summary_replaces,
            an_unknown_flow_takes_no_summary,
            lists_are_ordered_by_creation_then_uid,
            a_deleted_flow_is_not_listed,
            deleting_an_unknown_flow_is_fine,
            deleting_removes_everything,
            deleting_leaves_the_others,
        },
    }
    reopened! { suite, open: entries_survive, snapshots_survive, summaries_survive, deletions_survive, numbers_survive }
    suite.finish()
}

/// A flow of a uid, also named so.
fn flow(uid: &str) -> FlowRecord {
    named(uid, None, uid)
}

/// A flow of a uid, namespace and name.
fn named(uid: &str, namespace: Option<&str>, name: &str) -> FlowRecord {
    let mut flow = JobFlow::new(name, FlowSpec::default());
    flow.metadata.namespace = namespace.map(ToOwned::to_owned);
    FlowRecord { uid: uid.to_owned(), flow, created_at: Time::from_millis(1_000), options: json!({ "jobs": 4 }) }
}

/// Entries with these texts, a millisecond apart.
fn entries<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Vec<JournalEntry> {
    let entry = |(at, text): (i64, T)| JournalEntry { now: Time::from_millis(at), event: text.as_ref().to_owned() };
    (1..).zip(texts).map(entry).collect()
}

/// Creates flow `f` with these entries.
async fn filled(journal: &dyn FlowJournal, texts: &[&str]) -> Result<(), Broken> {
    journal.create(&flow("f")).await?;
    Ok(journal.append("f", 0, &entries(texts)).await?)
}

/// Texts of the entries of a flow.
async fn texts(journal: &dyn FlowJournal, uid: &str) -> Result<Vec<String>, Broken> {
    Ok(journal.load(uid).await?.entries.into_iter().map(|entry| entry.event).collect())
}

/// Texts as `texts` gives them.
fn wanted(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}
