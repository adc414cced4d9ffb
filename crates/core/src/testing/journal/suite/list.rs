//! Checks of summaries, lists and deletion.

use super::{entries, filled, flow, named, texts, wanted};
use crate::error::Class;
use crate::machine::flow::FlowPhase;
use crate::ports::journal::{FlowJournal, FlowRecordSummary, FlowSummary};
use crate::testing::suite::{CheckResult, fails, same};
use crate::time::Time;

/// A summary with every field set.
pub(super) fn summary(phase: FlowPhase) -> FlowSummary {
    FlowSummary {
        phase,
        progress: "3/10".to_owned(),
        message: "waits for \u{ab}build\u{bb}\n".to_owned(),
        started_at: Some(Time::from_millis(1_763_712_345_678)),
        ended_at: Some(Time::from_millis(1_763_712_345_679)),
    }
}

async fn uids(journal: &dyn FlowJournal) -> Result<Vec<String>, crate::error::Problem> {
    Ok(journal.list().await?.into_iter().map(|flow| flow.uid).collect())
}

pub(super) async fn an_empty_journal_lists_nothing(journal: &dyn FlowJournal) -> CheckResult {
    same("the list", &journal.list().await?, &Vec::new())
}

pub(super) async fn a_new_flow_is_listed_as_pending(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&named("f", Some("sea"), "n")).await?;
    let wanted = FlowRecordSummary {
        uid: "f".to_owned(),
        namespace: "sea".to_owned(),
        name: "n".to_owned(),
        created_at: Time::from_millis(1_000),
        summary: FlowSummary::default(),
    };
    same("the list", &journal.list().await?, &vec![wanted])
}

pub(super) async fn a_summary_comes_back(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&flow("f")).await?;
    journal.summarize("f", &summary(FlowPhase::Paused)).await?;
    let listed: Vec<FlowSummary> = journal.list().await?.into_iter().map(|flow| flow.summary).collect();
    same("the summary", &listed, &vec![summary(FlowPhase::Paused)])
}

pub(super) async fn a_later_summary_replaces(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&flow("f")).await?;
    journal.summarize("f", &summary(FlowPhase::Failed)).await?;
    let later = FlowSummary { phase: FlowPhase::Running, ..FlowSummary::default() };
    journal.summarize("f", &later).await?;
    let listed: Vec<FlowSummary> = journal.list().await?.into_iter().map(|flow| flow.summary).collect();
    same("the summary", &listed, &vec![later])
}

pub(super) async fn an_unknown_flow_takes_no_summary(journal: &dyn FlowJournal) -> CheckResult {
    fails("summarizing", journal.summarize("f", &FlowSummary::default()).await, Class::NotFound)?;
    same("the list", &journal.list().await?, &Vec::new())
}

pub(super) async fn lists_are_ordered_by_creation_then_uid(journal: &dyn FlowJournal) -> CheckResult {
    for (uid, millis) in [("d", 5), ("a", 9), ("c", 5), ("b", -3), ("e", 5)] {
        let mut record = flow(uid);
        record.created_at = Time::from_millis(millis);
        journal.create(&record).await?;
    }
    same("the list", &uids(journal).await?, &wanted(&["b", "c", "d", "e", "a"]))
}

pub(super) async fn a_deleted_flow_is_not_listed(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&flow("f")).await?;
    journal.create(&flow("g")).await?;
    journal.delete("f").await?;
    same("the list", &uids(journal).await?, &wanted(&["g"]))
}

pub(super) async fn deleting_an_unknown_flow_is_fine(journal: &dyn FlowJournal) -> CheckResult {
    journal.delete("f").await?;
    journal.create(&flow("f")).await?;
    journal.delete("f").await?;
    journal.delete("f").await?;
    fails("loading it", journal.load("f").await, Class::NotFound)
}

pub(super) async fn deleting_removes_everything(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a", "b"]).await?;
    journal.snapshot("f", 1, b"s").await?;
    journal.summarize("f", &summary(FlowPhase::Failed)).await?;
    journal.delete("f").await?;
    journal.create(&flow("f")).await?;
    let stored = journal.load("f").await?;
    same("the snapshot of its successor", &stored.snapshot, &None)?;
    same("the entries of its successor", &stored.entries, &Vec::new())?;
    same("the last number of its successor", &stored.last, &0)?;
    let listed: Vec<FlowSummary> = journal.list().await?.into_iter().map(|flow| flow.summary).collect();
    same("the summary of its successor", &listed, &vec![FlowSummary::default()])
}

pub(super) async fn deleting_leaves_the_others(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a"]).await?;
    journal.create(&flow("g")).await?;
    journal.append("g", 0, &entries(["x", "y"])).await?;
    journal.snapshot("g", 1, b"s").await?;
    journal.delete("f").await?;
    same("the snapshot of the other", &journal.load("g").await?.snapshot, &Some((1, b"s".to_vec())))?;
    same("the entries of the other", &texts(journal, "g").await?, &wanted(&["y"]))
}
