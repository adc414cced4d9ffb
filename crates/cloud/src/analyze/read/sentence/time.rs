//! Run times in words: `takes 12 hours`, `trains for about 4 days`.

use super::super::super::fact::{At, Confidence, Finding, Sink, Strength};
use super::Token;

/// Phrases that tell a run time.
const PHRASES: [&str; 24] = [
    "takes",
    "took",
    "take ",
    "run time",
    "runtime",
    "running time",
    "training time",
    "finishes in",
    "finish in",
    "finish within",
    "completes in",
    "complete in",
    "total time",
    "run for",
    "runs for",
    "ran for",
    "train for",
    "we train ",
    "network for",
    "trains for",
    "trained for",
    "training for",
    "lasts",
    "hours of training",
];

/// Words of a run that is not the work itself.
const ASIDE: [&str; 15] = [
    "demo",
    "quick start",
    "quickstart",
    "quick test",
    "toy",
    "short",
    "minimal",
    "sanity",
    "smoke",
    "install",
    "to build",
    "compil",
    "download",
    "figure",
    "tutorial",
];

/// Takes down the run times of a sentence; those of a demo are hints.
pub(super) fn run_time(tokens: &[Token<'_>], small: &str, at: At<'_>, sink: &mut Sink<'_>) {
    if !PHRASES.iter().any(|phrase| small.contains(phrase)) {
        return;
    }
    // A bound is no run time.
    let is_bound =
        ["may take", "might take", "can take", "up to", "less than"].iter().any(|phrase| small.contains(phrase));
    for clause in clauses(tokens) {
        let is_aside = clause
            .iter()
            .any(|token| matches!(token, Token::Word(word) if ASIDE.iter().any(|aside| word.starts_with(aside))));
        for (index, token) in clause.iter().enumerate() {
            let Token::Number(number) = token else { continue };
            let Some(hours) = hours(*number, clause.get(index + 1..).unwrap_or_default()) else { continue };
            let strength = if is_aside || is_bound && hours < 24 { Strength::Weak } else { Strength::Target };
            sink.add(at, "readme-run-time", Finding::Hours(hours), (strength, Confidence::Implied));
        }
    }
}

/// A sentence may tell of the work and of a demo.
fn clauses<'a, 't>(tokens: &'a [Token<'t>]) -> impl Iterator<Item = &'a [Token<'t>]> {
    tokens.split(|token| matches!(token, Token::Mark(';') | Token::Word("while" | "whereas")))
}

/// Whole hours of a number by the unit that follows it.
fn hours(number: f64, after: &[Token<'_>]) -> Option<u32> {
    let unit = match after {
        [Token::Word(unit), ..] | [Token::Mark('-'), Token::Word(unit), ..] => *unit,
        _ => return None,
    };
    let hours = match unit {
        "minute" | "minutes" | "min" | "mins" => number / 60.0,
        "hour" | "hours" | "h" | "hr" | "hrs" => number,
        "day" | "days" => number * 24.0,
        "week" | "weeks" => number * 168.0,
        _ => return None,
    };
    (hours > 0.0 && hours < 1e6).then_some(hours.ceil() as u32)
}
