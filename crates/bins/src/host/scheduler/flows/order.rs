//! What is asked of flows: decisions, suspension, ends.

use std::time::Duration;

use orlop_core::error::{Code, Problem};
use orlop_core::ports::fleet_store::{Approval, Documents as _, FleetFlow, Record, part};
use orlop_core::ports::journal::{FlowJournal as _, FlowRecord};
use orlop_core::spec::flow::SuspendMode;
use orlop_core::spec::status::Decision;

use super::drive::stop;
use super::facts::Driver;
use super::submit::unavailable;
use super::{Flows, Live};
use crate::host::flow::FlowCommand;
use crate::host::scheduler::error::store_unavailable;

/// Annotation of a Manual step that names who may decide about it, beside operators: names of tokens, separated by commas.
pub const APPROVERS: &str = "orlop.io/approvers";

/// How long the host of a flow that has ended is waited for: it gives what tidies up ten seconds.
const SETTLES: Duration = Duration::from_secs(15);

/// Who decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decider {
    /// Who it is.
    pub name: String,
    /// It was authenticated.
    pub verified: bool,
    /// It may decide about every step.
    pub operator: bool,
}

fn over(flow: &FleetFlow) -> Problem {
    Problem::coded(
        Code::Conflict,
        format!("flow `{}` has ended: it is {}; nothing can change it", flow.name, flow.phase),
    )
}

impl Flows {
    /// Ends a flow: at once, or gracefully. Whether there was anything to end.
    ///
    /// # Errors
    /// NotLeader and StoreUnavailable when nothing can be written here.
    pub async fn cancel(&self, flow: &FleetFlow, graceful: bool) -> Result<bool, Problem> {
        match self.order(flow, stop(graceful)).await {
            Err(error) if error.code == Code::Conflict => Ok(false),
            done => done.map(|()| true),
        }
    }

    /// Has a flow start nothing more, or go on.
    ///
    /// # Errors
    /// Conflict when its state does not take that; and as of [`Flows::cancel`].
    pub async fn suspend(&self, flow: &FleetFlow, on: bool) -> Result<(), Problem> {
        let order = if on { FlowCommand::Suspend { mode: Some(SuspendMode::Drain) } } else { FlowCommand::Resume };
        self.order(flow, order).await
    }

    /// Takes a cancelled attempt that does not end for gone, so that its flow goes on.
    ///
    /// # Errors
    /// Conflict when its cancellation is not blocked; NotFound; and as of [`Flows::cancel`].
    pub async fn confirm_gone(
        &self,
        flow: &FleetFlow,
        step: &str,
        by: &str,
        reason: Option<String>,
    ) -> Result<(), Problem> {
        let record = self.inner.journal.load(&flow.id).await.map_err(unavailable)?.record;
        let step = Driver::of(&record).map_err(unavailable)?.internal(step).to_owned();
        self.order(flow, FlowCommand::ConfirmGone { step, by: Some(by.to_owned()), reason: bounded(reason)? }).await
    }

    /// Gives an order to the host of a flow; returns once it is written down and in force.
    async fn order(&self, flow: &FleetFlow, order: FlowCommand) -> Result<(), Problem> {
        self.inner.may_act().await?;
        if flow.ended_at.is_some() {
            return Err(over(flow));
        }
        let host = self.inner.live().get(&flow.id).map(|live| live.host.clone());
        let taken = match host {
            Some(host) => host.order(order).await.map_err(unavailable)?,
            None => false,
        };
        if taken { Ok(()) } else { Err(self.gone(flow).await) }
    }

    /// Why a flow has no host: it has ended since it was read, or is about to be driven again.
    async fn gone(&self, flow: &FleetFlow) -> Problem {
        match self.inner.journal.document(&flow.id).await {
            Ok(now) if now.ended_at.is_some() => over(&now),
            Ok(_) => store_unavailable(),
            Err(error) => unavailable(error),
        }
    }

    /// Deletes what is kept of a flow that has ended.
    ///
    /// # Errors
    /// Conflict when it has not ended, or what its attempts left is still being deleted; and as of [`Flows::cancel`].
    pub async fn delete(&self, flow: &FleetFlow) -> Result<(), Problem> {
        self.inner.may_act().await?;
        let flow = &self.settled(flow).await?;
        if flow.ended_at.is_none() {
            let text = format!("flow `{}` has not ended: it is {}; cancel it first", flow.name, flow.phase);
            return Err(Problem::coded(Code::Conflict, text));
        }
        self.inner.journal.delete(&flow.id).await.map_err(unavailable)?;
        self.inner.handle.changes().flow(&flow.id, &flow.tenant, None);
        Ok(())
    }

    /// A flow as it is once its host has written its last word, if it has ended: until then that host writes, and would
    /// write about a flow that is gone.
    async fn settled(&self, flow: &FleetFlow) -> Result<FleetFlow, Problem> {
        let ending = {
            let live = self.inner.live();
            let ended = |live: &&Live| live.host.status().borrow().status.phase.is_terminal();
            live.get(&flow.id).filter(ended).map(|live| live.left.clone())
        };
        if let Some(mut left) = ending
            && tokio::time::timeout(SETTLES, left.changed()).await.is_err()
        {
            let text = format!("flow `{}` has ended, but what it left is still being deleted; try again", flow.name);
            return Err(Problem::coded(Code::Conflict, text).retry_after(Duration::from_millis(1000)));
        }
        self.inner.journal.document(&flow.id).await.map_err(unavailable)
    }

    /// Decides about a Manual step. The same decision again is fine.
    ///
    /// # Errors
    /// Forbidden to anyone who is no operator and not named as an approver of the step; Conflict when it was decided
    /// otherwise or waits no more; NotFound; and as of [`Flows::cancel`].
    pub async fn decide(
        &self,
        flow: &FleetFlow,
        step: &str,
        decision: Decision,
        (by, reason): (Decider, Option<String>),
    ) -> Result<(), Problem> {
        let record = self.inner.journal.load(&flow.id).await.map_err(unavailable)?.record;
        let driver = Driver::of(&record).map_err(unavailable)?;
        let step = driver.internal(step).to_owned();
        // The host says of a step that is not there what it says on every machine.
        let may_decide = |approvers: Vec<String>| by.operator || approvers.contains(&by.name);
        if !approvers(&record, &step).is_none_or(may_decide) {
            let text = format!("step `{step}` is decided by operators and by who its annotation `{APPROVERS}` names");
            return Err(Problem::coded(Code::Forbidden, text));
        }
        let reason = bounded(reason)?;
        let (name, verified) = (by.name.clone(), by.verified);
        let order = FlowCommand::Decide { step: step.clone(), decision, by: Some(by.name), reason, verified };
        match self.order(flow, order).await {
            Err(error) if error.code == Code::Conflict && self.was_decided(flow, &step, decision).await? => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.keep(flow, step, name, decision).await,
        }
    }

    /// Whether a step was decided so before, which its flow may have survived.
    async fn was_decided(&self, flow: &FleetFlow, step: &str, decision: Decision) -> Result<bool, Problem> {
        let read = self.read(flow.clone()).await?;
        let status = read.status();
        let record = status.steps.iter().find(|record| record.name == step);
        Ok(record.and_then(|record| record.approval.as_ref()).is_some_and(|approval| approval.decision == decision))
    }

    /// Records a decision where decisions are listed. It is in force already, so it is reported as taken.
    async fn keep(&self, flow: &FleetFlow, step: String, who: String, decision: Decision) -> Result<(), Problem> {
        let decision = if decision == Decision::Approved { "approve" } else { "reject" };
        let store = self.inner.handle.store();
        let known = store.get::<Approval>(&format!("{}/{}", part(&flow.id), part(&step))).await;
        if known.map_err(unavailable)?.is_some() {
            return Ok(());
        }
        let when = self.inner.handle.clock().wall();
        let approval =
            Approval { flow: flow.id.clone(), step, who, when, decision: decision.to_owned(), ended_at: None };
        let record = Record::put(&approval).map_err(unavailable)?;
        if let Err(error) = self.inner.journal.commit(vec![record]).await {
            tracing::warn!(target: "orlop::flows", flow = flow.id, error = error.chain(), "a decision was not listed");
        }
        Ok(())
    }
}

/// The reason somebody gives, where it is not too long.
fn bounded(reason: Option<String>) -> Result<Option<String>, Problem> {
    match reason {
        Some(text) if text.len() > 1024 => Err(Problem::field("reason", "is too long; use at most 1024 bytes")),
        reason => Ok(reason),
    }
}

/// Who may decide about a step beside operators; none when there is no such step.
fn approvers(record: &FlowRecord, step: &str) -> Option<Vec<String>> {
    let step = record.flow.spec.steps.iter().find(|known| known.name == step)?;
    let named = step.metadata.as_ref().and_then(|metadata| metadata.annotations.get(APPROVERS));
    let names = named.map(String::as_str).unwrap_or_default().split(',');
    Some(names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect())
}
