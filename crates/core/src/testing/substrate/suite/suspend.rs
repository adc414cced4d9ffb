//! Checks of suspending and resuming.

use std::time::Duration;

use super::{Behaviour, Stage, SubstrateWorlds};
use crate::attempt::EndResult;
use crate::ports::substrate::Substrate;
use crate::testing::suite::{CheckResult, fails_not, same};

/// Long enough to be suspended on the way, and shorter than silence lasts.
const BRIEF: Behaviour = Behaviour::Take(Duration::from_secs(2));

pub(super) async fn a_suspended_attempt_does_not_end<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    if !stage.worlds.can_suspend() {
        return Ok(());
    }
    let (substrate, key) = (stage.open().await, stage.key("step"));
    stage.start(&substrate, &key, &BRIEF).await?;
    substrate.suspend(&key).await?;
    stage.silent(&substrate).await?;
    stage.clean(&substrate, &key).await
}

pub(super) async fn a_resumed_attempt_ends<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    if !stage.worlds.can_suspend() {
        return Ok(());
    }
    let (substrate, key) = (stage.open().await, stage.key("step"));
    stage.start(&substrate, &key, &BRIEF).await?;
    substrate.suspend(&key).await?;
    stage.silent(&substrate).await?;
    substrate.resume(&key).await?;
    same("the result", &stage.end(&substrate, &key).await?.result, &EndResult::Succeeded)?;
    stage.ran(&key, 1).await
}

pub(super) async fn suspended_twice_it_is_resumed_once<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    if !stage.worlds.can_suspend() {
        return Ok(());
    }
    let (substrate, key) = (stage.open().await, stage.key("step"));
    stage.start(&substrate, &key, &BRIEF).await?;
    substrate.suspend(&key).await?;
    substrate.suspend(&key).await?;
    substrate.resume(&key).await?;
    same("the result", &stage.end(&substrate, &key).await?.result, &EndResult::Succeeded)
}

pub(super) async fn suspending_what_has_ended_is_fine<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    if !stage.worlds.can_suspend() {
        return Ok(());
    }
    let (substrate, key) = (stage.open().await, stage.key("step"));
    stage.start(&substrate, &key, &Behaviour::Exit(0)).await?;
    stage.end(&substrate, &key).await?;
    fails_not("suspending", substrate.suspend(&key).await)?;
    fails_not("resuming", substrate.resume(&key).await)?;
    stage.silent(&substrate).await
}

pub(super) async fn resuming_what_was_not_suspended_is_fine<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    if !stage.worlds.can_suspend() {
        return Ok(());
    }
    let (substrate, key) = (stage.open().await, stage.key("step"));
    stage.start(&substrate, &key, &BRIEF).await?;
    fails_not("resuming", substrate.resume(&key).await)?;
    same("the result", &stage.end(&substrate, &key).await?.result, &EndResult::Succeeded)
}

pub(super) async fn a_suspended_attempt_is_cancelled<W: SubstrateWorlds>(stage: &Stage<'_, W>) -> CheckResult {
    if !stage.worlds.can_suspend() {
        return Ok(());
    }
    let (substrate, key) = (stage.open().await, stage.key("step"));
    stage.start(&substrate, &key, &Behaviour::Run).await?;
    substrate.suspend(&key).await?;
    substrate.cancel(&key, Some(Duration::from_secs(1))).await?;
    same("the result", &stage.end(&substrate, &key).await?.result, &EndResult::Cancelled)
}
