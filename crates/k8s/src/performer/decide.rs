//! The rules by which a performer is brought to what its spec says. Owns their order and what each does; how an upgrade goes is
//! in `upgrade`, what is said of it in `status`.

use std::time::Duration;

use orlop_core::machine::performer::PerformerState;
use orlop_core::time::Time;
use serde_json::{Value, json};

use super::facts::{ChildPod, Facts, UNKNOWN, image};
use super::observe::template_kind;
use super::render::{Rendered, ServiceSpec, revision_name, switched};
use super::{CONTAINER, INCARNATION, RETRY, SPEC_HASH, SWITCHED_AT, SWITCHED_FROM, clean_up, upgrade};
use crate::api::Kind;
use crate::hourglass::children::{delete, is_terminating};
use crate::hourglass::plan::{CONFLICT, Effect, Notice, ObjectKey};
use crate::hourglass::pod::PodState;
use crate::hourglass::spec::{Candidate, Incarnation, PerformerStatus, Retry};
use crate::hourglass::{later, names};
use crate::value::{text, texts, word};

/// The longest wait between failures, in seconds.
const LONGEST: u64 = 300;
/// Reason of the event about a new pod.
pub(super) const CREATED: &str = "Created";

/// What is decided about a performer.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// What is to be known before anything is done, and kept.
    pub(super) status: PerformerStatus,
    /// Whether it must be stored before what is done.
    pub(super) status_first: bool,
    pub(super) actions: Vec<Effect>,
    pub(super) notices: Vec<Notice>,
    /// When something is due if nothing happens before.
    pub(super) due: Option<Time>,
    /// Why the pod is not made, although its number is reserved.
    pub(super) deferred: Option<Deferred>,
    /// The name of the next pod, where it is another's.
    pub(super) conflicting_pod: Option<String>,
    /// Whether there is room now for what was refused.
    pub(super) unblocked: bool,
    /// The Service as it is wanted, where there is one.
    pub(super) service: Option<Value>,
}

/// Why a pod is not made yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deferred {
    /// It takes the place of one that is not gone yet.
    InPlace,
    /// The server would refuse it: its runtime class does not exist.
    NoRuntimeClass,
}

impl Decision {
    pub(super) fn at(&mut self, at: Option<Time>) {
        self.due = self.due.into_iter().chain(at).min();
    }
}

/// Decides.
pub(super) fn decide(facts: &Facts<'_>) -> Decision {
    let mut decision = Decision { status: facts.status.clone(), ..Decision::default() };
    let conflict = facts.service.foreign;
    if conflict {
        // No watch reports when the object of another owner goes.
        decision.at(Some(facts.now.plus(CONFLICT)));
    }
    if conflict || relabel(facts, &mut decision) || adopt(facts, &mut decision) || replace_lost(facts, &mut decision) {
        return decision;
    }
    record_pods(facts, &mut decision.status);
    let reserved = upgrade::roll_back(facts, &mut decision)
        || upgrade::replace_in_place(facts, &mut decision)
        || reserve(facts, &mut decision)
        || switch_service(facts, &mut decision);
    if !reserved {
        // What serves comes first: a pod that cannot be made does not keep the Service from it.
        reconcile_service(facts, &mut decision);
        create_reserved(facts, &mut decision);
        if let Some(active) = decision.status.active.as_ref().and_then(|active| facts.rendered(&active.spec_hash)) {
            keep_revision(facts, &active, &mut decision);
        }
    }
    clean_up::clean_up(facts, &mut decision);
    clean_up::reset_retry(facts, &mut decision);
    decision
}

/// A pod without number is the one of its name, else the first. One that lost the label that its Service selects gets it back.
fn relabel(facts: &Facts<'_>, decision: &mut Decision) -> bool {
    let performer = names::label_value(&facts.obs.meta.name);
    let own = |child: &&ChildPod<'_>| {
        let labels = texts(child.pod.object, "/metadata/labels");
        // Pods are watched by the one, and selected by the other.
        labels.get("app").map(String::as_str) != Some("hourglass-performer")
            || labels.get(super::PERFORMER) != Some(&performer)
    };
    for child in facts.pods.iter().filter(|child| child.pod.is_live()).filter(own) {
        decision.actions.push(Effect::PatchMeta {
            key: ObjectKey { kind: Kind::Pod, name: child.pod.name.clone() },
            metadata: json!({
                "resourceVersion": text(child.pod.object, "/metadata/resourceVersion"),
                "labels": {"app": "hourglass-performer", super::PERFORMER: performer},
            }),
        });
    }
    for pod in facts.unlabelled.iter().filter(|pod| pod.is_live()) {
        let meta = &facts.obs.meta;
        let serving = facts.status.incarnation.max(1);
        let number = if pod.name == names::incarnation(&meta.name, &meta.uid, serving) { serving } else { 1 };
        let desired = facts.desired.as_ref().ok().filter(|desired| desired.spec.image == image(pod.object));
        let annotations = desired.map_or_else(|| json!({SPEC_HASH: UNKNOWN}), Rendered::pod_annotations);
        decision.actions.push(Effect::PatchMeta {
            key: ObjectKey { kind: Kind::Pod, name: pod.name.clone() },
            metadata: json!({
                "resourceVersion": text(pod.object, "/metadata/resourceVersion"),
                "labels": {
                    // Pods are watched by it.
                    "app": "hourglass-performer",
                    INCARNATION: number.to_string(),
                    super::PERFORMER: performer,
                },
                "annotations": annotations,
            }),
        });
    }
    !decision.actions.is_empty()
}

/// The status names no pod although there are: it was lost.
fn adopt(facts: &Facts<'_>, decision: &mut Decision) -> bool {
    let known = &facts.status;
    if known.active.is_some() || known.candidate.is_some() {
        return false;
    }
    let failed = |child: &&ChildPod<'_>| known.failed_spec_hash.as_ref() == Some(&child.hash);
    let live: Vec<&ChildPod<'_>> = facts.pods.iter().filter(|child| child.pod.is_live() && !failed(child)).collect();
    let selected = |child: &&&ChildPod<'_>| child.pod.ready && facts.service.selects == Some(child.number);
    let ready = live.iter().find(selected).or_else(|| live.iter().rev().find(|child| child.pod.ready));
    let above = ready.map_or(0, |child| child.number);
    let higher = live.iter().rev().find(|child| child.number > above);
    if ready.is_none() && higher.is_none() {
        return false;
    }
    let status = &mut decision.status;
    status.incarnation = live.iter().map(|child| child.number).max().unwrap_or_default().max(status.incarnation);
    if let Some(child) = ready {
        serve_by(status, child);
    }
    status.candidate = higher.map(|child| candidate(&entry(child), facts.now));
    decision.status_first = true;
    true
}

/// What serves is this pod.
fn serve_by(status: &mut PerformerStatus, child: &ChildPod<'_>) {
    status.active = Some(entry(child));
    status.spec_hash = Some(child.hash.clone());
    status.image = Some(image(child.pod.object));
}

fn entry(child: &ChildPod<'_>) -> Incarnation {
    Incarnation {
        incarnation: child.number,
        spec_hash: child.hash.clone(),
        pod_name: child.pod.name.clone(),
        pod_uid: Some(child.pod.uid.clone()),
    }
}

fn candidate(entry: &Incarnation, now: Time) -> Candidate {
    Candidate {
        incarnation: entry.incarnation,
        spec_hash: entry.spec_hash.clone(),
        pod_name: entry.pod_name.clone(),
        pod_uid: entry.pod_uid.clone(),
        started_at: Some(now.whole_seconds()),
        progressed_at: Some(now.whole_seconds()),
        reached: None,
        in_place: false,
    }
}

/// A pod that served or was to serve no longer exists. It is written down first; then what is left of it goes.
fn replace_lost(facts: &Facts<'_>, decision: &mut Decision) -> bool {
    let fate = |number: u32, seen: bool| match facts.pod(number).map(|child| child.pod.state) {
        Some(PodState::Live) => None,
        Some(PodState::Ended) => Some("PodFailed"),
        Some(PodState::Evicted) => Some("Evicted"),
        Some(PodState::Lost) => Some("NodeLost"),
        Some(PodState::Terminating) => Some("PodDeleted"),
        None => seen.then_some("PodDeleted"),
    };
    let mut failed = None;
    if let Some(active) = &facts.status.active
        && let Some(reason) = fate(active.incarnation, true)
    {
        decision.status.active = None;
        failed = Some((reason, active.incarnation));
        // Beside a candidate, one that drains serves again until that one does; alone, it is adopted.
        let known = facts.status.candidate.as_ref().map(|known| known.incarnation);
        let drains = |child: &&ChildPod<'_>| {
            let another = child.number != active.incarnation && Some(child.number) != known;
            another
                && child.pod.is_live()
                && child.pod.ready
                && facts.status.failed_spec_hash.as_ref() != Some(&child.hash)
        };
        if let Some(child) = facts.pods.iter().rev().find(drains).filter(|_| known.is_some()) {
            serve_by(&mut decision.status, child);
        }
    }
    if let Some(known) = &facts.status.candidate
        && let Some(reason) = fate(known.incarnation, known.pod_uid.is_some())
    {
        // The next one of the same spec goes on where this one was.
        decision.status.candidate = Some(Candidate { pod_uid: None, ..renumbered(facts, known) });
        decision.status.incarnation = facts.obs.next_incarnation;
        failed = Some((reason, known.incarnation));
    }
    let Some((reason, number)) = failed else { return false };
    decision.status.retry = Some(retry(decision.status.retry.as_ref(), reason, facts.now));
    decision.status_first = true;
    let gone = facts.pod(number).filter(|child| !is_terminating(child.pod.object));
    decision.actions.extend(gone.map(|child| delete(Kind::Pod, child.pod.object)));
    let about = format!("pod {number} no longer exists");
    decision.notices.push(Notice::warning(reason, format!("{about}; it is being replaced"), number));
    true
}

/// The next failure of several.
fn retry(before: Option<&Retry>, reason: &str, now: Time) -> Retry {
    let count = before.map_or(0, |retry| retry.count);
    let free = count == 0 && matches!(reason, "NodeLost" | "PodDeleted" | "Evicted");
    let wait = 10_u64.saturating_mul(1 << count.min(10)).min(LONGEST);
    let wait = Duration::from_secs(if free { 0 } else { wait });
    Retry { count: count + 1, reason: reason.to_owned(), next_retry_time: Some(later(now, wait)) }
}

fn renumbered(facts: &Facts<'_>, known: &Candidate) -> Candidate {
    let meta = &facts.obs.meta;
    let number = facts.obs.next_incarnation;
    Candidate { incarnation: number, pod_name: names::incarnation(&meta.name, &meta.uid, number), ..known.clone() }
}

/// What was seen of the pods that are known by number.
fn record_pods(facts: &Facts<'_>, status: &mut PerformerStatus) {
    if let Some(active) = &mut status.active {
        active.pod_uid = facts.pod(active.incarnation).map(|child| child.pod.uid.clone()).or(active.pod_uid.take());
    }
    let Some(candidate) = &mut status.candidate else { return };
    let Some(child) = facts.pod(candidate.incarnation) else { return };
    candidate.pod_uid = Some(child.pod.uid.clone());
    let step = if child.pod.ready { PerformerState::Running } else { child.pod.startup_state(CONTAINER) };
    if candidate.reached.is_none_or(|reached| reached < step) {
        candidate.reached = Some(step);
        candidate.progressed_at = Some(facts.now.whole_seconds());
    }
}

/// Whether failures still ask for patience.
pub(super) fn backoff_until(status: &PerformerStatus, now: Time) -> Option<Time> {
    status.retry.as_ref()?.next_retry_time.filter(|at| *at > now)
}

/// A number for a pod that is wanted and that no pod has.
fn reserve(facts: &Facts<'_>, decision: &mut Decision) -> bool {
    let Some(wanted) = facts.wanted() else { return false };
    let (active, known) = (decision.status.active.clone(), decision.status.candidate.clone());
    let serves_wanted = active.as_ref().is_some_and(|active| active.spec_hash == wanted.hash);
    match &known {
        Some(known) if known.spec_hash == wanted.hash => return false,
        Some(_) if serves_wanted => {
            // The spec is again what serves.
            decision.status.candidate = None;
            decision.status_first = true;
            return true;
        }
        None if serves_wanted => return false,
        None => {
            if let Some(at) = backoff_until(&decision.status, facts.now) {
                decision.at(Some(at));
                return false;
            }
        }
        Some(_) => {}
    }
    if facts.name_is_taken() {
        // Its creation would find the same; so it is said without reserving anything.
        decision.conflicting_pod =
            Some(names::incarnation(&facts.obs.meta.name, &facts.obs.meta.uid, facts.obs.next_incarnation));
        decision.at(Some(facts.now.plus(CONFLICT)));
        return false;
    }
    let meta = &facts.obs.meta;
    let number = facts.obs.next_incarnation;
    let entry = Incarnation {
        incarnation: number,
        spec_hash: wanted.hash.clone(),
        pod_name: names::incarnation(&meta.name, &meta.uid, number),
        pod_uid: None,
    };
    if let Some(active) = &active {
        let message = format!("pod {} is replaced by pod {number}", active.incarnation);
        decision.notices.push(Notice::normal("UpgradeStarted", message, number));
        if upgrade::in_place(facts, active) {
            decision.status.active = None;
        }
    }
    let gave_way = decision.status.active.is_some() != active.is_some();
    // One that takes the place of a candidate waits for what that one waited for.
    let in_place = gave_way || known.is_some_and(|known| known.in_place);
    decision.status.candidate = Some(Candidate { in_place, ..candidate(&entry, facts.now) });
    decision.status.incarnation = number;
    decision.status_first = true;
    if !gave_way {
        reconcile_service(facts, decision);
        create_pod(facts, &wanted, number, decision);
    }
    true
}

/// A reserved pod that nobody has seen is made, under the same number.
fn create_reserved(facts: &Facts<'_>, decision: &mut Decision) {
    let Some(known) = decision.status.candidate.clone() else { return };
    if facts.pod(known.incarnation).is_some() || known.pod_uid.is_some() {
        return;
    }
    if let Some(at) = backoff_until(&decision.status, facts.now) {
        decision.at(Some(at));
        return;
    }
    if let Some(rendered) = facts.rendered(&known.spec_hash) {
        create_pod(facts, &rendered, known.incarnation, decision);
    }
}

/// Creates what a number stands for, unless something is in its way.
fn create_pod(facts: &Facts<'_>, rendered: &Rendered, number: u32, decision: &mut Decision) {
    let in_the_way = |child: &ChildPod<'_>| child.number != number && child.pod.may_hold_devices();
    let in_place = decision.status.candidate.as_ref().is_some_and(|known| known.in_place);
    if in_place && facts.pods.iter().any(in_the_way) {
        // It may need the devices that the other one still has.
        decision.deferred = Some(Deferred::InPlace);
        return;
    }
    let (meta, cluster) = (&facts.obs.meta, &facts.obs.cluster);
    if let (Some(class), Some(classes)) = (&rendered.merged.runtime_class, &cluster.runtime_classes)
        && !classes.contains_key(class)
    {
        decision.deferred = Some(Deferred::NoRuntimeClass);
        return;
    }
    keep_revision(facts, rendered, decision);
    if let Some(template) = rendered.template(meta, cluster) {
        let name = text(&template, "/metadata/name");
        if !is_there(facts, &facts.obs.templates, &name) {
            decision.actions.push(Effect::Create(template_kind(cluster), template));
        }
    }
    decision.actions.push(Effect::Create(Kind::Pod, rendered.pod(meta, number)));
    decision.notices.push(Notice::normal(CREATED, format!("created pod {number}"), number));
    if facts.service.object.is_none() && !facts.service.terminating && decision.status.active.is_none() {
        let service_spec = ServiceSpec::of(&rendered.spec);
        decision.actions.push(Effect::Create(Kind::Service, service_spec.service(meta, number, &switched(None, None))));
    }
}

/// The spec of a pod is kept, so that it can be taken back to.
fn keep_revision(facts: &Facts<'_>, rendered: &Rendered, decision: &mut Decision) {
    let meta = &facts.obs.meta;
    if !is_there(facts, &facts.obs.revisions, &revision_name(meta, &rendered.hash)) {
        decision.actions.push(Effect::Create(Kind::Revision, rendered.revision(meta)));
    }
}

/// Whether one of these has a name. What belongs to others is no revision and no template of ours, whatever its labels say:
/// creating finds out.
fn is_there(facts: &Facts<'_>, all: &[Value], name: &str) -> bool {
    all.iter().any(|known| facts.obs.meta.owns(known) && word(known, "/metadata/name") == name)
}

/// The candidate serves.
fn switch_service(facts: &Facts<'_>, decision: &mut Decision) -> bool {
    let Some(known) = decision.status.candidate.clone() else { return false };
    let Some(child) = facts.pod(known.incarnation).filter(|child| child.pod.ready) else { return false };
    let Some(service_spec) = facts.service_spec(&known.spec_hash, Some(child)) else { return false };
    let active = decision.status.active.as_ref();
    let other_serves = active.and_then(|active| facts.pod(active.incarnation)).is_some_and(|child| child.pod.ready);
    let seconds = u64::try_from(facts.upgrade().min_ready_seconds).unwrap_or_default();
    let due = child.pod.ready_since().unwrap_or(facts.now).plus(Duration::from_secs(seconds));
    if other_serves && due > facts.now {
        decision.at(Some(due));
        return false;
    }
    if facts.is_refused(Kind::Service) {
        // Nothing has been switched before the Service says so.
        return false;
    }
    let meta = &facts.obs.meta;
    let from = active.map(|active| active.incarnation);
    let upgrades = decision.status.spec_hash.as_ref().is_some_and(|hash| *hash != known.spec_hash);
    let mut at = facts.service.switched_at.filter(|_| facts.service.switched_from == from && from.is_some());
    if facts.service.object.is_none() {
        if facts.service.terminating {
            return false;
        }
        let service = service_spec.service(meta, known.incarnation, &switched(None, None));
        decision.actions.push(Effect::Create(Kind::Service, service));
    } else if facts.service.selects != Some(known.incarnation) {
        let said = switched(from.map(|_| facts.now.whole_seconds().to_string()), from);
        decision.actions.push(Effect::Apply(Kind::Service, service_spec.service(meta, known.incarnation, &said)));
        decision.notices.push(Notice::normal(
            "Switched",
            format!("connections go to pod {}", known.incarnation),
            known.incarnation,
        ));
        at = Some(facts.now);
    }
    let status = &mut decision.status;
    status.active = Some(known.settled());
    status.candidate = None;
    // It did come up after all.
    status.failed_spec_hash = status.failed_spec_hash.take().filter(|failed| *failed != known.spec_hash);
    status.spec_hash = Some(known.spec_hash.clone());
    let spec = facts.rendered(&known.spec_hash).map(|rendered| rendered.spec.image);
    status.image = Some(spec.unwrap_or_else(|| image(child.pod.object)));
    if upgrades {
        status.last_upgrade = Some(at.unwrap_or(facts.now).whole_seconds());
        let message = format!("pod {} serves", known.incarnation);
        decision.notices.push(Notice::normal("UpgradeCompleted", message, known.incarnation));
    }
    decision.notices.push(Notice::normal("Ready", format!("pod {} is ready", known.incarnation), known.incarnation));
    true
}

/// A Service in front of what serves, or comes up where nothing does.
fn reconcile_service(facts: &Facts<'_>, decision: &mut Decision) {
    let selected = facts.service.selects.and_then(|number| facts.pod(number)).is_some_and(|child| child.pod.is_live());
    let active = decision.status.active.as_ref().map(|active| (active.incarnation, active.spec_hash.clone()));
    let known = decision.status.candidate.as_ref().map(|known| (known.incarnation, known.spec_hash.clone()));
    let coming = known
        .filter(|(number, _)| facts.pod(*number).is_some() && (!selected || facts.service.selects == Some(*number)));
    let Some((number, hash)) = fallback_pod(facts, &decision.status).or(active).or(coming) else { return };
    let Some(service_spec) = facts.service_spec(&hash, facts.pod(number)) else { return };
    let meta = &facts.obs.meta;
    let Some(live) = facts.service.object else {
        if !facts.service.terminating && facts.pod(number).is_some() {
            let service = service_spec.service(meta, number, &switched(None, None));
            decision.actions.push(Effect::Create(Kind::Service, service));
        }
        return;
    };
    let annotations = texts(live, "/metadata/annotations");
    let said = [SWITCHED_AT, SWITCHED_FROM].into_iter().filter_map(|key| Some((key, annotations.get(key)?.clone())));
    let service = service_spec.service(meta, number, &said.collect());
    // A Service as it was created carries the mark of what was created.
    decision.at(facts.obs.last_applied.due(live, &service));
    if facts.obs.last_applied.differs(live, &service, facts.now) {
        decision.actions.push(Effect::Apply(Kind::Service, service.clone()));
    }
    decision.service = Some(service);
}

/// A pod that drains and is ready, where the one that took its place is not: it is named until that one is ready again.
fn fallback_pod(facts: &Facts<'_>, status: &PerformerStatus) -> Option<(u32, String)> {
    let active = facts.pod(status.active.as_ref()?.incarnation)?;
    let known = status.candidate.as_ref().map(|known| known.incarnation);
    let former =
        |child: &&ChildPod<'_>| child.number != active.number && Some(child.number) != known && child.pod.ready;
    let child = facts.pods.iter().rev().find(former).filter(|_| !active.pod.ready)?;
    Some((child.number, child.hash.clone()))
}

/// The value the annotation for trying again has now.
pub(super) fn retry_annotation(facts: &Facts<'_>) -> Option<String> {
    facts.obs.meta.annotations.get(RETRY).cloned()
}
