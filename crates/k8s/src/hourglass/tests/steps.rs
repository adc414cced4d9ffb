//! Steps of a lifecycle that were written, and those of its table.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::error::Class;
use orlop_core::machine::{Machine, Named, NoGuard};
use serde_json::Value;

use super::TestEnv;
use crate::hourglass::controller::Reconciler;
use crate::value::{text, word};

/// From which state, none before the first, to which.
pub(crate) type Steps = BTreeSet<(Option<&'static str>, &'static str)>;

/// Steps of some scenes.
#[derive(Default)]
pub(crate) struct Transitions {
    /// All that were told, also those between two states that were stored.
    pub(crate) taken: Steps,
    /// Those that lead from a stored state to the next one.
    pub(crate) stored: Steps,
    /// How many plans wanted what the table does not know.
    pub(crate) broken: usize,
}

impl Transitions {
    /// Those of a scene.
    pub(crate) fn of<S: Named, R: Reconciler>(env: &TestEnv<R>) -> Self {
        let store = env.server.store();
        let mut before: BTreeMap<String, (&'static str, Value)> = BTreeMap::new();
        let mut stored = Steps::new();
        for change in store.log.iter().filter(|change| change.kind == R::KIND && !change.gone) {
            let Some(state) = S::from_name(word(&change.object, "/status/state")).map(Named::as_str) else { continue };
            // The same state of another spec is another one.
            let now = (state, change.object["status"]["observedGeneration"].clone());
            let earlier = before.insert(text(&change.object, "/metadata/uid"), now.clone());
            let changed = earlier.as_ref() != Some(&now);
            stored.extend(changed.then_some((earlier.map(|(state, _)| state), state)));
        }
        let broken = env.failures().iter().filter(|class| **class == Class::Fatal).count();
        Self { taken: env.steps(), stored, broken }
    }

    /// Those of another scene as well.
    pub(crate) fn extend(&mut self, more: Self) {
        self.taken.extend(more.taken);
        self.stored.extend(more.stored);
        self.broken += more.broken;
    }

    /// Steps between stored states for which a table has no way at all.
    pub(crate) fn astray(&self, table: &Steps) -> Vec<String> {
        let leads = |(from, to): &&(Option<&'static str>, &'static str)| {
            let mut reached: BTreeSet<&str> = [*to].into();
            loop {
                let more: BTreeSet<&str> =
                    table.iter().filter(|(_, to)| reached.contains(to)).filter_map(|(from, _)| *from).collect();
                if table.iter().any(|(known, to)| known == from && reached.contains(to)) {
                    return true;
                }
                let before = reached.len();
                reached.extend(more);
                if reached.len() == before {
                    return false;
                }
            }
        };
        // The same state of a newer spec is no step.
        reported(self.stored.iter().filter(|(from, to)| *from != Some(*to)).filter(|step| !leads(step)))
    }
}

/// All steps of a table.
pub(crate) fn table<S: Named, E: Named>(machine: &Machine<S, E, NoGuard>) -> Steps {
    let mut table = Steps::new();
    for from in std::iter::once(None).chain(S::ALL.iter().copied().map(Some)) {
        for event in E::ALL {
            table.extend(machine.transitions(from, *event).map(|row| (from.map(Named::as_str), row.to.as_str())));
        }
    }
    table
}

/// Steps for people.
pub(crate) fn reported<'s>(steps: impl IntoIterator<Item = &'s (Option<&'static str>, &'static str)>) -> Vec<String> {
    steps.into_iter().map(|(from, to)| format!("{} {to}", from.unwrap_or("-"))).collect()
}

#[test]
fn a_step_for_which_the_table_has_no_way_is_astray() {
    use orlop_core::machine::performer::MACHINE;

    let stored =
        [(None, "Failed"), (Some("Creating"), "Running"), (Some("Running"), "Pending"), (Some("Gone"), "Running")];
    let ways = Transitions { stored: stored.into(), ..Transitions::default() };
    assert_eq!(ways.astray(&table(&MACHINE)), ["Gone Running", "Running Pending"]);
}
