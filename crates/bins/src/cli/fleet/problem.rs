//! What a server answered in place of what was asked, as a failure of the command.

use std::time::Duration;

use super::super::failure::Failure;
use crate::wire::problem::{Code, FLOW, PARAMETERS, Problem};

impl From<&Problem> for Failure {
    fn from(problem: &Problem) -> Self {
        let path = problem.errors.first().map(|error| error.path.as_str()).unwrap_or_default();
        // The values of a flow's parameters are options of a verb.
        if let [wrong] = problem.errors.as_slice()
            && wrong.path == PARAMETERS
        {
            return Self::usage(&wrong.message);
        }
        let mut message = problem.detail.clone();
        if problem.code == Code::NotFound && path == FLOW {
            message.push_str("; see `orlop flow list --target fleet`");
        }
        if problem.errors.len() > 1 {
            for error in &problem.errors {
                message.push_str(&format!("\n  {}: {}", error.path, error.message));
            }
        }
        if let Some(hint) = super::hint::of_problem(problem.code) {
            message.push_str(&format!("; {hint}"));
        }
        let wait = problem.retry_after_ms.filter(|_| problem.code == Code::RateLimited);
        Self { retry_after: wait.map(Duration::from_millis), ..Self::new(problem.code.class().into(), message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_of_a_server_has_its_exit_code() {
        let row = |code: &Code| format!("{code} {}", Failure::from(&Problem::new(*code, "x")).exit.code());
        let table: Vec<String> = Code::ALL.iter().map(row).collect();
        insta::assert_snapshot!(table.join("\n"), @r"
        invalid-spec 3
        unauthenticated 6
        forbidden 6
        not-found 4
        method-not-allowed 4
        conflict 5
        precondition 5
        too-large 3
        media-type 3
        never-fits 3
        idempotency-mismatch 5
        checksum 3
        quota-exceeded 11
        rate-limited 11
        internal 1
        not-leader 7
        store-unavailable 7
        deadline 7
        ");
    }
}
