//! Machines for people: Mermaid diagrams for the documentation and a matrix of every state and event.
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

    /// Every (event, state) pair: the states it may lead to in the order they are tried, each with `?` if a guard
    /// decides, `=` for a state that stays, `·` for a refused event. The first column `new` is birth.
    #[must_use]
    pub fn matrix(&self) -> String {
        let columns: Vec<Option<S>> = std::iter::once(None).chain(S::ALL.iter().copied().map(Some)).collect();
        let mut table = vec![
            std::iter::once("event".to_owned())
                .chain(columns.iter().map(|state| state.map_or("new", S::as_str).to_owned()))
                .collect::<Vec<_>>(),
        ];
        for event in E::ALL.iter().copied() {
            let cells = columns.iter().map(|from| self.cell(*from, event));
            table.push(std::iter::once(event.as_str().to_owned()).chain(cells).collect());
        }
        let width =
            |column: usize| table.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..=columns.len()).filter_map(width).collect();
        let mut text = String::new();
        for row in &table {
            let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            text.push_str(cells.join(" | ").trim_end());
            text.push('\n');
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
        if targets.is_empty() { "·".to_owned() } else { targets.join(" ") }
    }
}
