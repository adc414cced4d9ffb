//! What an accepted attempt waits for, and what is left of a cancelled one. Owns the clock of attempts:
//! when their timeouts stand still, and when their timers are due.

use std::time::Duration;

use orlop_core::attempt::Address;
use orlop_core::event::FlowEvent;
use orlop_core::machine::step::StepState;
use orlop_core::spec::status::{Waiting, WaitsOn, cut_message};
use orlop_core::time::{GoDuration, Time};
use serde::{Deserialize, Serialize};

use super::state::{Node, State};
use super::{Call, phrase, reason};
use crate::plan::StepPlan;

/// What an accepted attempt waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Waits {
    pub(super) on: WaitsOn,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
    pub(super) since: Time,
}

impl Waits {
    /// As a status shows it.
    pub(super) fn shown(&self) -> Waiting {
        let (reason, message) = (self.reason.clone(), self.message.clone());
        Waiting { on: self.on, reason, message, since: Some(self.since) }
    }

    /// As a status has shown it.
    pub(super) fn read(shown: &Waiting, now: Time) -> Self {
        let (reason, message) = (shown.reason.clone(), shown.message.clone());
        Self { on: shown.on, reason, message, since: shown.since.unwrap_or(now) }
    }

    /// Why, in the words of the substrate; empty where it has said nothing.
    pub(super) fn why(&self) -> String {
        phrase::with_word(&self.reason, &self.message)
    }
}

impl Node {
    /// Since when the timeout of an attempt does not run: its flow or somebody else has suspended it, or the wait for its
    /// first pod has a limit of its own.
    fn stands(&self, pending: Option<Duration>) -> Option<Time> {
        let stops = |waits: &&Waits| match waits.on {
            WaitsOn::Suspended => true,
            WaitsOn::FirstPod => pending.is_some(),
            WaitsOn::Runtime | WaitsOn::NextPod => false,
        };
        let waits = self.waits.as_deref().filter(stops).map(|waits| waits.since);
        [self.frozen, waits].into_iter().flatten().min()
    }

    /// Whether it waits for this.
    pub(super) fn waits_on(&self, on: WaitsOn) -> bool {
        self.waits.as_deref().is_some_and(|waits| waits.on == on)
    }

    /// Whether its attempt is accepted and does not run, and the substrate says why.
    pub(super) fn is_stuck(&self) -> bool {
        self.state == StepState::Active && self.waits.as_deref().is_some_and(|waits| !waits.reason.is_empty())
    }

    /// What it waits for in the words of the substrate; empty where nothing is known.
    pub(super) fn waits_for(&self) -> String {
        self.waits.as_deref().map(Waits::why).unwrap_or_default()
    }
}

impl State {
    /// Whether a cancelled attempt still runs although it should have ended by now.
    #[must_use]
    pub fn is_cancel_blocked(&self, at: Address) -> bool {
        self.index.blocked.contains(&at)
    }
}

/// When the timer of an accepted attempt is due; none while it stands still.
pub(super) fn limit(planned: &StepPlan, node: &Node) -> Option<Time> {
    let waits = node.waits.as_deref();
    match (node.frozen, waits, planned.pending) {
        (Some(_), ..) => None,
        (None, Some(Waits { on: WaitsOn::Suspended, .. }), _) => None,
        (None, Some(waits), Some(pending)) if waits.on == WaitsOn::FirstPod => Some(waits.since.plus(pending)),
        _ => Some(node.started?.plus(planned.timeout?).plus(Duration::from_millis(node.stood))),
    }
}

impl Call<'_> {
    /// Changes whether the clock of an attempt runs; its timer follows.
    pub(super) fn set_clock(&mut self, at: Address, change: impl FnOnce(&mut Node)) {
        let (plan, now) = (self.plan, self.now);
        let Some(planned) = plan.get(at.step.0) else { return };
        let Some(node) = self.state.node_mut(at) else { return };
        let before = node.stands(planned.pending);
        change(node);
        let after = node.stands(planned.pending);
        if let Some(since) = before {
            let until = after.unwrap_or(now).max(since).min(now);
            let pause = u64::try_from(until.since(since).as_millis()).unwrap_or(u64::MAX);
            node.stood = node.stood.saturating_add(pause);
        }
        let due = limit(planned, node);
        node.due = due;
        if let Some(due) = due {
            self.arm(at, due);
        }
    }

    /// The substrate reports what keeps an attempt from running.
    pub(super) fn waiting(&mut self, at: Address, event: &FlowEvent) {
        let FlowEvent::AttemptWaiting { on, reason, message, since, .. } = event else { return };
        let Some(node) = self.state.node(at) else { return };
        let since = (*since).max(node.started.unwrap_or(self.now)).min(self.now);
        let with_reason =
            |on: &WaitsOn| Waits { on: *on, reason: reason.clone(), message: cut_message(message), since };
        let waits = on.as_ref().map(with_reason);
        if node.waits.as_deref() == waits.as_ref() {
            return;
        }
        let news = waits.as_ref().filter(|waits| !waits.reason.is_empty() && waits.why() != node.waits_for());
        if let Some(why) = news.map(Waits::why) {
            self.notice_waiting(at, why);
        }
        self.changed = true;
        self.set_clock(at, |node| node.waits = waits.map(Box::new));
        if self.state.node(at).is_some_and(Node::is_stuck) {
            self.state.index.stuck.insert(at);
        } else {
            self.state.index.stuck.remove(&at);
        }
        if let Some(cause) = self.halted(at).cloned() {
            self.cancel_if_queued(at, &cause);
        }
    }

    /// What is to be said of an attempt that took too long.
    pub(super) fn too_long(&self, at: Address, cause: &str) -> String {
        let planned = self.plan.get(at.step.0);
        let text =
            |what: &str, limit: Option<Duration>| format!("{what} {}", GoDuration::new(limit.unwrap_or_default()));
        let message = match cause {
            reason::PENDING_TIMEOUT => text("no pod of the attempt ran within", planned.and_then(|step| step.pending)),
            _ => text("the attempt took longer than", planned.and_then(|step| step.timeout)),
        };
        let node = self.state.node(at);
        let why = node.map(Node::waits_for).unwrap_or_default();
        match node {
            _ if why.is_empty() => message,
            Some(node) if node.waits_on(WaitsOn::Runtime) || node.waits_on(WaitsOn::NextPod) => {
                format!("{message}; {why}")
            }
            _ => format!("{message}; it waited for its first pod: {why}"),
        }
    }

    /// The timer of an accepted attempt is due.
    pub(super) fn time_out(&mut self, at: Address) {
        let pending = self.plan.get(at.step.0).and_then(|step| step.pending);
        let waits = self.state.node(at).is_some_and(|node| node.waits_on(WaitsOn::FirstPod));
        let cause = if waits && pending.is_some() { reason::PENDING_TIMEOUT } else { reason::TIMEOUT };
        self.notice_timeout(at, &self.too_long(at, cause));
        self.begin_cancel(at, cause.into());
    }

    /// A cancelled attempt should be gone by now.
    pub(super) fn cancel_blocked(&mut self, at: Address, left: &str) {
        let Some(node) = self.state.node_mut(at).filter(|node| node.left.as_deref() != Some(left)) else { return };
        let first = node.left.is_none();
        node.left = Some(left.into());
        self.changed = true;
        self.urgent = true;
        self.state.index.blocked.insert(at);
        if first {
            self.notice_cancel_blocked(at, left);
        }
    }

    /// A person says that nothing of an attempt runs any more. Only where its cancellation is blocked.
    pub(super) fn gone_confirmed(&mut self, event: &FlowEvent, at: Address) -> bool {
        let FlowEvent::GoneConfirmed { by, reason, .. } = event else { return false };
        let blocked = self.state.node(at).is_some_and(|node| node.left.is_some());
        if blocked {
            let by = by.as_deref().unwrap_or("somebody");
            let why = reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            self.notice_gone(at, format!("{by} confirmed that nothing of the attempt runs any more{why}"));
        }
        blocked
    }
}
