//! What a server answered in place of what was asked, as a failure of the command.

use orlop_core::error::{Code, FLOW, Problem};

use super::super::failure::Failure;

impl From<&Problem> for Failure {
    fn from(problem: &Problem) -> Self {
        let path = problem.fields.first().map(|error| error.path.as_str()).unwrap_or_default();
        let mut failure = Self::from(problem.clone());
        if problem.code == Code::NotFound && path == FLOW {
            failure.message.push_str("; see `orlop flow list --target fleet`");
        }
        if problem.fields.len() > 1 {
            for error in &problem.fields {
                failure.message.push_str(&format!("\n  {}: {}", error.path, error.message));
            }
        }
        if let Some(hint) = super::hint::of_problem(problem.code) {
            failure.message.push_str(&format!("; {hint}"));
        }
        failure.retry_after = problem.retry_after.filter(|_| problem.code == Code::RateLimited);
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_of_a_server_has_its_exit_code() {
        let row = |code: &Code| format!("{code} {}", Failure::from(&Problem::coded(*code, "x")).exit.code());
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
