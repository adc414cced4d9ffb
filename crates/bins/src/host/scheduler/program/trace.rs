//! The section `trace` of the configuration: where spans go, and of how many traces.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::engine::path;
use crate::telemetry::trace::{ExportPlan, RATIO};

/// Where traces go.
#[derive(Clone, Debug, PartialEq, Serialize, Args)]
pub(super) struct TraceConfig {
    /// Address of the gRPC port of an OpenTelemetry collector, such as `http://127.0.0.1:4317`; empty = nowhere.
    #[arg(id = "trace.endpoint")]
    pub(super) endpoint: String,
    /// The CA certificate of the collector, in PEM, for https.
    #[arg(id = "trace.ca_file", value_parser = path)]
    pub(super) ca_file: PathBuf,
    /// The share of traces that begin at this server and are kept, 0 to 1. Where a client has begun one, its word counts.
    #[arg(id = "trace.ratio")]
    pub(super) ratio: f64,
}

impl Default for TraceConfig {
    fn default() -> Self {
        Self { endpoint: String::new(), ca_file: PathBuf::new(), ratio: RATIO }
    }
}

impl TraceConfig {
    /// What is exported; none = nothing.
    ///
    /// # Errors
    /// The share is none.
    pub(super) fn plan(&self, instance: &str) -> Result<Option<ExportPlan>, String> {
        if !(0.0..=1.0).contains(&self.ratio) {
            return Err(format!("trace.ratio is {}; use 0 to 1, such as 0.01", self.ratio));
        }
        let named = !self.ca_file.as_os_str().is_empty();
        Ok((!self.endpoint.is_empty()).then(|| ExportPlan {
            endpoint: self.endpoint.clone(),
            authority: named.then(|| self.ca_file.clone()),
            ratio: self.ratio,
            service: "orlop-scheduler",
            instance: instance.to_owned(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_go_nowhere_unless_a_collector_is_named() {
        let config = TraceConfig::default();
        assert_eq!((config.plan("a"), config.ratio), (Ok(None), 0.01));
        let named = TraceConfig { endpoint: "http://127.0.0.1:4317".to_owned(), ..config.clone() };
        assert_eq!(named.plan("a").unwrap().map(|plan| plan.ratio), Some(0.01));
        let wrong = TraceConfig { ratio: 1.5, ..config };
        insta::assert_snapshot!(wrong.plan("a").unwrap_err(), @"trace.ratio is 1.5; use 0 to 1, such as 0.01");
    }
}
