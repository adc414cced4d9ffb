//! The table. A key is a field path below `template.spec` without indices; what the table does
//! not name is ignored.

use serde_json::Value;

/// The support for a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldSupport {
    /// It works as on Kubernetes.
    Honoured,
    /// It has no effect; a warning says so.
    Ignored,
    /// The flow is refused.
    Refused,
}

/// When a row is about a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Always.
    Set,
    /// For true.
    True,
    /// For a list or mapping with members.
    Filled,
    /// For the text `Always`.
    Always,
}

impl When {
    pub(super) fn matches(self, value: &Value) -> bool {
        match self {
            Self::Set => true,
            Self::True => value == &Value::Bool(true),
            Self::Filled => {
                value.as_array().is_some_and(|list| !list.is_empty())
                    || value.as_object().is_some_and(|map| !map.is_empty())
            }
            Self::Always => value.as_str() == Some("Always"),
        }
    }
}

/// What the table says of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Its members have rows of their own.
    Inside,
    /// By runtime, for some values; honoured for the others.
    Fields { process: FieldSupport, docker: FieldSupport, when: When },
    /// Picks a machine: honoured by a fleet, else ignored.
    Placement,
    /// Refused for these values, unless a container engine may give privileges.
    Privilege(When),
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) key: &'static str,
    pub(super) answer: Answer,
    /// Why, where the field's name does not say it.
    pub(super) why: Option<&'static str>,
}

const fn fields(key: &'static str, process: FieldSupport, docker: FieldSupport, when: When) -> Row {
    Row { key, answer: Answer::Fields { process, docker, when }, why: None }
}

const fn honoured(key: &'static str) -> Row {
    fields(key, FieldSupport::Honoured, FieldSupport::Honoured, When::Set)
}

const fn refused(key: &'static str, when: When, why: &'static str) -> Row {
    Row { why: Some(why), ..fields(key, FieldSupport::Refused, FieldSupport::Refused, when) }
}

const fn ignored(key: &'static str, when: When, why: &'static str) -> Row {
    Row { why: Some(why), ..fields(key, FieldSupport::Ignored, FieldSupport::Ignored, when) }
}

const fn docker_only(key: &'static str) -> Row {
    fields(key, FieldSupport::Ignored, FieldSupport::Honoured, When::Set)
}

const fn inside(key: &'static str) -> Row {
    Row { key, answer: Answer::Inside, why: None }
}

const fn placement(key: &'static str) -> Row {
    Row { key, answer: Answer::Placement, why: Some("it picks a machine of a fleet or cluster") }
}

const fn privilege(key: &'static str, when: When) -> Row {
    Row {
        key,
        answer: Answer::Privilege(when),
        why: Some("it gives privileges on the machine, which needs --allow-privileged"),
    }
}

/// Fields of the Job.
const JOB: &[Row] = &[
    honoured("activeDeadlineSeconds"),
    honoured("backoffLimit"),
    refused("backoffLimitPerIndex", When::Set, "only Kubernetes counts retries per index"),
    honoured("completionMode"),
    honoured("completions"),
    refused("managedBy", When::Set, "there is no other controller"),
    refused("maxFailedIndexes", When::Set, "only Kubernetes counts retries per index"),
    honoured("parallelism"),
    inside("podFailurePolicy"),
    inside("podFailurePolicy.rules"),
    honoured("podFailurePolicy.rules.action"),
    honoured("podFailurePolicy.rules.onExitCodes"),
    ignored("podFailurePolicy.rules.onPodConditions", When::Filled, "there are no pod conditions"),
    ignored("podReplacementPolicy", When::Set, "a pod is always replaced after it is gone"),
    refused("successPolicy", When::Set, "only Kubernetes decides success by index"),
    ignored("suspend", When::True, "nothing would resume the Job"),
    inside("template"),
    honoured("template.metadata"),
    inside("template.spec"),
    honoured("ttlSecondsAfterFinished"),
];

/// Fields of the pod. Volumes, users and named resources depend on their values and are not here.
const POD: &[Row] = &[
    honoured("activeDeadlineSeconds"),
    inside("affinity"),
    placement("affinity.nodeAffinity"),
    inside("containers"),
    refused("ephemeralContainers", When::Filled, "steps are not debugged interactively"),
    docker_only("hostAliases"),
    privilege("hostIPC", When::True),
    privilege("hostNetwork", When::True),
    privilege("hostPID", When::True),
    docker_only("hostname"),
    honoured("imagePullSecrets"),
    inside("initContainers"),
    placement("nodeSelector"),
    placement("priorityClassName"),
    refused("resourceClaims", When::Filled, "devices are claimed on Kubernetes only"),
    honoured("restartPolicy"),
    refused("schedulingGates", When::Filled, "nothing would open the gates"),
    inside("securityContext"),
    honoured("securityContext.fsGroup"),
    honoured("securityContext.runAsGroup"),
    honoured("securityContext.runAsUser"),
    docker_only("securityContext.seccompProfile"),
    honoured("terminationGracePeriodSeconds"),
    placement("tolerations"),
    honoured("volumes"),
];

/// Fields of containers, init containers included.
const CONTAINER: &[Row] = &[
    honoured("args"),
    honoured("command"),
    inside("env"),
    honoured("env.name"),
    honoured("env.value"),
    inside("env.valueFrom"),
    honoured("env.valueFrom.configMapKeyRef"),
    honoured("env.valueFrom.fieldRef"),
    honoured("env.valueFrom.resourceFieldRef"),
    honoured("env.valueFrom.secretKeyRef"),
    honoured("envFrom"),
    // Who runs steps as processes asked for it: that there is an image is no news.
    honoured("image"),
    honoured("imagePullPolicy"),
    honoured("name"),
    inside("resources"),
    refused("resources.claims", When::Filled, "devices are claimed on Kubernetes only"),
    honoured("resources.limits"),
    honoured("resources.requests"),
    inside("securityContext"),
    inside("securityContext.capabilities"),
    privilege("securityContext.capabilities.add", When::Filled),
    docker_only("securityContext.capabilities.drop"),
    privilege("securityContext.privileged", When::True),
    docker_only("securityContext.readOnlyRootFilesystem"),
    honoured("securityContext.runAsGroup"),
    honoured("securityContext.runAsUser"),
    docker_only("securityContext.seccompProfile"),
    honoured("terminationMessagePath"),
    honoured("terminationMessagePolicy"),
    refused("volumeDevices", When::Filled, "steps get files, not block devices"),
    inside("volumeMounts"),
    honoured("volumeMounts.mountPath"),
    honoured("volumeMounts.name"),
    honoured("volumeMounts.readOnly"),
    honoured("volumeMounts.subPath"),
    honoured("workingDir"),
];

/// Fields of init containers only.
const INIT: &[Row] = &[refused("restartPolicy", When::Always, "a step has only one container")];

/// The row of a key.
pub(super) fn row(key: &str) -> Option<&'static Row> {
    let find = |rows: &'static [Row], key: &str| rows.iter().find(|row| row.key == key);
    let Some(pod) = key.strip_prefix("template.spec.") else { return find(JOB, key) };
    let container = |list: &str| pod.strip_prefix(list).and_then(|rest| rest.strip_prefix('.'));
    if let Some(field) = container("initContainers") {
        return find(INIT, field).or_else(|| find(CONTAINER, field));
    }
    if let Some(field) = container("containers") {
        return find(CONTAINER, field);
    }
    find(POD, pod)
}

#[cfg(test)]
pub(super) fn rows() -> impl Iterator<Item = (&'static str, &'static Row)> {
    let list = |place: &'static str, rows: &'static [Row]| rows.iter().map(move |row| (place, row));
    list("job", JOB).chain(list("pod", POD)).chain(list("container", CONTAINER)).chain(list("init", INIT))
}
