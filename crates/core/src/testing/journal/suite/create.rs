//! Checks of creating and loading flows.

use serde_json::json;

use super::{entries, flow, named};
use crate::error::Class;
use crate::ports::journal::FlowJournal;
use crate::spec::artifact::HttpSource;
use crate::spec::flow::{FlowParameter, FlowSpec, JobFlow};
use crate::spec::step::Step;
use crate::testing::suite::{CheckResult, fails, holds, same};
use crate::time::Time;

pub(super) async fn a_new_flow_loads_as_it_was_written(journal: &dyn FlowJournal) -> CheckResult {
    let record = flow("f");
    journal.create(&record).await?;
    same("the record", &journal.load("f").await?.record, &record)
}

pub(super) async fn a_new_flow_has_no_entries(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&flow("f")).await?;
    let stored = journal.load("f").await?;
    same("the snapshot", &stored.snapshot, &None)?;
    same("the entries", &stored.entries, &Vec::new())?;
    same("the last number", &stored.last, &0)
}

pub(super) async fn a_rich_flow_comes_back_whole(journal: &dyn FlowJournal) -> CheckResult {
    let template = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "spec": { "z": 0.1, "a": [1, -7, 1e300, 18_446_744_073_709_551_615_u64], "text": "line\nquote\" \u{2028}\u{1f980}" },
    });
    let step = Step { name: "build".to_owned(), template: Some(template), ..Step::default() };
    let parameter = FlowParameter { name: "p".to_owned(), value: Some(String::new()), ..FlowParameter::default() };
    let spec = FlowSpec { steps: vec![step], parameters: vec![parameter], ..FlowSpec::default() };
    let mut record = flow("f");
    record.flow = JobFlow::new("rich", spec);
    record.flow.metadata.labels.insert("team".to_owned(), "sea".to_owned());
    record.flow.metadata.other.insert("unknown".to_owned(), json!({ "kept": [null, true] }));
    record.created_at = Time::from_millis(1_763_712_345_678);
    journal.create(&record).await?;
    same("the record", &journal.load("f").await?.record, &record)
}

pub(super) async fn options_of_any_shape_come_back(journal: &dyn FlowJournal) -> CheckResult {
    let source = HttpSource { url: "http://x/".to_owned(), ..HttpSource::default() };
    let shapes = [json!(null), json!("text"), json!([1, 2.5, {}]), json!({ "b": 1, "a": source })];
    for (options, at) in shapes.into_iter().zip(0..) {
        let mut record = flow(&format!("f{at}"));
        record.options = options;
        journal.create(&record).await?;
        same("the options", &journal.load(&record.uid).await?.record.options, &record.options)?;
    }
    Ok(())
}

pub(super) async fn a_uid_exists_once(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&flow("f")).await?;
    fails("creating it again", journal.create(&flow("f")).await, Class::Exists)?;
    fails("creating it under another name", journal.create(&named("f", None, "g")).await, Class::Exists)
}

pub(super) async fn a_name_exists_once_in_a_namespace(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&named("f", Some("sea"), "n")).await?;
    fails("creating the name again", journal.create(&named("g", Some("sea"), "n")).await, Class::Exists)
}

pub(super) async fn a_name_is_free_in_another_namespace(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&named("f", Some("sea"), "n")).await?;
    journal.create(&named("g", Some("land"), "n")).await?;
    same("the number of flows", &journal.list().await?.len(), &2)
}

pub(super) async fn no_namespace_is_the_default_one(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&named("f", None, "n")).await?;
    fails("creating it in `default`", journal.create(&named("g", Some("default"), "n")).await, Class::Exists)?;
    let listed: Vec<String> = journal.list().await?.into_iter().map(|flow| flow.namespace).collect();
    same("the namespace in the list", &listed, &vec!["default".to_owned()])?;
    same("the object's own namespace", &journal.load("f").await?.record.flow.metadata.namespace, &None)
}

pub(super) async fn a_refused_flow_leaves_no_trace(journal: &dyn FlowJournal) -> CheckResult {
    let record = flow("f");
    journal.create(&record).await?;
    journal.append("f", 0, &entries(["kept"])).await?;
    fails("taking its uid", journal.create(&named("f", None, "g")).await, Class::Exists)?;
    fails("taking its name", journal.create(&named("g", None, "f")).await, Class::Exists)?;
    let stored = journal.load("f").await?;
    same("the record", &stored.record, &record)?;
    same("the last number", &stored.last, &1)?;
    fails("loading the refused flow", journal.load("g").await, Class::NotFound)?;
    journal.create(&named("g", None, "g")).await?;
    Ok(())
}

pub(super) async fn an_unknown_flow_is_not_found(journal: &dyn FlowJournal) -> CheckResult {
    fails("loading from an empty journal", journal.load("f").await, Class::NotFound)?;
    journal.create(&flow("f")).await?;
    fails("loading another flow", journal.load("g").await, Class::NotFound)?;
    fails("loading by no uid", journal.load("").await, Class::NotFound)
}

pub(super) async fn uids_are_compared_byte_by_byte(journal: &dyn FlowJournal) -> CheckResult {
    for (uid, name) in [("a", "one"), ("A", "two"), ("a ", "three"), ("\u{e9}", "four"), ("e\u{301}", "five")] {
        journal.create(&named(uid, None, name)).await?;
    }
    for (uid, name) in [("a", "one"), ("A", "two"), ("a ", "three"), ("\u{e9}", "four"), ("e\u{301}", "five")] {
        same("the name", &journal.load(uid).await?.record.flow.metadata.name.as_str(), &name)?;
    }
    Ok(())
}

pub(super) async fn a_name_is_free_after_deletion(journal: &dyn FlowJournal) -> CheckResult {
    journal.create(&named("f", None, "n")).await?;
    journal.delete("f").await?;
    journal.create(&named("g", None, "n")).await?;
    journal.create(&named("f", None, "m")).await?;
    holds("the flow of the new name is there", journal.load("g").await.is_ok())
}
