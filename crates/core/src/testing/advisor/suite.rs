//! Conformance suite of advisors. Owns the list of checks.

use std::time::Duration;

use serde_json::json;

use super::Deed;
use crate::error::Class;
use crate::ports::advisor::{Advisor, MAX_REPLY, Message, Question, Speaker};
use crate::testing::suite::{CheckResult, Suite, SuiteFailure, fails, holds, same};

/// Checks an advisor against its port. `open` opens one whose other side does these things, one a question. Gives the names
/// of the checks.
///
/// # Errors
/// Every check that does not hold, with the reason.
pub async fn advisor_suite<A: Advisor>(open: impl AsyncFn(Vec<Deed>) -> A) -> Result<Vec<&'static str>, SuiteFailure> {
    let mut suite = Suite::new("advisor");
    macro_rules! checks {
        ($($check:ident: $deeds:expr),+ $(,)?) => {
            $({
                let advisor = open($deeds).await;
                suite.check(stringify!($check), $check(&advisor)).await;
            })+
        };
    }
    checks! {
        an_answer_comes_as_it_was_given: vec![Deed::Answers("{\"a\": 1}\n\u{e9}".to_owned())],
        an_empty_answer_is_no_answer_or_an_empty_one: vec![Deed::Answers(String::new())],
        a_long_answer_is_cut_or_refused: vec![Deed::Answers("\u{e9}".repeat(MAX_REPLY))],
        a_refusal_is_invalid: vec![Deed::Refuses],
        who_may_not_ask_is_denied: vec![Deed::Denies],
        a_failing_side_is_transient: vec![Deed::Fails],
        silence_ends_with_patience: vec![Deed::IsSilent],
        after_a_failure_it_can_be_asked_again: vec![Deed::Refuses, Deed::Answers("{}".to_owned())],
    }
    suite.finish()
}

fn question() -> Question {
    let messages = vec![Message::new(Speaker::System, "Answer with JSON."), Message::new(Speaker::User, "How many?")];
    let schema = json!({"type": "object", "additionalProperties": false, "required": [], "properties": {}});
    Question { name: "suite", messages, schema }
}

const PATIENCE: Duration = Duration::from_secs(20);

async fn an_answer_comes_as_it_was_given<A: Advisor>(advisor: &A) -> CheckResult {
    let reply = advisor.ask(&question(), PATIENCE).await?;
    holds("a request was counted", reply.requests >= 1)?;
    same("the answer", &reply.text.as_str(), &"{\"a\": 1}\n\u{e9}")
}

async fn an_empty_answer_is_no_answer_or_an_empty_one<A: Advisor>(advisor: &A) -> CheckResult {
    match advisor.ask(&question(), PATIENCE).await {
        Ok(reply) => same("the answer", &reply.text.as_str(), &""),
        Err(error) => same("the class", &error.class, &Class::Invalid),
    }
}

async fn a_long_answer_is_cut_or_refused<A: Advisor>(advisor: &A) -> CheckResult {
    match advisor.ask(&question(), PATIENCE).await {
        Ok(reply) => holds("the answer is bounded", reply.text.len() <= MAX_REPLY),
        Err(error) => same("the class", &error.class, &Class::Invalid),
    }
}

async fn a_refusal_is_invalid<A: Advisor>(advisor: &A) -> CheckResult {
    fails("asking", advisor.ask(&question(), PATIENCE).await, Class::Invalid)
}

async fn who_may_not_ask_is_denied<A: Advisor>(advisor: &A) -> CheckResult {
    fails("asking", advisor.ask(&question(), PATIENCE).await, Class::Denied)
}

async fn a_failing_side_is_transient<A: Advisor>(advisor: &A) -> CheckResult {
    fails("asking", advisor.ask(&question(), PATIENCE).await, Class::Transient)
}

async fn silence_ends_with_patience<A: Advisor>(advisor: &A) -> CheckResult {
    fails("asking", advisor.ask(&question(), Duration::from_millis(300)).await, Class::Transient)
}

async fn after_a_failure_it_can_be_asked_again<A: Advisor>(advisor: &A) -> CheckResult {
    fails("asking", advisor.ask(&question(), PATIENCE).await, Class::Invalid)?;
    same("the answer", &advisor.ask(&question(), PATIENCE).await?.text.as_str(), &"{}")
}
