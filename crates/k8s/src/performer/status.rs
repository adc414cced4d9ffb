//! What is written about a performer, and the plan as a whole. Owns the fields that follow from what is decided,
//! the conditions, and the order of effects: durable intent first, outside action second, what has happened last.

use orlop_core::hardware::placement::Note;
use orlop_core::hardware::table::LabelFamily;
use orlop_core::machine::performer::{MACHINE, PerformerPhase, PerformerState as State};
use orlop_core::time::Time;

use super::decide::{CREATED, Decision};
use super::facts::Facts;
use super::render::{Rendered, duplicates};
use super::state::{IMAGE_CHANGED, Observed, observed_state};
use crate::api::Kind;
use crate::hardware::{self, availability};
use crate::hourglass::children::lifecycle_path;
use crate::hourglass::condition::{self, NewCondition, conditions, contended, new_problem, of};
use crate::hourglass::last_applied::Child;
use crate::hourglass::names;
use crate::hourglass::plan::{Effect, Notice, Plan, Requeue};
use crate::hourglass::reference::forbidden;
use crate::hourglass::spec::PerformerStatus;

/// The plan that carries a decision out.
pub(super) fn finish(facts: &Facts<'_>, mut decision: Decision) -> Plan {
    decision.actions = unblocked_effects(facts, std::mem::take(&mut decision.actions));
    let hardware = hardware_condition(facts, &decision);
    let observed = observed_state(facts, &decision, &hardware);
    decision.at(observed.due);
    let status = complete(facts, &decision, &observed, hardware);
    let mut notices = std::mem::take(&mut decision.notices);
    notices.extend(transitions(facts, &status));
    let write = Effect::write_status(&facts.obs.stored, &status);
    let mut effects: Vec<Effect> = Vec::new();
    let actions = std::mem::take(&mut decision.actions);
    // Events are recorded after what is done, and before the status that completes it.
    let events = if write.is_some() { notices } else { Vec::new() };
    let (created, events): (Vec<Notice>, Vec<Notice>) = events.into_iter().partition(|notice| notice.reason == CREATED);
    let (created, events) = (created.into_iter().map(Effect::RecordEvent), events.into_iter().map(Effect::RecordEvent));
    let path =
        write.as_ref().map_or(Some(Vec::new()), |_| lifecycle_path(&MACHINE, facts.obs.status.state, status.state));
    if decision.status_first {
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
    let reserves_name = status.incarnation > facts.obs.status.incarnation;
    Plan { effects, requeue, unblocked: decision.unblocked, reserves_name, ..Plan::default() }.with_path(path)
}

/// What may be done while something is wrong: up to what could not be done, which is tried again in its time. Where that is
/// a pod, or what it needs, others that are left over go all the same.
fn unblocked_effects(facts: &Facts<'_>, actions: Vec<Effect>) -> Vec<Effect> {
    let Some(at) = facts.last_failure().and_then(|failure| failure.at.as_ref()) else { return actions };
    let mut over = None;
    let mut may = |effect: &Effect| {
        if over.is_none() && effect.child().as_ref() == Some(at) {
            over = Some(matches!(effect, Effect::Create(kind, _) if *kind != Kind::Service));
        }
        over.is_none_or(|makes| makes && matches!(effect, Effect::Delete { .. }))
    };
    actions.into_iter().filter(|effect| may(effect)).collect()
}

/// Whether there is hardware for what is wanted.
fn hardware_condition(facts: &Facts<'_>, decision: &Decision) -> NewCondition {
    const KIND: &str = "HardwareAvailable";
    let unknown = |message: &str| NewCondition::unknown(KIND, "NodesNotReadable", message);
    let candidate = decision.status.candidate.as_ref().and_then(|known| facts.rendered(&known.spec_hash));
    let Some(wanted) = candidate.or_else(|| facts.wanted()) else {
        return NewCondition::unknown(
            KIND,
            "InvalidSpec",
            "the spec does not contain hardware requirements that can be read",
        );
    };
    if !wanted.special && wanted.merged.runtime_class.is_none() {
        return NewCondition::yes(KIND, "NotRequired", "no special hardware is requested");
    }
    let cluster = &facts.obs.cluster;
    if let (Some(class), Some(classes)) = (&wanted.merged.runtime_class, &cluster.runtime_classes)
        && !classes.contains_key(class)
    {
        return NewCondition::no(
            KIND,
            "RuntimeClassMissing",
            format!("runtime class `{class}` does not exist; install it"),
        );
    }
    let claim = wanted.merged.claims.first();
    if claim.is_some() && cluster.devices.classes.is_none() {
        return unknown("the operator may not read device classes");
    }
    let there = |class: &String| cluster.devices.classes.as_ref().is_some_and(|classes| classes.contains(class));
    if let Some(claim) = claim.filter(|claim| !there(&claim.class)) {
        return NewCondition::no(
            KIND,
            "DeviceClassMissing",
            format!("device class `{}` does not exist; install its driver", claim.class),
        );
    }
    if !wanted.special {
        return NewCondition::yes(KIND, "NotRequired", "no special hardware is requested");
    }
    let Ok(merged) = wanted.under(cluster) else {
        return NewCondition::unknown(KIND, "InvalidSpec", "the runtime class contradicts the last good spec");
    };
    if cluster.nodes.is_none() {
        return unknown("the operator may not read nodes");
    }
    let found = availability(&merged, &cluster.hosts());
    let reason = hardware::Reason::as_str(found.reason);
    let named = wanted.named.map(|named| format!("; {named}")).unwrap_or_default();
    match found.available {
        // Without numbers, which change as nodes come and go.
        true => NewCondition::yes(KIND, reason, format!("ready nodes have the requested hardware{named}")),
        false => NewCondition::no(KIND, reason, found.message + &by_labels(&wanted.families) + &named),
    }
}

/// Whose labels were looked at, where they are not the vendors' own alone.
fn by_labels(families: &[LabelFamily]) -> String {
    let names: Vec<String> = families.iter().map(ToString::to_string).collect();
    if names.len() > 1 { format!(", by labels of {}", names.join(", ")) } else { String::new() }
}

/// The status with everything that follows from what is decided.
fn complete(facts: &Facts<'_>, decision: &Decision, observed: &Observed, hardware: NewCondition) -> PerformerStatus {
    let mut status = decision.status.clone();
    let meta = &facts.obs.meta;
    let active = status.active.as_ref().and_then(|active| facts.pod(active.incarnation));
    let shown = active.or_else(|| facts.pod(status.candidate.as_ref()?.incarnation));
    // A switch that is decided is carried out before this is written.
    let selected = decision
        .actions
        .iter()
        .any(|effect| matches!(effect, Effect::Create(Kind::Service, _) | Effect::Apply(Kind::Service, _)));
    let has_service = facts.service.object.is_some() || selected;
    let misrouted = active.filter(|child| child.pod.ready && !selected).and_then(|child| facts.misrouted(child));
    let ready = active.filter(|child| child.pod.ready && has_service && misrouted.is_none());
    status.state = Some(observed.state);
    status.phase = observed.state.phase();
    status.observed_generation = Some(meta.generation);
    status.ready = Some(ready.is_some());
    status.ready_time = ready.and_then(|child| child.pod.ready_since()).map(Time::whole_seconds);
    status.pod_name = shown.map(|child| child.pod.name.clone());
    status.node_name = shown.and_then(|child| child.pod.node.clone());
    let service = has_service.then(|| names::service(super::CONTAINER, &meta.name));
    let port = status.active.as_ref().and_then(|known| Some(facts.service_spec(&known.spec_hash, active)?.port));
    let port = port.or_else(|| Some(facts.wanted()?.spec.config.grpc_port));
    status.host = service.as_ref().map(|name| format!("{name}.{}.svc.{}", meta.namespace, facts.config.cluster_domain));
    status.grpc_endpoint = status.host.as_ref().zip(port).map(|(host, port)| format!("{host}:{port}"));
    status.service_name = service;
    if let (Some(active), Ok(desired), Ok(spec)) = (&status.active, &facts.desired, &facts.obs.spec)
        && active.spec_hash == desired.hash
    {
        status.version.clone_from(&spec.version);
    }
    if let Some(child) = active {
        let changed = facts.changed_image(child).map(|changed| changed.image);
        status.image = changed.or_else(|| facts.spec_image(child)).or(status.image);
    }
    let available = available(&status, active.is_some_and(|child| child.pod.is_live()), misrouted);
    let (progressing, degraded) =
        (progressing(&status, facts, observed), condition::degraded(observed.problem.as_ref()));
    let service = facts.service.object.zip(decision.service.as_ref());
    let children: Vec<Child<'_>> =
        service.map(|(live, wanted)| Child { kind: Kind::Service, live, wanted }).into_iter().collect();
    let contended = facts.obs.last_applied.contended(&children, &facts.obs.status.conditions, facts.now);
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

fn available(status: &PerformerStatus, live: bool, misrouted: Option<String>) -> NewCondition {
    const KIND: &str = "Available";
    if let Some(message) = misrouted {
        return NewCondition::no(KIND, "ServiceMisrouted", message);
    }
    match (status.ready, live, &status.service_name) {
        (Some(true), ..) => NewCondition::yes(KIND, "PodReady", "a ready pod is serving"),
        (_, true, None) => NewCondition::no(KIND, "ServiceMissing", "the Service does not exist"),
        (_, true, _) => NewCondition::no(KIND, "NotReady", "the serving pod is not ready"),
        (_, false, _) => NewCondition::no(KIND, "NoReadyPod", "no pod is serving"),
    }
}

fn progressing(status: &PerformerStatus, facts: &Facts<'_>, observed: &Observed) -> NewCondition {
    const KIND: &str = "Progressing";
    match status.phase {
        Some(PerformerPhase::Upgrading) => {
            let message =
                if observed.state == State::PodRecreation { "a new pod is starting" } else { "the spec has changed" };
            NewCondition::yes(KIND, "UpgradeInProgress", message)
        }
        Some(PerformerPhase::Creating | PerformerPhase::Pending) => {
            NewCondition::yes(KIND, orlop_core::machine::Named::as_str(observed.state), "the pod is starting")
        }
        Some(PerformerPhase::Failed) if facts.invalid().is_some() => {
            NewCondition::no(KIND, "WaitingForChange", "waiting for a change of the spec")
        }
        Some(PerformerPhase::Failed) => NewCondition::no(KIND, "BackOff", "retrying"),
        _ if status.failed_spec_hash.is_some() => {
            NewCondition::no(KIND, "WaitingForChange", "the failed spec is not retried")
        }
        _ if observed.problem.as_ref().is_some_and(|(reason, _)| reason == IMAGE_CHANGED) => {
            NewCondition::no(KIND, "WaitingForChange", "the serving pod no longer matches the spec")
        }
        _ => NewCondition::no(KIND, "UpToDate", "the current spec is serving"),
    }
}

/// Events for changed conditions and specs.
fn transitions(facts: &Facts<'_>, status: &PerformerStatus) -> Vec<Notice> {
    let before = &facts.obs.status;
    let number = status.incarnation;
    let mut notices = Vec::new();
    let reason = |status: &PerformerStatus, kind: &str| {
        of(&status.conditions, kind).map(|known| (known.status.clone(), known.reason.clone()))
    };
    let generation = facts.obs.meta.generation;
    notices.extend(new_problem(&before.conditions, &status.conditions, &REASONS, format!("{generation}/{number}")));
    notices.extend(contended(&before.conditions, &status.conditions, generation));
    if reason(before, "HardwareAvailable").is_some_and(|(status, _)| status == "False")
        && reason(status, "HardwareAvailable").is_some_and(|(status, _)| status == "True")
    {
        notices.push(Notice::normal(
            "HardwareAvailable",
            "matching hardware is available now",
            format!("{generation}/{number}"),
        ));
    }
    if before.node_name.is_none() && status.node_name.is_some() {
        notices.push(Notice::normal("Scheduled", "the pod has a node", number));
    }
    if before.observed_generation != status.observed_generation {
        let desired = facts.desired.iter().flat_map(warnings);
        notices.extend(desired.map(|(reason, message)| Notice::warning(reason, message, generation)));
    }
    notices.extend(executor(facts, status));
    notices.extend(forbidden(&before.references, &status.references, generation));
    notices
}

/// That the executor it names is missing, where that is news: the spec is another, or it was there.
fn executor(facts: &Facts<'_>, status: &PerformerStatus) -> Option<Notice> {
    let before = &facts.obs.status;
    let news = !before.executor_missing || before.observed_generation != status.observed_generation;
    let name = facts.obs.spec.as_ref().ok()?.executor_ref.as_ref().filter(|_| status.executor_missing && news)?;
    let message = format!("HourglassExecutor `{name}` not found in this namespace; its scheduling is not used");
    Some(Notice::warning("ExecutorNotFound", message, facts.obs.meta.generation))
}

/// What may surprise the author of a valid spec: reasons and messages.
pub(super) fn warnings(desired: &Rendered) -> impl Iterator<Item = (&'static str, String)> {
    let twice = duplicates(&desired.spec);
    let twice = (!twice.is_empty())
        .then(|| ("DuplicateEnvironment", format!("environmentFrom wins over environment for {}", twice.join(", "))));
    let notes = desired.notes().into_iter().map(|note| {
        let (reason, message) = match note {
            Note::Narrowed => ("Narrowed", "fewer nodes match than requested: the cluster has no labels for the rest"),
            Note::RuntimeClassOverridden => {
                ("RuntimeClassOverridden", "the runtime class of the spec overrides the derived one")
            }
        };
        (reason, message.to_owned())
    });
    let named = desired.named.clone().map(|named| ("UnknownGpuModel", named));
    twice.into_iter().chain(notes).chain(named)
}

/// Reasons of `Degraded`, which are reasons of events too.
const REASONS: [&str; 18] = [
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
    IMAGE_CHANGED,
    "QuotaExceeded",
    "AdmissionRefused",
    "Forbidden",
    "RetriesExhausted",
];
