//! How a new spec takes the place of the old one: beside it, in its place, or not at all. Owns when the old pod
//! gives way and when an upgrade has failed.

use std::time::Duration;

use orlop_core::machine::performer::PerformerState;
use orlop_core::time::Time;

use super::CONTAINER;
use super::decide::{Decision, backoff_until, retry_annotation};
use super::facts::{Facts, UNKNOWN};
use crate::api::Kind;
use crate::hourglass::plan::{Notice, QUOTA};
use crate::hourglass::spec::{Candidate, Incarnation, Strategy};

/// How long an image may be pulled without error, at least.
const PULL: Duration = Duration::from_secs(3600);

fn seconds(number: i32) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or_default())
}

/// Whether the old pod goes before the new one is made.
pub(super) fn in_place(facts: &Facts<'_>, active: &Incarnation) -> bool {
    let ready = facts.pod(active.incarnation).is_some_and(|child| child.pod.ready);
    facts.upgrade().strategy == Strategy::Recreate || !ready
}

/// The time at which a candidate has taken too long, if nothing happens before.
pub(super) fn deadline(facts: &Facts<'_>, candidate: &Candidate) -> Option<Time> {
    let wait = seconds(facts.upgrade().progress_deadline_seconds);
    let pulls = facts.pod(candidate.incarnation).is_some_and(|child| {
        child.pod.startup_state(CONTAINER) == PerformerState::ImagePull
            && matches!(child.pod.waiting_reason(CONTAINER), "" | "ContainerCreating" | "PodInitializing")
    });
    Some(candidate.progressed_at?.plus(if pulls { wait.max(PULL) } else { wait }))
}

/// An upgrade that has made no step for too long is taken back, where there is something to go back to.
pub(super) fn roll_back(facts: &Facts<'_>, decision: &mut Decision) -> bool {
    let Some(candidate) = decision.status.candidate.clone() else { return false };
    let upgrades = decision.status.spec_hash.as_ref().is_some_and(|hash| *hash != candidate.spec_hash);
    let Some(at) = deadline(facts, &candidate) else { return false };
    if at > facts.now {
        decision.at(Some(at));
        return false;
    }
    // What serves goes on also where its revision is lost. One of a spec that nobody has known gives way in the end.
    let serves = decision.status.active.as_ref().is_some_and(|active| active.spec_hash != UNKNOWN);
    let serves = serves || facts.good().is_some();
    if !upgrades || !facts.upgrade().auto_rollback || !serves {
        return false;
    }
    let status = &mut decision.status;
    status.candidate = None;
    status.failed_spec_hash = Some(candidate.spec_hash.clone());
    status.failed_retry = retry_annotation(facts);
    status.retry = None;
    decision.status_first = true;
    let message = format!("pod {} made no progress for too long; the last good spec stays", candidate.incarnation);
    decision.notices.push(Notice::warning("RolledBack", message, candidate.incarnation));
    true
}

/// Where there is no room for a second pod, the old one gives way, if the new one fits in its place.
pub(super) fn replace_in_place(facts: &Facts<'_>, decision: &mut Decision) -> bool {
    let (Some(active), Some(candidate)) = (&decision.status.active, &decision.status.candidate) else { return false };
    if facts.upgrade().strategy != Strategy::Auto {
        return false;
    }
    let child = facts.pod(candidate.incarnation);
    let waits_for_room = backoff_until(&decision.status, facts.now).is_some()
        && decision.status.retry.as_ref().is_some_and(|retry| retry.reason == QUOTA);
    // What a revision or a template has no room for, the old pod's place does not give.
    let refused = child.is_none() && waits_for_room && facts.is_refused(Kind::Pod);
    let since = child.and_then(|child| child.pod.unschedulable_since());
    let at = since.map(|since| since.plus(seconds(facts.upgrade().surge_wait_seconds)));
    if let Some(at) = at.filter(|at| *at > facts.now) {
        decision.at(Some(at));
        return false;
    }
    if !refused && at.is_none() {
        return false;
    }
    let Some(rendered) = facts.rendered(&candidate.spec_hash) else { return false };
    let old = facts.pod(active.incarnation);
    let node = old.and_then(|child| child.pod.node.as_ref()).and_then(|name| facts.obs.cluster.host(name));
    let Ok(desired) = rendered.under(&facts.obs.cluster) else { return false };
    if !node.is_some_and(|host| desired.check(&host.machine).fits()) {
        return false;
    }
    let message =
        format!("no node has capacity next to pod {}; pod {} replaces it", active.incarnation, candidate.incarnation);
    decision.notices.push(Notice::warning("SurgeImpossible", message, candidate.incarnation));
    let status = &mut decision.status;
    status.active = None;
    status.candidate = status.candidate.take().map(|candidate| Candidate { in_place: true, ..candidate });
    if refused {
        // What the old pod had is free once it is gone.
        (status.retry, decision.unblocked) = (None, true);
    }
    decision.status_first = true;
    true
}
