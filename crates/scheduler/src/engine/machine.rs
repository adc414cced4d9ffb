//! The transition tables of `orlop_core::machine` laid out for lookup by state and event. Owns no rule: every cell is read
//! from the tables.

use std::sync::LazyLock;

use orlop_core::machine::{Machine, Named, attempt, job, worker};

/// Transitions by state and event, in the order they are tried.
pub(super) struct Dense<S: 'static, G: 'static> {
    cells: Vec<Vec<(Option<G>, S)>>,
    events: usize,
}

impl<S: Copy, G: Copy> Dense<S, G> {
    fn new<E: Named>(machine: &Machine<S, E, G>) -> Self
    where
        S: Named,
        G: Named,
    {
        let cell = |state: S, event: E| machine.transitions(state, event).map(|way| (way.guard, way.to)).collect();
        let cells = S::ALL.iter().flat_map(|state| E::ALL.iter().map(move |event| cell(*state, *event)));
        Self { cells: cells.collect(), events: E::ALL.len() }
    }

    /// The state after an event, under the guards that hold; none if the state does not take it.
    fn step(&self, state: usize, event: usize, mut holds: impl FnMut(G) -> bool) -> Option<S> {
        let ways = self.cells.get(state * self.events + event)?;
        ways.iter().find(|(guard, _)| guard.is_none_or(&mut holds)).map(|(_, to)| *to)
    }
}

static JOB: LazyLock<Dense<job::JobState, job::Guard>> = LazyLock::new(|| Dense::new(&job::MACHINE));
static ATTEMPT: LazyLock<Dense<attempt::AttemptState, attempt::Guard>> =
    LazyLock::new(|| Dense::new(&attempt::MACHINE));
static WORKER: LazyLock<Dense<worker::WorkerState, worker::Guard>> = LazyLock::new(|| Dense::new(&worker::MACHINE));

/// The next state of a job, element or gang.
pub(super) fn job(
    state: job::JobState,
    event: job::Event,
    holds: impl FnMut(job::Guard) -> bool,
) -> Option<job::JobState> {
    JOB.step(state as usize, event as usize, holds)
}

/// The next state of an attempt.
pub(super) fn attempt(
    state: attempt::AttemptState,
    event: attempt::Event,
    holds: impl FnMut(attempt::Guard) -> bool,
) -> Option<attempt::AttemptState> {
    ATTEMPT.step(state as usize, event as usize, holds)
}

/// The next state of a worker.
pub(super) fn worker(
    state: worker::WorkerState,
    event: worker::Event,
    holds: impl FnMut(worker::Guard) -> bool,
) -> Option<worker::WorkerState> {
    WORKER.step(state as usize, event as usize, holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_equal_the_tables() {
        for state in job::JobState::ALL.iter().copied() {
            for event in job::Event::ALL.iter().copied() {
                for hold in [false, true] {
                    assert_eq!(job(state, event, |_| hold), job::MACHINE.step(state, event, |_| hold).ok());
                }
            }
        }
        for state in worker::WorkerState::ALL.iter().copied() {
            for event in worker::Event::ALL.iter().copied() {
                assert_eq!(worker(state, event, |_| true), worker::MACHINE.step(state, event, |_| true).ok());
            }
        }
        for state in attempt::AttemptState::ALL.iter().copied() {
            for event in attempt::Event::ALL.iter().copied() {
                assert_eq!(attempt(state, event, |_| true), attempt::MACHINE.step(state, event, |_| true).ok());
            }
        }
    }
}
