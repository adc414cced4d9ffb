//! The page of metrics.

use std::collections::BTreeMap;

use super::{Page, cell, code};
use crate::telemetry::metrics::{Described, Kind, Metrics, OperatorMetrics};

fn rows(names: &BTreeMap<String, Described>) -> Vec<[String; 4]> {
    let mut out = Vec::new();
    for (name, described) in names {
        let (name, kind) = match described.kind {
            Kind::Counter => (name.as_str(), "counter"),
            Kind::Gauge => (name.as_str(), "gauge"),
            Kind::Histogram => match name.strip_suffix("_bucket") {
                Some(name) => (name, "histogram"),
                None => continue,
            },
        };
        let labels: Vec<_> = described.labels.iter().filter(|label| **label != "le").map(|label| code(label)).collect();
        out.push([code(name), kind.to_owned(), labels.join(", "), cell(&described.help)]);
    }
    out
}

#[test]
fn the_page_of_metrics_is_that_of_the_programs() {
    let intro = "What `/metrics` of a scheduler and of an operator shows, in the text format of OpenMetrics. A histogram `x` is shown as `x_bucket`,\n\
        `x_sum` and `x_count`. Dashboards and alerts for them are in [deploy/grafana](../../deploy/grafana) and\n\
        [deploy/prometheus](../../deploy/prometheus).";
    let mut page = Page::new("metrics.md", "Metrics", intro);
    let (fleet, operator) = (Metrics::new(), OperatorMetrics::new());
    let columns = ["metric", "kind", "labels", "counts or measures"];
    page.heading(2, "Scheduler");
    page.table(columns, &rows(fleet.names()));
    page.heading(2, "Operator");
    page.table(columns, &rows(operator.names()));
    page.compare();
}
