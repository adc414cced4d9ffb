//! Where a performer is in its lifecycle, and what is wrong with it. Owns that reading of what is decided and
//! observed; the table of steps is in `orlop_core::machine::performer`.

use std::time::Duration;

use orlop_core::machine::performer::{PerformerPhase, PerformerState as State};
use orlop_core::time::Time;

use super::CONTAINER;
use super::decide::{Decision, Deferred, waits};
use super::facts::{Facts, Owned};
use super::upgrade::deadline;
use crate::hourglass::condition::{Said, of};
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

/// What is wrong, in one word and in a sentence.
pub(super) type Wrong = (String, String);

/// A state, what is wrong in it, and when it is another if nothing happens before.
pub(super) struct Standing {
    pub(super) state: State,
    pub(super) wrong: Option<Wrong>,
    pub(super) due: Option<Time>,
}

impl Standing {
    const fn well(state: State) -> Self {
        Self { state, wrong: None, due: None }
    }

    fn failed(reason: &str, message: impl Into<String>) -> Self {
        Self { state: State::Failed, wrong: Some((reason.to_owned(), message.into())), due: None }
    }
}

/// Where a performer is.
pub(super) fn standing(facts: &Facts<'_>, decision: &Decision, (hardware, since): (&Said, Time)) -> Standing {
    if let Some(invalid) = facts.invalid() {
        return Standing::failed(invalid.reason, invalid.message);
    }
    if let Some(name) = &decision.taken {
        let message = format!("Pod `{name}` exists and belongs to another; delete it or rename this object");
        return Standing::failed("Conflict", message);
    }
    let mut standing = match &decision.next.active {
        Some(active) => serving(facts, decision, facts.pod(active.incarnation), (hardware, since)),
        None => coming(facts, decision, (hardware, since)),
    };
    let held = decision.next.retry.as_ref().filter(|retry| is_refusal(&retry.reason));
    let held = held.filter(|_| waits(&decision.next, facts.now).is_some());
    let reason = facts.trouble().map(|trouble| trouble.reason).or(held.map(|retry| retry.reason.as_str()));
    if let (Some(reason), None) = (reason, &standing.wrong) {
        standing.wrong = Some(said(facts, reason, "it is tried again"));
        // An upgrade goes on once it is over, where it was.
        if decision.next.active.is_none() && standing.state.phase() != Some(PerformerPhase::Upgrading) {
            standing.state = State::Failed;
        }
    }
    standing
}

/// What is wrong, in the words in which it is known: those of the last answers, or those that are stored since another
/// controller wrote them.
fn said(facts: &Facts<'_>, reason: &str, otherwise: &str) -> Wrong {
    let told = facts.trouble().filter(|trouble| trouble.reason == reason).map(|trouble| trouble.message.clone());
    let stored = || of(&facts.obs.status.conditions, "Degraded").filter(|known| known.reason == reason);
    let message = told.or_else(|| stored().map(|known| known.message.clone()));
    (reason.to_owned(), message.unwrap_or_else(|| otherwise.to_owned()))
}

/// A pod serves, or did a moment ago.
fn serving(facts: &Facts<'_>, decision: &Decision, active: Option<&Owned<'_>>, hardware: (&Said, Time)) -> Standing {
    let next = &decision.next;
    if let Some(candidate) = &next.candidate {
        let mut standing = Standing::well(State::PodRecreation);
        let trial = facts.pod(candidate.incarnation).map(|owned| trial(facts, owned, hardware));
        if let Some(trial) = trial {
            (standing.wrong, standing.due) = (trial.wrong, trial.due);
        }
        if deadline(facts, candidate).is_some_and(|at| at <= facts.now) {
            let message = "the new pod has come no further for too long; change the spec".to_owned();
            standing.wrong = Some(("UpgradeFailed".to_owned(), message));
        }
        return standing;
    }
    if let Some((reason, message)) = active.and_then(|owned| cannot_start(facts, owned)) {
        return Standing::failed(&reason, message);
    }
    let failed = next.failed_spec_hash.is_some();
    let wanted = facts.wanted_unless(next.failed_spec_hash.as_ref()).map(|wanted| wanted.hash);
    let serves = next.active.as_ref().map(|active| &active.spec_hash) == wanted.as_ref();
    let mut standing = Standing::well(if serves || wanted.is_none() { State::Running } else { State::Upgrading });
    if failed {
        let message =
            "the new spec did not come up and was taken back; change it, or annotate hourglass.eigenlayer.io/retry";
        standing.wrong = Some(("UpgradeFailed".to_owned(), message.to_owned()));
    }
    standing
}

/// No pod serves.
fn coming(facts: &Facts<'_>, decision: &Decision, hardware: (&Said, Time)) -> Standing {
    let next = &decision.next;
    let retry = next.retry.as_ref().filter(|_| waits(next, facts.now).is_some());
    let failed = |reason: &str| {
        let (reason, message) = said(facts, reason, "the pod is no more; another takes its place");
        Standing::failed(&reason, message)
    };
    // What has just failed is said once, also where it is tried again at once.
    let just = next.retry.as_ref().filter(|_| decision.first && next.retry != facts.known.retry);
    let Some(candidate) = &next.candidate else {
        return retry.or(just).map_or_else(|| Standing::well(State::Creating), |retry| failed(&retry.reason));
    };
    let upgrades = matches!(facts.known.state, Some(State::Running | State::Upgrading | State::PodRecreation));
    let Some(owned) = facts.pod(candidate.incarnation) else {
        return match (decision.deferred, &next.retry) {
            (Some(Deferred::NoRuntimeClass), _) => Standing::failed("HardwareUnavailable", hardware.0.message.clone()),
            (_, Some(retry))
                if (just.is_some() || waits(next, facts.now).is_some()) && !(upgrades && is_refusal(&retry.reason)) =>
            {
                failed(&retry.reason)
            }
            _ if upgrades => Standing::well(State::PodRecreation),
            _ => Standing::well(State::PodCreation),
        };
    };
    let standing = trial(facts, owned, hardware);
    if upgrades && standing.state != State::Failed {
        Standing { state: State::PodRecreation, ..standing }
    } else {
        standing
    }
}

/// How far a pod has come that is to serve.
fn trial(facts: &Facts<'_>, owned: &Owned<'_>, (hardware, since): (&Said, Time)) -> Standing {
    let step = owned.pod.step(CONTAINER);
    let unless = |at: Time, state: State, reason: &str, message: &str| {
        if at <= facts.now {
            Standing::failed(reason, message)
        } else {
            Standing { due: Some(at), ..Standing::well(state) }
        }
    };
    match (step, owned.pod.waits(CONTAINER)) {
        (State::NodeSelection, _) if hardware.status == "False" => {
            unless(since.plus(NO_HARDWARE), State::HardwareValidation, "HardwareUnavailable", &hardware.message)
        }
        (State::NodeSelection, _) => {
            // Before there is hardware, no node could have taken it.
            let since = owned.pod.unschedulable_since().unwrap_or(facts.now).max(since);
            let (reason, message) = said(facts, "SchedulingFailed", &no_room(owned));
            unless(since.plus(UNSCHEDULABLE), step, &reason, &message)
        }
        (State::ImagePull | State::ContainerStart, _) if cannot_start(facts, owned).is_some() => {
            let (reason, message) = cannot_start(facts, owned).unwrap_or_default();
            Standing::failed(&reason, message)
        }
        (State::ImagePull, _) if had_no_image(facts, owned) => {
            let (reason, message) = said(facts, "ImagePullFailed", "the image cannot be pulled");
            Standing::failed(&reason, message)
        }
        (State::ServiceCreation, _) if !owned.pod.ready => {
            let candidate = facts.known.candidate.as_ref().filter(|known| known.incarnation == owned.number);
            match candidate.and_then(|known| deadline(facts, known)) {
                Some(at) => unless(
                    at,
                    step,
                    "ReadinessTimeout",
                    "the container runs but does not become ready; check its health service",
                ),
                None => Standing::well(step),
            }
        }
        _ => Standing::well(step),
    }
}

/// Why the container of a pod does not start, or not again, with what its kubelet said when that was found: its later words
/// change with every try.
fn cannot_start(facts: &Facts<'_>, owned: &Owned<'_>) -> Option<Wrong> {
    let (reason, what, hint) = match owned.pod.waits(CONTAINER) {
        waits if NO_IMAGE.contains(&waits) => {
            let what = format!("image `{}` cannot be pulled", image(owned));
            ("ImagePullFailed", what, "check its name and imagePullSecrets")
        }
        "CreateContainerConfigError" => {
            let hint = "check that what environmentFrom names exists";
            ("ContainerConfigError", "the container cannot be made".to_owned(), hint)
        }
        "CreateContainerError" | "RunContainerError" => {
            ("ContainerStartFailed", "the container does not start".to_owned(), "see the pod's events")
        }
        "CrashLoopBackOff" => {
            let end = owned.pod.last_end(CONTAINER).map(|end| format!(" ({end})")).unwrap_or_default();
            let message = format!("the container crashes again and again{end}; see its log");
            return Some(said(facts, "ContainerStartFailed", &message));
        }
        _ => return None,
    };
    let kubelet: String = owned.pod.kubelet_says(CONTAINER).chars().take(KUBELET).collect();
    let message = if kubelet.is_empty() { format!("{what}; {hint}") } else { format!("{what}: {kubelet}") };
    let (_, known) = said(facts, reason, &message);
    // What was said of another image, or before the kubelet had a word, is out of date.
    let message = if known.starts_with(&format!("{what}: ")) { known } else { message };
    Some((reason.to_owned(), message))
}

/// Whether the image of a pod could not be pulled before. A kubelet tries again and says of each try that it has begun and
/// failed: only an image that is there ends that.
fn had_no_image(facts: &Facts<'_>, owned: &Owned<'_>) -> bool {
    let same = |candidate: &Candidate| candidate.pod_uid.as_ref() == Some(&owned.pod.uid);
    facts.obs.status.candidate.as_ref().is_some_and(same)
        && of(&facts.obs.status.conditions, "Degraded").is_some_and(|known| known.reason == "ImagePullFailed")
}

/// That no node has room, with what the scheduler said when that was found: its later words change with every node and pod.
fn no_room(owned: &Owned<'_>) -> String {
    let scheduler = owned.pod.scheduler_says();
    let why = if scheduler.is_empty() { "see the pod's events" } else { scheduler };
    format!("nodes have the hardware, but none has had room for the pod; {why}")
}

fn image(owned: &Owned<'_>) -> String {
    super::facts::image(owned.pod.object)
}
