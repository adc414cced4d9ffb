//! `executionPolicy`, cell by cell, what a target cannot do of it, and whether its failure rules name containers that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use orlop_core::spec::flow::SuspendMode;
use orlop_core::spec::policy::{DEFAULT_CONTAINER, OnExitCodes, PodFailurePolicy};

use super::context::Context;
use crate::code::Code;
use crate::manifest::path::Path;
use crate::manifest::schema::nearest;
use crate::manifest::violation::{Note, Violations, shown};

/// Longest concurrency key, in characters.
const KEY_MAX: usize = 253;

pub(super) fn check(context: &Context<'_>, spec: &Path<'_>, found: &mut Violations) {
    let freezes = context.flow.spec.suspend_mode == Some(SuspendMode::Suspend);
    if freezes && context.limits.target.as_ref().is_some_and(|target| target.fleet) {
        found.add((context.limits.lenient(), Code::Unsupported), &spec.field("suspendMode"), || {
            (
                "jobs of a fleet cannot be frozen: what runs finishes when the flow is suspended",
                "write Drain, or leave it out",
            )
        });
    }
    let Some(policy) = &context.flow.spec.execution_policy else { return };
    let path = spec.field("executionPolicy");
    if let Some(key) = &policy.concurrency_key {
        let length = key.chars().count();
        if length == 0 || length > KEY_MAX {
            found.error(Code::Value, &path.field("concurrencyKey"), || {
                (format!("a concurrency key of {length} characters"), format!("use 1 to {KEY_MAX} characters"))
            });
        }
    }
    at_least(found, &path.field("ttlSecondsAfterFinished"), policy.ttl_seconds_after_finished, 0);
    at_least(found, &path.field("backoffLimit"), policy.backoff_limit, 0);
    at_least(found, &path.field("activeDeadlineSeconds"), policy.active_deadline_seconds, 1);
    at_least(found, &path.field("parallelism"), policy.parallelism, 1);
    at_least(found, &path.field("lostLimit"), policy.lost_limit, 0);
    if let Some(failure) = &policy.pod_failure_policy {
        failure_policy(failure, &path.field("podFailurePolicy"), found);
    }
}

/// Refuses a number below the least allowed one.
pub(super) fn at_least<N: PartialOrd + Display + Copy>(
    found: &mut Violations,
    path: &Path<'_>,
    value: Option<N>,
    least: N,
) {
    if let Some(value) = value.filter(|value| *value < least) {
        found.error(Code::Value, path, || (format!("{value} is too small"), format!("use {least} or more")));
    }
}

fn failure_policy(policy: &PodFailurePolicy, path: &Path<'_>, found: &mut Violations) {
    let list = path.field("rules");
    if policy.rules.is_empty() {
        found.error(Code::Value, &list, || {
            ("the failure policy has no rule", "list at least one, or remove the policy")
        });
    }
    for (index, rule) in policy.rules.iter().enumerate() {
        let path = list.index(index);
        choice(found, &path.field("action"), &rule.action, &["FailJob", "Ignore", "Count"]);
        match &rule.on_exit_codes {
            None => found.error(Code::Value, &path.field("onExitCodes"), || {
                ("the rule does not say which exit codes it is about", "add onExitCodes with operator and values")
            }),
            Some(codes) => exit_codes(codes, &path.field("onExitCodes"), found),
        }
    }
}

fn exit_codes(codes: &OnExitCodes, path: &Path<'_>, found: &mut Violations) {
    choice(found, &path.field("operator"), &codes.operator, &["In", "NotIn"]);
    if codes.container_name.as_deref() == Some("") {
        found.error(Code::Value, &path.field("containerName"), || {
            ("the container name is empty", format!("name a container, or leave it out for `{DEFAULT_CONTAINER}`"))
        });
    }
    let list = path.field("values");
    if codes.values.is_empty() {
        found.error(Code::Value, &list, || ("the rule lists no exit code", "list at least one"));
    }
    for (index, value) in codes.values.iter().enumerate().filter(|(_, value)| !(0..=255).contains(*value)) {
        found.error(Code::Value, &list.index(index), || {
            (format!("{value} is not an exit code"), "exit codes are 0 to 255")
        });
    }
}

/// Refuses a text that is none of the words.
pub(super) fn choice(found: &mut Violations, path: &Path<'_>, given: &str, words: &[&'static str]) {
    if !words.contains(&given) {
        found.error(Code::Value, path, || {
            let help = nearest(given, words.iter().copied())
                .map_or_else(|| format!("use one of {}", words.join(", ")), |word| format!("did you mean `{word}`?"));
            Note::new(format!("{} is not allowed here", shown(given)), Some(help))
        });
    }
}

/// A rule that asks for a container no step has never matches.
pub(super) fn check_containers(context: &Context<'_>, spec: &Path<'_>, found: &mut Violations) {
    let policy = context.flow.spec.execution_policy.as_ref().and_then(|policy| policy.pod_failure_policy.as_ref());
    let Some(policy) = policy else { return };
    let policies = spec.field("executionPolicy");
    let failure = policies.field("podFailurePolicy");
    let list = failure.field("rules");
    let jobs =
        || context.steps().filter(|step| !step.is_manual()).filter_map(|step| Some((step, step.template.as_ref()?)));
    let mut having: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, template) in jobs() {
        for name in super::template::containers(template).flatten().collect::<BTreeSet<_>>() {
            *having.entry(name).or_default() += 1;
        }
    }
    let all = jobs().count();
    for (index, rule) in policy.rules.iter().enumerate() {
        let Some(codes) = &rule.on_exit_codes else { continue };
        let name = codes.container_name.as_deref().unwrap_or(DEFAULT_CONTAINER);
        let matched = having.get(name).copied().unwrap_or(0);
        if matched < all {
            found.warning(Code::Reference, &list.index(index).field("onExitCodes"), || {
                let lacks = |template| !super::template::containers(template).any(|container| container == Some(name));
                let without = jobs().filter(|(_, template)| lacks(template)).map(|(step, _)| step.name.as_str());
                unmatched(name, matched, all, &without.take(4).collect::<Vec<_>>())
            });
        }
    }
}

fn unmatched(name: &str, matched: usize, all: usize, without: &[&str]) -> Note {
    let steps: Vec<String> = without.iter().take(3).map(|step| shown(step)).collect();
    let more = if without.len() > 3 { ", …" } else { "" };
    let message = if matched == 0 {
        format!("no step has a container {}, so the rule never matches", shown(name))
    } else {
        format!(
            "{} of {all} steps have no container {}, so the rule never matches them ({}{more})",
            all - matched,
            shown(name),
            steps.join(", ")
        )
    };
    Note::new(message, Some("set containerName to the container whose exit code counts".to_owned()))
}
