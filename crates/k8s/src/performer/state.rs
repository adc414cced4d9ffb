//! Where a performer is in its lifecycle, and what is wrong with it. Owns that reading of what is decided and
//! observed; the table of steps is in `orlop_core::machine::performer`.

use std::time::Duration;

use orlop_core::machine::performer::{PerformerPhase, PerformerState as State};
use orlop_core::time::Time;

use super::CONTAINER;
use super::decide::{Decision, Deferred, backoff_until};
use super::facts::{ChildPod, Facts};
use super::upgrade::deadline;
use crate::hourglass::RESTARTED;
use crate::hourglass::condition::{NewCondition, of, since};
use crate::hourglass::plan::is_refusal;
use crate::hourglass::spec::Candidate;

/// How long a pod may find no node although there is hardware for it.
const UNSCHEDULABLE: Duration = Duration::from_secs(300);
/// How long there may be no hardware before that is a failure.
const NO_HARDWARE: Duration = Duration::from_secs(10);

/// What a kubelet says once it gives an image up, for a while or for good. `ErrImagePull` and `RegistryUnavailable` alone are
/// of a try, which the next one may mend.
const NO_IMAGE: [&str; 5] =
    ["ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "SignatureValidationFailed"];

/// The most characters of what a kubelet says that are taken over.
const KUBELET: usize = 500;

/// The reason where a pod runs another image than its spec says.
pub(super) const IMAGE_CHANGED: &str = "ImageChanged";

/// What is wrong, in one word and in a sentence.
pub(super) type Problem = (String, String);

/// The lifecycle state of a performer as it follows from the observation, its problem, and when it changes by itself.
pub(super) struct Observed {
    pub(super) state: State,
    pub(super) problem: Option<Problem>,
    pub(super) due: Option<Time>,
}

impl Observed {
    const fn well(state: State) -> Self {
        Self { state, problem: None, due: None }
    }

    fn failed(reason: &str, message: impl Into<String>) -> Self {
        Self { state: State::Failed, problem: Some((reason.to_owned(), message.into())), due: None }
    }
}

/// The state of a performer.
pub(super) fn observed_state(facts: &Facts<'_>, decision: &Decision, hardware: &NewCondition) -> Observed {
    if let Some(invalid) = facts.invalid() {
        return Observed::failed(invalid.reason, invalid.message);
    }
    if let Some(name) = &decision.conflicting_pod {
        let message = format!("Pod `{name}` exists and belongs to another owner; delete it or rename this object");
        return Observed::failed("Conflict", message);
    }
    let mut observed = match &decision.status.active {
        Some(active) => serving_state(facts, decision, facts.pod(active.incarnation), hardware),
        None => creating_state(facts, decision, hardware),
    };
    let held = decision.status.retry.as_ref().filter(|retry| is_refusal(&retry.reason));
    let held = held.filter(|_| backoff_until(&decision.status, facts.now).is_some());
    let reason = facts.last_failure().map(|failure| failure.reason).or(held.map(|retry| retry.reason.as_str()));
    if let (Some(reason), None) = (reason, &observed.problem) {
        observed.problem = Some(failure_message(facts, reason, "retrying"));
        // An upgrade goes on once it is over, where it was.
        if decision.status.active.is_none() && observed.state.phase() != Some(PerformerPhase::Upgrading) {
            observed.state = State::Failed;
        }
    }
    observed
}

/// What is wrong, in the words in which it is known: those of the last answers, or those that are stored since another
/// controller wrote them.
fn failure_message(facts: &Facts<'_>, reason: &str, otherwise: &str) -> Problem {
    let current =
        facts.last_failure().filter(|failure| failure.reason == reason).map(|failure| failure.message.clone());
    let stored = || of(&facts.obs.status.conditions, "Degraded").filter(|known| known.reason == reason);
    let message = current.or_else(|| stored().map(|known| known.message.clone()));
    (reason.to_owned(), message.unwrap_or_else(|| otherwise.to_owned()))
}

/// A pod serves, or did a moment ago.
fn serving_state(
    facts: &Facts<'_>,
    decision: &Decision,
    active: Option<&ChildPod<'_>>,
    hardware: &NewCondition,
) -> Observed {
    let status = &decision.status;
    if let Some(candidate) = &status.candidate {
        let mut observed = Observed::well(State::PodRecreation);
        let trial = facts.pod(candidate.incarnation).map(|child| candidate_state(facts, child, hardware));
        if let Some(trial) = trial {
            (observed.problem, observed.due) = (trial.problem, trial.due);
        }
        if deadline(facts, candidate).is_some_and(|at| at <= facts.now) {
            let message = "the new pod has made no progress for too long; change the spec".to_owned();
            observed.problem = Some(("UpgradeFailed".to_owned(), message));
        }
        return observed;
    }
    if let Some((reason, message)) = active.and_then(|child| cannot_start(facts, child)) {
        return Observed::failed(&reason, message);
    }
    let failed = status.failed_spec_hash.is_some();
    let wanted = facts.wanted_unless(status.failed_spec_hash.as_ref()).map(|wanted| wanted.hash);
    let serves = status.active.as_ref().map(|active| &active.spec_hash) == wanted.as_ref();
    let mut observed = Observed::well(if serves || wanted.is_none() { State::Running } else { State::Upgrading });
    if failed {
        let message =
            "the new spec did not come up and was taken back; change it, or annotate hourglass.eigenlayer.io/retry";
        observed.problem = Some(("UpgradeFailed".to_owned(), message.to_owned()));
    } else if let Some((child, changed)) = active.and_then(|child| Some((child, facts.changed_image(child)?))) {
        let message = format!(
            "{} has put image `{}` into pod `{}`; delete that pod, or annotate {RESTARTED}, for one of the spec",
            changed.by, changed.image, child.pod.name
        );
        observed.problem = Some((IMAGE_CHANGED.to_owned(), message));
    }
    observed
}

/// No pod serves.
fn creating_state(facts: &Facts<'_>, decision: &Decision, hardware: &NewCondition) -> Observed {
    let status = &decision.status;
    let retry = status.retry.as_ref().filter(|_| backoff_until(status, facts.now).is_some());
    let failed = |reason: &str| {
        let (reason, message) = failure_message(facts, reason, "the pod no longer exists; it is being replaced");
        Observed::failed(&reason, message)
    };
    // What has just failed is said once, also where it is tried again at once.
    let just = status.retry.as_ref().filter(|_| decision.status_first && status.retry != facts.status.retry);
    let Some(candidate) = &status.candidate else {
        return retry.or(just).map_or_else(|| Observed::well(State::Creating), |retry| failed(&retry.reason));
    };
    let upgrades = matches!(facts.status.state, Some(State::Running | State::Upgrading | State::PodRecreation));
    let Some(child) = facts.pod(candidate.incarnation) else {
        return match (decision.deferred, &status.retry) {
            (Some(Deferred::NoRuntimeClass), _) => Observed::failed("HardwareUnavailable", hardware.message.clone()),
            (_, Some(retry))
                if (just.is_some() || backoff_until(status, facts.now).is_some())
                    && !(upgrades && is_refusal(&retry.reason)) =>
            {
                failed(&retry.reason)
            }
            _ if upgrades => Observed::well(State::PodRecreation),
            _ => Observed::well(State::PodCreation),
        };
    };
    let observed = candidate_state(facts, child, hardware);
    if upgrades && observed.state != State::Failed {
        Observed { state: State::PodRecreation, ..observed }
    } else {
        observed
    }
}

/// How far a pod has come that is to serve.
fn candidate_state(facts: &Facts<'_>, child: &ChildPod<'_>, hardware: &NewCondition) -> Observed {
    let since = since(&facts.obs.status.conditions, hardware.kind, hardware.status, facts.now);
    let step = child.pod.startup_state(CONTAINER);
    let unless = |at: Time, state: State, reason: &str, message: &str| {
        if at <= facts.now {
            Observed::failed(reason, message)
        } else {
            Observed { due: Some(at), ..Observed::well(state) }
        }
    };
    match (step, child.pod.waiting_reason(CONTAINER)) {
        (State::NodeSelection, _) if hardware.status == "False" => {
            unless(since.plus(NO_HARDWARE), State::HardwareValidation, "HardwareUnavailable", &hardware.message)
        }
        (State::NodeSelection, _) => {
            // Before there is hardware, no node could have taken it.
            let since = child.pod.unschedulable_since().unwrap_or(facts.now).max(since);
            let (reason, message) = failure_message(facts, "SchedulingFailed", &no_room(child));
            unless(since.plus(UNSCHEDULABLE), step, &reason, &message)
        }
        (State::ImagePull | State::ContainerStart, _) if cannot_start(facts, child).is_some() => {
            let (reason, message) = cannot_start(facts, child).unwrap_or_default();
            Observed::failed(&reason, message)
        }
        (State::ImagePull, _) if had_no_image(facts, child) => {
            let (reason, message) = failure_message(facts, "ImagePullFailed", "the image cannot be pulled");
            Observed::failed(&reason, message)
        }
        (State::ServiceCreation, _) if !child.pod.ready => {
            let candidate = facts.status.candidate.as_ref().filter(|known| known.incarnation == child.number);
            match candidate.and_then(|known| deadline(facts, known)) {
                Some(at) => unless(
                    at,
                    step,
                    "ReadinessTimeout",
                    "the container runs but does not become ready; check its health service",
                ),
                None => Observed::well(step),
            }
        }
        _ => Observed::well(step),
    }
}

/// Why the container of a pod does not start, or not again, with what its kubelet said when that was found: its later words
/// change with every try.
fn cannot_start(facts: &Facts<'_>, child: &ChildPod<'_>) -> Option<Problem> {
    let (reason, what, hint) = match child.pod.waiting_reason(CONTAINER) {
        waits if NO_IMAGE.contains(&waits) => {
            let what = format!("image `{}` cannot be pulled", image(child));
            ("ImagePullFailed", what, "check its name and imagePullSecrets")
        }
        "CreateContainerConfigError" => {
            let hint = "check that what environmentFrom names exists";
            ("ContainerConfigError", "the container cannot be created".to_owned(), hint)
        }
        "CreateContainerError" | "RunContainerError" => {
            ("ContainerStartFailed", "the container does not start".to_owned(), "see the pod's events")
        }
        "CrashLoopBackOff" => {
            let end = child.pod.last_termination(CONTAINER).map(|end| format!(" ({end})")).unwrap_or_default();
            let message = format!("the container keeps crashing{end}; see its log");
            return Some(failure_message(facts, "ContainerStartFailed", &message));
        }
        _ => return None,
    };
    let kubelet: String = child.pod.waiting_message(CONTAINER).chars().take(KUBELET).collect();
    let message = if kubelet.is_empty() { format!("{what}; {hint}") } else { format!("{what}: {kubelet}") };
    let (_, known) = failure_message(facts, reason, &message);
    // What was said of another image, or before the kubelet had a word, is out of date.
    let message = if known.starts_with(&format!("{what}: ")) { known } else { message };
    Some((reason.to_owned(), message))
}

/// Whether the image of a pod could not be pulled before. A kubelet tries again and says of each try that it has begun and
/// failed: only an image that is there ends that.
fn had_no_image(facts: &Facts<'_>, child: &ChildPod<'_>) -> bool {
    let same = |candidate: &Candidate| candidate.pod_uid.as_ref() == Some(&child.pod.uid);
    facts.obs.status.candidate.as_ref().is_some_and(same)
        && of(&facts.obs.status.conditions, "Degraded").is_some_and(|known| known.reason == "ImagePullFailed")
}

/// That no node has room, with what the scheduler said when that was found: its later words change with every node and pod.
fn no_room(child: &ChildPod<'_>) -> String {
    let scheduler = child.pod.unschedulable_message();
    let why = if scheduler.is_empty() { "see the pod's events" } else { scheduler };
    format!("nodes have the hardware, but none has had room for the pod; {why}")
}

fn image(child: &ChildPod<'_>) -> String {
    super::facts::image(child.pod.object)
}
