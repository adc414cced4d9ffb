//! Checks in two halves: what was written is read after the journal was dropped and opened again.

use super::{entries, filled, flow, list, texts, wanted};
use crate::error::Class;
use crate::machine::flow::FlowPhase;
use crate::ports::journal::FlowJournal;
use crate::testing::suite::{CheckResult, fails, same};

pub(super) mod entries_survive {
    use super::*;

    pub(in super::super) async fn write(journal: &dyn FlowJournal) -> CheckResult {
        filled(journal, &["a", "b"]).await?;
        Ok(journal.append("f", 2, &entries(["c"])).await?)
    }

    pub(in super::super) async fn read(journal: &dyn FlowJournal) -> CheckResult {
        same("the record", &journal.load("f").await?.record, &flow("f"))?;
        same("the entries", &texts(journal, "f").await?, &wanted(&["a", "b", "c"]))
    }
}

pub(super) mod snapshots_survive {
    use super::*;

    pub(in super::super) async fn write(journal: &dyn FlowJournal) -> CheckResult {
        filled(journal, &["a", "b"]).await?;
        Ok(journal.snapshot("f", 1, b"state").await?)
    }

    pub(in super::super) async fn read(journal: &dyn FlowJournal) -> CheckResult {
        same("the snapshot", &journal.load("f").await?.snapshot, &Some((1, b"state".to_vec())))?;
        same("the entries", &texts(journal, "f").await?, &wanted(&["b"]))
    }
}

pub(super) mod summaries_survive {
    use super::*;

    pub(in super::super) async fn write(journal: &dyn FlowJournal) -> CheckResult {
        journal.create(&flow("f")).await?;
        Ok(journal.summarize("f", &list::summary(FlowPhase::Succeeded)).await?)
    }

    pub(in super::super) async fn read(journal: &dyn FlowJournal) -> CheckResult {
        let listed: Vec<_> = journal.list().await?.into_iter().map(|flow| flow.summary).collect();
        same("the summary", &listed, &vec![list::summary(FlowPhase::Succeeded)])
    }
}

pub(super) mod deletions_survive {
    use super::*;

    pub(in super::super) async fn write(journal: &dyn FlowJournal) -> CheckResult {
        filled(journal, &["a"]).await?;
        Ok(journal.delete("f").await?)
    }

    pub(in super::super) async fn read(journal: &dyn FlowJournal) -> CheckResult {
        fails("loading it", journal.load("f").await, Class::NotFound)?;
        same("the list", &journal.list().await?, &Vec::new())
    }
}

pub(super) mod numbers_survive {
    use super::*;

    pub(in super::super) async fn write(journal: &dyn FlowJournal) -> CheckResult {
        filled(journal, &["a", "b"]).await?;
        Ok(journal.snapshot("f", 2, b"s").await?)
    }

    pub(in super::super) async fn read(journal: &dyn FlowJournal) -> CheckResult {
        same("the last number", &journal.load("f").await?.last, &2)?;
        fails("appending after 0", journal.append("f", 0, &entries(["x"])).await, Class::Conflict)?;
        Ok(journal.append("f", 2, &entries(["c"])).await?)
    }
}
