//! Checks of cancelling.

use std::time::Duration;

use super::{Behaviour, Stage, SubstrateWorlds};
use crate::attempt::EndResult;
use crate::ports::substrate::Substrate;
use crate::testing::suite::{CheckResult, same};

const GRACE: Option<Duration> = Some(Duration::from_secs(1));

pub(super) async fn a_running_attempt_is_cancelled<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("running"));
    stage.start(&substrate, &key, &Behaviour::Run).await?;
    stage.silent(&substrate).await?;
    substrate.cancel(&key, None).await?;
    same("the result", &stage.end(&substrate, &key).await?.result, &EndResult::Cancelled)?;
    stage.silent(&substrate).await
}

pub(super) async fn an_unknown_attempt_is_cancelled<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("unknown"));
    substrate.cancel(&key, GRACE).await?;
    same("the result", &stage.end(&substrate, &key).await?.result, &EndResult::Cancelled)?;
    same("the list", &substrate.list(&key.flow).await?, &Vec::new())
}

pub(super) async fn cancelled_twice_it_is_cancelled<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("running"));
    stage.start(&substrate, &key, &Behaviour::Run).await?;
    substrate.cancel(&key, GRACE).await?;
    substrate.cancel(&key, GRACE).await?;
    same("the result", &stage.end(&substrate, &key).await?.result, &EndResult::Cancelled)?;
    while let Some(report) = stage.worlds.within(substrate.next()).await {
        same("a further report", &(report.key, report.end.result), &(key.clone(), EndResult::Cancelled))?;
    }
    Ok(())
}

pub(super) async fn cancelled_after_its_end_it_is_what_it_was<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("ended"));
    stage.start(&substrate, &key, &Behaviour::Exit(0)).await?;
    stage.end(&substrate, &key).await?;
    substrate.cancel(&key, GRACE).await?;
    same("the result", &stage.end(&substrate, &key).await?.result, &EndResult::Succeeded)
}

pub(super) async fn cancelled_with_no_grace_it_is_cancelled<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("stubborn"));
    stage.start(&substrate, &key, &Behaviour::Resist).await?;
    substrate.cancel(&key, Some(Duration::ZERO)).await?;
    same("the result", &stage.end(&substrate, &key).await?.result, &EndResult::Cancelled)
}

pub(super) async fn a_stubborn_attempt_is_cancelled_after_its_grace<W: SubstrateWorlds>(
    stage: &Stage<'_, W>,
) -> CheckResult {
    let (substrate, key) = (stage.open().await, stage.key("stubborn"));
    stage.start(&substrate, &key, &Behaviour::Resist).await?;
    stage.silent(&substrate).await?;
    substrate.cancel(&key, GRACE).await?;
    same("the result", &stage.end(&substrate, &key).await?.result, &EndResult::Cancelled)
}

pub(super) async fn the_next_host_can_cancel<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let key = stage.key("running");
    let substrate = stage.open().await;
    stage.start(&substrate, &key, &Behaviour::Run).await?;
    stage.begun(&key).await;
    drop(substrate);
    let substrate = stage.open().await;
    substrate.cancel(&key, GRACE).await?;
    same("the result", &stage.end(&substrate, &key).await?.result, &EndResult::Cancelled)?;
    stage.ran(&key, 1).await
}

pub(super) async fn cancelling_leaves_the_others<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    let (substrate, one, other) = (stage.open().await, stage.key("one"), stage.key("other"));
    stage.start(&substrate, &one, &Behaviour::Run).await?;
    stage.start(&substrate, &other, &Behaviour::Run).await?;
    substrate.cancel(&one, GRACE).await?;
    same("the result", &stage.end(&substrate, &one).await?.result, &EndResult::Cancelled)?;
    stage.silent(&substrate).await?;
    stage.clean(&substrate, &other).await
}
