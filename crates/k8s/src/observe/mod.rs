//! From a Job and its pods to the end of an attempt. Only the conditions `Complete` and `Failed` of a Job end its attempt. Sends no
//! requests.

mod pods;
mod report;
#[cfg(test)]
mod tests;

use orlop_core::attempt::{Address, AttemptEnd, EndResult};
use orlop_core::helper::Content;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::step::Step;
use orlop_core::time::Time;
use orlop_dag::engine::{FlowMeta, ObservedAttempt};
use orlop_dag::params::{OutputSource, output_source};
use orlop_dag::plan::Plan;
use serde_json::{Value, json};

use crate::render::INSTANCE;
use crate::render::helper::HelperAnnotation;
use report::HelperOutcome;

/// Annotation with the full name of a Job's step.
const STEP_NAME: &str = "workflow.kube-zen.io/step-name";
/// Label with the number of a Job's attempt.
const ATTEMPT: &str = "workflow.kube-zen.io/attempt";

/// How a Job came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conclusion {
    /// Complete, or why it Failed: one word and a sentence, the Job's own.
    pub result: EndResult,
    /// When, as far as it says so.
    pub at: Option<Time>,
}

/// How a Job came out; none while it is under way. Counters, phases of pods and the conditions that announce an end do not
/// count.
#[must_use]
pub(crate) fn conclusion(job: &Value) -> Option<Conclusion> {
    let conditions = job.pointer("/status/conditions")?.as_array()?;
    let text =
        |condition: &Value, name: &str| condition.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let holds = |condition: &&Value| condition.get("status").and_then(Value::as_str) == Some("True");
    conditions.iter().filter(holds).find_map(|condition| {
        let result = match condition.get("type")?.as_str()? {
            "Complete" => EndResult::Succeeded,
            "Failed" => EndResult::Failed { reason: text(condition, "reason"), message: text(condition, "message") },
            _ => return None,
        };
        let completed = job.pointer("/status/completionTime").and_then(Value::as_str);
        let completed = completed.filter(|_| result == EndResult::Succeeded).map(str::to_owned);
        let at = completed.unwrap_or_else(|| text(condition, "lastTransitionTime")).parse().ok();
        Some(Conclusion { result, at })
    })
}

/// Whether what an attempt gives, or what its failure means, stands in its pods.
#[must_use]
pub(crate) fn needs_pods(plan: &Plan, at: Address, conclusion: &Conclusion) -> bool {
    let rules = plan.spec().execution_policy.as_ref().is_some_and(|policy| policy.pod_failure_policy.is_some());
    let failed = conclusion.result != EndResult::Succeeded;
    let reads = |path: &str| path.contains("termination");
    let output = |step: &Step| {
        step.output_parameters().iter().any(|output| match output_source(output) {
            Ok(OutputSource::File(_)) => true,
            Ok(OutputSource::Path(path)) => reads(&path.to_string()),
            Err(_) => false,
        })
    };
    let files = |step: &Step| !step.input_artifacts().is_empty() || !step.output_artifacts().is_empty();
    (failed && rules)
        || plan.step(at.step).is_some_and(files)
        || plan.step(at.step).is_some_and(output)
        || plan.projections(at.step).iter().any(|path| reads(path))
}

/// What is left of an attempt beside its Job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttemptPods {
    /// Its pods.
    pub pods: Vec<Value>,
    /// The report of the helper, where it did not fit into a termination message: see [`handed_in`].
    pub report: Option<String>,
}

/// The ConfigMap with the report of an attempt, where it did not fit into a termination message, and what it must be.
#[must_use]
pub fn handed_in(job: &Value, pods: &[Value]) -> Option<(String, Content)> {
    report::elsewhere(&HelperAnnotation::of(job)?, pods::termination(job, pods).as_ref())
}

/// The end of an attempt, from its Job and its pods. `now` is when it was seen.
#[must_use]
pub fn end(step: Option<&Step>, job: &Value, left: &AttemptPods, conclusion: Conclusion, now: Time) -> AttemptEnd {
    let pods = left.pods.as_slice();
    let mut termination = pods::termination(job, pods);
    let given = match HelperAnnotation::of(job) {
        Some(annotation) => report::helper_outcome(step, &annotation, &conclusion.result, &mut termination, left),
        None => {
            let files = step.map(|step| pods::files(step, termination.as_ref())).unwrap_or_default();
            HelperOutcome { files, ..HelperOutcome::default() }
        }
    };
    let mut document = json!({"metadata": job.get("metadata"), "spec": job.get("spec"), "status": job.get("status")});
    if let (Some(termination), Some(members)) = (&termination, document.as_object_mut()) {
        members.insert("termination".to_owned(), termination.to_value());
    }
    let failed_pods = if conclusion.result == EndResult::Succeeded { Vec::new() } else { pods::failed(pods) };
    AttemptEnd {
        result: given.instead.unwrap_or(conclusion.result),
        document,
        failed_pods,
        files: given.files,
        artifacts: given.artifacts,
        ended_at: conclusion.at.unwrap_or(now),
    }
}

/// Whose an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The flow's.
    Ours,
    /// It belongs to another owner, in words.
    Foreign(String),
}

/// Whose an object is: that of its controller owner.
#[must_use]
pub fn owner(object: &Value, uid: &str) -> Ownership {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let text = |owner: &Value, name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let controller = owners.into_iter().find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true));
    match controller {
        Some(owner) if text(owner, "uid") == uid => Ownership::Ours,
        Some(owner) => {
            let (kind, name, uid) = (text(owner, "kind"), text(owner, "name"), text(owner, "uid"));
            Ownership::Foreign(format!("{kind} `{name}` with uid {uid}"))
        }
        None => Ownership::Foreign("nobody".to_owned()),
    }
}

/// A Job, as statuses refer to it.
#[must_use]
pub fn reference(object: &Value) -> ObjectReference {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    ObjectReference {
        api_version: text("/apiVersion"),
        kind: text("/kind"),
        name: text("/metadata/name"),
        namespace: text("/metadata/namespace"),
        uid: text("/metadata/uid"),
    }
}

/// The step or instance, and the attempt, that a Job or a pod says it is of.
pub(crate) fn step_and_attempt(object: &Value) -> Option<(&str, u32)> {
    let annotations = object.pointer("/metadata/annotations")?;
    let annotation = |key: &str| annotations.get(key).and_then(Value::as_str);
    let step = annotation(INSTANCE).or_else(|| annotation(STEP_NAME))?;
    let number =
        object.pointer("/metadata/labels")?.get(ATTEMPT)?.as_str()?.parse().ok().filter(|number| *number > 0)?;
    Some((step, number))
}

/// The attempt a Job of a flow is. None for Jobs of no step the plan knows, and for those whose name is not that of what
/// they say they are.
#[must_use]
pub fn attempt(plan: &Plan, meta: &FlowMeta, job: &Value) -> Option<ObservedAttempt> {
    let (step, number) = step_and_attempt(job)?;
    let at = plan.address_of(step)?;
    let subject = orlop_dag::attempt::Subject { plan, meta, at, attempt: number };
    let reference = ObjectReference { api_version: "batch/v1".to_owned(), kind: "Job".to_owned(), ..reference(job) };
    (reference.name == subject.job_name(job)).then_some(ObservedAttempt { at, attempt: number, reference })
}
