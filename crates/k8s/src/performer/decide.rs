//! The rules by which a performer is brought to what its spec says. Owns their order and what each does; how an upgrade goes is in `upgrade`, what is said
//! of it in `status`.

use std::time::Duration;

use orlop_core::machine::performer::PerformerState;
use orlop_core::time::Time;
use serde_json::{Value, json};

use super::facts::{Facts, Owned, UNKNOWN, image};
use super::observe::template_kind;
use super::render::{Face, Rendered, revision_name, switched};
use super::{CONTAINER, INCARNATION, RETRY, SPEC_HASH, SWITCHED_AT, SWITCHED_FROM, sweep, upgrade};
use crate::api::Kind;
use crate::hourglass::children::{delete, is_going};
use crate::hourglass::plan::{CONFLICT, Effect, Notice, ObjectKey};
use crate::hourglass::pod::Fate;
use crate::hourglass::spec::{Candidate, Incarnation, PerformerStatus, Retry};
use crate::hourglass::{later, names};
use crate::value::{text, texts};

/// The longest wait between failures, in seconds.
const LONGEST: u64 = 300;
/// Reason of the event that tells of a new pod.
pub(super) const CREATED: &str = "Created";

/// What is decided about a performer.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// What is to be known before anything is done, and kept.
    pub(super) next: PerformerStatus,
    /// Whether it must be stored before what is done.
    pub(super) first: bool,
    pub(super) actions: Vec<Effect>,
    pub(super) notices: Vec<Notice>,
    /// When something is due if nothing happens before.
    pub(super) due: Option<Time>,
    /// Why the pod is not made, although its number is reserved.
    pub(super) deferred: Option<Deferred>,
    /// The name of the next pod, where it is another's.
    pub(super) taken: Option<String>,
    /// Whether there is room now for what was refused.
    pub(super) eased: bool,
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
    let mut decision = Decision { next: facts.known.clone(), ..Decision::default() };
    let conflict = facts.front.foreign;
    if conflict {
        // Whose object it is, nobody tells when it goes.
        decision.at(Some(facts.now.plus(CONFLICT)));
    }
    if conflict || label(facts, &mut decision) || adopt(facts, &mut decision) || lost(facts, &mut decision) {
        return decision;
    }
    notice_pods(facts, &mut decision.next);
    let reserved = upgrade::give_up(facts, &mut decision)
        || upgrade::make_room(facts, &mut decision)
        || reserve(facts, &mut decision)
        || switch(facts, &mut decision);
    if !reserved {
        // What serves comes first: a pod that cannot be made does not keep the Service from it.
        serve(facts, &mut decision);
        create(facts, &mut decision);
    }
    sweep::sweep(facts, &mut decision);
    sweep::forgive(facts, &mut decision);
    decision
}

/// A pod without number is the one of its name, else the first. One that lost the label that its Service selects gets it back.
fn label(facts: &Facts<'_>, decision: &mut Decision) -> bool {
    let performer = names::label_value(&facts.obs.meta.name);
    let own = |owned: &&Owned<'_>| {
        let labels = texts(owned.pod.object, "/metadata/labels");
        // Pods are watched by the one, and selected by the other.
        labels.get("app").map(String::as_str) != Some("hourglass-performer")
            || labels.get(super::PERFORMER) != Some(&performer)
    };
    for owned in facts.pods.iter().filter(|owned| owned.pod.is_live()).filter(own) {
        decision.actions.push(Effect::PatchMeta {
            key: ObjectKey { kind: Kind::Pod, name: owned.pod.name.clone() },
            metadata: json!({
                "resourceVersion": text(owned.pod.object, "/metadata/resourceVersion"),
                "labels": {"app": "hourglass-performer", super::PERFORMER: performer},
            }),
        });
    }
    for pod in facts.unlabelled.iter().filter(|pod| pod.is_live()) {
        let meta = &facts.obs.meta;
        let serving = facts.known.incarnation.max(1);
        let number = if pod.name == names::incarnation(&meta.name, &meta.uid, serving) { serving } else { 1 };
        let asked = facts.asked.as_ref().ok().filter(|asked| asked.spec.image == image(pod.object));
        let annotations = asked.map_or_else(|| json!({SPEC_HASH: UNKNOWN}), Rendered::pod_annotations);
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
    let known = &facts.known;
    if known.active.is_some() || known.candidate.is_some() {
        return false;
    }
    let failed = |owned: &&Owned<'_>| known.failed_spec_hash.as_ref() == Some(&owned.hash);
    let live: Vec<&Owned<'_>> = facts.pods.iter().filter(|owned| owned.pod.is_live() && !failed(owned)).collect();
    let selected = |owned: &&&Owned<'_>| owned.pod.ready && facts.front.selects == Some(owned.number);
    let ready = live.iter().find(selected).or_else(|| live.iter().rev().find(|owned| owned.pod.ready));
    let above = ready.map_or(0, |owned| owned.number);
    let higher = live.iter().rev().find(|owned| owned.number > above);
    if ready.is_none() && higher.is_none() {
        return false;
    }
    let next = &mut decision.next;
    next.incarnation = live.iter().map(|owned| owned.number).max().unwrap_or_default().max(next.incarnation);
    if let Some(owned) = ready {
        serve_by(next, owned);
    }
    next.candidate = higher.map(|owned| candidate(&entry(owned), facts.now));
    decision.first = true;
    true
}

/// What serves is this pod.
fn serve_by(next: &mut PerformerStatus, owned: &Owned<'_>) {
    next.active = Some(entry(owned));
    next.spec_hash = Some(owned.hash.clone());
    next.image = Some(image(owned.pod.object));
}

fn entry(owned: &Owned<'_>) -> Incarnation {
    Incarnation {
        incarnation: owned.number,
        spec_hash: owned.hash.clone(),
        pod_name: owned.pod.name.clone(),
        pod_uid: Some(owned.pod.uid.clone()),
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

/// A pod that served or was to serve is no more. It is written down first; then what is left of it goes.
fn lost(facts: &Facts<'_>, decision: &mut Decision) -> bool {
    let fate = |number: u32, seen: bool| match facts.pod(number).map(|owned| owned.pod.fate) {
        Some(Fate::Live) => None,
        Some(Fate::Ended) => Some("PodFailed"),
        Some(Fate::Evicted) => Some("Evicted"),
        Some(Fate::Lost) => Some("NodeLost"),
        Some(Fate::Going) => Some("PodDeleted"),
        None => seen.then_some("PodDeleted"),
    };
    let mut failed = None;
    if let Some(active) = &facts.known.active
        && let Some(reason) = fate(active.incarnation, true)
    {
        decision.next.active = None;
        failed = Some((reason, active.incarnation));
        // Beside a candidate, one that drains serves again until that one does; alone, it is adopted.
        let known = facts.known.candidate.as_ref().map(|known| known.incarnation);
        let drains = |owned: &&Owned<'_>| {
            let another = owned.number != active.incarnation && Some(owned.number) != known;
            another
                && owned.pod.is_live()
                && owned.pod.ready
                && facts.known.failed_spec_hash.as_ref() != Some(&owned.hash)
        };
        if let Some(owned) = facts.pods.iter().rev().find(drains).filter(|_| known.is_some()) {
            serve_by(&mut decision.next, owned);
        }
    }
    if let Some(known) = &facts.known.candidate
        && let Some(reason) = fate(known.incarnation, known.pod_uid.is_some())
    {
        // The next one of the same spec goes on where this one was.
        decision.next.candidate = Some(Candidate { pod_uid: None, ..renumbered(facts, known) });
        decision.next.incarnation = facts.obs.next;
        failed = Some((reason, known.incarnation));
    }
    let Some((reason, number)) = failed else { return false };
    decision.next.retry = Some(retry(decision.next.retry.as_ref(), reason, facts.now));
    decision.first = true;
    let gone = facts.pod(number).filter(|owned| !is_going(owned.pod.object));
    decision.actions.extend(gone.map(|owned| delete(Kind::Pod, owned.pod.object)));
    let about = format!("pod {number} is no more");
    decision.notices.push(Notice::warning(reason, format!("{about}; another takes its place"), number));
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
    let number = facts.obs.next;
    Candidate { incarnation: number, pod_name: names::incarnation(&meta.name, &meta.uid, number), ..known.clone() }
}

/// What was seen of the pods that are known by number.
fn notice_pods(facts: &Facts<'_>, next: &mut PerformerStatus) {
    if let Some(active) = &mut next.active {
        active.pod_uid = facts.pod(active.incarnation).map(|owned| owned.pod.uid.clone()).or(active.pod_uid.take());
    }
    let Some(candidate) = &mut next.candidate else { return };
    let Some(owned) = facts.pod(candidate.incarnation) else { return };
    candidate.pod_uid = Some(owned.pod.uid.clone());
    let step = if owned.pod.ready { PerformerState::Running } else { owned.pod.step(CONTAINER) };
    if candidate.reached.is_none_or(|reached| reached < step) {
        candidate.reached = Some(step);
        candidate.progressed_at = Some(facts.now.whole_seconds());
    }
}

/// Whether failures still ask for patience.
pub(super) fn waits(next: &PerformerStatus, now: Time) -> Option<Time> {
    next.retry.as_ref()?.next_retry_time.filter(|at| *at > now)
}

/// A number for a pod that is wanted and that no pod has.
fn reserve(facts: &Facts<'_>, decision: &mut Decision) -> bool {
    let Some(wanted) = facts.wanted() else { return false };
    let (active, known) = (decision.next.active.clone(), decision.next.candidate.clone());
    let serves_wanted = active.as_ref().is_some_and(|active| active.spec_hash == wanted.hash);
    match &known {
        Some(known) if known.spec_hash == wanted.hash => return false,
        Some(_) if serves_wanted => {
            // The spec is again what serves.
            decision.next.candidate = None;
            decision.first = true;
            return true;
        }
        None if serves_wanted => return false,
        None => {
            if let Some(at) = waits(&decision.next, facts.now) {
                decision.at(Some(at));
                return false;
            }
        }
        Some(_) => {}
    }
    if facts.name_is_taken() {
        // Its creation would find the same; so it is said without reserving anything.
        decision.taken = Some(names::incarnation(&facts.obs.meta.name, &facts.obs.meta.uid, facts.obs.next));
        decision.at(Some(facts.now.plus(CONFLICT)));
        return false;
    }
    let meta = &facts.obs.meta;
    let number = facts.obs.next;
    let entry = Incarnation {
        incarnation: number,
        spec_hash: wanted.hash.clone(),
        pod_name: names::incarnation(&meta.name, &meta.uid, number),
        pod_uid: None,
    };
    if let Some(active) = &active {
        let message = format!("pod {} gives way to pod {number}", active.incarnation);
        decision.notices.push(Notice::normal("UpgradeStarted", message, number));
        if upgrade::in_place(facts, active) {
            decision.next.active = None;
        }
    }
    let gave_way = decision.next.active.is_some() != active.is_some();
    // One that takes the place of a candidate waits for what that one waited for.
    let in_place = gave_way || known.is_some_and(|known| known.in_place);
    decision.next.candidate = Some(Candidate { in_place, ..candidate(&entry, facts.now) });
    decision.next.incarnation = number;
    decision.first = true;
    if !gave_way {
        serve(facts, decision);
        make(facts, &wanted, number, decision);
    }
    true
}

/// A reserved pod that nobody has seen is made, under the same number.
fn create(facts: &Facts<'_>, decision: &mut Decision) {
    let Some(known) = decision.next.candidate.clone() else { return };
    if facts.pod(known.incarnation).is_some() || known.pod_uid.is_some() {
        return;
    }
    if let Some(at) = waits(&decision.next, facts.now) {
        decision.at(Some(at));
        return;
    }
    if let Some(rendered) = facts.rendered(&known.spec_hash) {
        make(facts, &rendered, known.incarnation, decision);
    }
}

/// Creates what a number stands for, unless something is in its way.
fn make(facts: &Facts<'_>, rendered: &Rendered, number: u32, decision: &mut Decision) {
    let in_the_way = |owned: &Owned<'_>| owned.number != number && owned.pod.is_in_the_way();
    let in_place = decision.next.candidate.as_ref().is_some_and(|known| known.in_place);
    if in_place && facts.pods.iter().any(in_the_way) {
        // It may need the devices that the other one still has.
        decision.deferred = Some(Deferred::InPlace);
        return;
    }
    let (meta, world) = (&facts.obs.meta, &facts.obs.world);
    if let (Some(class), Some(classes)) = (&rendered.merged.runtime_class, &world.runtime_classes)
        && !classes.contains_key(class)
    {
        decision.deferred = Some(Deferred::NoRuntimeClass);
        return;
    }
    let revision = revision_name(meta, &rendered.hash);
    // What belongs to others is no revision and no template of ours, whatever its labels say: creating finds out.
    let known =
        |all: &[Value], name: &str| all.iter().any(|known| meta.owns(known) && text(known, "/metadata/name") == name);
    if !known(&facts.obs.revisions, &revision) {
        decision.actions.push(Effect::Create(Kind::Revision, rendered.revision(meta)));
    }
    if let Some(template) = rendered.template(meta, world) {
        let name = text(&template, "/metadata/name");
        if !known(&facts.obs.templates, &name) {
            decision.actions.push(Effect::Create(template_kind(world), template));
        }
    }
    decision.actions.push(Effect::Create(Kind::Pod, rendered.pod(meta, number)));
    decision.notices.push(Notice::normal(CREATED, format!("created pod {number}"), number));
    if facts.front.live.is_none() && !facts.front.going && decision.next.active.is_none() {
        let face = Face::of(&rendered.spec);
        decision.actions.push(Effect::Create(Kind::Service, face.service(meta, number, &switched(None, None))));
    }
}

/// The candidate serves.
fn switch(facts: &Facts<'_>, decision: &mut Decision) -> bool {
    let Some(known) = decision.next.candidate.clone() else { return false };
    let Some(owned) = facts.pod(known.incarnation).filter(|owned| owned.pod.ready) else { return false };
    let Some(face) = facts.face(&known.spec_hash, Some(owned)) else { return false };
    let active = decision.next.active.as_ref();
    let other_serves = active.and_then(|active| facts.pod(active.incarnation)).is_some_and(|owned| owned.pod.ready);
    let seconds = u64::try_from(facts.upgrade().min_ready_seconds).unwrap_or_default();
    let due = owned.pod.ready_since().unwrap_or(facts.now).plus(Duration::from_secs(seconds));
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
    let upgrades = decision.next.spec_hash.as_ref().is_some_and(|hash| *hash != known.spec_hash);
    let mut at = facts.front.switched_at.filter(|_| facts.front.switched_from == from && from.is_some());
    if facts.front.live.is_none() {
        if facts.front.going {
            return false;
        }
        let service = face.service(meta, known.incarnation, &switched(None, None));
        decision.actions.push(Effect::Create(Kind::Service, service));
    } else if facts.front.selects != Some(known.incarnation) {
        let said = switched(from.map(|_| facts.now.whole_seconds().to_string()), from);
        decision.actions.push(Effect::Apply(Kind::Service, face.service(meta, known.incarnation, &said)));
        decision.notices.push(Notice::normal(
            "Switched",
            format!("connections go to pod {}", known.incarnation),
            known.incarnation,
        ));
        at = Some(facts.now);
    }
    let next = &mut decision.next;
    next.active = Some(known.settled());
    next.candidate = None;
    next.spec_hash = Some(known.spec_hash.clone());
    let spec = facts.rendered(&known.spec_hash).map(|rendered| rendered.spec.image);
    next.image = Some(spec.unwrap_or_else(|| image(owned.pod.object)));
    if upgrades {
        next.last_upgrade = Some(at.unwrap_or(facts.now).whole_seconds());
        let message = format!("pod {} serves", known.incarnation);
        decision.notices.push(Notice::normal("UpgradeCompleted", message, known.incarnation));
    }
    decision.notices.push(Notice::normal("Ready", format!("pod {} is ready", known.incarnation), known.incarnation));
    true
}

/// A Service in front of what serves, or comes up where nothing does.
fn serve(facts: &Facts<'_>, decision: &mut Decision) {
    let selected = facts.front.selects.and_then(|number| facts.pod(number)).is_some_and(|owned| owned.pod.is_live());
    let active = decision.next.active.as_ref().map(|active| (active.incarnation, active.spec_hash.clone()));
    let known = decision.next.candidate.as_ref().map(|known| (known.incarnation, known.spec_hash.clone()));
    let coming =
        known.filter(|(number, _)| facts.pod(*number).is_some() && (!selected || facts.front.selects == Some(*number)));
    let Some((number, hash)) = stands_in(facts, &decision.next).or(active).or(coming) else { return };
    let Some(face) = facts.face(&hash, facts.pod(number)) else { return };
    let meta = &facts.obs.meta;
    let Some(live) = facts.front.live else {
        if !facts.front.going && facts.pod(number).is_some() {
            let service = face.service(meta, number, &switched(None, None));
            decision.actions.push(Effect::Create(Kind::Service, service));
        }
        return;
    };
    let annotations = texts(live, "/metadata/annotations");
    let said = [SWITCHED_AT, SWITCHED_FROM].into_iter().filter_map(|key| Some((key, annotations.get(key)?.clone())));
    let service = face.service(meta, number, &said.collect());
    // A Service as it was created carries the mark of what was created.
    decision.at(facts.obs.admitted.due(live, &service));
    if facts.obs.admitted.differs(live, &service, facts.now) {
        decision.actions.push(Effect::Apply(Kind::Service, service.clone()));
    }
    decision.service = Some(service);
}

/// A pod that drains and is ready, where the one that took its place is not: it is named until that one is ready again.
fn stands_in(facts: &Facts<'_>, next: &PerformerStatus) -> Option<(u32, String)> {
    let active = facts.pod(next.active.as_ref()?.incarnation)?;
    let known = next.candidate.as_ref().map(|known| known.incarnation);
    let former = |owned: &&Owned<'_>| owned.number != active.number && Some(owned.number) != known && owned.pod.ready;
    let owned = facts.pods.iter().rev().find(former).filter(|_| !active.pod.ready)?;
    Some((owned.number, owned.hash.clone()))
}

/// The value the annotation for trying again has now.
pub(super) fn asked_again(facts: &Facts<'_>) -> Option<String> {
    facts.obs.meta.annotations.get(RETRY).cloned()
}
