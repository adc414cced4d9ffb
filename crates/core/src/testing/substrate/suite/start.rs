//! Checks of starting, adopting and being told of the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Behaviour, Stage, SubstrateWorlds};
use crate::attempt::{AttemptKey, EndResult};
use crate::ports::substrate::Substrate;
use crate::testing::suite::{Broken, CheckResult, holds, same};
use crate::testing::wait::at_once;

const GOOD: Behaviour = Behaviour::Exit(0);
const BRIEF: Behaviour = Behaviour::Take(Duration::from_millis(300));

pub(super) async fn an_attempt_succeeds<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("good"));
    stage.start(&substrate, &key, &GOOD).await?;
    let end = stage.end(&substrate, &key).await?;
    same("the result", &end.result, &EndResult::Succeeded)?;
    same("the failed pods", &end.failed_pods, &Vec::new())?;
    stage.silent(&substrate).await?;
    stage.ran(&key, 1).await
}

pub(super) async fn an_attempt_fails_with_its_exit_code<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("bad"));
    stage.start(&substrate, &key, &Behaviour::Exit(7)).await?;
    let end = stage.end(&substrate, &key).await?;
    match &end.result {
        EndResult::Failed { reason, message } => {
            holds("the reason is one word", !reason.is_empty() && !reason.contains(char::is_whitespace))?;
            holds("there is a message", !message.is_empty())?;
        }
        other => return Err(Broken::new(format!("the result is {other:?}"))),
    }
    let codes: Vec<i32> =
        end.failed_pods.iter().flat_map(|pod| &pod.containers).map(|container| container.exit_code).collect();
    same("the exit codes of failed pods", &codes, &vec![7])?;
    let names: Vec<&str> =
        end.failed_pods.iter().flat_map(|pod| &pod.containers).map(|container| container.name.as_str()).collect();
    same("the containers of failed pods", &names, &vec!["main"])
}

pub(super) async fn nothing_is_reported_unasked<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    stage.silent(&stage.open().await).await
}

pub(super) async fn a_start_names_what_it_created<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("named"));
    let spec = stage.spec(&key, &BRIEF);
    let first = substrate.start(spec.clone()).await?;
    holds("the reference has a kind", !first.kind.is_empty())?;
    holds("the reference has a name", !first.name.is_empty())?;
    same("the reference of the second start", &substrate.start(spec).await?, &first)?;
    stage.end(&substrate, &key).await.map(drop)
}

pub(super) async fn started_twice_it_runs_once<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("twice"));
    let spec = stage.spec(&key, &BRIEF);
    substrate.start(spec.clone()).await?;
    substrate.start(spec).await?;
    same("the result", &stage.end(&substrate, &key).await?.result, &EndResult::Succeeded)?;
    // Being asked twice, it may answer twice, but with the one end there is.
    while let Some(report) = stage.worlds.within(substrate.next()).await {
        same("the second report", &(report.key, report.end.result), &(key.clone(), EndResult::Succeeded))?;
    }
    stage.ran(&key, 1).await
}

pub(super) async fn started_again_after_its_end_it_is_reported_again<W: SubstrateWorlds>(
    stage: &Stage<'_, W>,
) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("again"));
    let spec = stage.spec(&key, &Behaviour::Exit(3));
    substrate.start(spec.clone()).await?;
    let first = stage.end(&substrate, &key).await?;
    substrate.start(spec).await?;
    let second = stage.end(&substrate, &key).await?;
    same("the second end", &second.result, &first.result)?;
    same("the time of the second end", &second.ended_at, &first.ended_at)?;
    stage.ran(&key, 1).await
}

pub(super) async fn started_again_by_the_next_host_it_runs_once<W: SubstrateWorlds>(
    stage: &Stage<'_, W>,
) -> CheckResult {
    let key = stage.key("restarted");
    let spec = stage.spec(&key, &BRIEF);
    let substrate = stage.open().await;
    substrate.start(spec.clone()).await?;
    drop(substrate);
    let substrate = stage.open().await;
    substrate.start(spec).await?;
    same("the result", &stage.end(&substrate, &key).await?.result, &EndResult::Succeeded)?;
    stage.ran(&key, 1).await
}

pub(super) async fn started_again_by_the_next_host_its_end_is_reported<W: SubstrateWorlds>(
    stage: &Stage<'_, W>,
) -> CheckResult {
    let key = stage.key("restarted");
    let spec = stage.spec(&key, &Behaviour::Exit(3));
    let substrate = stage.open().await;
    substrate.start(spec.clone()).await?;
    let first = stage.end(&substrate, &key).await?;
    drop(substrate);
    let substrate = stage.open().await;
    substrate.start(spec).await?;
    same("the second end", &stage.end(&substrate, &key).await?.result, &first.result)?;
    stage.ran(&key, 1).await
}

pub(super) async fn adopted_by_the_next_host_its_end_is_reported<W: SubstrateWorlds>(
    stage: &Stage<'_, W>,
) -> CheckResult {
    let key = stage.key("adopted");
    let spec = stage.spec(&key, &BRIEF);
    let substrate = stage.open().await;
    substrate.start(spec.clone()).await?;
    drop(substrate);
    let substrate = stage.open().await;
    substrate.adopt(spec).await?;
    same("the result", &stage.end(&substrate, &key).await?.result, &EndResult::Succeeded)?;
    stage.ran(&key, 1).await
}

pub(super) async fn adopted_by_the_next_host_after_its_end_it_is_reported<W: SubstrateWorlds>(
    stage: &Stage<'_, W>,
) -> CheckResult {
    let key = stage.key("adopted");
    let spec = stage.spec(&key, &Behaviour::Exit(3));
    let substrate = stage.open().await;
    substrate.start(spec.clone()).await?;
    let first = stage.end(&substrate, &key).await?;
    drop(substrate);
    let substrate = stage.open().await;
    substrate.adopt(spec).await?;
    same("the second end", &stage.end(&substrate, &key).await?.result, &first.result)
}

pub(super) async fn adopted_without_a_trace_it_is_lost<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("unknown"));
    substrate.adopt(stage.spec(&key, &GOOD)).await?;
    same("the result", &stage.end(&substrate, &key).await?.result, &EndResult::Lost)?;
    same("the list", &substrate.list(&key.flow).await?, &Vec::new())?;
    stage.ran(&key, 0).await
}

/// Starts attempts that end with different codes and holds when each is reported with its own.
async fn apart<W: SubstrateWorlds>(stage: &Stage<'_, W>, keys: Vec<AttemptKey>) -> CheckResult {
    let substrate = stage.open().await;
    let mut wanted = BTreeMap::new();
    for (key, code) in keys.into_iter().zip(1_u8..) {
        stage.start(&substrate, &key, &Behaviour::Exit(code)).await?;
        wanted.insert(key, vec![i32::from(code)]);
    }
    let mut found = BTreeMap::new();
    for _ in 0..wanted.len() {
        let report = stage.report(&substrate).await?;
        let pods = report.end.failed_pods.iter().flat_map(|pod| &pod.containers);
        found.insert(report.key, pods.map(|container| container.exit_code).collect());
    }
    same("the exit codes", &found, &wanted)
}

pub(super) async fn attempts_of_a_step_are_apart<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let key = stage.key("step");
    apart(stage, vec![key.clone(), AttemptKey { attempt: 2, ..key.clone() }, AttemptKey { attempt: 12, ..key }]).await
}

pub(super) async fn instances_of_a_step_are_apart<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let key = stage.key("step");
    let instance = |item| AttemptKey { item: Some(item), ..key.clone() };
    apart(stage, vec![instance(0), instance(1), instance(10), key.clone()]).await
}

pub(super) async fn flows_are_apart<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let key = stage.key("step");
    let other = AttemptKey { flow: Arc::from(format!("{}-other", key.flow)), ..key.clone() };
    apart(stage, vec![key, other]).await
}

pub(super) async fn many_are_each_reported_once<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let substrate = stage.open().await;
    let keys: Vec<AttemptKey> = (0..12).map(|number| stage.key(&format!("step-{number:02}"))).collect();
    for key in &keys {
        stage.start(&substrate, key, &GOOD).await?;
    }
    let mut reported = Vec::new();
    for _ in &keys {
        reported.push(stage.report(&substrate).await?.key);
    }
    reported.sort();
    same("the reports", &reported, &keys)?;
    stage.silent(&substrate).await
}

pub(super) async fn a_dropped_wait_loses_nothing<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("patience"));
    holds("nothing is there at first", at_once(substrate.next()).await.is_none())?;
    stage.start(&substrate, &key, &BRIEF).await?;
    for _ in 0..3 {
        if let Some(report) = at_once(substrate.next()).await {
            return same("the report", &report.key, &key);
        }
    }
    stage.end(&substrate, &key).await.map(drop)
}
