//! What every machine must hold, run by the test of each. Owns the checks; knows no machine.

use std::collections::BTreeSet;

use super::{Machine, Named};

/// Checks a table against the laws of all machines. `reopened` names the rules that may lead out of terminal states.
pub(super) fn hold<S: Named, E: Named, G: Named>(machine: &Machine<S, E, G>, reopened: &[&str]) {
    everything_is_used(machine);
    every_state_is_reachable_and_can_end(machine);
    terminal_states_stay(machine, reopened);
    rows_are_ordered(machine);
    lookups_agree_with_the_rows(machine);
    diagram_shows_every_change(machine);
}

fn everything_is_used<S: Named, E: Named, G: Named>(machine: &Machine<S, E, G>) {
    for event in E::ALL {
        assert!(machine.rows().iter().any(|row| row.on.contains(event)), "no row takes {}", event.as_str());
    }
    for guard in G::ALL {
        assert!(machine.rows().iter().any(|row| row.guard == Some(*guard)), "no row asks {}", guard.as_str());
    }
    for row in machine.rows() {
        assert!(!row.on.is_empty() && !row.rule.is_empty(), "{}: a row without event or rule", row.rule);
        assert!(!row.from.is_empty() || row.to.is_some(), "{}: a birth into nothing", row.rule);
    }
}

fn every_state_is_reachable_and_can_end<S: Named, E: Named, G: Named>(machine: &Machine<S, E, G>) {
    assert_eq!(machine.reachable(None), S::ALL.iter().copied().collect::<BTreeSet<_>>(), "states nothing leads to");
    if machine.terminal().is_empty() {
        return;
    }
    for state in S::ALL.iter().copied() {
        let ends = machine.reachable(state).into_iter().any(|state| machine.is_terminal(state));
        assert!(ends, "{} never ends", state.as_str());
    }
}

fn terminal_states_stay<S: Named, E: Named, G: Named>(machine: &Machine<S, E, G>, reopened: &[&str]) {
    for state in machine.terminal().iter().copied() {
        for event in E::ALL.iter().copied() {
            for way in machine.transitions(state, event).filter(|way| way.to != state) {
                assert!(reopened.contains(&way.rule), "{}: {} is left by {}", way.rule, state.as_str(), event.as_str());
            }
        }
    }
    for rule in reopened {
        let ways = |row: &&super::Row<S, E, G>| row.rule == *rule && row.to.is_some();
        let used = machine.rows().iter().filter(ways).any(|row| row.from.iter().any(|from| machine.is_terminal(*from)));
        assert!(used, "{rule} leads out of no terminal state");
    }
}

fn rows_are_ordered<S: Named, E: Named, G: Named>(machine: &Machine<S, E, G>) {
    for from in std::iter::once(None).chain(S::ALL.iter().copied().map(Some)) {
        for event in E::ALL.iter().copied() {
            let guards: Vec<Option<G>> = machine.transitions(from, event).map(|way| way.guard).collect();
            let open = guards.iter().position(Option::is_none);
            assert!(open.is_none_or(|at| at + 1 == guards.len()), "{from:?} {event:?}: rows after one without guard");
            let distinct: BTreeSet<_> = guards.iter().collect();
            assert_eq!(distinct.len(), guards.len(), "{from:?} {event:?}: a guard decides twice");
        }
    }
}

fn lookups_agree_with_the_rows<S: Named, E: Named, G: Named>(machine: &Machine<S, E, G>) {
    for from in std::iter::once(None).chain(S::ALL.iter().copied().map(Some)) {
        for event in E::ALL.iter().copied() {
            let ways: Vec<_> = machine.transitions(from, event).collect();
            for way in &ways {
                let got = machine.choose(from, event, |guard| Some(guard) == way.guard);
                assert_eq!(got.as_ref(), Ok(way));
                assert!(machine.successors(from).contains(&way.to));
            }
            let none = machine.step(from, event, |_| false);
            match ways.iter().find(|way| way.guard.is_none()) {
                Some(way) => assert_eq!(none, Ok(way.to)),
                None => {
                    let rejected = none.expect_err("no row without guard");
                    assert_eq!(rejected.unmet.len(), ways.len());
                    assert_eq!(rejected.allowed.contains(&event), !ways.is_empty());
                    assert!(rejected.to_string().starts_with(machine.name()));
                }
            }
        }
    }
}

fn diagram_shows_every_change<S: Named, E: Named, G: Named>(machine: &Machine<S, E, G>) {
    let diagram = machine.mermaid();
    assert!(diagram.starts_with("stateDiagram-v2\n    [*] --> "));
    for from in S::ALL.iter().copied() {
        for to in machine.successors(from).into_iter().filter(|to| *to != from) {
            assert!(diagram.contains(&format!("    {} --> {}: ", from.as_str(), to.as_str())));
        }
    }
    for line in diagram.lines().skip(1) {
        assert!(line.matches(':').count() <= 1 && !line.contains(';'), "{line}");
    }
}
