//! Checks of appending entries.

use super::{entries, filled, flow, texts, wanted};
use crate::error::{Class, Problem};
use crate::ports::journal::{FlowJournal, JournalEntry};
use crate::testing::suite::{CheckResult, fails, holds, same};
use crate::testing::wait::{Pinned, all};
use crate::time::Time;

pub(super) async fn entries_come_back_in_order(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&flow("f")).await?;
    let written = entries(["b", "a", "c"]);
    journal.append("f", 0, &written).await?;
    let stored = journal.load("f").await?;
    same("the entries", &stored.entries, &written)?;
    same("the last number", &stored.last, &3)
}

pub(super) async fn numbers_go_on_over_appends(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a"]).await?;
    journal.append("f", 1, &entries(["b", "c"])).await?;
    journal.append("f", 3, &entries(["d"])).await?;
    same("the entries", &texts(journal, "f").await?, &wanted(&["a", "b", "c", "d"]))?;
    same("the last number", &journal.load("f").await?.last, &4)
}

pub(super) async fn a_stale_append_conflicts(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a", "b"]).await?;
    fails("appending after 0", journal.append("f", 0, &entries(["x"])).await, Class::Conflict)?;
    fails("appending after 1", journal.append("f", 1, &entries(["x"])).await, Class::Conflict)
}

pub(super) async fn a_future_append_conflicts(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a", "b"]).await?;
    fails("appending after 3", journal.append("f", 3, &entries(["x"])).await, Class::Conflict)?;
    fails("appending after the greatest number", journal.append("f", u64::MAX, &entries(["x"])).await, Class::Conflict)
}

pub(super) async fn a_conflict_writes_nothing(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a", "b"]).await?;
    fails("a stale append", journal.append("f", 1, &entries(["x", "y"])).await, Class::Conflict)?;
    same("the entries", &texts(journal, "f").await?, &wanted(&["a", "b"]))?;
    journal.append("f", 2, &entries(["c"])).await?;
    same("the entries after a good append", &texts(journal, "f").await?, &wanted(&["a", "b", "c"]))
}

pub(super) async fn an_unknown_flow_takes_no_entries(journal: &dyn FlowJournal) -> CheckResult {
    fails("appending", journal.append("f", 0, &entries(["x"])).await, Class::NotFound)?;
    journal.create(&flow("f")).await?;
    same("the entries of the flow created later", &texts(journal, "f").await?, &Vec::new())
}

pub(super) async fn a_deleted_flow_takes_no_entries(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a"]).await?;
    journal.delete("f").await?;
    fails("appending", journal.append("f", 1, &entries(["x"])).await, Class::NotFound)
}

pub(super) async fn nothing_appended_changes_nothing(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a"]).await?;
    let before = journal.load("f").await?;
    journal.append("f", 1, &[]).await?;
    same("the flow", &journal.load("f").await?, &before)
}

pub(super) async fn nothing_appended_late_conflicts(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a"]).await?;
    fails("appending nothing after 0", journal.append("f", 0, &[]).await, Class::Conflict)?;
    fails("appending nothing to no flow", journal.append("g", 0, &[]).await, Class::NotFound)
}

pub(super) async fn equal_entries_are_kept_apart(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&flow("f")).await?;
    let tick = JournalEntry { now: Time::from_millis(5), event: "{}".to_owned() };
    journal.append("f", 0, &[tick.clone(), tick.clone()]).await?;
    journal.append("f", 2, std::slice::from_ref(&tick)).await?;
    same("the entries", &journal.load("f").await?.entries, &vec![tick.clone(), tick.clone(), tick])
}

pub(super) async fn any_text_comes_back(journal: &dyn FlowJournal) -> CheckResult {
    let written = ["", " \n\r\t", "nul\0inside", "\u{feff}\u{10ffff}\u{1f980}", "'; DROP TABLE flow; --", "{\"a\":1}"];
    filled(journal, &written).await?;
    same("the entries", &texts(journal, "f").await?, &wanted(&written))
}

pub(super) async fn any_time_comes_back(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&flow("f")).await?;
    let at = |millis| JournalEntry { now: Time::from_millis(millis), event: "tick".to_owned() };
    let written = vec![at(9), at(3), at(-1), at(i64::MAX), at(i64::MIN), at(0)];
    journal.append("f", 0, &written).await?;
    same("the entries", &journal.load("f").await?.entries, &written)
}

pub(super) async fn a_large_batch_comes_back(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&flow("f")).await?;
    let written = entries((0..10_000).map(|number| format!("entry {number}")));
    journal.append("f", 0, &written).await?;
    let stored = journal.load("f").await?;
    holds("all entries come back in order", stored.entries == written)?;
    same("the last number", &stored.last, &10_000)
}

pub(super) async fn a_large_entry_comes_back(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&flow("f")).await?;
    let written = entries(["x".repeat(4 << 20)]);
    journal.append("f", 0, &written).await?;
    holds("the entry comes back", journal.load("f").await?.entries == written)
}

pub(super) async fn flows_count_apart(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a", "b"]).await?;
    journal.create(&flow("g")).await?;
    journal.append("g", 0, &entries(["x"])).await?;
    journal.append("f", 2, &entries(["c"])).await?;
    same("the entries of f", &texts(journal, "f").await?, &wanted(&["a", "b", "c"]))?;
    same("the entries of g", &texts(journal, "g").await?, &wanted(&["x"]))
}

pub(super) async fn one_of_many_at_once_wins(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&flow("f")).await?;
    let written: Vec<_> = (0..16).map(|number| entries([format!("{number}-a"), format!("{number}-b")])).collect();
    let calls = written.iter().map(|batch| Box::pin(journal.append("f", 0, batch)) as Pinned<'_, _>);
    let mut won = Vec::new();
    for (result, batch) in all(calls.collect()).await.into_iter().zip(&written) {
        match result {
            Ok(()) => won.push(batch.clone()),
            Err(error) => fails("an append that came late", Err::<(), _>(error), Class::Conflict)?,
        }
    }
    same("the number of winners", &won.len(), &1)?;
    same("the entries", &vec![journal.load("f").await?.entries], &won)
}

pub(super) async fn many_flows_at_once_all_win(journal: &dyn FlowJournal) -> CheckResult {
    let uids: Vec<String> = (0..32).map(|number| format!("f{number}")).collect();
    for uid in &uids {
        journal.create(&flow(uid)).await?;
    }
    for round in 0..4 {
        let batches: Vec<_> = uids.iter().map(|uid| entries([format!("{uid}-{round}")])).collect();
        let calls = uids.iter().zip(&batches).map(|(uid, batch)| {
            let call = journal.append(uid, round, batch);
            Box::pin(call) as Pinned<'_, Result<(), Problem>>
        });
        for result in all(calls.collect()).await {
            result?;
        }
    }
    for uid in &uids {
        let written: Vec<String> = (0..4).map(|round| format!("{uid}-{round}")).collect();
        same("the entries", &texts(journal, uid).await?, &written)?;
    }
    Ok(())
}
