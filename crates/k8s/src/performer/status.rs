//! What is written about a performer, and the plan as a whole. Owns the fields that follow from what is decided,
//! the conditions, and the order of effects: durable intent first, outside action second, what has happened last.

use orlop_core::hardware::placement::Note;
use orlop_core::hardware::table::LabelFamily;
use orlop_core::machine::performer::{MACHINE, PerformerPhase, PerformerState as State};
use orlop_core::time::Time;
use serde_json::Value;

use super::decide::{CREATED, Decision};
use super::facts::Facts;
use super::render::{Rendered, duplicates};
use super::state::{Standing, Wrong, standing};
use crate::api::Kind;
use crate::hardware::{self, availability};
use crate::hourglass::admitted::Child;
use crate::hourglass::children::way;
use crate::hourglass::condition::{self, Said, conditions, contended, of, since};
use crate::hourglass::names;
use crate::hourglass::plan::{Effect, Notice, ObjectKey, Plan, Requeue};
use crate::hourglass::reference::forbidden;
use crate::hourglass::spec::PerformerStatus;
use crate::value::text;

/// The plan that carries a decision out.
pub(super) fn finish(facts: &Facts<'_>, mut decision: Decision) -> Plan {
    decision.actions = allowed(facts, std::mem::take(&mut decision.actions));
    let hardware = hardware_said(facts, &decision);
    let hardware_since = since(&facts.obs.status.conditions, hardware.kind, hardware.status, facts.now);
    let standing = standing(facts, &decision, (&hardware, hardware_since));
    decision.at(standing.due);
    let status = complete(facts, &decision, (&standing, hardware));
    let mut notices = std::mem::take(&mut decision.notices);
    notices.extend(transitions(facts, &status));
    let write = written(facts, &status);
    let mut effects: Vec<Effect> = Vec::new();
    let actions = std::mem::take(&mut decision.actions);
    // People are told once something is done about it, and before the status that ends the matter.
    let events = if write.is_some() { notices } else { Vec::new() };
    let (created, events): (Vec<Notice>, Vec<Notice>) = events.into_iter().partition(|notice| notice.reason == CREATED);
    let (created, events) = (created.into_iter().map(Effect::RecordEvent), events.into_iter().map(Effect::RecordEvent));
    let path = write.as_ref().map_or(Some(Vec::new()), |_| way(&MACHINE, facts.obs.status.state, status.state));
    if decision.first {
        effects.extend(events);
        effects.extend(write);
        effects.extend(actions);
        effects.extend(created);
    } else {
        effects.extend(actions);
        effects.extend(created);
        effects.extend(events);
        effects.extend(write);
    }
    let due = decision.due.filter(|at| *at > facts.now);
    let requeue = Requeue::Resync.or_at(due);
    let names = status.incarnation > facts.obs.status.incarnation;
    Plan { effects, requeue, eased: decision.eased, names, ..Plan::default() }.along(path)
}

/// The status to be written; none where it is what is stored.
pub(super) fn written(facts: &Facts<'_>, status: &PerformerStatus) -> Option<Effect> {
    changed(&facts.obs.stored, status)
}

/// The status to be written over a stored one.
pub(super) fn changed(stored: &Value, status: &PerformerStatus) -> Option<Effect> {
    let value = serde_json::to_value(status).unwrap_or_default();
    (value != *stored).then_some(Effect::WriteStatus(value))
}

/// What may be done while something is wrong: up to what could not be done, which is tried again in its time. Where that is
/// a pod, or what it needs, others that are left over go all the same.
fn allowed(facts: &Facts<'_>, actions: Vec<Effect>) -> Vec<Effect> {
    let Some(at) = facts.trouble().and_then(|trouble| trouble.at.as_ref()) else { return actions };
    let same = |effect: &Effect| match effect {
        Effect::Create(kind, object) | Effect::Apply(kind, object) => {
            *at == ObjectKey { kind: *kind, name: text(object, "/metadata/name") }
        }
        Effect::PatchMeta { key, .. } | Effect::Delete { key, .. } => key == at,
        _ => false,
    };
    let mut over = None;
    let mut may = |effect: &Effect| {
        if over.is_none() && same(effect) {
            over = Some(matches!(effect, Effect::Create(kind, _) if *kind != Kind::Service));
        }
        over.is_none_or(|makes| makes && matches!(effect, Effect::Delete { .. }))
    };
    actions.into_iter().filter(|effect| may(effect)).collect()
}

/// Whether there is hardware for what is wanted.
fn hardware_said(facts: &Facts<'_>, decision: &Decision) -> Said {
    const KIND: &str = "HardwareAvailable";
    let unknown = |message: &str| Said::unknown(KIND, "NodesNotReadable", message);
    let candidate = decision.next.candidate.as_ref().and_then(|known| facts.rendered(&known.spec_hash));
    let Some(wanted) = candidate.or_else(|| facts.wanted()) else {
        return unknown("the spec does not say what is needed");
    };
    if !wanted.special && wanted.merged.runtime_class.is_none() {
        return Said::yes(KIND, "NotRequired", "no special hardware is asked for");
    }
    let world = &facts.obs.world;
    if let (Some(class), Some(classes)) = (&wanted.merged.runtime_class, &world.runtime_classes)
        && !classes.contains_key(class)
    {
        return Said::no(KIND, "RuntimeClassMissing", format!("runtime class `{class}` does not exist; install it"));
    }
    let claim = wanted.merged.claims.first();
    if claim.is_some() && world.devices.classes.is_none() {
        return unknown("the operator may not read device classes");
    }
    let there = |class: &String| world.devices.classes.as_ref().is_some_and(|classes| classes.contains(class));
    if let Some(claim) = claim.filter(|claim| !there(&claim.class)) {
        return Said::no(
            KIND,
            "DeviceClassMissing",
            format!("device class `{}` does not exist; install its driver", claim.class),
        );
    }
    if !wanted.special {
        return Said::yes(KIND, "NotRequired", "no special hardware is asked for");
    }
    let Ok(merged) = wanted.under(world) else { return unknown("the runtime class contradicts the last good spec") };
    if world.nodes.is_none() {
        return unknown("the operator may not read nodes");
    }
    let found = availability(&merged, &world.hosts());
    let reason = hardware::Reason::as_str(found.reason);
    let named = wanted.named.map(|named| format!("; {named}")).unwrap_or_default();
    match found.available {
        // Without numbers, which change as nodes come and go.
        true => Said::yes(KIND, reason, format!("ready nodes have what is asked for{named}")),
        false => Said::no(KIND, reason, found.message + &by_labels(&wanted.families) + &named),
    }
}

/// Whose labels were looked at, where they are not the vendors' own alone.
fn by_labels(families: &[LabelFamily]) -> String {
    let names: Vec<String> = families.iter().map(ToString::to_string).collect();
    if names.len() > 1 { format!(", by labels of {}", names.join(", ")) } else { String::new() }
}

/// The status with everything that follows from what is decided.
fn complete(facts: &Facts<'_>, decision: &Decision, (standing, hardware): (&Standing, Said)) -> PerformerStatus {
    let mut status = decision.next.clone();
    let meta = &facts.obs.meta;
    let active = status.active.as_ref().and_then(|active| facts.pod(active.incarnation));
    let shown = active.or_else(|| facts.pod(status.candidate.as_ref()?.incarnation));
    // A switch that is decided is carried out before this is written.
    let selected = decision
        .actions
        .iter()
        .any(|effect| matches!(effect, Effect::Create(Kind::Service, _) | Effect::Apply(Kind::Service, _)));
    let fronted = facts.front.live.is_some() || selected;
    let ready = active.filter(|owned| owned.pod.ready && (selected || facts.front.selects == Some(owned.number)));
    status.state = Some(standing.state);
    status.phase = standing.state.phase();
    status.observed_generation = Some(meta.generation);
    status.ready = Some(ready.is_some());
    status.ready_time = ready.and_then(|owned| owned.pod.ready_since()).map(Time::whole_seconds);
    status.pod_name = shown.map(|owned| owned.pod.name.clone());
    status.node_name = shown.and_then(|owned| owned.pod.node.clone());
    let service = fronted.then(|| names::service(super::CONTAINER, &meta.name));
    let port = status.active.as_ref().and_then(|known| Some(facts.face(&known.spec_hash, active)?.port));
    let port = port.or_else(|| Some(facts.wanted()?.spec.config.grpc_port));
    status.host = service.as_ref().map(|name| format!("{name}.{}.svc.{}", meta.namespace, facts.config.cluster_domain));
    status.grpc_endpoint = status.host.as_ref().zip(port).map(|(host, port)| format!("{host}:{port}"));
    status.service_name = service;
    if let (Some(active), Ok(asked), Ok(spec)) = (&status.active, &facts.asked, &facts.obs.spec)
        && active.spec_hash == asked.hash
    {
        status.version.clone_from(&spec.version);
    }
    let available = available(&status, active.is_some_and(|owned| owned.pod.is_live()));
    let (progressing, degraded) = (progressing(&status, facts, standing), degraded(standing.wrong.as_ref()));
    let fronts = facts.front.live.zip(decision.service.as_ref());
    let children: Vec<Child<'_>> =
        fronts.map(|(live, wanted)| Child { kind: Kind::Service, live, wanted }).into_iter().collect();
    let contended = facts.obs.admitted.contended(&children, &facts.obs.status.conditions, facts.now);
    let said = vec![
        condition::ready(&available, &progressing, &degraded),
        available,
        progressing,
        degraded,
        contended,
        hardware,
    ];
    status.conditions = conditions(&facts.obs.status.conditions, said, meta.generation, facts.now);
    status
}

fn available(status: &PerformerStatus, live: bool) -> Said {
    const KIND: &str = "Available";
    match (status.ready, live, &status.service_name) {
        (Some(true), ..) => Said::yes(KIND, "PodReady", "a ready pod serves"),
        (_, true, None) => Said::no(KIND, "ServiceMissing", "the Service does not exist"),
        (_, true, _) => Said::no(KIND, "NotReady", "the pod that serves is not ready"),
        (_, false, _) => Said::no(KIND, "NoReadyPod", "no pod serves"),
    }
}

fn progressing(status: &PerformerStatus, facts: &Facts<'_>, standing: &Standing) -> Said {
    const KIND: &str = "Progressing";
    match status.phase {
        Some(PerformerPhase::Upgrading) => {
            let message =
                if standing.state == State::PodRecreation { "a new pod is brought up" } else { "a new spec is wanted" };
            Said::yes(KIND, "UpgradeInProgress", message)
        }
        Some(PerformerPhase::Creating | PerformerPhase::Pending) => {
            Said::yes(KIND, orlop_core::machine::Named::as_str(standing.state), "the pod is brought up")
        }
        Some(PerformerPhase::Failed) if facts.invalid().is_some() => {
            Said::no(KIND, "WaitingForChange", "nothing is done until the spec is another")
        }
        Some(PerformerPhase::Failed) => Said::no(KIND, "BackOff", "it is tried again"),
        _ if status.failed_spec_hash.is_some() => {
            Said::no(KIND, "WaitingForChange", "the failed spec is not tried again")
        }
        _ => Said::no(KIND, "UpToDate", "the wanted spec serves"),
    }
}

fn degraded(wrong: Option<&Wrong>) -> Said {
    match wrong {
        Some((reason, message)) => Said::yes("Degraded", reason, message),
        None => Said::no("Degraded", "AsExpected", "nothing is wrong"),
    }
}

/// What people are told because a condition or the spec has changed.
fn transitions(facts: &Facts<'_>, status: &PerformerStatus) -> Vec<Notice> {
    let before = &facts.obs.status;
    let number = status.incarnation;
    let mut told = Vec::new();
    let reason = |status: &PerformerStatus, kind: &str| {
        of(&status.conditions, kind).map(|known| (known.status.clone(), known.reason.clone()))
    };
    let generation = facts.obs.meta.generation;
    if let Some(degraded) = of(&status.conditions, "Degraded").filter(|known| known.status == "True")
        && reason(before, "Degraded") != reason(status, "Degraded")
        && let Some(known) = REASONS.iter().find(|known| **known == degraded.reason)
    {
        told.push(Notice::warning(known, degraded.message.clone(), format!("{generation}/{number}")));
    }
    told.extend(contended(&before.conditions, &status.conditions, generation));
    if reason(before, "HardwareAvailable").is_some_and(|(status, _)| status == "False")
        && reason(status, "HardwareAvailable").is_some_and(|(status, _)| status == "True")
    {
        told.push(Notice::normal(
            "HardwareAvailable",
            "there is hardware for it now",
            format!("{generation}/{number}"),
        ));
    }
    if before.node_name.is_none() && status.node_name.is_some() {
        told.push(Notice::normal("Scheduled", "the pod has a node", number));
    }
    if before.observed_generation != status.observed_generation {
        let asked = facts.asked.iter().flat_map(remarks);
        told.extend(asked.map(|(reason, message)| Notice::warning(reason, message, generation)));
    }
    told.extend(executor(facts, status));
    told.extend(forbidden(&before.references, &status.references, generation));
    told
}

/// That the executor it names is missing, where that is news: the spec is another, or it was there.
fn executor(facts: &Facts<'_>, status: &PerformerStatus) -> Option<Notice> {
    let before = &facts.obs.status;
    let news = !before.executor_missing || before.observed_generation != status.observed_generation;
    let name = facts.obs.spec.as_ref().ok()?.executor_ref.as_ref().filter(|_| status.executor_missing && news)?;
    let message = format!("there is no HourglassExecutor `{name}` in this namespace; its scheduling is not taken over");
    Some(Notice::warning("ExecutorNotFound", message, facts.obs.meta.generation))
}

/// What may be other than whoever wrote a spec expects, though it is valid: reasons and messages.
pub(super) fn remarks(asked: &Rendered) -> impl Iterator<Item = (&'static str, String)> {
    let twice = duplicates(&asked.spec);
    let twice = (!twice.is_empty())
        .then(|| ("DuplicateEnvironment", format!("environmentFrom wins over environment for {}", twice.join(", "))));
    let notes = asked.notes().into_iter().map(|note| {
        let (reason, message) = match note {
            Note::Narrowed => ("Narrowed", "fewer nodes will do than asked for: the cluster has no words for the rest"),
            Note::RuntimeClassOverridden => {
                ("RuntimeClassOverridden", "the runtime class of the spec takes the place of the derived one")
            }
        };
        (reason, message.to_owned())
    });
    let named = asked.named.clone().map(|named| ("UnknownGpuModel", named));
    twice.into_iter().chain(notes).chain(named)
}

/// Reasons of `Degraded`, which are reasons of events too.
const REASONS: [&str; 17] = [
    "InvalidSpec",
    "Conflict",
    "SchedulingFailed",
    "HardwareUnavailable",
    "ImagePullFailed",
    "ContainerConfigError",
    "ContainerStartFailed",
    "ReadinessTimeout",
    "PodFailed",
    "PodDeleted",
    "Evicted",
    "NodeLost",
    "UpgradeFailed",
    "QuotaExceeded",
    "AdmissionRefused",
    "Forbidden",
    "RetriesExhausted",
];
