//! The life of a compute service's server. Owns the statuses a poll may see, the states
//! they lead to and the table of transitions; what a state means for a deployment is decided in [`saga`](super::saga).

use super::transition::rows;
use super::{Machine, NoGuard};
use crate::named::named_enum;

named_enum! {
    /// The state of a server as far as known.
    pub enum ServerState("server state") {
        /// It is being made.
        Build = "BUILD",
        /// It runs.
        Active = "ACTIVE",
        /// It is switched off.
        Shutoff = "SHUTOFF",
        /// It is being restarted.
        Reboot = "REBOOT",
        /// It is being made anew.
        Rebuild = "REBUILD",
        /// It is halted in memory.
        Paused = "PAUSED",
        /// It is halted on disk.
        Suspended = "SUSPENDED",
        /// Something went wrong; its fault says what.
        Error = "ERROR",
        /// It no longer exists.
        Gone = "gone",
    }
}

named_enum! {
    /// What a poll sees of a server.
    pub enum ServerStatus("server status") {
        Build = "BUILD",
        Active = "ACTIVE",
        Shutoff = "SHUTOFF",
        Reboot = "REBOOT",
        Rebuild = "REBUILD",
        Paused = "PAUSED",
        Suspended = "SUSPENDED",
        Error = "ERROR",
        Deleted = "DELETED",
        SoftDeleted = "SOFT_DELETED",
        /// The service answers 404.
        NotFound = "404",
        /// The service does not know: the server is taken to be as it was.
        Unknown = "UNKNOWN",
    }
}

const EXISTING: &[ServerState] = &[
    ServerState::Build,
    ServerState::Active,
    ServerState::Shutoff,
    ServerState::Reboot,
    ServerState::Rebuild,
    ServerState::Paused,
    ServerState::Suspended,
    ServerState::Error,
];

/// The life of a server. Its events are polls; a status that no sequence of transitions leads to is drift.
///
/// The rows named `ServerWait` let servers come back from REBOOT, REBUILD, PAUSED and SUSPENDED, so that a restart by somebody
/// else is not taken for drift.
pub static MACHINE: Machine<ServerState, ServerStatus, NoGuard> = Machine {
    name: "server",
    terminal: &[ServerState::Gone],
    rows: rows! { ServerState, ServerStatus, NoGuard;
        "server": [] on [Build] => Build;
        "server": [Build, Shutoff, Error] on [Active] => Active;
        "server": [Build, Active] on [Error] => Error;
        "server": [Active] on [Shutoff] => Shutoff;
        "server": [Active] on [Reboot] => Reboot;
        "server": [Active] on [Rebuild] => Rebuild;
        "server": [Active, Shutoff, Error] on [Deleted, SoftDeleted, NotFound] => Gone;
        "ServerWait": [Reboot, Rebuild, Paused, Suspended] on [Active] => Active;
        "ServerWait": [Reboot, Rebuild] on [Error] => Error;
        "ServerWait": [Active] on [Paused] => Paused;
        "ServerWait": [Active] on [Suspended] => Suspended;
        "unknown": [in EXISTING] on [Unknown] => same;
    },
};

impl ServerStatus {
    /// The state a server with this status is in; none if the status says nothing.
    #[must_use]
    pub fn state(self) -> Option<ServerState> {
        Some(match self {
            Self::Build => ServerState::Build,
            Self::Active => ServerState::Active,
            Self::Shutoff => ServerState::Shutoff,
            Self::Reboot => ServerState::Reboot,
            Self::Rebuild => ServerState::Rebuild,
            Self::Paused => ServerState::Paused,
            Self::Suspended => ServerState::Suspended,
            Self::Error => ServerState::Error,
            Self::Deleted | Self::SoftDeleted | Self::NotFound => ServerState::Gone,
            Self::Unknown => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Named, Poll, laws};
    use super::*;

    #[test]
    fn every_state_and_poll() {
        laws::hold(&MACHINE, &[]);
        insta::assert_snapshot!(MACHINE.listing());
    }

    #[test]
    fn every_row_leads_to_the_state_its_status_says() {
        for from in ServerState::ALL.iter().copied() {
            for seen in ServerStatus::ALL.iter().copied() {
                if let Ok(to) = MACHINE.step(from, seen, |guard| match guard {}) {
                    assert_eq!(to, seen.state().unwrap_or(from));
                }
            }
        }
    }

    #[test]
    fn unknown_means_stay() {
        for state in EXISTING.iter().copied() {
            assert_eq!(MACHINE.step(state, ServerStatus::Unknown, |guard| match guard {}), Ok(state));
        }
    }

    #[test]
    fn a_poll_may_skip_states_and_what_no_way_explains_is_drift() {
        assert_eq!(MACHINE.poll(ServerState::Build, ServerState::Gone), Poll::Skipped);
        assert_eq!(MACHINE.poll(ServerState::Active, ServerState::Gone), Poll::Step);
        assert_eq!(MACHINE.poll(ServerState::Active, ServerState::Build), Poll::Drift);
        assert_eq!(MACHINE.poll(ServerState::Gone, ServerState::Active), Poll::Drift);
    }
}
