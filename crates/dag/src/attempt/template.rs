//! From a step's template to the Job of one attempt, in this order: decode, substitute, rewrite claims,
//! drop name, namespace, owners and status, default restart policy, set name, labels and annotations, merge the step's
//! metadata. Owns that order; starts nothing.

use std::collections::BTreeMap;

use orlop_core::attempt::Address;
use orlop_core::name::{self, short63};
use orlop_core::spec::step::Step;
use serde_json::{Map, Value, json};

use super::resource;
use crate::engine::FlowMeta;
use crate::params::{Scope, SubstituteError};
use crate::plan::Plan;

/// Prefix of all labels and annotations of flows.
const PREFIX: &str = "workflow.kube-zen.io";
/// Who manages the Jobs of flows, as it has always been called.
const MANAGER: &str = "zen-flow";

/// The attempt whose Job is built.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The plan of the flow.
    pub plan: &'a Plan,
    /// The data of the flow that were fixed at its submission.
    pub meta: &'a FlowMeta,
    /// The step or instance.
    pub at: Address,
    /// Number of the attempt.
    pub attempt: u32,
}

/// Why no Job can be made from a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// There is none, or it is not a Job.
    #[error("the step has no `template` that is a batch/v1 Job; add one")]
    NotAJob,
    /// A placeholder cannot be substituted.
    #[error("template.{0}")]
    Substitute(#[from] SubstituteError),
}

impl Subject<'_> {
    /// The step as the spec has it.
    #[must_use]
    pub fn step(&self) -> Option<&Step> {
        self.plan.step(self.at.step)
    }

    /// Whether the step is a function of the program: not a Manual step, and without a template.
    #[must_use]
    pub fn is_function(&self) -> bool {
        self.step().is_some_and(Step::is_function)
    }

    /// Name of the Job, given its spec for the length rule of indexed Jobs.
    #[must_use]
    pub fn job_name(&self, job: &Value) -> String {
        name::job(&self.meta.name, &self.plan.instance_name(self.at), &self.meta.uid, self.attempt, indexed(job))
    }

    /// The Job of the attempt, with its name. Secrets are in it as references only.
    ///
    /// # Errors
    /// When the step has no Job template or a placeholder in it cannot be substituted.
    pub fn job(&self, scope: &Scope) -> Result<(String, Value), TemplateError> {
        let template = self.step().and_then(|step| step.template.as_ref()).ok_or(TemplateError::NotAJob)?;
        self.finish(scope.fill_template(template)?)
    }

    /// The Job with its placeholders left as they are, for adopting an attempt whose parameters cannot be read any more.
    ///
    /// # Errors
    /// When the step has no Job template.
    pub fn unfilled_job(&self) -> Result<(String, Value), TemplateError> {
        let template = self.step().and_then(|step| step.template.as_ref()).ok_or(TemplateError::NotAJob)?;
        self.finish(template.clone())
    }

    fn finish(&self, mut job: Value) -> Result<(String, Value), TemplateError> {
        resource::rewrite_job(self.plan.spec(), &self.meta.name, &mut job);
        let name = self.job_name(&job);
        let members = job.as_object_mut().ok_or(TemplateError::NotAJob)?;
        members.remove("status");
        let spec = members.get_mut("spec").and_then(Value::as_object_mut).ok_or(TemplateError::NotAJob)?;
        // The engine deletes settled Jobs itself, so that no result is deleted unread.
        spec.remove("ttlSecondsAfterFinished");
        let pod = spec.get_mut("template").and_then(Value::as_object_mut).ok_or(TemplateError::NotAJob)?;
        self.mark(object(pod, "metadata"));
        let pod_spec = pod.get_mut("spec").and_then(Value::as_object_mut).ok_or(TemplateError::NotAJob)?;
        pod_spec.entry("restartPolicy").or_insert_with(|| json!("Never"));
        if let Some(own) = object(members, "metadata") {
            disown(own);
            own.insert("name".to_owned(), json!(name));
            own.insert("namespace".to_owned(), json!(self.meta.namespace));
            self.mark(Some(own));
            let extra = self.step().and_then(|step| step.metadata.as_ref());
            merge(own, "labels", extra.map(|extra| &extra.labels));
            merge(own, "annotations", extra.map(|extra| &extra.annotations));
        }
        Ok((name, job))
    }

    /// Sets the labels and annotations that every Job and pod of a flow carries.
    fn mark(&self, metadata: Option<&mut Map<String, Value>>) {
        let Some(metadata) = metadata else { return };
        let (flow, step) = (&self.meta.name, self.plan.name(self.at.step));
        if let Some(labels) = object(metadata, "labels") {
            for (key, value) in [
                ("flow", short63(flow)),
                ("step", short63(step)),
                ("managed-by", MANAGER.to_owned()),
                ("attempt", self.attempt.to_string()),
                ("flow-uid", self.meta.uid.clone()),
            ] {
                labels.insert(format!("{PREFIX}/{key}"), json!(value));
            }
            labels.entry("jobflow").or_insert_with(|| json!(short63(flow)));
        }
        if let Some(annotations) = object(metadata, "annotations") {
            annotations.insert(format!("{PREFIX}/flow-name"), json!(flow));
            annotations.insert(format!("{PREFIX}/step-name"), json!(step));
        }
    }
}

/// Completions of a Job in completion mode Indexed, whose name is shorter for the index in its pods' host names.
#[must_use]
pub fn indexed(job: &Value) -> Option<u32> {
    let spec = job.get("spec")?;
    (spec.get("completionMode")?.as_str()? == "Indexed").then(|| {
        let completions = spec.get("completions").and_then(Value::as_u64).unwrap_or(1);
        u32::try_from(completions).unwrap_or(u32::MAX)
    })
}

/// Members of a Job's metadata that its creator or its store sets.
const OWNED: [&str; 9] = [
    "generateName",
    "ownerReferences",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "finalizers",
];

/// Takes out of an object's metadata what its creator or its store sets, whatever a template says there.
pub fn disown(metadata: &mut Map<String, Value>) {
    for member in OWNED {
        metadata.remove(member);
    }
}

/// A member that is an object; anything else there is replaced by an empty one.
fn object<'m>(members: &'m mut Map<String, Value>, name: &str) -> Option<&'m mut Map<String, Value>> {
    let member = members.entry(name).or_insert(Value::Null);
    if !member.is_object() {
        *member = Value::Object(Map::new());
    }
    member.as_object_mut()
}

fn merge(metadata: &mut Map<String, Value>, name: &str, texts: Option<&BTreeMap<String, String>>) {
    let Some(texts) = texts.filter(|texts| !texts.is_empty()) else { return };
    if let Some(members) = object(metadata, name) {
        members.extend(texts.iter().map(|(key, value)| (key.clone(), json!(value))));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orlop_core::spec::flow::FlowSpec;
    use orlop_core::spec::meta::KeyRef;

    use super::*;

    fn plan(step: Value) -> Plan {
        let spec: FlowSpec = serde_json::from_value(json!({
            "steps": [step],
            "resourceTemplates": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
        }))
        .unwrap();
        Plan::build(Arc::new(spec)).unwrap()
    }

    fn meta() -> FlowMeta {
        FlowMeta { uid: "0123456789ab".into(), name: "etl".into(), namespace: "default".into(), ..FlowMeta::default() }
    }

    fn job(step: Value, scope: &Scope) -> Result<(String, Value), TemplateError> {
        let (plan, meta) = (plan(step), meta());
        Subject { plan: &plan, meta: &meta, at: Address::step(0), attempt: 2 }.job(scope)
    }

    // The expected Job is long, not the test.
    #[allow(clippy::too_many_lines)]
    #[test]
    fn jobs_are_built_in_the_order_of_the_contract() {
        let mut scope = Scope::new();
        scope.bind("claim", "data");
        scope.bind_secret("token", KeyRef { name: "vault".into(), key: "t".into(), optional: None });
        let (name, job) = job(
            json!({
                "name": "load",
                "metadata": {"labels": {"queue": "a", "own": "step"}, "annotations": {"note": "x"}},
                "template": {
                    "apiVersion": "batch/v1", "kind": "Job",
                    "metadata": {"name": "mine", "namespace": "theirs", "labels": {"own": "template"}, "ownerReferences": [{}]},
                    "spec": {
                        "ttlSecondsAfterFinished": 5, "backoffLimit": 0,
                        "template": {"metadata": {"labels": {"jobflow": "kept"}}, "spec": {
                            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "${parameters.claim}"}}],
                            "containers": [{"name": "main", "image": "i", "env": [{"name": "T", "value": "${parameters.token}"}]}],
                        }},
                    },
                    "status": {"succeeded": 1},
                },
            }),
            &scope,
        )
        .unwrap();
        assert_eq!(name, "etl-load-01234567-2");
        insta::assert_json_snapshot!(job, @r#"
        {
          "apiVersion": "batch/v1",
          "kind": "Job",
          "metadata": {
            "annotations": {
              "note": "x",
              "workflow.kube-zen.io/flow-name": "etl",
              "workflow.kube-zen.io/step-name": "load"
            },
            "labels": {
              "jobflow": "etl",
              "own": "step",
              "queue": "a",
              "workflow.kube-zen.io/attempt": "2",
              "workflow.kube-zen.io/flow": "etl",
              "workflow.kube-zen.io/flow-uid": "0123456789ab",
              "workflow.kube-zen.io/managed-by": "zen-flow",
              "workflow.kube-zen.io/step": "load"
            },
            "name": "etl-load-01234567-2",
            "namespace": "default"
          },
          "spec": {
            "backoffLimit": 0,
            "template": {
              "metadata": {
                "annotations": {
                  "workflow.kube-zen.io/flow-name": "etl",
                  "workflow.kube-zen.io/step-name": "load"
                },
                "labels": {
                  "jobflow": "kept",
                  "workflow.kube-zen.io/attempt": "2",
                  "workflow.kube-zen.io/flow": "etl",
                  "workflow.kube-zen.io/flow-uid": "0123456789ab",
                  "workflow.kube-zen.io/managed-by": "zen-flow",
                  "workflow.kube-zen.io/step": "load"
                }
              },
              "spec": {
                "containers": [
                  {
                    "env": [
                      {
                        "name": "T",
                        "valueFrom": {
                          "secretKeyRef": {
                            "key": "t",
                            "name": "vault"
                          }
                        }
                      }
                    ],
                    "image": "i",
                    "name": "main"
                  }
                ],
                "restartPolicy": "Never",
                "volumes": [
                  {
                    "name": "v",
                    "persistentVolumeClaim": {
                      "claimName": "etl-data"
                    }
                  }
                ]
              }
            }
          }
        }
        "#);
    }

    #[test]
    fn indexed_jobs_leave_room_for_the_index() {
        let step = json!({"name": "a.b", "template": {"spec": {"completionMode": "Indexed", "completions": 12, "template": {"spec": {}}}}});
        let (name, _) = job(step, &Scope::new()).unwrap();
        assert!(name.starts_with("etl-a-b-") && name.ends_with("-01234567-2"), "{name}");
    }

    #[test]
    fn what_is_no_job_is_refused() {
        for template in [json!(null), json!("x"), json!({}), json!({"spec": {"template": {"spec": 1}}})] {
            assert_eq!(job(json!({"name": "a", "template": template}), &Scope::new()), Err(TemplateError::NotAJob));
        }
    }

    #[test]
    fn a_parameter_without_value_is_named_with_its_place() {
        let mut scope = Scope::new();
        scope.bind("known", "x");
        let container = json!({"name": "main", "image": "${parameters.unknown}"});
        let step = json!({"name": "a", "template": {"spec": {"template": {"spec": {"containers": [container]}}}}});
        insta::assert_snapshot!(job(step, &scope).unwrap_err(), @"template.spec.template.spec.containers[0].image: parameter `unknown` has no value; declare it as a flow parameter or an input of the step");
    }
}
