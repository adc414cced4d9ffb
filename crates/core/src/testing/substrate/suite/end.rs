//! Checks of what an end says, of lists and of forgetting.

use std::sync::Arc;

use super::{Behaviour, Stage, SubstrateWorlds};
use crate::attempt::{AttemptEnd, AttemptKey, OutputFile};
use crate::ports::substrate::Substrate;
use crate::testing::suite::{Broken, CheckResult, fails_not, holds, same};

const GOOD: Behaviour = Behaviour::Exit(0);

/// The end of an attempt that behaves so.
async fn ended<W: SubstrateWorlds>(stage: &Stage<'_, W>, behaviour: &Behaviour) -> Result<AttemptEnd, Broken> {
    let (substrate, key) = (stage.open().await, stage.key("step"));
    stage.start(&substrate, &key, behaviour).await?;
    stage.end(&substrate, &key).await
}

fn number(end: &AttemptEnd, path: &str) -> Option<i64> {
    end.document.pointer(path)?.as_i64()
}

pub(super) async fn the_document_says_that_it_succeeded<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let end = ended(stage, &GOOD).await?;
    same("status.succeeded", &number(&end, "/status/succeeded"), &Some(1))?;
    same("termination.exitCode", &number(&end, "/termination/exitCode"), &Some(0))?;
    holds("the document has a completion time", end.document.pointer("/status/completionTime").is_some())
}

pub(super) async fn the_document_says_that_it_failed<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let end = ended(stage, &Behaviour::Exit(9)).await?;
    same("status.failed", &number(&end, "/status/failed"), &Some(1))?;
    same("termination.exitCode", &number(&end, "/termination/exitCode"), &Some(9))
}

/// The content of output `file` after an attempt wrote `text`, which its spec collects beside a missing one.
async fn collected<W: SubstrateWorlds>(
    stage: &Stage<'_, W>,
    text: &'static str,
) -> Result<Vec<(String, String)>, Broken> {
    let (substrate, key) = (stage.open().await, stage.key("writer"));
    let path = "/tmp/orlop-suite-file";
    let mut spec = stage.spec(&key, &Behaviour::Write { path, text });
    spec.output_files = vec![
        OutputFile { name: "missing".to_owned(), path: "/tmp/orlop-suite-missing".to_owned() },
        OutputFile { name: "file".to_owned(), path: path.to_owned() },
    ];
    substrate.start(spec).await?;
    let end = stage.end(&substrate, &key).await?;
    let content = |file: crate::attempt::FileValue| {
        let text = file.content.map_err(|trouble| Broken::new(format!("the file is {trouble:?}")))?;
        Ok((file.name, text))
    };
    end.files.into_iter().map(content).collect()
}

pub(super) async fn an_output_file_is_collected<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let found = collected(stage, "a \"b\"\n\n\u{1f980}c").await?;
    same("the files", &found, &vec![("file".to_owned(), "a \"b\"\n\n\u{1f980}c".to_owned())])
}

pub(super) async fn a_missing_output_file_is_absent<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let names: Vec<String> = collected(stage, "x").await?.into_iter().map(|(name, _)| name).collect();
    same("the files", &names, &vec!["file".to_owned()])
}

pub(super) async fn one_newline_is_taken_off_an_output_file<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let found = collected(stage, "x\n\n").await?;
    same("the files", &found, &vec![("file".to_owned(), "x\n".to_owned())])
}

pub(super) async fn nothing_is_listed_of_an_unknown_flow<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let substrate = stage.open().await;
    same("the list", &substrate.list(&stage.key("step").flow).await?, &Vec::new())
}

pub(super) async fn a_running_attempt_is_listed<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("step"));
    let key = AttemptKey { item: Some(3), attempt: 2, ..key };
    stage.start(&substrate, &key, &Behaviour::Run).await?;
    same("the list", &substrate.list(&key.flow).await?, &vec![key.clone()])?;
    stage.clean(&substrate, &key).await
}

pub(super) async fn an_ended_attempt_is_listed<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("step"));
    stage.start(&substrate, &key, &GOOD).await?;
    stage.end(&substrate, &key).await?;
    same("the list", &substrate.list(&key.flow).await?, &vec![key])
}

pub(super) async fn only_the_attempts_of_the_flow_are_listed<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("step"));
    let other = AttemptKey { flow: Arc::from(format!("{}-other", key.flow)), ..key.clone() };
    for key in [&key, &other] {
        stage.start(&substrate, key, &GOOD).await?;
        stage.end(&substrate, key).await?;
    }
    same("the list", &substrate.list(&key.flow).await?, &vec![key])?;
    same("the other list", &substrate.list(&other.flow).await?, &vec![other])
}

pub(super) async fn the_next_host_sees_the_same_list<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (running, ended) = (stage.key("running"), stage.key("ended"));
    let substrate = stage.open().await;
    stage.start(&substrate, &ended, &GOOD).await?;
    stage.end(&substrate, &ended).await?;
    stage.start(&substrate, &running, &Behaviour::Run).await?;
    drop(substrate);
    let substrate = stage.open().await;
    let mut list = substrate.list(&running.flow).await?;
    list.sort();
    same("the list", &list, &vec![ended, running.clone()])?;
    stage.clean(&substrate, &running).await
}

pub(super) async fn a_forgotten_attempt_is_not_listed<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("step"));
    stage.start(&substrate, &key, &GOOD).await?;
    stage.end(&substrate, &key).await?;
    substrate.forget(&key).await?;
    same("the list", &substrate.list(&key.flow).await?, &Vec::new())?;
    stage.silent(&substrate).await
}

pub(super) async fn forgetting_twice_is_fine<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("step"));
    stage.start(&substrate, &key, &GOOD).await?;
    stage.end(&substrate, &key).await?;
    substrate.forget(&key).await?;
    fails_not("forgetting again", substrate.forget(&key).await)
}

pub(super) async fn forgetting_an_unknown_attempt_is_fine<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let substrate = stage.open().await;
    fails_not("forgetting", substrate.forget(&stage.key("unknown")).await)
}

pub(super) async fn forgetting_leaves_the_others<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("step"));
    let second = AttemptKey { attempt: 2, ..key.clone() };
    for key in [&key, &second] {
        stage.start(&substrate, key, &GOOD).await?;
        stage.end(&substrate, key).await?;
    }
    substrate.forget(&key).await?;
    same("the list", &substrate.list(&key.flow).await?, &vec![second])
}
