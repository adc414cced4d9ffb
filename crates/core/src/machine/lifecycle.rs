//! Walking transition tables: which transition an event takes, what is reachable, which way leads where.
//! Owns the lookups of every machine; knows none of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Named, Rejected, Row, Transition};

/// A lifecycle as data: states, events and the table of transitions between them.
///
/// Rows are tried in order and the first whose guard holds is taken, so a row without guard stands last among those of
/// the same state and event. What no row allows is refused, and changes nothing.
///
/// ```
/// use orlop_core::machine::step::{Event, MACHINE, StepState};
/// let next = MACHINE.step(StepState::Starting, Event::Accepted, |_| false);
/// assert_eq!(next.ok(), Some(StepState::Active));
/// assert!(MACHINE.step(StepState::Waiting, Event::Accepted, |_| true).is_err());
/// ```
#[derive(Debug)]
pub struct Machine<S: 'static, E: 'static, G: 'static> {
    pub(super) name: &'static str,
    pub(super) terminal: &'static [S],
    pub(super) rows: &'static [Row<S, E, G>],
}

/// How a polled object relates to what was last known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Poll {
    /// It is as it was.
    Unchanged,
    /// It made one step of its machine.
    Step,
    /// It made several steps between two polls.
    Skipped,
    /// No transitions of its machine lead there: record it, and take the object as it is.
    Drift,
}

impl<S: Named, E: Named, G: Named> Machine<S, E, G> {
    /// What has this lifecycle, for example `flow`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The table as written.
    #[must_use]
    pub const fn rows(&self) -> &'static [Row<S, E, G>] {
        self.rows
    }

    /// The final states. Only few tables have rows that leave one of them.
    #[must_use]
    pub const fn terminal(&self) -> &'static [S] {
        self.terminal
    }

    /// Whether `state` is a final state.
    #[must_use]
    pub fn is_terminal(&self, state: S) -> bool {
        self.terminal.contains(&state)
    }

    /// All transitions from `from` on `event`, in the order they are tried; `None` is an object that does not exist yet.
    pub fn transitions(&self, from: impl Into<Option<S>>, event: E) -> impl Iterator<Item = Transition<S, E, G>> {
        let from = from.into();
        self.rows.iter().filter(move |row| row.on.contains(&event)).filter_map(move |row| {
            let starts = from.map_or(row.from.is_empty(), |from| row.from.contains(&from));
            let to = row.to.or(from)?;
            starts.then_some(Transition { rule: row.rule, from, event, guard: row.guard, to, effects: row.effects })
        })
    }

    /// The transition that `event` takes from `from` under the guards that `holds`.
    ///
    /// # Errors
    /// No row allows it; the error names what would be allowed.
    pub fn choose(
        &self,
        from: impl Into<Option<S>>,
        event: E,
        mut holds: impl FnMut(G) -> bool,
    ) -> Result<Transition<S, E, G>, Rejected<S, E>> {
        let from = from.into();
        let mut unmet = Vec::new();
        for transition in self.transitions(from, event) {
            match transition.guard {
                Some(guard) if !holds(guard) => unmet.push(guard.as_str()),
                _ => return Ok(transition),
            }
        }
        let allowed = E::ALL.iter().copied().filter(|event| self.transitions(from, *event).next().is_some());
        Err(Rejected { machine: self.name, from, event, unmet, allowed: allowed.collect() })
    }

    /// The state after `event`, under the guards that `holds`.
    ///
    /// # Errors
    /// No row allows it; the error names what would be allowed.
    pub fn step(
        &self,
        from: impl Into<Option<S>>,
        event: E,
        holds: impl FnMut(G) -> bool,
    ) -> Result<S, Rejected<S, E>> {
        self.choose(from, event, holds).map(|transition| transition.to)
    }

    /// States that one transition can lead to, `from` itself included if a transition stays there.
    #[must_use]
    pub fn successors(&self, from: impl Into<Option<S>>) -> BTreeSet<S> {
        let from = from.into();
        let ways = E::ALL.iter().flat_map(|event| self.transitions(from, *event));
        ways.map(|transition| transition.to).collect()
    }

    /// States reachable from `from` in any number of transitions, `from` itself included; `None` is an object that does not exist yet.
    #[must_use]
    pub fn reachable(&self, from: impl Into<Option<S>>) -> BTreeSet<S> {
        self.walk(from.into()).into_keys().collect()
    }

    /// A shortest way `from → … → to` by the states passed, both ends included; `None` if there is none.
    ///
    /// Controllers that see the world only now and then use it to name the steps they did not see.
    #[must_use]
    pub fn path(&self, from: S, to: S) -> Option<Vec<S>> {
        let parents = self.walk(Some(from));
        let mut way = vec![to];
        let mut state = to;
        while state != from {
            state = (*parents.get(&state)?)?;
            way.push(state);
        }
        way.reverse();
        Some(way)
    }

    /// How a newly polled state relates to the last known one; a poll may skip states.
    #[must_use]
    pub fn poll(&self, known: S, seen: S) -> Poll {
        match self.path(known, seen).map_or(0, |way| way.len()) {
            0 => Poll::Drift,
            1 => Poll::Unchanged,
            2 => Poll::Step,
            _ => Poll::Skipped,
        }
    }

    /// Every state reached from `from`, with the state it was first reached from.
    fn walk(&self, from: Option<S>) -> BTreeMap<S, Option<S>> {
        let mut parents = BTreeMap::new();
        let mut queue = VecDeque::new();
        match from {
            Some(state) => {
                parents.insert(state, None);
                queue.push_back(state);
            }
            None => {
                for state in self.successors(None) {
                    parents.insert(state, None);
                    queue.push_back(state);
                }
            }
        }
        while let Some(state) = queue.pop_front() {
            for next in self.successors(state) {
                parents.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    Some(state)
                });
            }
        }
        parents
    }
}
