//! What a Job's spec says about its pods and what is written down of each. Owns the values; reading them from a template
//! is the plan's.

use std::time::Duration;

use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::runtime::pod::PodExit;

/// The most completions and the highest parallelism a Job may have here; the limit of Kubernetes for indexed Jobs.
pub(crate) const PODS_MAX: u32 = 100_000;

/// What a Job's spec says about its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRules {
    /// Pods that must succeed; none: one success is enough once all pods have ended.
    pub completions: Option<u32>,
    /// Pods that may live at the same time.
    pub parallelism: u32,
    /// Whether each success has its own index (`completionMode: Indexed`).
    pub indexed: bool,
    /// Failures allowed, restarts in place among them.
    pub backoff_limit: u32,
    /// Limit of the whole Job.
    pub active_deadline: Option<Duration>,
    /// What exit codes mean for the Job, the first match decides.
    pub failure_rules: Vec<FailureRule>,
}

impl JobRules {
    /// Whether it is one pod that runs once: its end is then the Job's, under the pod's own reason.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.completions.unwrap_or(1) <= 1 && self.parallelism <= 1 && self.backoff_limit == 0
    }
}

/// A rule of a Job's own `podFailurePolicy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureRule {
    /// What a match means.
    pub action: FailureAction,
    /// Container to look at; none: any.
    pub container: Option<String>,
    /// Whether a code matches by being among `values` or by not being so.
    pub matches: CodeMatch,
    /// Exit codes.
    pub values: Vec<i32>,
}

/// What a matching pod failure means for the Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureAction {
    /// The Job fails at once.
    FailJob,
    /// The pod is replaced and not counted.
    Ignore,
    /// The pod counts against the limit, as without a rule.
    Count,
}

/// How an exit code matches a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeMatch {
    /// It is in it.
    In,
    /// It is not in it.
    NotIn,
}

/// What is written down of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRecord {
    /// Its number in the attempt, from 0.
    pub number: u32,
    /// Its completion index, of an indexed Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// When it was created.
    pub created_at: Time,
    /// How it ended, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<PodExit>,
}

impl PodRecord {
    /// Restarts in place of all its containers.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        let containers = self.exit.iter().flat_map(|exit| &exit.containers);
        containers.fold(0, |sum, container| sum.saturating_add(container.restarts))
    }
}
