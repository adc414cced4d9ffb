//! The DAG of a flow as text, Graphviz dot, Mermaid or JSON, with phases where a run gives them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use orlop_core::attempt::StepIndex;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::{FlowStatus, StepStatus};
use orlop_dag::plan::Plan;
use serde_json::{Value, json};

use super::text::{Colour, Mark};

/// A flow's graph, to be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Graph<'a> {
    /// The planned flow.
    pub plan: &'a Plan,
    /// What has happened to it.
    pub status: Option<&'a FlowStatus>,
}

/// A step as a drawing needs it.
struct Node<'a> {
    index: u32,
    name: &'a str,
    kind: &'static str,
    finally: bool,
    status: Option<&'a StepStatus>,
}

/// What one step waits for of another.
struct Edge {
    from: u32,
    to: u32,
    /// Whether `to` needs `from` satisfied and not only settled.
    needs: bool,
    /// The outcomes that the `depends` of `to` asks for; nothing where satisfied is what it asks for.
    outcomes: String,
}

impl<'a> Graph<'a> {
    fn nodes(&self) -> Vec<Node<'a>> {
        let records: BTreeMap<&str, &StepStatus> =
            self.status.into_iter().flat_map(|status| &status.steps).map(|step| (step.name.as_str(), step)).collect();
        let count = u32::try_from(self.plan.len()).unwrap_or(u32::MAX);
        let node = |index: u32| {
            let step = StepIndex(index);
            let spec = self.plan.step(step);
            let name = self.plan.name(step);
            let kind = match spec {
                Some(spec) if spec.is_manual() => "manual",
                Some(spec) if spec.is_fan_out() => "fan-out",
                _ => "job",
            };
            let finally = index as usize >= self.plan.main_len();
            Node { index, name, kind, finally, status: records.get(name).copied() }
        };
        (0..count).map(node).collect()
    }

    fn edges(&self) -> Vec<Edge> {
        let count = u32::try_from(self.plan.len()).unwrap_or(u32::MAX);
        let edge = |from: u32, to: StepIndex, needs: bool| {
            let asked = if needs { self.plan.asked(to, StepIndex(from)) } else { Vec::new() };
            let outcomes = match asked.as_slice() {
                [alone] if alone.is_empty() => String::new(),
                _ => asked.iter().map(|word| word.replacen("!", "not ", 1)).collect::<Vec<_>>().join(", "),
            };
            Edge { from, to: to.0, needs, outcomes }
        };
        (0..count)
            .flat_map(|from| self.plan.dependents(StepIndex(from)).map(move |(to, needs)| edge(from, to, needs)))
            .collect()
    }

    /// Waves from top to bottom: one line per step, with what it waits for.
    #[must_use]
    pub fn text(&self, colour: Colour) -> String {
        let nodes = self.nodes();
        let name = |index: u32| nodes.get(index as usize).map_or("", |node| node.name);
        let mut before: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for edge in self.edges() {
            let mark = if edge.needs { "" } else { "~" };
            let outcomes = if edge.outcomes.is_empty() { String::new() } else { format!(" ({})", edge.outcomes) };
            before.entry(edge.to).or_default().push(format!("{mark}{}{outcomes}", name(edge.from)));
        }
        let width = nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        let (mut main, mut last) = (Vec::new(), Vec::new());
        for wave in self.plan.ranks().waves() {
            let (in_main, in_last): (Vec<u32>, Vec<u32>) =
                wave.into_iter().partition(|step| (*step as usize) < self.plan.main_len());
            main.push(in_main);
            last.push(in_last);
        }
        for (title, waves) in [("wave", main), ("finally", last)] {
            for (number, wave) in (1..).zip(waves.into_iter().filter(|wave: &Vec<u32>| !wave.is_empty())) {
                let _ = writeln!(text, "{title} {number}");
                for step in wave {
                    let Some(node) = nodes.get(step as usize) else { continue };
                    let waits =
                        before.get(&step).map(|names| format!("  \u{2190} {}", names.join(", "))).unwrap_or_default();
                    let line = format!("  {} {:width$}{}{}", glyph(node), node.name, label(node), waits);
                    let line = line.trim_end();
                    let line =
                        node.status.map_or(line.to_owned(), |step| Mark::of_step(step.phase).paint(line, colour));
                    let _ = writeln!(text, "{line}");
                }
            }
        }
        text
    }

    /// Graphviz dot.
    #[must_use]
    pub fn dot(&self) -> String {
        let mut text = String::from(
            "digraph flow {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", fillcolor=white];\n",
        );
        for node in self.nodes() {
            let shape = match node.kind {
                "manual" => ", shape=diamond",
                "fan-out" => ", peripheries=2",
                _ => "",
            };
            let fill = node.status.map_or("white", |step| fill(step.phase));
            let _ = writeln!(text, "  n{} [label={}, fillcolor=\"{fill}\"{shape}];", node.index, quoted(node.name));
        }
        for Edge { from, to, needs, outcomes } in self.edges() {
            let style = match (needs, outcomes.is_empty()) {
                (false, _) => " [style=dashed]".to_owned(),
                (true, true) => String::new(),
                (true, false) => format!(" [label={}]", quoted(&outcomes)),
            };
            let _ = writeln!(text, "  n{from} -> n{to}{style};");
        }
        text.push_str("}\n");
        text
    }

    /// Mermaid.
    #[must_use]
    pub fn mermaid(&self) -> String {
        let mut text = String::from("flowchart LR\n");
        let nodes = self.nodes();
        for node in &nodes {
            let (open, close) = match node.kind {
                "manual" => ("{{", "}}"),
                "fan-out" => ("[[", "]]"),
                _ => ("(", ")"),
            };
            let _ = writeln!(text, "  n{}{open}\"{}\"{close}", node.index, node.name);
        }
        for Edge { from, to, needs, outcomes } in self.edges() {
            let arrow = match (needs, outcomes.is_empty()) {
                (false, _) => "-.->".to_owned(),
                (true, true) => "-->".to_owned(),
                (true, false) => format!("-->|{outcomes}|"),
            };
            let _ = writeln!(text, "  n{from} {arrow} n{to}");
        }
        for node in &nodes {
            if let Some(step) = node.status {
                let _ = writeln!(text, "  style n{} fill:{}", node.index, fill(step.phase));
            }
        }
        text
    }

    /// Nodes and edges as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let ranks = self.plan.ranks();
        let nodes: Vec<Value> = self
            .nodes()
            .iter()
            .map(|node| {
                let mut value = json!({"name": node.name, "kind": node.kind, "finally": node.finally, "wave": ranks.depth.get(node.index as usize)});
                if let Some(step) = node.status {
                    value["phase"] = json!(step.phase);
                    value["reason"] = json!(step.reason);
                }
                value
            })
            .collect();
        let name = |index: u32| self.plan.name(StepIndex(index));
        let edges: Vec<Value> = self
            .edges()
            .into_iter()
            .map(|Edge { from, to, needs, outcomes }| {
                let kind = if needs { "dependency" } else { "reference" };
                let mut edge = json!({"from": name(from), "to": name(to), "kind": kind});
                if !outcomes.is_empty() {
                    edge["outcomes"] = json!(outcomes);
                }
                edge
            })
            .collect();
        json!({"nodes": nodes, "edges": edges})
    }
}

fn glyph(node: &Node<'_>) -> char {
    node.status.map_or('\u{2022}', |step| Mark::of_step(step.phase).glyph)
}

fn label(node: &Node<'_>) -> String {
    let kind = if node.kind == "job" { String::new() } else { format!("  [{}]", node.kind) };
    let phase = match node.status {
        Some(step) if step.reason.is_empty() => format!("  {}", step.phase),
        Some(step) => format!("  {}/{}", step.phase, step.reason),
        None => String::new(),
    };
    kind + &phase
}

const fn fill(phase: StepPhase) -> &'static str {
    match phase {
        StepPhase::Pending => "#f2f2f2",
        StepPhase::Running => "#cfe8fc",
        StepPhase::Succeeded => "#d3f2d3",
        StepPhase::Failed => "#f8d0d0",
        StepPhase::Skipped => "#e0e0e0",
        StepPhase::PendingApproval => "#fdf0c4",
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn plan() -> Plan {
        let template = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {}});
        let spec = json!({"steps": [
            {"name": "get", "template": template},
            {"name": "fan", "template": template, "dependencies": ["get"], "withItems": [1, 2]},
            {"name": "gate", "type": "Manual", "dependencies": ["get"]},
            {"name": "use", "template": template, "dependencies": ["gate"], "when": "steps.fan.phase == 'Succeeded'"}],
            "finally": [{"name": "clean", "template": template}]});
        Plan::build(Arc::new(serde_json::from_value(spec).unwrap())).unwrap()
    }

    fn status() -> FlowStatus {
        let step = |name: &str, phase, reason: &str| StepStatus {
            name: name.into(),
            phase,
            reason: reason.into(),
            ..StepStatus::default()
        };
        let steps = vec![step("get", StepPhase::Succeeded, ""), step("fan", StepPhase::Failed, "NonZeroExit")];
        FlowStatus { steps, ..FlowStatus::default() }
    }

    #[test]
    fn text_shows_waves_kinds_and_what_is_waited_for() {
        let plan = plan();
        insta::assert_snapshot!(Graph { plan: &plan, status: None }.text(Colour::Never), @"
        wave 1
          • get
        wave 2
          • fan    [fan-out]  ← get
          • gate   [manual]  ← get
        wave 3
          • use    ← ~fan, gate
        finally 1
          • clean
        ");
    }

    #[test]
    fn text_shows_phases_of_a_run() {
        let (plan, status) = (plan(), status());
        let text = Graph { plan: &plan, status: Some(&status) }.text(Colour::Never);
        assert!(text.contains("\u{2716} fan    [fan-out]  Failed/NonZeroExit"), "{text}");
        assert!(Graph { plan: &plan, status: Some(&status) }.text(Colour::Always).contains("\u{1b}[31m"));
    }

    #[test]
    fn dot_and_mermaid_draw_every_edge() {
        let (plan, status) = (plan(), status());
        let graph = Graph { plan: &plan, status: Some(&status) };
        insta::assert_snapshot!(graph.dot(), @r##"
        digraph flow {
          rankdir=LR;
          node [shape=box, style="rounded,filled", fillcolor=white];
          n0 [label="get", fillcolor="#d3f2d3"];
          n1 [label="fan", fillcolor="#f8d0d0", peripheries=2];
          n2 [label="gate", fillcolor="white", shape=diamond];
          n3 [label="use", fillcolor="white"];
          n4 [label="clean", fillcolor="white"];
          n0 -> n1;
          n0 -> n2;
          n1 -> n3 [style=dashed];
          n2 -> n3;
        }
        "##);
        insta::assert_snapshot!(graph.mermaid(), @r##"
        flowchart LR
          n0("get")
          n1[["fan"]]
          n2{{"gate"}}
          n3("use")
          n4("clean")
          n0 --> n1
          n0 --> n2
          n1 -.-> n3
          n2 --> n3
          style n0 fill:#d3f2d3
          style n1 fill:#f8d0d0
        "##);
    }

    #[test]
    fn edges_of_joins_say_which_outcome_they_wait_for() {
        let template = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {}});
        let spec = json!({"steps": [
            {"name": "deploy", "template": template},
            {"name": "scan", "template": template},
            {"name": "promote", "template": template, "depends": "deploy && !scan.Failed"},
            {"name": "alert", "template": template, "depends": "deploy.Failed || deploy.Omitted"}]});
        let plan = Plan::build(Arc::new(serde_json::from_value(spec).unwrap())).unwrap();
        let graph = Graph { plan: &plan, status: None };
        insta::assert_snapshot!(graph.text(Colour::Never), @"
        wave 1
          • deploy
          • scan
        wave 2
          • promote  ← deploy, scan (not Failed)
          • alert    ← deploy (Failed, Omitted)
        ");
        assert!(graph.dot().contains("n0 -> n3 [label=\"Failed, Omitted\"];"), "{}", graph.dot());
        assert!(graph.mermaid().contains("n1 -->|not Failed| n2"), "{}", graph.mermaid());
        let edges = &graph.json()["edges"];
        assert_eq!(edges[0], json!({"from": "deploy", "to": "promote", "kind": "dependency"}));
        assert_eq!(edges[1]["outcomes"], "Failed, Omitted");
    }

    #[test]
    fn json_names_nodes_and_edges() {
        let plan = plan();
        let value = Graph { plan: &plan, status: None }.json();
        assert_eq!(value["nodes"].as_array().unwrap().len(), 5);
        assert_eq!(value["edges"][2], json!({"from": "fan", "to": "use", "kind": "reference"}));
    }
}
