//! Pods as the controllers read them from their status.

use std::time::Duration;

use orlop_core::machine::performer::PerformerState;
use orlop_core::time::Time;
use serde_json::Value;

use super::cluster::Cluster;
use crate::value::{item, text, time, word};

/// How long a pod may stay past the time by which it was to be gone.
const OVERDUE: Duration = Duration::from_millis(30_001);

/// The state of a pod, as far as it matters for its replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    /// It is there, or comes up.
    Live,
    /// It has ended: `Failed` or `Succeeded`.
    Ended,
    /// It was ended for the sake of its node: a shutdown, a drain, pressure, preemption.
    Evicted,
    /// Its deletion was asked for.
    Terminating,
    /// Nobody knows of it any more: its node is gone or does not answer, or it should have been gone long ago.
    Lost,
}

/// A pod.
#[derive(Clone, Debug)]
pub struct Pod<'a> {
    /// As it is on the server.
    pub object: &'a Value,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its state.
    pub state: PodState,
    /// Its node.
    pub node: Option<String>,
    /// Whether it is ready.
    pub ready: bool,
}

/// Reasons of failed pods that kubelets have ended for the sake of their node.
const EVICTIONS: [&str; 5] = ["Evicted", "NodeShutdown", "Shutdown", "Terminated", "Preempting"];

/// Whether a failed pod was ended for the sake of its node. One that a kubelet did not admit was not.
fn is_evicted(object: &Value) -> bool {
    let target = condition(object, "DisruptionTarget").is_some_and(|known| word(known, "/status") == "True");
    target || EVICTIONS.contains(&word(object, "/status/reason"))
}

impl<'a> Pod<'a> {
    /// Reads a pod.
    #[must_use]
    pub fn of(object: &'a Value, cluster: &Cluster, now: Time) -> Self {
        let node = Some(text(object, "/spec/nodeName")).filter(|node| !node.is_empty());
        let overdue = time(object, "/metadata/deletionTimestamp").map(|at| at.plus(OVERDUE));
        let lost = node.as_ref().is_some_and(|node| cluster.lost(node, now)) || overdue.is_some_and(|at| at <= now);
        let state = match word(object, "/status/phase") {
            "Failed" if is_evicted(object) => PodState::Evicted,
            "Failed" | "Succeeded" => PodState::Ended,
            "Unknown" => PodState::Lost,
            _ if lost => PodState::Lost,
            _ if overdue.is_some() => PodState::Terminating,
            _ => PodState::Live,
        };
        let ready =
            state == PodState::Live && condition(object, "Ready").is_some_and(|ready| word(ready, "/status") == "True");
        Self { object, name: text(object, "/metadata/name"), uid: text(object, "/metadata/uid"), state, node, ready }
    }

    /// Whether it is there, or comes up.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.state == PodState::Live
    }

    /// Whether it may still hold a node's devices.
    #[must_use]
    pub fn may_hold_devices(&self) -> bool {
        matches!(self.state, PodState::Live | PodState::Terminating)
    }

    /// When it is to be checked again, if nothing happens before.
    #[must_use]
    pub fn next_check(&self, cluster: &Cluster, now: Time) -> Option<Time> {
        let node = self.node.as_ref().and_then(|node| cluster.lost_at(node));
        let overdue = time(self.object, "/metadata/deletionTimestamp").map(|at| at.plus(OVERDUE));
        node.into_iter().chain(overdue).filter(|at| *at > now).min()
    }

    /// Since when it is ready.
    #[must_use]
    pub fn ready_since(&self) -> Option<Time> {
        condition(self.object, "Ready").filter(|_| self.ready).and_then(|ready| time(ready, "/lastTransitionTime"))
    }

    /// Since when no node has had room for it.
    #[must_use]
    pub fn unschedulable_since(&self) -> Option<Time> {
        let scheduled =
            condition(self.object, "PodScheduled").filter(|scheduled| word(scheduled, "/status") == "False")?;
        time(scheduled, "/lastTransitionTime").or_else(|| time(self.object, "/metadata/creationTimestamp"))
    }

    /// Why no node takes it, in the scheduler's words.
    #[must_use]
    pub fn unschedulable_message(&self) -> &str {
        let scheduled = condition(self.object, "PodScheduled").filter(|known| word(known, "/status") == "False");
        scheduled.map_or("", |known| word(known, "/message"))
    }

    /// Why its container waits, in one word.
    #[must_use]
    pub fn waiting_reason(&self, container: &str) -> &str {
        self.status(container).map_or("", |status| word(status, "/state/waiting/reason"))
    }

    /// Why its container waits, in the kubelet's words.
    #[must_use]
    pub fn waiting_message(&self, container: &str) -> &str {
        self.status(container).map_or("", |status| word(status, "/state/waiting/message"))
    }

    /// How its container ended the last time: its exit code, and the kubelet's word for the cause where that says more.
    #[must_use]
    pub fn last_termination(&self, container: &str) -> Option<String> {
        let end = self.status(container)?.pointer("/lastState/terminated")?;
        let code = end.get("exitCode").and_then(Value::as_i64)?;
        match word(end, "/reason") {
            "" | "Error" | "Completed" => Some(format!("exit code {code}")),
            reason => Some(format!("exit code {code}, {reason}")),
        }
    }

    fn status(&self, container: &str) -> Option<&Value> {
        item(self.object, "/status/containerStatuses", "name", container)
    }

    /// How far it has come: from `Scheduling` to `ServiceCreation`, where its container runs.
    #[must_use]
    pub fn startup_state(&self, container: &str) -> PerformerState {
        use PerformerState::{ContainerStart, ImagePull, NodeSelection, PodBinding, Scheduling, ServiceCreation};
        if self.node.is_none() {
            return if condition(self.object, "PodScheduled").is_some() { NodeSelection } else { Scheduling };
        }
        if word(self.object, "/status/startTime").is_empty() {
            return PodBinding;
        }
        let Some(status) = self.status(container) else { return ImagePull };
        let starts = ["CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff"];
        if status.pointer("/state/running").is_some() {
            ServiceCreation
        } else if !word(status, "/imageID").is_empty()
            || starts.contains(&word(status, "/state/waiting/reason"))
            || status.pointer("/state/terminated").is_some()
        {
            ContainerStart
        } else {
            ImagePull
        }
    }
}

fn condition<'v>(pod: &'v Value, kind: &str) -> Option<&'v Value> {
    item(pod, "/status/conditions", "type", kind)
}
