//! The lifecycle of a tenant. Owns its states and the table of transitions; knows no quota.

use super::transition::rows;
use super::{Machine, NoGuard};
use crate::named::named_enum;

named_enum! {
    /// The state of a tenant, with its text in the API.
    #[derive(Default)]
    pub enum TenantState("tenant state") {
        /// It may submit, and its jobs start.
        #[default]
        Active = "active",
        /// Its jobs are not ready; what runs goes on.
        Paused = "paused",
        /// It is being deleted: nothing is submitted any more, and it leaves the table with its last job.
        Closing = "closing",
    }
}

named_enum! {
    /// What happens to a tenant.
    pub enum Event("tenant event") {
        Created = "created",
        Paused = "pause",
        Resumed = "resume",
        Deleted = "delete",
        LastJobEnded = "last job ended",
    }
}

/// The life of a tenant. Nothing leads back from closing; with no job alive its record goes.
pub static MACHINE: Machine<TenantState, Event, NoGuard> = Machine {
    name: "tenant",
    terminal: &[TenantState::Closing],
    rows: rows! { TenantState, Event, NoGuard;
        "created": [] on [Created] => Active;
        "pause": [Active, Paused] on [Paused] => Paused, "its queues are not ready";
        "resume": [Active, Paused] on [Resumed] => Active, "its queues are ready";
        "delete": [Active, Paused, Closing] on [Deleted] => Closing, "refuse submits", "409 while jobs live";
        "delete": [Closing] on [LastJobEnded] => same, "remove the tenant";
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
    fn states_have_the_exact_api_texts() {
        assert_eq!(serde_json::to_string(TenantState::ALL).unwrap(), r#"["active","paused","closing"]"#);
    }
}
