//! Regular expressions of `matches`: linear time by the `regex` crate, with limits on the compiled size here and on
//! the text searched in the evaluator. Holds no cache.

use super::value::Fault;
use regex::{Regex, RegexBuilder};

/// Compiled size of one pattern, in bytes. Searching costs at most pattern size times text length.
const COMPILED_LIMIT: usize = 256 * 1024;
/// Longest pattern, in bytes; only values from outside can exceed it.
const PATTERN_LIMIT: usize = super::MAX_SOURCE;
/// Deepest nesting of groups.
const NEST_LIMIT: u32 = 50;

/// Compiles a pattern within the limits; the error says what is wrong with it.
pub(crate) fn compile(pattern: &str) -> Result<Regex, Fault> {
    if pattern.len() > PATTERN_LIMIT {
        return Err(format!("a pattern for matches is longer than {PATTERN_LIMIT} bytes").into());
    }
    let built = RegexBuilder::new(pattern)
        .size_limit(COMPILED_LIMIT)
        .dfa_size_limit(COMPILED_LIMIT)
        .nest_limit(NEST_LIMIT)
        .build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            "a pattern for matches is too large; shorten its repetitions, and write [0-9A-Za-z_] for \\w".into()
        }
        other => {
            let text = other.to_string();
            let cause = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("not a regular expression: {cause}").into()
        }
    })
}
