//! A Job's own fields.

use orlop_core::error::Problem;

use super::TemplatePolicy;
use super::field::Field;
use super::pod::{PodTemplate, seconds};
use crate::runtime::job::rules::{CodeMatch, FailureAction, FailureRule, JobRules, PODS_MAX};

/// Job fields that can mean nothing here, and why.
const REFUSED: [(&str, &str); 4] = [
    ("successPolicy", "a Job succeeds by its completions here"),
    ("backoffLimitPerIndex", "failures are counted for the whole Job here"),
    ("maxFailedIndexes", "failures are counted for the whole Job here"),
    ("managedBy", "no other controller runs here"),
];

pub(super) fn rules(spec: &Field<'_>, pod: &PodTemplate, policy: &TemplatePolicy) -> Result<JobRules, Problem> {
    for (name, why) in REFUSED {
        let field = spec.get(name);
        if field.is_present() {
            return Err(field.invalid(&format!("cannot be used off Kubernetes: {why}")));
        }
    }
    let count = |name: &str| -> Result<Option<u32>, Problem> {
        let field = spec.get(name);
        match field.number::<u32>()? {
            Some(count) if count > PODS_MAX => Err(field.invalid(&format!("must be at most {PODS_MAX}"))),
            count => Ok(count),
        }
    };
    let (completions, parallelism) = (count("completions")?, count("parallelism")?);
    let mode = spec.get("completionMode");
    let indexed = match mode.text()? {
        None | Some("NonIndexed" | "") => false,
        Some("Indexed") => true,
        Some(_) => return Err(mode.invalid("must be NonIndexed or Indexed")),
    };
    if indexed && completions.is_none() {
        return Err(spec.get("completions").invalid("is required by completionMode Indexed"));
    }
    let failure_rules = failure_rules(&spec.get("podFailurePolicy"))?;
    if pod.restart_on_failure && spec.get("podFailurePolicy").is_present() {
        return Err(spec.get("podFailurePolicy").invalid("needs restartPolicy Never"));
    }
    Ok(JobRules {
        completions: completions.or(if parallelism.is_none() { Some(1) } else { None }),
        parallelism: parallelism.unwrap_or(1),
        indexed,
        backoff_limit: spec.get("backoffLimit").number()?.unwrap_or(policy.backoff_default),
        active_deadline: seconds(&spec.get("activeDeadlineSeconds"))?,
        failure_rules,
    })
}

/// The rules about exit codes. A rule about pod conditions never matches here and is left out.
fn failure_rules(policy: &Field<'_>) -> Result<Vec<FailureRule>, Problem> {
    let mut rules = Vec::new();
    for rule in policy.get("rules").items()? {
        let (action, codes) = (rule.get("action"), rule.get("onExitCodes"));
        if !codes.is_present() {
            continue;
        }
        let operator = codes.get("operator");
        rules.push(FailureRule {
            action: match action.text()? {
                Some("FailJob") => FailureAction::FailJob,
                Some("Ignore") => FailureAction::Ignore,
                Some("Count") => FailureAction::Count,
                _ => return Err(action.invalid("must be FailJob, Ignore or Count here")),
            },
            container: codes.get("containerName").text()?.filter(|name| !name.is_empty()).map(str::to_owned),
            matches: match operator.text()? {
                Some("In") => CodeMatch::In,
                Some("NotIn") => CodeMatch::NotIn,
                _ => return Err(operator.invalid("must be In or NotIn")),
            },
            values: codes
                .get("values")
                .items()?
                .iter()
                .filter_map(|value| value.number().transpose())
                .collect::<Result<_, _>>()?,
        });
    }
    Ok(rules)
}
