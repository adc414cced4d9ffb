//! Machines for people: Mermaid diagrams for the documentation and a listing of every state and event.
//! Owns the two text forms; decides nothing.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Machine, Named};

/// A label as Mermaid takes it: `:`, `;`, `#` and line ends would end or change it.
fn label(text: &str) -> String {
    text.chars().map(|ch| if matches!(ch, ':' | ';' | '#' | '\n') { ' ' } else { ch }).collect()
}

impl<S: Named, E: Named, G: Named> Machine<S, E, G> {
    /// The machine as a Mermaid `stateDiagram-v2`; transitions that change nothing are left out.
    #[must_use]
    pub fn mermaid(&self) -> String {
        let mut lines = BTreeSet::new();
        let mut text = String::from("stateDiagram-v2\n");
        let starts = std::iter::once(None).chain(S::ALL.iter().copied().map(Some));
        for from in starts {
            for transition in E::ALL.iter().flat_map(|event| self.transitions(from, *event)) {
                if from == Some(transition.to) {
                    continue;
                }
                let guard = transition.guard.map_or(String::new(), |guard| format!(" [{}]", guard.as_str()));
                let what = label(&format!("{}{guard}", transition.event.as_str()));
                let line = format!("    {} --> {}: {what}\n", from.map_or("[*]", S::as_str), transition.to.as_str());
                if lines.insert(line.clone()) {
                    text.push_str(&line);
                }
            }
        }
        for state in self.terminal {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "    {} --> [*]", state.as_str());
        }
        text
    }

    /// Every event with every state: where it may lead from there in the order that is tried (`?` if a guard decides,
    /// `=` for a state that stays), and the states that refuse it. `new` is an object that does not exist yet.
    #[must_use]
    pub fn listing(&self) -> String {
        let starts: Vec<Option<S>> = std::iter::once(None).chain(S::ALL.iter().copied().map(Some)).collect();
        let mut text = String::new();
        for event in E::ALL.iter().copied() {
            // States with equal ways share a line, in the order of their first state; refusals come last.
            let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
            let mut refused = Vec::new();
            for from in &starts {
                let name = from.map_or("new", S::as_str);
                let cell = self.cell(*from, event);
                match lines.iter_mut().find(|(ways, _)| *ways == cell) {
                    _ if cell.is_empty() => refused.push(name),
                    Some((_, states)) => states.push(name),
                    None => lines.push((cell, vec![name])),
                }
            }
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", event.as_str());
            for (ways, states) in lines {
                let _ = writeln!(text, "  {} -> {ways}", states.join(", "));
            }
            if !refused.is_empty() {
                let _ = writeln!(text, "  refused: {}", refused.join(", "));
            }
        }
        text
    }

    fn cell(&self, from: Option<S>, event: E) -> String {
        let mut targets = Vec::new();
        for transition in self.transitions(from, event) {
            let to = if Some(transition.to) == from { "=" } else { transition.to.as_str() };
            let target = format!("{to}{}", if transition.guard.is_some() { "?" } else { "" });
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        targets.join(" ")
    }
}
