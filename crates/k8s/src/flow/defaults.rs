//! What a flow does that does not say it: settings of the operator in the place of the usual values.
//! Owns where they go. They are never written into an object, so its hash stays that of what is stored.

use orlop_core::spec::artifact::{ArchiveFormat, Compression};
use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::meta::KeyRef;
use orlop_core::spec::policy::{BackoffSpec, ConcurrencyPolicy, RetryPolicy};
use orlop_core::time::GoDuration;

/// Defaults for what specs leave out; where one is none here, the default of the API counts.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Defaults {
    /// What happens when another flow holds the same concurrency key.
    pub concurrency_policy: Option<ConcurrencyPolicy>,
    /// Seconds a finished flow is kept.
    pub ttl_seconds: Option<i32>,
    /// Retries summed over a flow.
    pub backoff_limit: Option<i32>,
    /// Retries of a step that has a retry policy without limit.
    pub retry_limit: Option<i32>,
    /// What the first retry of a step waits.
    pub backoff_base: Option<GoDuration>,
    /// How much longer each further one waits, where the delay grows exponentially.
    pub backoff_factor: Option<f64>,
    /// The container whose exit code counts where a rule names none.
    pub container: Option<String>,
    /// The key of a ConfigMap where a reference names none, which admission refuses.
    pub config_map_key: Option<String>,
    /// Format of archives that name none.
    pub archive_format: Option<ArchiveFormat>,
    /// Compression of archives that name none.
    pub compression: Option<Compression>,
}

impl Defaults {
    /// Fills in what a spec leaves out.
    pub(super) fn fill(&self, spec: &mut FlowSpec) {
        if *self == Self::default() {
            return;
        }
        let policy = spec.execution_policy.get_or_insert_default();
        policy.concurrency_policy = policy.concurrency_policy.or(self.concurrency_policy);
        policy.ttl_seconds_after_finished = policy.ttl_seconds_after_finished.or(self.ttl_seconds);
        policy.backoff_limit = policy.backoff_limit.or(self.backoff_limit);
        let rules = policy.pod_failure_policy.iter_mut().flat_map(|policy| &mut policy.rules);
        for codes in rules.filter_map(|rule| rule.on_exit_codes.as_mut()) {
            if codes.container_name.is_none() {
                codes.container_name.clone_from(&self.container);
            }
        }
        for parameter in &mut spec.parameters {
            self.key(parameter.value_from.as_mut().and_then(|from| from.config_map_key_ref.as_mut()));
        }
        for step in spec.steps.iter_mut().chain(&mut spec.finally) {
            if let Some(retry) = &mut step.retry_policy {
                self.retries(retry);
            }
            for parameter in step.inputs.iter_mut().flat_map(|inputs| &mut inputs.parameters) {
                self.key(parameter.value_from.as_mut().and_then(|from| from.config_map_key_ref.as_mut()));
            }
            let outputs = step.outputs.iter_mut().flat_map(|outputs| &mut outputs.artifacts);
            for archive in outputs.filter_map(|output| output.archive.as_mut()) {
                archive.format = archive.format.or(self.archive_format);
                archive.compression = archive.compression.or(self.compression);
            }
        }
    }

    fn key(&self, reference: Option<&mut KeyRef>) {
        if let (Some(reference), Some(key)) =
            (reference.filter(|reference| reference.key.is_empty()), &self.config_map_key)
        {
            reference.key.clone_from(key);
        }
    }

    fn retries(&self, policy: &mut RetryPolicy) {
        policy.limit = policy.limit.or(self.retry_limit);
        if self.backoff_base.is_none() && self.backoff_factor.is_none() {
            return;
        }
        let backoff = policy.backoff.get_or_insert_with(BackoffSpec::default);
        if backoff.duration.as_deref().is_none_or(str::is_empty) {
            backoff.duration = self.backoff_base.map(|base| base.to_string());
        }
        backoff.factor = backoff.factor.or(self.backoff_factor);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec() -> FlowSpec {
        serde_json::from_value(json!({
            "executionPolicy": {"backoffLimit": 1, "podFailurePolicy": {"rules": [
                {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}},
                {"action": "Ignore", "onExitCodes": {"containerName": "own", "operator": "In", "values": [1]}}]}},
            "steps": [
                {"name": "none"},
                {"name": "bare", "retryPolicy": {}},
                {"name": "told", "retryPolicy": {"limit": 9, "backoff": {"type": "Fixed", "duration": "3s", "factor": 4.0}}}],
        }))
        .unwrap()
    }

    fn all() -> Defaults {
        Defaults {
            concurrency_policy: Some(ConcurrencyPolicy::Allow),
            ttl_seconds: Some(60),
            backoff_limit: Some(2),
            retry_limit: Some(5),
            backoff_base: Some("500ms".parse().unwrap()),
            backoff_factor: Some(1.5),
            container: Some("work".to_owned()),
            config_map_key: Some("value".to_owned()),
            archive_format: Some(ArchiveFormat::Zip),
            compression: Some(Compression::Gzip),
        }
    }

    #[test]
    fn settings_take_the_place_of_what_a_flow_does_not_say() {
        let mut filled = spec();
        all().fill(&mut filled);
        insta::assert_json_snapshot!(filled, @r#"
        {
          "steps": [
            {
              "name": "none"
            },
            {
              "name": "bare",
              "retryPolicy": {
                "limit": 5,
                "backoff": {
                  "duration": "500ms",
                  "factor": 1.5
                }
              }
            },
            {
              "name": "told",
              "retryPolicy": {
                "limit": 9,
                "backoff": {
                  "type": "Fixed",
                  "duration": "3s",
                  "factor": 4.0
                }
              }
            }
          ],
          "executionPolicy": {
            "concurrencyPolicy": "Allow",
            "ttlSecondsAfterFinished": 60,
            "backoffLimit": 1,
            "podFailurePolicy": {
              "rules": [
                {
                  "action": "Ignore",
                  "onExitCodes": {
                    "containerName": "work",
                    "operator": "In",
                    "values": [
                      1
                    ]
                  }
                },
                {
                  "action": "Ignore",
                  "onExitCodes": {
                    "containerName": "own",
                    "operator": "In",
                    "values": [
                      1
                    ]
                  }
                }
              ]
            }
          }
        }
        "#);
        let delays: Vec<u128> = filled
            .steps
            .iter()
            .filter_map(|step| step.retry_policy.as_ref())
            .map(|p| p.formula().base.as_millis())
            .collect();
        assert_eq!(delays, [500, 3000]);
    }

    #[test]
    fn settings_fill_in_archives_and_keys_of_config_maps() {
        let reference = |key: &str| json!([{"name": "p", "valueFrom": {"configMapKeyRef": {"name": "m", "key": key}}}]);
        let archive = |archive: serde_json::Value| json!({"name": "a", "path": "/a", "archive": archive});
        let mut filled: FlowSpec = serde_json::from_value(json!({
            "parameters": reference(""),
            "steps": [{"name": "s", "inputs": {"parameters": reference("own")}, "outputs": {"artifacts": [
                archive(json!({})), archive(json!({"format": "tar", "compression": "none"})), {"name": "b", "path": "/b"}]}}],
        }))
        .unwrap();
        all().fill(&mut filled);
        let filled = serde_json::to_value(&filled).unwrap();
        let step = &filled["steps"][0];
        let key = |parameters: &serde_json::Value| parameters[0]["valueFrom"]["configMapKeyRef"]["key"].clone();
        assert_eq!((key(&filled["parameters"]), key(&step["inputs"]["parameters"])), (json!("value"), json!("own")));
        let archives: Vec<_> = (0..3).map(|n| step["outputs"]["artifacts"][n]["archive"].clone()).collect();
        let zip = json!({"format": "zip", "compression": "gzip"});
        assert_eq!(archives, [zip, json!({"format": "tar", "compression": "none"}), serde_json::Value::Null]);
    }

    #[test]
    fn without_settings_nothing_is_filled_in() {
        let mut filled = spec();
        Defaults::default().fill(&mut filled);
        assert_eq!(filled, spec());
        let mut bare = FlowSpec::default();
        Defaults::default().fill(&mut bare);
        assert_eq!(bare.execution_policy, None);
    }
}
