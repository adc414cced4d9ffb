//! The same figures under the names of zen-flow, for dashboards and alerts that were made for it.

/// A metric under another name.
struct Alias {
    /// Its own name, without suffix.
    ours: &'static str,
    /// The other one.
    theirs: &'static str,
    /// Labels that are there and empty.
    empty: &'static [&'static str],
    /// Labels under other names.
    renamed: &'static [(&'static str, &'static str)],
}

const fn alias(
    ours: &'static str,
    theirs: &'static str,
    empty: &'static [&'static str],
    renamed: &'static [(&'static str, &'static str)],
) -> Alias {
    Alias { ours, theirs, empty, renamed }
}

const BOTH: &[&str] = &["flow", "step"];
const FLOW: &[&str] = &["flow"];

const ALIASES: [Alias; 17] = [
    alias("orlop_flows", "zen_flow_jobflows", &[], &[]),
    alias("orlop_steps", "zen_flow_steps", FLOW, &[]),
    alias("orlop_flow_phase_transitions", "zen_flow_jobflow_phase_transitions", &[], &[("to", "phase")]),
    alias("orlop_step_phase_transitions", "zen_flow_step_phase_transitions", FLOW, &[("to", "phase")]),
    alias("orlop_step_duration_seconds", "zen_flow_step_duration_seconds", BOTH, &[]),
    alias("orlop_step_errors", "zen_flow_step_errors", BOTH, &[("reason", "error_type")]),
    alias("orlop_step_retries", "zen_flow_step_retries", BOTH, &[]),
    alias("orlop_step_retry_backoff_seconds", "zen_flow_step_retry_backoff_duration_seconds", BOTH, &[]),
    alias("orlop_approvals_pending", "zen_flow_approvals_pending", FLOW, &[]),
    alias("orlop_approval_latency_seconds", "zen_flow_approval_latency_seconds", BOTH, &[]),
    alias("orlop_timeouts", "zen_flow_timeouts", BOTH, &[("type", "timeout_type")]),
    alias("orlop_plan_duration_seconds", "zen_flow_dag_computation_duration_seconds", &[], &[]),
    alias("orlop_reconcile_duration_seconds", "zen_flow_reconciliation_duration_seconds", &[], &[]),
    alias("orlop_reconcile_errors", "zen_flow_reconciliation_errors", &[], &[("class", "error_type")]),
    alias("orlop_status_write_duration_seconds", "zen_flow_status_update_duration_seconds", &[], &[]),
    alias("orlop_ready_steps", "zen_flow_step_execution_queue_depth", FLOW, &[]),
    alias("orlop_kube_requests", "zen_flow_api_server_calls", &[], &[("verb", "operation")]),
];

/// What samples of a metric may end in.
const SUFFIXES: [&str; 5] = ["", "_total", "_bucket", "_sum", "_count"];
/// The last line of an answer.
const END: &str = "# EOF\n";

/// An answer of `/metrics`, with the same figures under their other names at its end.
pub(super) fn with_aliases(text: &str) -> String {
    let mut out = text.strip_suffix(END).unwrap_or(text).to_owned();
    for alias in &ALIASES {
        for line in text.lines().filter_map(|line| alias.line(line)) {
            out.push_str(&line);
            out.push('\n');
        }
    }
    out.push_str(END);
    out
}

impl Alias {
    /// A line under the other name; none where it is of another metric.
    fn line(&self, line: &str) -> Option<String> {
        if let Some(reported) = line.strip_prefix("# ") {
            let (word, rest) = reported.split_once(' ')?;
            let (name, rest) = rest.split_once(' ')?;
            return (name == self.ours).then(|| format!("# {word} {} {rest}", self.theirs));
        }
        let rest = line.strip_prefix(self.ours)?;
        let at = rest.find(['{', ' '])?;
        let (suffix, rest) = rest.split_at(at);
        let (labels, value) = match rest.strip_prefix('{') {
            Some(inside) => inside.rsplit_once("} ")?,
            None => ("", rest.trim_start()),
        };
        let labels = self.labels(labels)?;
        SUFFIXES.contains(&suffix).then(|| format!("{}{suffix}{labels} {value}", self.theirs))
    }

    /// Labels under their other names; none where the line is of another controller than that of flows.
    fn labels(&self, text: &str) -> Option<String> {
        let mut all: Vec<String> = self.empty.iter().map(|name| format!("{name}=\"\"")).collect();
        for (name, value) in pairs(text) {
            match (name, value) {
                ("controller", "jobflow") => continue,
                ("controller", _) => return None,
                _ => {}
            }
            let renamed = self.renamed.iter().find(|(ours, _)| *ours == name).map_or(name, |(_, theirs)| theirs);
            let value = match (renamed, value) {
                ("timeout_type", "step") => "step_timeout",
                ("timeout_type", "flow") => "jobflow_timeout",
                _ => value,
            };
            all.push(format!("{renamed}=\"{value}\""));
        }
        Some(if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) })
    }
}

/// Names and values of labels, values as they are written.
fn pairs(text: &str) -> Vec<(&str, &str)> {
    let mut pairs = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut escaped = false;
        let end = after.find(|c: char| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let Some((value, left)) = end.and_then(|end| Some((after.get(..end)?, after.get(end + 1..)?))) else { break };
        pairs.push((name, value));
        rest = left.strip_prefix(',').unwrap_or(left);
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::super::{OperatorMetrics, Telling};
    use super::*;

    #[test]
    fn the_same_figures_have_the_names_of_zen_flow_too() {
        let metrics = OperatorMetrics::telling(Telling { zen_aliases: true, ..Telling::default() });
        metrics.flows.flows.of(["Running"]).set(3);
        metrics.flows.steps.of(["Pending"]).set(4);
        metrics.flows.transitions.of(["Pending", "Running"]).inc();
        metrics.flows.timeouts.of(["flow"]).inc();
        metrics.flows.step_transitions.of(["Pending", "Running"]).inc();
        metrics.flows.step_errors.of(["Timeout"]).inc();
        metrics.controllers.errors.of(["jobflow", "Transient"]).inc();
        metrics.flows.step_duration.of(["success"]).observe(2.0);
        metrics.controllers.duration.of(["jobflow"]).observe(0.5);
        metrics.controllers.duration.of(["performer"]).observe(0.25);
        metrics.kube.requests.of(["create", "jobs", "201"]).inc();
        let text = metrics.text().unwrap();
        for line in [
            "# TYPE zen_flow_jobflows gauge",
            "zen_flow_jobflows{phase=\"Running\"} 3",
            "zen_flow_steps{flow=\"\",phase=\"Pending\"} 4",
            "zen_flow_jobflow_phase_transitions_total{from=\"Pending\",phase=\"Running\"} 1",
            "zen_flow_timeouts_total{flow=\"\",step=\"\",timeout_type=\"jobflow_timeout\"} 1",
            "zen_flow_step_duration_seconds_sum{flow=\"\",step=\"\",result=\"success\"} 2.0",
            "zen_flow_reconciliation_duration_seconds_sum 0.5",
            "zen_flow_api_server_calls_total{operation=\"create\",resource=\"jobs\",code=\"201\"} 1",
            "zen_flow_step_execution_queue_depth{flow=\"\"} 0",
            "orlop_flows{phase=\"Running\"} 3",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
        }
        assert_eq!((text.matches("# EOF").count(), text.ends_with(END)), (1, true));
        for alias in &ALIASES {
            assert!(text.contains(&format!("# TYPE {} ", alias.theirs)), "{} is exported", alias.theirs);
        }
        assert!(!OperatorMetrics::new().text().unwrap().contains("zen_flow_"), "where nobody asks there are none");
    }

    #[test]
    fn namespaces_are_reported_under_both_names_where_they_are_asked_for() {
        let metrics = OperatorMetrics::telling(Telling { zen_aliases: true, namespaces: true });
        let physics = metrics.flows_of("physics");
        physics.flows.of(["Running"]).set(3);
        physics.step_retries.inc();
        physics.step_duration.of(["success"]).observe(2.0);
        metrics.flows_of("labs").flows.of(["Running"]).set(1);
        let text = metrics.text().unwrap();
        for line in [
            "orlop_flows{namespace=\"physics\",phase=\"Running\"} 3",
            "orlop_flows{namespace=\"labs\",phase=\"Running\"} 1",
            "orlop_step_retries_total{namespace=\"physics\"} 1",
            "orlop_step_duration_seconds_sum{namespace=\"physics\",result=\"success\"} 2.0",
            "zen_flow_jobflows{namespace=\"physics\",phase=\"Running\"} 3",
            "zen_flow_step_retries_total{flow=\"\",step=\"\",namespace=\"physics\"} 1",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("orlop_flows{phase"), "{text}");
        assert_eq!(metrics.names()["orlop_flows"].labels, ["namespace", "phase"]);
        assert_eq!(metrics.names()["orlop_leader"].labels, [] as [&str; 0], "only metrics of flows have it");
        let plain = OperatorMetrics::new();
        plain.flows_of("physics").flows.of(["Running"]).set(3);
        assert!(plain.text().unwrap().contains("orlop_flows{phase=\"Running\"} 3"));
    }

    #[test]
    fn namespaces_beyond_the_bound_share_a_name() {
        let metrics = OperatorMetrics::telling(Telling { namespaces: true, ..Telling::default() });
        for number in 0..300 {
            metrics.flows_of(&format!("n{number}")).step_retries.inc();
        }
        assert_eq!((metrics.place("n7"), metrics.place("n250"), metrics.place("new")), ("n7", "other", "other"));
        let text = metrics.text().unwrap();
        assert!(text.contains("orlop_step_retries_total{namespace=\"other\"} 100"), "{text}");
        assert_eq!(metrics.known_places().len(), 201);
    }

    #[test]
    fn values_keep_what_is_escaped_in_them() {
        assert_eq!(pairs(r#"a="x,\"y\\",b="""#), [("a", r#"x,\"y\\"#), ("b", "")]);
        assert_eq!(pairs("a=\"open"), []);
    }
}
