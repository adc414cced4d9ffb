//! The lives of a reservation service's leases and reservations. Owns their statuses
//! and the tables of transitions; what a status means for a deployment is decided in [`saga`](super::saga).

use super::transition::rows;
use super::{Machine, NoGuard};
use crate::named::named_enum;

named_enum! {
    /// The status of a lease. As an event it is a poll that sees this status; 404 is `gone`.
    pub enum LeaseState("lease status") {
        /// It is being made.
        Creating = "CREATING",
        /// It waits for its start.
        Pending = "PENDING",
        /// It is being started.
        Starting = "STARTING",
        /// Its hosts are allocated.
        Active = "ACTIVE",
        /// Its dates are being changed.
        Updating = "UPDATING",
        /// It is being ended.
        Terminating = "TERMINATING",
        /// It has ended, and stays listed.
        Terminated = "TERMINATED",
        /// It is being deleted.
        Deleting = "DELETING",
        /// Something went wrong; the service does not say what.
        Error = "ERROR",
        /// It no longer exists.
        Gone = "gone",
    }
}

/// The life of a lease. Its events are polls; a status that no sequence of transitions leads to is drift.
pub static LEASE: Machine<LeaseState, LeaseState, NoGuard> = Machine {
    name: "lease",
    terminal: &[LeaseState::Gone],
    rows: rows! { LeaseState, LeaseState, NoGuard;
        "lease": [] on [Creating] => Creating;
        "lease": [Creating] on [Pending] => Pending;
        "lease": [Pending] on [Starting] => Starting;
        "lease": [Starting] on [Active] => Active;
        "lease": [Active, Error] on [Terminating] => Terminating;
        "lease": [Updating] on [Pending] => Pending;
        "lease": [Updating] on [Active] => Active;
        "lease": [Updating, Terminating] on [Terminated] => Terminated;
        "lease": [Starting, Updating, Terminating, Deleting] on [Error] => Error;
        "lease": [Pending, Active, Error, Terminated] on [Updating] => Updating;
        "lease": [Pending, Starting, Active, Updating, Terminating, Error, Terminated] on [Deleting] => Deleting;
        "lease": [Deleting] on [Gone] => Gone;
    },
};

named_enum! {
    /// The status of a reservation within a lease. As an event it is a poll that sees this status.
    pub enum ReservationState("reservation status") {
        /// Its host is promised.
        Pending = "pending",
        /// Its host is allocated.
        Active = "active",
        /// It is over.
        Deleted = "deleted",
        /// It lost its host.
        Error = "error",
    }
}

/// The life of a reservation. Its events are polls; a status that no sequence of transitions leads to is drift.
pub static RESERVATION: Machine<ReservationState, ReservationState, NoGuard> = Machine {
    name: "reservation",
    terminal: &[ReservationState::Deleted],
    rows: rows! { ReservationState, ReservationState, NoGuard;
        "reservation": [] on [Pending] => Pending;
        "reservation": [Pending] on [Active] => Active;
        "reservation": [Pending, Active] on [Error] => Error;
        "reservation": [Pending, Active, Error] on [Deleted] => Deleted;
    },
};

#[cfg(test)]
mod tests {
    use super::super::{Named, Poll, laws};
    use super::*;

    #[test]
    fn every_lease_status_and_poll() {
        laws::hold(&LEASE, &[]);
        insta::assert_snapshot!(LEASE.listing());
    }

    #[test]
    fn every_reservation_status_and_poll() {
        laws::hold(&RESERVATION, &[]);
        insta::assert_snapshot!(RESERVATION.listing());
    }

    #[test]
    fn the_ways_are_exactly_those_of_the_specification() {
        let ways: Vec<String> = LeaseState::ALL
            .iter()
            .filter(|from| !LEASE.successors(**from).is_empty())
            .map(|from| {
                let to: Vec<&str> = LEASE.successors(*from).into_iter().map(Named::as_str).collect();
                format!("{from} -> {}", to.join("|"))
            })
            .collect();
        insta::assert_snapshot!(ways.join("; "), @"CREATING -> PENDING; PENDING -> STARTING|UPDATING|DELETING; STARTING -> ACTIVE|DELETING|ERROR; ACTIVE -> UPDATING|TERMINATING|DELETING; UPDATING -> PENDING|ACTIVE|TERMINATED|DELETING|ERROR; TERMINATING -> TERMINATED|DELETING|ERROR; TERMINATED -> UPDATING|DELETING; DELETING -> ERROR|gone; ERROR -> UPDATING|TERMINATING|DELETING");
    }

    #[test]
    fn a_poll_may_skip_states_and_what_no_way_explains_is_drift() {
        assert_eq!(LEASE.poll(LeaseState::Pending, LeaseState::Pending), Poll::Unchanged);
        assert_eq!(LEASE.poll(LeaseState::Pending, LeaseState::Starting), Poll::Step);
        assert_eq!(LEASE.poll(LeaseState::Pending, LeaseState::Active), Poll::Skipped);
        assert_eq!(LEASE.poll(LeaseState::Active, LeaseState::Gone), Poll::Skipped);
        assert_eq!(LEASE.poll(LeaseState::Active, LeaseState::Creating), Poll::Drift);
        assert_eq!(LEASE.poll(LeaseState::Gone, LeaseState::Active), Poll::Drift);
        assert_eq!(RESERVATION.poll(ReservationState::Deleted, ReservationState::Active), Poll::Drift);
    }

    #[test]
    fn statuses_have_the_exact_texts_of_the_service() {
        assert_eq!("TERMINATED".parse(), Ok(LeaseState::Terminated));
        assert!("terminated".parse::<LeaseState>().is_err());
        assert_eq!("active".parse(), Ok(ReservationState::Active));
    }
}
