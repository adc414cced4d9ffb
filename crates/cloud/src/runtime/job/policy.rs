//! A Job's own `podFailurePolicy`: which rule a failed pod matches. Owns the match only.

use crate::runtime::pod::{ContainerExit, PodExit};

use super::rules::{CodeMatch, FailureAction, FailureRule};

/// The action of the first rule that matches, with the container and its code. Containers that ended with 0 never match.
pub(super) fn matching<'a>(rules: &[FailureRule], exit: &'a PodExit) -> Option<(FailureAction, &'a ContainerExit)> {
    rules.iter().find_map(|rule| {
        let hit = exit.containers.iter().find(|container| rule_matches(rule, container))?;
        Some((rule.action, hit))
    })
}

fn rule_matches(rule: &FailureRule, container: &ContainerExit) -> bool {
    let named = rule.container.as_deref().is_none_or(|name| name == container.name);
    let listed = rule.values.contains(&container.exit_code);
    let coded = match rule.matches {
        CodeMatch::In => listed,
        CodeMatch::NotIn => !listed,
    };
    named && coded && container.exit_code != 0
}
