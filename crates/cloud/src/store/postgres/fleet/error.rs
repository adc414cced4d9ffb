//! What trouble with the database means to a server: class, and what to do. Owns the classification only.

use orlop_core::error::{Class, Problem};
use tokio_postgres::error::SqlState;

use crate::store::fleet::batch::{double, final_twice};

/// The port's error for an error of PostgreSQL, met while `doing` something with the fleet's store.
pub(super) fn classify(doing: &str, error: &tokio_postgres::Error) -> Problem {
    let Some(reported) = error.as_db_error() else {
        let class = if error.is_closed() || std::error::Error::source(error).is_some() {
            Class::Transient
        } else {
            Class::Fatal
        };
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        let message =
            format!("{doing} the fleet store failed: {error}{cause}; check that PostgreSQL runs and is reachable");
        return Problem::new(class, message);
    };
    if reported.code() == &SqlState::UNIQUE_VIOLATION {
        return match reported.constraint() {
            Some("attempts_final") => final_twice("a job or element"),
            _ => double(reported.detail().unwrap_or("a row")),
        };
    }
    let code = reported.code().code();
    let (class, advice) = match code.get(..2).unwrap_or(code) {
        "53" => (Class::Capacity, "the database is out of resources; free disk, memory or connections"),
        "08" | "40" | "55" | "57" => (Class::Transient, "the database was busy or restarting; try again"),
        "58" => (Class::Transient, "the database cannot read or write its files; check its disk and log"),
        "28" | "42" if code == "42501" || code.starts_with("28") => {
            (Class::Denied, "the database refuses the user; check user, password and rights")
        }
        "3D" => (Class::NotFound, "database not found; create it"),
        "22" => (Class::Invalid, "a value cannot be stored"),
        "XX" => (Class::Fatal, "the database is damaged; restore a backup"),
        _ => (Class::Fatal, "this is a fault of Orlop; report it with this message"),
    };
    Problem::new(class, format!("{doing} the fleet store failed: {advice} (PostgreSQL {code}: {})", reported.message()))
}
