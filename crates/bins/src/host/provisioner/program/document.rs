//! The result for programs: one document of the schema `orlop.provisioner/1`.

use std::time::Duration;

use orlop_cloud::exit::Exit;
use orlop_cloud::llm::AdvisorUsage;
use serde::Serialize;
use serde_json::{Value, json};

use super::failure::Failure;

/// The result of a verb, for programs and for people.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) data: Value,
    pub(super) text: String,
    /// What went wrong, although there is something to tell.
    pub(super) failure: Option<Failure>,
}

/// What a verb came to.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) verb: &'static str,
    /// The result, or why there is none.
    pub(super) result: Result<Report, Failure>,
    pub(super) warnings: Vec<String>,
    pub(super) account: AdvisorUsage,
    /// What was asked of clouds: calls, and repeats among them.
    pub(super) asked: (u32, u32),
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    verb: &'static str,
    ok: bool,
    exit_code: u8,
    data: &'a Value,
    warnings: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Failure>,
    metrics: Metrics,
    version: &'static str,
}

#[derive(Serialize)]
struct Metrics {
    elapsed_ms: u64,
    api_calls: u32,
    retries: u32,
    llm_calls: u32,
    llm_tokens: u64,
}

impl Outcome {
    /// What went wrong.
    pub(super) fn failure(&self) -> Option<&Failure> {
        self.result.as_ref().map_or_else(Some, |report| report.failure.as_ref())
    }

    pub(super) fn exit(&self) -> Exit {
        self.failure().map_or(Exit::Done, |failure| failure.exit)
    }

    /// The document on one line, or on many for people who look at it.
    pub(super) fn document(&self, elapsed: Duration, pretty: bool) -> String {
        let document = Document {
            schema: "orlop.provisioner/1",
            verb: self.verb,
            ok: self.failure().is_none(),
            exit_code: self.exit().code(),
            data: self.result.as_ref().map_or(&Value::Null, |report| &report.data),
            warnings: &self.warnings,
            error: self.failure(),
            metrics: Metrics {
                elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
                api_calls: self.asked.0,
                retries: self.asked.1,
                llm_calls: self.account.calls,
                llm_tokens: self.account.tokens,
            },
            version: env!("CARGO_PKG_VERSION"),
        };
        let written = if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) };
        written.unwrap_or_default()
    }
}

/// What advice did, for the data of a result.
pub(super) fn advice(account: &AdvisorUsage, changed: &[&'static str]) -> Value {
    let answered: Vec<Value> =
        account.answered.iter().map(|(point, digest)| json!({"point": point, "digest": digest})).collect();
    json!({"answered": answered, "changed": changed, "scrubbed": account.scrubbed})
}
