//! Flow-wide behaviour and retry policies. Owns fields, enums and defaults of `executionPolicy` and `retryPolicy`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff::{Backoff, Growth};
use crate::time::GoDuration;

/// Default of `ttlSecondsAfterFinished`, in seconds.
pub const DEFAULT_TTL_SECONDS: i32 = 86_400;
/// Default of the flow's `backoffLimit`.
pub const DEFAULT_BACKOFF_LIMIT: i32 = 6;
/// Default of `retryPolicy.limit` where a retry policy is given.
pub(crate) const DEFAULT_RETRY_LIMIT: i32 = 3;
/// Default of `lostLimit`.
pub const DEFAULT_LOST_LIMIT: i32 = 3;
/// Container that pod failure rules look at where they name none.
pub const DEFAULT_CONTAINER: &str = "main";

/// Flow-wide behaviour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecutionPolicy {
    /// What happens when another flow holds the same concurrency key: Allow starts anyway, Forbid waits (the
    /// default), Replace terminates the holders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "Forbid")))]
    pub concurrency_policy: Option<ConcurrencyPolicy>,
    /// The concurrency key, unique in the namespace; without one the annotation or label
    /// `workflow.kube-zen.io/concurrency-key` or the owning schedule counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 253)))]
    pub concurrency_key: Option<String>,
    /// Seconds for which a finished flow is kept; default 86400.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0), extend("default" = 86400)))]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Retries and counted failures summed over the flow; default 6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0), extend("default" = 6)))]
    pub backoff_limit: Option<i32>,
    /// Limit of the whole flow from its start, in seconds of wall clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub active_deadline_seconds: Option<i64>,
    /// What an exit code means for the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_failure_policy: Option<PodFailurePolicy>,
    /// What a failure that is not tolerated does: FailFast starts nothing new (the default), CancelRunning also cancels
    /// live attempts, Continue runs what can still run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// Whether a step skipped by its own condition satisfies its dependents: Lenient (it does, the default) or Strict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_policy: Option<SkipPolicy>,
    /// Final phase of a flow whose failures are all tolerated; default Succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerated_outcome: Option<ToleratedOutcome>,
    /// Live attempts of the flow at once; default the limit of the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub parallelism: Option<i32>,
    /// How often a step runs again after losing its host; default 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub lost_limit: Option<i32>,
    /// Which Jobs of settled steps are kept until the flow goes; default All.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_retention: Option<JobRetention>,
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $(#[$first_doc:meta])* $first:ident, $($(#[$other_doc:meta])* $other:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name {
            $(#[$first_doc])*
            #[default]
            $first,
            $($(#[$other_doc])* $other),+
        }
    };
}

choice! {
    /// What happens when another flow holds the same concurrency key.
    ConcurrencyPolicy {
        /// Wait.
        Forbid,
        /// Start.
        Allow,
        /// Terminate the holders, then start.
        Replace,
    }
}
choice! {
    /// What an untolerated failure does to the rest of the flow.
    FailurePolicy {
        /// Nothing new starts; live attempts finish.
        FailFast,
        /// Nothing new starts; live attempts are cancelled.
        CancelRunning,
        /// Every step whose dependencies are satisfied still runs.
        Continue,
    }
}
choice! {
    /// Whether a step skipped by its own condition satisfies its dependents.
    SkipPolicy {
        /// It does.
        Lenient,
        /// It does not.
        Strict,
    }
}
choice! {
    /// Final phase of a flow whose failures are all tolerated.
    ToleratedOutcome {
        /// Succeeded.
        Succeeded,
        /// Failed.
        Failed,
    }
}
choice! {
    /// Which settled executions are kept until the flow goes.
    JobRetention {
        /// All.
        All,
        /// Those that failed.
        Failed,
        /// None.
        None,
    }
}

/// What exit codes mean for the flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FlowPodFailurePolicy"))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodFailurePolicy {
    /// Rules in order; the first that matches decides.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub rules: Vec<PodFailureRule>,
}

/// One rule of a pod failure policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FlowPodFailureRule"))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodFailureRule {
    /// FailJob fails the step without retry, Ignore lets it succeed, Count lets it succeed and counts against
    /// backoffLimit.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["FailJob", "Ignore", "Count"])))]
    pub action: String,
    /// The exit codes the rule is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_exit_codes: Option<OnExitCodes>,
}

/// Exit codes a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FlowOnExitCodes"))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OnExitCodes {
    /// Container to look at; default main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,
    /// Whether the exit code must or must not be one of the values.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["In", "NotIn"])))]
    pub operator: String,
    /// Exit codes, 0 to 255.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub values: Vec<i32>,
}

/// How often and when a step is tried again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryPolicy {
    /// Retries; default 3, 0 means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub limit: Option<i32>,
    /// Delay between attempts; default 1 s, doubled each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffSpec>,
}

/// Delay between attempts as users write it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackoffSpec {
    /// How the delay grows; default Exponential.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["Exponential", "Linear", "Fixed", ""])))]
    pub kind: Option<String>,
    /// The first delay, such as 30s or 1h30m; default 1s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("format" = "go-duration")))]
    pub duration: Option<String>,
    /// Factor of exponential growth; default 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub factor: Option<f64>,
    /// The longest delay before jitter, such as 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("format" = "go-duration")))]
    pub max_duration: Option<String>,
    /// Share of the delay that jitter may add; default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
    pub jitter: Option<f64>,
}

impl RetryPolicy {
    /// At most `limit` retries, each `delay` after the failure.
    ///
    /// ```
    /// use std::time::Duration;
    /// use orlop_core::spec::policy::RetryPolicy;
    /// let policy = RetryPolicy::exponential(5, Duration::from_secs(2));
    /// assert_eq!((policy.retries(), policy.formula().delay(3, 0.0)), (5, Duration::from_secs(16)));
    /// assert_eq!(RetryPolicy::fixed(5, Duration::from_secs(2)).formula().delay(3, 0.0), Duration::from_secs(2));
    /// ```
    #[must_use]
    pub fn fixed(limit: u32, delay: Duration) -> Self {
        Self::of("Fixed", limit, delay)
    }

    /// At most `limit` retries: the first `first` after the failure, each further one after twice the delay of the one before.
    #[must_use]
    pub fn exponential(limit: u32, first: Duration) -> Self {
        Self::of("Exponential", limit, first)
    }

    fn of(kind: &str, limit: u32, delay: Duration) -> Self {
        // A delay of nothing would be taken for none given.
        let delay = GoDuration::new(delay.max(Duration::from_millis(1)));
        let backoff =
            BackoffSpec { kind: Some(kind.to_owned()), duration: Some(delay.to_string()), ..BackoffSpec::default() };
        Self { limit: Some(i32::try_from(limit).unwrap_or(i32::MAX)), backoff: Some(backoff) }
    }

    /// Retries allowed: the limit; 3 where none is given, 0 where it is negative.
    #[must_use]
    pub fn retries(&self) -> u32 {
        u32::try_from(self.limit.unwrap_or(DEFAULT_RETRY_LIMIT)).unwrap_or(0)
    }

    /// The delay formula. In input that was not validated, an unknown type counts as `Exponential` and an invalid duration as
    /// 1 s.
    #[must_use]
    pub fn formula(&self) -> Backoff {
        self.backoff.as_ref().map(BackoffSpec::formula).unwrap_or_default()
    }
}

impl BackoffSpec {
    fn formula(&self) -> Backoff {
        let read = |text: &Option<String>| {
            text.as_deref()
                .and_then(|text| text.parse::<GoDuration>().ok())
                .map(GoDuration::get)
                .filter(|d| !d.is_zero())
        };
        let (growth, factor) = match self.kind.as_deref() {
            Some("Fixed") => (Growth::Fixed, 1.0),
            Some("Linear") => (Growth::Linear, 1.0),
            None | Some("" | "Exponential") => (Growth::Exponential, self.factor.unwrap_or(2.0).max(1.0)),
            Some(_) => (Growth::Exponential, 2.0),
        };
        Backoff {
            growth,
            base: read(&self.duration).unwrap_or(Duration::from_secs(1)),
            factor,
            ceiling: read(&self.max_duration),
            jitter: self.jitter.unwrap_or(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_limit_is_three_and_zero_is_none() {
        assert_eq!(RetryPolicy::default().retries(), 3);
        assert_eq!(RetryPolicy { limit: Some(0), backoff: None }.retries(), 0);
        assert_eq!(RetryPolicy { limit: Some(-4), backoff: None }.retries(), 0);
    }

    #[test]
    fn ceiling_factor_and_jitter_are_those_of_the_policy() {
        let read = |backoff: &str| serde_json::from_str::<BackoffSpec>(backoff).unwrap().formula();
        let secs = Duration::from_secs;
        let formula = read(r#"{"duration": "10s", "factor": 3.0, "maxDuration": "40s", "jitter": 0.5}"#);
        assert_eq!(
            (formula.delay(1, 0.0), formula.delay(2, 0.0), formula.delay(0, 0.5)),
            (secs(30), secs(40), secs(10) * 5 / 4)
        );
        let fixed = read(r#"{"type": "Fixed", "duration": "1m30s", "factor": 9.0}"#);
        assert_eq!((fixed.delay(0, 0.9), fixed.delay(9, 0.9)), (secs(90), secs(90)));
        assert_eq!(RetryPolicy::default().formula().delay(3, 0.9), secs(8));
    }

    #[test]
    fn unvalidated_input_has_a_reading() {
        let of = |kind: &str, duration: &str| {
            let spec = BackoffSpec {
                kind: Some(kind.into()),
                duration: Some(duration.into()),
                factor: Some(5.0),
                ..BackoffSpec::default()
            };
            RetryPolicy { limit: None, backoff: Some(spec) }.formula().delay(2, 0.0)
        };
        assert_eq!(of("Quadratic", "10s"), Duration::from_secs(40));
        assert_eq!(of("Fixed", "soon"), Duration::from_secs(1));
        assert_eq!(of("", ""), Duration::from_secs(25));
        assert_eq!(of("Linear", "10s"), Duration::from_secs(30));
    }
}
