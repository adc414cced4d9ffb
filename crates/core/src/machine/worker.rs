//! The lifecycle of one incarnation of a worker: a worker id that comes back after its end is a new incarnation. Owns its states and the table of transitions;
//! never measures a heartbeat. Cordon is a flag beside the state, not a state.

use super::Machine;
use super::transition::rows;
use crate::named::named_enum;

named_enum! {
    /// The state of a worker.
    pub enum WorkerState("worker state") {
        /// Declared, but it has not registered yet.
        Creating,
        /// It registered and has to open its stream.
        Registering,
        /// Connected, without attempts.
        Available,
        /// Connected, with attempts.
        Running,
        /// Out of reach, or bad by its own report or by its results.
        Unhealthy,
        /// It finishes what it has and takes nothing new.
        Draining,
        /// Final: it never came, or did not come back.
        Failed,
        /// Final: it left, or was removed.
        Terminated,
    }
}

impl WorkerState {
    /// Whether the incarnation is over.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        MACHINE.is_terminal(self)
    }

    /// Whether new work may be placed on it, unless it is cordoned.
    #[must_use]
    pub fn is_schedulable(self) -> bool {
        matches!(self, Self::Available | Self::Running)
    }
}

named_enum! {
    /// What happens to a worker.
    pub enum Event("worker event") {
        Declared = "declared or first contact",
        Registered = "RegisterWorker",
        CreateTimeout = "create_timeout",
        ProvisionFailed = "provisioner failure",
        Synced = "stream opened and synced",
        Refused = "refused",
        RegisterTimeout = "no stream in register_timeout",
        JobAssigned = "job assigned",
        JobEnded = "job ended",
        DrainRequested = "drain requested or SIGTERM",
        Emptied = "nothing left to drain",
        DrainDeadline = "drain deadline",
        UrgentPlaced = "urgent job placed",
        DrainWithdrawn = "drain withdrawn",
        ConnectionLost = "connection lost",
        HeartbeatTimeout = "no heartbeat for heartbeat_timeout",
        ReportBad = "self-report bad",
        StartFailures = "10 StartFailed in 60 s",
        Recovered = "reconnected and synced, or report good and probation over",
        ReassignDue = "silent for reassign_after",
        FailDue = "silent for fail_after",
        TooManyLosses = "max_failures losses in 10 min",
        Superseded = "another state directory registers",
        Goodbye = "goodbye",
        Removed = "removed by force",
    }
}

named_enum! {
    /// What decides between transitions of a worker.
    pub enum Guard("worker guard") {
        Valid = "token or certificate, protocol and capabilities are valid",
        AttemptsKept = "attempts were kept",
        NotCordoned = "it is not cordoned",
        OthersLeft = "other attempts are left",
        DrainPending = "a drain is pending",
        Connected = "it is connected",
        NotConnected = "it is not connected",
        UrgentOnlyHere = "the job is urgent, fits nowhere else and the host does not shut down",
        StaysWithWork = "the host does not shut down and attempts are left",
        StaysIdle = "the host does not shut down and no attempts are left",
    }
}

const LIVE: &[WorkerState] = &[
    WorkerState::Creating,
    WorkerState::Registering,
    WorkerState::Available,
    WorkerState::Running,
    WorkerState::Unhealthy,
    WorkerState::Draining,
];

/// The life of a worker.
///
/// A drain leads to Draining, and a worker with nothing left goes straight on to Terminated by `nothing left to drain`.
/// An unhealthy but connected worker goes on with its attempts, so their ends are taken there too. A second directory
/// that registers a worker id fails the first one when that is not connected, and is refused when it is.
pub static MACHINE: Machine<WorkerState, Event, Guard> = Machine {
    name: "worker",
    terminal: &[WorkerState::Failed, WorkerState::Terminated],
    rows: rows! { WorkerState, Event, Guard;
        "declared": [] on [Declared] => Creating, "incarnation + 1";
        "register": [Creating] on [Registered] if Valid => Registering, "session issued";
        "register": [Creating] on [CreateTimeout, ProvisionFailed] => Failed, "reason";
        "sync": [Registering] on [Synced] if AttemptsKept => Running, "capacity enters the table", "wake blocked classes";
        "sync": [Registering] on [Synced] => Available, "capacity enters the table", "wake blocked classes";
        "sync": [Registering] on [Refused, RegisterTimeout] => Failed, "reason to agent and operator";
        "assigned": [Available, Running] on [JobAssigned] if NotCordoned => Running;
        "ended": [Running] on [JobEnded] if OthersLeft => same;
        "ended": [Running] on [JobEnded] if DrainPending => Draining;
        "ended": [Running] on [JobEnded] => Available;
        "drain": [Available, Running] on [DrainRequested] => Draining, "no new work", "revoke prefilled attempts";
        "lost": [Available, Running, Draining] on [ConnectionLost, HeartbeatTimeout] => Unhealthy, "attempts Suspect", "no new work", "drain kept";
        "bad": [Available, Running] on [ReportBad, StartFailures] if Connected => Unhealthy, "probation";
        "back": [Unhealthy] on [Recovered] if DrainPending => Draining, "kept attempts leave Suspect";
        "back": [Unhealthy] on [Recovered] if AttemptsKept => Running, "kept attempts leave Suspect";
        "back": [Unhealthy] on [Recovered] => Available, "kept attempts leave Suspect";
        "silent": [Unhealthy] on [ReassignDue] => same, "attempts Lost", "states of its jobs", "capacity stays held";
        "failed": [Unhealthy] on [FailDue, TooManyLosses] => Failed, "attempts Lost", "capacity leaves the table";
        "count": [Unhealthy] on [ConnectionLost, HeartbeatTimeout, ReportBad, StartFailures] => same, "count";
        "bad": [Unhealthy] on [JobEnded] => same;
        "ended": [Draining] on [JobEnded] if OthersLeft => same;
        "ended": [Draining] on [JobEnded, Emptied] => Terminated, "Shutdown", "session closed";
        "deadline": [Draining] on [DrainDeadline] if OthersLeft => same, "cancel with grace", "jobs to Queued";
        "urgent": [Draining] on [UrgentPlaced] if UrgentOnlyHere => Running, "drain stays pending";
        "undrain": [Draining] on [DrainWithdrawn] if StaysWithWork => Running;
        "undrain": [Draining] on [DrainWithdrawn] if StaysIdle => Available;
        "superseded": [Registering, Available, Running, Unhealthy, Draining] on [Superseded] if NotConnected => Failed, "attempts Lost", "incarnation + 1";
        "gone": [in LIVE] on [Goodbye, Removed] => Terminated, "attempts Lost";
    },
};

#[cfg(test)]
mod tests {
    use super::super::{Named, laws};
    use super::*;

    #[test]
    fn every_state_and_event() {
        laws::hold(&MACHINE, &[]);
        insta::assert_snapshot!(MACHINE.listing());
    }

    #[test]
    fn terminal_states_take_nothing() {
        for state in [WorkerState::Failed, WorkerState::Terminated] {
            assert!(Event::ALL.iter().all(|event| MACHINE.step(state, *event, |_| true).is_err()));
        }
    }

    #[test]
    fn a_pending_drain_survives_urgent_work_and_a_lost_connection() {
        let on = |state, event, holds: &[Guard]| MACHINE.step(state, event, |guard| holds.contains(&guard)).unwrap();
        let running = on(WorkerState::Draining, Event::UrgentPlaced, &[Guard::UrgentOnlyHere]);
        assert_eq!(on(running, Event::JobEnded, &[Guard::DrainPending]), WorkerState::Draining);
        let unhealthy = on(WorkerState::Draining, Event::ConnectionLost, &[]);
        assert_eq!(on(unhealthy, Event::Recovered, &[Guard::DrainPending]), WorkerState::Draining);
        assert_eq!(on(WorkerState::Draining, Event::Emptied, &[]), WorkerState::Terminated);
    }

    #[test]
    fn a_cordoned_worker_takes_no_job() {
        insta::assert_snapshot!(MACHINE.step(WorkerState::Available, Event::JobAssigned, |_| false).unwrap_err(), @"worker: Available takes `job assigned` only if it is not cordoned");
        let schedulable: Vec<_> = WorkerState::ALL.iter().filter(|state| state.is_schedulable()).collect();
        assert_eq!(schedulable, [&WorkerState::Available, &WorkerState::Running]);
    }
}
