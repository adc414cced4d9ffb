//! Checks of snapshots.

use super::{entries, filled, flow, texts, wanted};
use crate::error::Class;
use crate::ports::journal::FlowJournal;
use crate::testing::suite::{CheckResult, fails, holds, same};

pub(super) async fn a_snapshot_drops_what_it_covers(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a", "b"]).await?;
    journal.snapshot("f", 2, b"state").await?;
    let stored = journal.load("f").await?;
    same("the snapshot", &stored.snapshot, &Some((2, b"state".to_vec())))?;
    same("the entries", &stored.entries, &Vec::new())?;
    same("the last number", &stored.last, &2)
}

pub(super) async fn a_snapshot_keeps_later_entries(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a", "b", "c", "d"]).await?;
    journal.snapshot("f", 1, b"s").await?;
    same("the entries", &texts(journal, "f").await?, &wanted(&["b", "c", "d"]))?;
    same("the last number", &journal.load("f").await?.last, &4)
}

pub(super) async fn numbers_go_on_after_a_snapshot(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a", "b"]).await?;
    journal.snapshot("f", 2, b"s").await?;
    fails("appending after 0", journal.append("f", 0, &entries(["x"])).await, Class::Conflict)?;
    journal.append("f", 2, &entries(["c"])).await?;
    same("the entries", &texts(journal, "f").await?, &wanted(&["c"]))?;
    same("the last number", &journal.load("f").await?.last, &3)
}

pub(super) async fn a_later_snapshot_replaces(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a", "b", "c"]).await?;
    journal.snapshot("f", 1, b"one").await?;
    journal.snapshot("f", 3, b"three").await?;
    let stored = journal.load("f").await?;
    same("the snapshot", &stored.snapshot, &Some((3, b"three".to_vec())))?;
    same("the entries", &stored.entries, &Vec::new())
}

pub(super) async fn an_equal_snapshot_replaces(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a", "b"]).await?;
    journal.snapshot("f", 1, b"one").await?;
    journal.snapshot("f", 1, b"again").await?;
    same("the snapshot", &journal.load("f").await?.snapshot, &Some((1, b"again".to_vec())))?;
    same("the entries", &texts(journal, "f").await?, &wanted(&["b"]))
}

pub(super) async fn an_earlier_snapshot_conflicts(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a", "b", "c"]).await?;
    journal.snapshot("f", 2, b"two").await?;
    let before = journal.load("f").await?;
    fails("an earlier snapshot", journal.snapshot("f", 1, b"one").await, Class::Conflict)?;
    same("the flow", &journal.load("f").await?, &before)
}

pub(super) async fn a_snapshot_of_the_future_is_invalid(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a"]).await?;
    let before = journal.load("f").await?;
    fails("a snapshot through 2", journal.snapshot("f", 2, b"s").await, Class::Invalid)?;
    fails("a snapshot through the end", journal.snapshot("f", u64::MAX, b"s").await, Class::Invalid)?;
    same("the flow", &journal.load("f").await?, &before)
}

pub(super) async fn a_snapshot_before_the_first_entry_is_kept(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&flow("f")).await?;
    journal.snapshot("f", 0, b"start").await?;
    journal.append("f", 0, &entries(["a"])).await?;
    let stored = journal.load("f").await?;
    same("the snapshot", &stored.snapshot, &Some((0, b"start".to_vec())))?;
    same("the number of entries", &stored.entries.len(), &1)
}

pub(super) async fn an_unknown_flow_takes_no_snapshot(journal: &dyn FlowJournal) -> CheckResult {
    fails("a snapshot", journal.snapshot("f", 0, b"s").await, Class::NotFound)
}

pub(super) async fn any_bytes_come_back(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a"]).await?;
    for bytes in [Vec::new(), vec![0], (0..=255).collect(), b"\xff\xfe\0text".to_vec()] {
        journal.snapshot("f", 1, &bytes).await?;
        same("the snapshot", &journal.load("f").await?.snapshot, &Some((1, bytes)))?;
    }
    Ok(())
}

pub(super) async fn a_large_snapshot_comes_back(journal: &dyn FlowJournal) -> CheckResult {
    filled(journal, &["a"]).await?;
    let bytes: Vec<u8> = (0..8_u32 << 20).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    journal.snapshot("f", 1, &bytes).await?;
    holds("the snapshot comes back", journal.load("f").await?.snapshot == Some((1, bytes)))
}
