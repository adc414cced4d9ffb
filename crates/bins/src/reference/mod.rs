//! The pages of `docs/reference`: made from commands, settings, routes, messages, metrics, schemas, codes and state tables, and
//! compared with what is there. `UPDATE_REFERENCE=1` writes them. Owns their form; what they say is said at the types.

mod codes;
mod commands;
mod dashboards;
mod examples;
mod fragments;
mod grpc;
mod manifest;
mod metrics;
mod picture;
mod rest;
mod schemas;
mod settings;
mod states;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A page under `docs/reference`.
struct Page {
    name: &'static str,
    text: String,
}

impl Page {
    fn new(name: &'static str, title: &str, intro: &str) -> Self {
        Self { name, text: format!("# {title}\n\n{intro}\n") }
    }

    fn heading(&mut self, level: usize, text: &str) {
        self.text.push_str(&format!("\n{} {text}\n", "#".repeat(level)));
    }

    fn paragraph(&mut self, text: &str) {
        if !text.is_empty() {
            self.text.push_str(&format!("\n{text}\n"));
        }
    }

    fn block(&mut self, text: &str) {
        self.text.push_str(&format!("\n```text\n{}\n```\n", text.trim_end()));
    }

    /// A table, unless it has no rows.
    fn table<const N: usize>(&mut self, columns: [&str; N], rows: &[[String; N]]) {
        if rows.is_empty() {
            return;
        }
        self.text.push_str(&format!("\n| {} |\n|{}\n", columns.join(" | "), "---|".repeat(N)));
        for row in rows {
            self.text.push_str(&format!("| {} |\n", row.join(" | ").replace("  |", " |")));
        }
    }

    /// Compares the page with its file, or writes it.
    fn compare(self) {
        compare(self.name, &format!("{}\n", self.text.trim_end()));
    }
}

/// Compares a file of `docs/reference` with what it should be, or writes it.
fn compare(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        return fs::write(&file, text).unwrap();
    }
    let there = fs::read_to_string(&file).unwrap_or_default();
    let line = there.lines().zip(text.lines()).position(|(there, made)| there != made);
    let line = line.unwrap_or_else(|| there.lines().count().min(text.lines().count())) + 1;
    assert!(there == text, "docs/reference/{name}:{line} is not what the code says; UPDATE_REFERENCE=1 writes it");
}

/// A text as a cell of a table: one line, with nothing that ends the cell or reads as HTML.
fn cell(text: &str) -> String {
    let joined = text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let mut out = String::with_capacity(joined.len());
    let mut code = false;
    for letter in joined.chars() {
        match letter {
            '`' => code = !code,
            '|' => out.push('\\'),
            '<' | '*' | '_' if !code => out.push('\\'),
            _ => {}
        }
        out.push(letter);
    }
    out
}

/// A word as code, or nothing.
fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) }
}

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        letter if letter.is_alphanumeric() || letter == '-' || letter == '_' => letter.to_lowercase().next(),
        _ => None,
    });
    kept.collect()
}

/// Sorted by name.
type Named<T> = BTreeMap<String, T>;

#[test]
fn cells_hold_one_line_and_no_markup() {
    assert_eq!(cell("a|b\n  `x_y` <d> *"), "a\\|b `x_y` \\<d> \\*");
    assert_eq!(anchor("orlop flow get"), "orlop-flow-get");
}
