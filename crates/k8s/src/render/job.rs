//! The Job of one attempt on Kubernetes: what every substrate builds, with an owner, the mark of its instance, and the file
//! of its output. Owns those additions and the cases that are refused.

use orlop_core::attempt::AttemptSpec;
use orlop_core::helper::TooLong;
use orlop_core::ports::substrate::FlowOwner;
use orlop_core::spec::artifact::ArtifactStore;
use serde_json::{Map, Value, json};

use super::helper::{self, HelperOptions, SharedArtifacts};
use super::{key, object, own};

/// Annotation of a Job of a fan-out instance and of its pods: the name of the instance, from which its address follows.
pub const INSTANCE: &str = "workflow.kube-zen.io/instance";

/// Annotation of a Job and its pods: the concurrency keys that their flow holds, as a list. A key outlives flow and operator by it.
pub const HOLDS_KEY: &str = "workflow.kube-zen.io/holds-key";

/// Why an attempt has no Job on Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// What was built is not a Job.
    #[error("the template is not a batch/v1 Job")]
    NotAJob,
    /// Its files must be moved by a program in the pod.
    #[error(
        "{0} are moved by a program inside the pod, which this operator does not place: start it with --helper-image and \
         --artifact-url, or use one output `path` or a `jsonPath`"
    )]
    NeedsHelper(&'static str),
    /// Something of the pod has a name or a path of the helper.
    #[error(
        "the {0} `{1}` of the template is where the helper that moves files has its own; call yours something else"
    )]
    Taken(&'static str, String),
    /// There is nothing for the helper to run.
    #[error("a step whose outputs the helper collects must say its command: the helper runs it")]
    NoCommand,
    /// Several pods would store the same artifacts.
    #[error(
        "{0} pods of the Job would each store the artifacts of the step at one place; set `completionMode: Indexed` in its \
         template: the pod of index 0 gives them then"
    )]
    Several(i64),
    /// An input cannot be put where it is wanted.
    #[error("input artifact {input} has no place at {path}: {why}")]
    NoPlace {
        /// Name of the input.
        input: String,
        /// Where it is wanted.
        path: String,
        /// What is in the way, and what to do.
        why: String,
    },
    /// An input is where pods do not reach.
    #[error(
        "input artifact {input} is stored in {location}, which pods of this cluster do not reach; run its step again"
    )]
    Unavailable {
        /// Name of the input.
        input: String,
        /// Where it is.
        location: String,
    },
    /// The store cannot be used.
    #[error("{0} cannot be used as artifact store: {1}")]
    NoStore(&'static str, &'static str),
    /// What the helper must be told does not fit.
    #[error(transparent)]
    TooLong(TooLong),
}

impl RenderError {
    /// The reason of the step.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "ArtifactUnavailable",
            _ => "TemplateInvalid",
        }
    }
}

/// What moves files of attempts, and the flow's own store of artifacts.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArtifactTransfer<'a> {
    /// The helper; none where there is none.
    pub helper: Option<&'a HelperOptions>,
    /// The store.
    pub store: Option<&'a ArtifactStore>,
    /// Artifacts of the flow that stay where they are.
    pub shared: Option<&'a SharedArtifacts>,
}

/// The Job that is created for an attempt.
///
/// # Errors
/// When it cannot be made a Job of this cluster.
pub fn job(spec: &AttemptSpec, owner: &FlowOwner, transfer: ArtifactTransfer<'_>) -> Result<Value, RenderError> {
    let mut job = spec.template.as_ref().clone();
    let members = job.as_object_mut().ok_or(RenderError::NotAJob)?;
    members.insert("apiVersion".to_owned(), json!("batch/v1"));
    members.insert("kind".to_owned(), json!("Job"));
    if let Some(job) = object(members, "spec") {
        run_once(job);
    }
    let metadata = object(members, "metadata").ok_or(RenderError::NotAJob)?;
    own(metadata, owner, &spec.job_name);
    let instance = spec.key.item.map(|_| spec.key.instance());
    if let Some(instance) = &instance {
        mark_instance(metadata, instance);
        // Whoever reads the log of a pod sees no Job.
        let pod = job.pointer_mut("/spec/template").and_then(Value::as_object_mut);
        if let Some(metadata) = pod.and_then(|pod| object(pod, "metadata")) {
            mark_instance(metadata, instance);
        }
    }
    match (helper::wanted(spec), transfer.helper, spec.output_files.as_slice()) {
        (Some(files), None, _) => return Err(RenderError::NeedsHelper(files)),
        (Some(_), Some(helper), _) => helper::place(&mut job, spec, helper, transfer)?,
        (None, _, [file]) => catch_file(&mut job, &file.path)?,
        (None, ..) => {}
    }
    Ok(job)
}

/// Notes on a Job and its pods the concurrency key that their flow holds.
pub fn hold(job: &mut Value, concurrency_key: &str) {
    let keys = json!([concurrency_key]).to_string();
    for place in ["", "/spec/template"] {
        let owner = job.pointer_mut(place).and_then(Value::as_object_mut).and_then(|owner| object(owner, "metadata"));
        if let Some(annotations) = owner.and_then(|metadata| object(metadata, "annotations")) {
            annotations.insert(HOLDS_KEY.to_owned(), json!(keys));
        }
    }
}

/// A Job that does not say how often its pod is tried again does not try it again: so it is everywhere, and a step has its own
/// `retryPolicy`. A pod that its cluster takes away, such as from a node that is drained, has not failed.
fn run_once(spec: &mut Map<String, Value>) {
    let says = |spec: &Map<String, Value>, member: &str| spec.get(member).is_some_and(|value| !value.is_null());
    if says(spec, "backoffLimit") || says(spec, "backoffLimitPerIndex") {
        return;
    }
    spec.insert("backoffLimit".to_owned(), json!(0));
    let pod = spec.get("template").and_then(|template| template.pointer("/spec/restartPolicy"));
    if pod.and_then(Value::as_str) == Some("Never") && !says(spec, "podFailurePolicy") {
        let taken = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
        spec.insert("podFailurePolicy".to_owned(), json!({ "rules": [taken] }));
    }
}

fn mark_instance(metadata: &mut Map<String, Value>, instance: &str) {
    if let Some(annotations) = object(metadata, "annotations") {
        annotations.insert(key("instance"), json!(instance));
    }
}

/// The one output file is what the first container leaves as termination message.
fn catch_file(job: &mut Value, path: &str) -> Result<(), RenderError> {
    let container = job.pointer_mut("/spec/template/spec/containers/0").and_then(Value::as_object_mut);
    let container = container.ok_or(RenderError::NotAJob)?;
    container.insert("terminationMessagePath".to_owned(), json!(path));
    container.insert("terminationMessagePolicy".to_owned(), json!("File"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orlop_core::attempt::{AttemptKey, OutputFile};

    use super::*;

    fn spec(template: Value, files: &[&str]) -> AttemptSpec {
        let file = |path: &&str| OutputFile { name: "out".into(), path: (*path).to_owned() };
        AttemptSpec {
            function: None,
            key: AttemptKey { flow: "u1".into(), step: "work".into(), item: Some(3), attempt: 1 },
            flow_name: "etl".into(),
            namespace: "default".into(),
            job_name: "etl-work-i3-u1".into(),
            template: Arc::new(template),
            inputs: vec![],
            output_files: files.iter().map(file).collect(),
            output_artifacts: vec![],
        }
    }

    fn owner() -> FlowOwner {
        FlowOwner { uid: "u1".into(), name: "etl".into(), namespace: "default".into() }
    }

    fn template(container: Value) -> Value {
        json!({"spec": {"template": {"spec": {"containers": [container]}}}})
    }

    #[test]
    fn a_pod_is_tried_once_where_the_template_does_not_say_more() {
        let of = |members: Value| {
            let mut template = template(json!({"name": "main"}));
            for (name, member) in members.as_object().unwrap() {
                template["spec"][name] = member.clone();
            }
            let job = job(&spec(template, &[]), &owner(), ArtifactTransfer::default()).unwrap();
            (job["spec"]["backoffLimit"].clone(), job["spec"]["podFailurePolicy"]["rules"][0]["action"].clone())
        };
        let pod = |restarts: &str| json!({"spec": {"restartPolicy": restarts, "containers": [{"name": "main"}]}});
        assert_eq!(of(json!({"template": pod("Never")})), (json!(0), json!("Ignore")));
        assert_eq!(of(json!({"backoffLimit": null, "template": pod("Never")})), (json!(0), json!("Ignore")));
        assert_eq!(
            of(json!({"template": pod("OnFailure")})),
            (json!(0), Value::Null),
            "a policy needs pods that never restart"
        );
        assert_eq!(of(json!({"backoffLimit": 6, "template": pod("Never")})), (json!(6), Value::Null));
        assert_eq!(of(json!({"backoffLimitPerIndex": 1, "template": pod("Never")})), (Value::Null, Value::Null));
        let own = json!({"rules": [{"action": "FailJob"}]});
        assert_eq!(of(json!({"podFailurePolicy": own, "template": pod("Never")})), (json!(0), json!("FailJob")));
    }

    #[test]
    fn a_job_belongs_to_its_flow_and_names_its_instance() {
        let spec = spec(template(json!({"name": "main"})), &["/out/file"]);
        let job = job(&spec, &owner(), ArtifactTransfer::default()).unwrap();
        insta::assert_json_snapshot!(job, @r#"
        {
          "apiVersion": "batch/v1",
          "kind": "Job",
          "metadata": {
            "annotations": {
              "workflow.kube-zen.io/instance": "work-i3"
            },
            "name": "etl-work-i3-u1",
            "namespace": "default",
            "ownerReferences": [
              {
                "apiVersion": "workflow.kube-zen.io/v1alpha1",
                "blockOwnerDeletion": true,
                "controller": true,
                "kind": "JobFlow",
                "name": "etl",
                "uid": "u1"
              }
            ]
          },
          "spec": {
            "backoffLimit": 0,
            "template": {
              "metadata": {
                "annotations": {
                  "workflow.kube-zen.io/instance": "work-i3"
                }
              },
              "spec": {
                "containers": [
                  {
                    "name": "main",
                    "terminationMessagePath": "/out/file",
                    "terminationMessagePolicy": "File"
                  }
                ]
              }
            }
          }
        }
        "#);
    }

    #[test]
    fn files_that_need_a_program_in_the_pod_are_refused() {
        let own = template(json!({"name": "main", "terminationMessagePath": "/mine"}));
        for (template, files) in [(own, vec!["/a"]), (template(json!({"name": "main"})), vec!["/a", "/b"])] {
            assert!(matches!(
                job(&spec(template, &files), &owner(), ArtifactTransfer::default()),
                Err(RenderError::NeedsHelper(_))
            ));
        }
        assert_eq!(job(&spec(json!([]), &[]), &owner(), ArtifactTransfer::default()), Err(RenderError::NotAJob));
    }
}
