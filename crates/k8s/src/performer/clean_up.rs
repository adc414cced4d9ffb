//! What is left over: former pods, revisions and templates nobody needs, failures of long ago. Owns
//! when they go.

use std::collections::BTreeSet;
use std::time::Duration;

use orlop_core::time::Time;
use serde_json::Value;

use super::SPEC_HASH;
use super::decide::Decision;
use super::facts::{ChildPod, Facts};
use super::observe::template_kind;
use crate::api::Kind;
use crate::hourglass::children::{delete, is_terminating};
use crate::value::texts;

/// How long a pod must serve before earlier failures are forgotten.
const FORGIVEN: Duration = Duration::from_secs(600);
/// Until when a former pod is kept for its connections.
fn drain_until(facts: &Facts<'_>, number: u32) -> Option<Time> {
    let service = &facts.service;
    let served = service.switched_from == Some(number) && service.selects != Some(number);
    let seconds = u64::try_from(facts.upgrade().drain_seconds).unwrap_or_default();
    service.switched_at.filter(|_| served).map(|at| at.plus(Duration::from_secs(seconds)))
}

/// Former pods, and what belongs to them only, go.
pub(super) fn clean_up(facts: &Facts<'_>, decision: &mut Decision) {
    let status = &decision.status;
    let numbers: BTreeSet<u32> =
        [status.active.as_ref().map(|one| one.incarnation), status.candidate.as_ref().map(|one| one.incarnation)]
            .into_iter()
            .flatten()
            .collect();
    let mut actions = Vec::new();
    let mut due = None;
    for child in facts.pods.iter().filter(|child| !numbers.contains(&child.number) && !is_terminating(child.pod.object))
    {
        // A switch that is decided now has begun its draining when it is carried out.
        let switches = facts.service.selects == Some(child.number) && status.active.is_some();
        // Once a later one gives way too, this one has had its time.
        let later = |other: &&ChildPod<'_>| {
            other.number > child.number && !numbers.contains(&other.number) && other.pod.is_live()
        };
        let drains = drain_until(facts, child.number).filter(|_| !facts.pods.iter().any(|other| later(&other)));
        match drains.filter(|at| *at > facts.now) {
            Some(at) => due = due.into_iter().chain(Some(at)).min(),
            None if switches => {}
            None => actions.push(delete(Kind::Pod, child.pod.object)),
        }
    }
    let mut hashes: BTreeSet<&str> = BTreeSet::new();
    hashes.extend(status.active.as_ref().map(|one| one.spec_hash.as_str()));
    hashes.extend(status.candidate.as_ref().map(|one| one.spec_hash.as_str()));
    let of = |object: &Value| texts(object, "/metadata/annotations").remove(SPEC_HASH).unwrap_or_default();
    let ours = |object: &&Value| facts.obs.meta.owns(object) && !is_terminating(object);
    let template = template_kind(&facts.obs.cluster);
    let obsolete = facts.obs.templates.iter().filter(ours).filter(|object| !hashes.contains(of(object).as_str()));
    actions.extend(obsolete.map(|object| delete(template, object)));
    let wanted = facts.desired.as_ref().ok().map(|desired| desired.hash.as_str());
    hashes.extend(status.spec_hash.as_deref().into_iter().chain(wanted));
    // A pod that drains serves again where the one that took its place fails: its spec is known as long as it lives.
    hashes.extend(facts.pods.iter().filter(|child| child.pod.is_live()).map(|child| child.hash.as_str()));
    let obsolete = facts.obs.revisions.iter().filter(ours).filter(|object| !hashes.contains(of(object).as_str()));
    actions.extend(obsolete.map(|object| delete(Kind::Revision, object)));
    decision.actions.extend(actions);
    decision.at(due);
    let pods = facts.pods.iter().filter_map(|child| child.pod.next_check(&facts.obs.cluster, facts.now)).min();
    decision.at(pods);
}

/// Failures are forgotten once a pod has served for a while.
pub(super) fn reset_retry(facts: &Facts<'_>, decision: &mut Decision) {
    let Some(active) = decision.status.active.as_ref().filter(|_| decision.status.retry.is_some()) else { return };
    let Some(since) = facts.pod(active.incarnation).and_then(|child| child.pod.ready_since()) else { return };
    let at = since.plus(FORGIVEN);
    if at <= facts.now {
        decision.status.retry = None;
    } else {
        decision.at(Some(at));
    }
}
