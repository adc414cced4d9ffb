//! Exit codes of the programs of Orlop, in one table.

use std::process::ExitCode;

use orlop_core::error::Class;
use serde::{Deserialize, Serialize};

/// The table of exit codes as text, for help pages.
pub const TABLE: &str = "\
Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 refused, 4 not found, 5 conflict,
6 denied, 7 unreachable, 8 timed out waiting, 9 stopped, 10 left paused, 11 quota or capacity,
12 leftovers exist, 13 made but unusable, 14 confirmation needed, 130 interrupted, 143 terminated";

/// A help text with the table of exit codes below it.
#[must_use]
pub fn help(text: &str) -> String {
    format!("{text}\n\n{TABLE}")
}

macro_rules! exits {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $meaning:literal;)+) => {
        /// How a program ends.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Exit {
            $($(#[$doc])* $name,)+
            /// The exit code of the job that was waited for; of one that a signal ended, 128 and its number.
            Job(u8),
        }

        impl Exit {
            /// The whole table, with the meaning of each.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$name, $meaning)),+];

            /// The number that the process ends with.
            #[must_use]
            pub const fn code(self) -> u8 {
                match self {
                    $(Self::$name => $code,)+
                    Self::Job(code) => code,
                }
            }
        }
    };
}

exits! {
    /// What was asked for is done; a flow or job that was waited for succeeded.
    Done = 0, "done";
    /// The flow, job or deployment failed, or the program met an error itself.
    Failed = 1, "failed";
    /// Flags, environment or configuration are wrong, or something that they name is missing.
    Usage = 2, "usage or configuration";
    /// A manifest, specification or request is invalid.
    Refused = 3, "refused";
    /// What the command is about does not exist.
    NotFound = 4, "not found";
    /// Its state forbids it, the name is taken, or another process holds it.
    Conflict = 5, "conflict";
    /// Credentials, permissions or a policy forbid it.
    Denied = 6, "denied";
    /// A server, service or engine does not answer.
    Unreachable = 7, "unreachable";
    /// The time given for waiting is over; what was waited for goes on.
    TimedOut = 8, "timed out waiting";
    /// The flow was ended by stop, terminate or a flow that replaced it.
    Stopped = 9, "stopped";
    /// The flow was left paused.
    Paused = 10, "left paused";
    /// A quota, budget or rate is used up, or nothing has room.
    Quota = 11, "quota or capacity";
    /// Something that was made could not be removed.
    Leftovers = 12, "leftovers exist";
    /// It was made, but cannot be reached or is not what was asked for.
    Unusable = 13, "made but unusable";
    /// Somebody has to agree, and nobody did.
    Unconfirmed = 14, "confirmation needed";
    /// SIGINT or a hang-up ended it.
    Interrupted = 130, "interrupted";
    /// SIGTERM ended it.
    Terminated = 143, "terminated";
}

impl From<Class> for Exit {
    fn from(class: Class) -> Self {
        match class {
            Class::Invalid => Self::Refused,
            Class::NotFound => Self::NotFound,
            Class::Conflict | Class::Exists => Self::Conflict,
            Class::Denied => Self::Denied,
            Class::Transient => Self::Unreachable,
            Class::Capacity => Self::Quota,
            Class::Fatal => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_help_is_that_of_the_codes() {
        let rows = Exit::ALL.iter().map(|(exit, meaning)| format!("{} {meaning}", exit.code())).collect::<Vec<_>>();
        assert_eq!(TABLE.replace('\n', " "), format!("Exit codes: {}", rows.join(", ")));
        assert_eq!(Exit::Job(128 + 9).code(), 137);
    }

    #[test]
    fn the_table_of_the_documents_is_that_of_the_codes() {
        let page = include_str!("../../../docs/reference/exit-codes.md");
        let cells = page.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
        let rows = cells.filter(|row| row.len() == 5).filter_map(|row| Some((row[1].parse().ok()?, row[2])));
        assert_eq!(
            rows.collect::<Vec<(u8, _)>>(),
            Exit::ALL.iter().map(|(exit, text)| (exit.code(), *text)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn every_class_of_errors_has_its_exit_code() {
        let classes = [
            Class::Invalid,
            Class::NotFound,
            Class::Conflict,
            Class::Exists,
            Class::Denied,
            Class::Transient,
            Class::Capacity,
            Class::Fatal,
        ];
        assert_eq!(classes.map(|class| Exit::from(class).code()), [3, 4, 5, 5, 6, 7, 11, 1]);
    }
}
