//! Keys of mappings: texts only, each once, and `<<` merged. Owns those three rules.

use std::collections::BTreeSet;

use super::build::Builder;
use super::tree::{Kind, Text};
use crate::code::Code;
use crate::manifest::violation::{Note, shown};

/// Mappings up to this many keys are compared pairwise.
const SMALL: usize = 12;

impl Builder<'_> {
    /// Children of a mapping, key and value alternating, as they are kept.
    pub(super) fn members(&mut self, mut children: Vec<u32>) -> Vec<u32> {
        for key in children.iter_mut().step_by(2) {
            *key = self.key(*key);
        }
        let keys: Vec<(&str, u32)> = children.iter().step_by(2).map(|id| (self.key_text(*id), *id)).collect();
        let merges = keys.iter().any(|(text, id)| *text == "<<" && self.is_plain(*id));
        let repeats = repeated(keys);
        for (first, second) in &repeats {
            self.repeated_key(*first, *second);
        }
        if !repeats.is_empty() {
            // The first one counts, so that nothing else is said about the other.
            let pairs =
                children.chunks_exact(2).filter(|pair| repeats.iter().all(|(_, second)| pair.first() != Some(second)));
            children = pairs.flatten().copied().collect();
        }
        if merges { self.merged(&children) } else { children }
    }

    /// The node of a key as a text: `1: x` has the key `1`.
    fn key(&mut self, id: u32) -> u32 {
        let Some(raw) = self.source.nodes.get(id as usize).copied() else { return id };
        let span = raw.start as usize..raw.end as usize;
        match raw.kind {
            Kind::Str(_) => return id,
            Kind::Seq(_) | Kind::Map(_) => self.problem(Code::Syntax, span.clone(), || {
                Note::new(
                    "a list or mapping cannot be a key",
                    Some("keys are texts; a text with brackets must be quoted".to_owned()),
                )
            }),
            Kind::Null => self.problem(Code::Syntax, span.clone(), || {
                Note::new(
                    "a key is empty",
                    Some("write a name before the `:`; quote `null` if that is the name".to_owned()),
                )
            }),
            Kind::Bool(_) | Kind::Int(_) | Kind::UInt(_) | Kind::Float(_) => {}
        }
        let text = Text { start: raw.start, len: raw.end.saturating_sub(raw.start), decoded: false };
        self.node(&span, Kind::Str(text))
    }

    fn key_text(&self, id: u32) -> &str {
        match self.source.nodes.get(id as usize).map(|raw| raw.kind) {
            Some(Kind::Str(text)) if !text.decoded => {
                self.text.get(text.start as usize..text.start as usize + text.len as usize).unwrap_or_default()
            }
            Some(Kind::Str(text)) => self.source.text_of(text),
            _ => "",
        }
    }

    /// Whether a text is written without quotes.
    fn is_plain(&self, id: u32) -> bool {
        let start = self.source.nodes.get(id as usize).map_or(0, |raw| raw.start as usize);
        self.text.as_bytes().get(start) == Some(&b'<')
    }

    fn repeated_key(&mut self, first: u32, second: u32) {
        let Some(raw) = self.source.nodes.get(second as usize).copied() else { return };
        let start = self.source.nodes.get(first as usize).map_or(0, |raw| raw.start as usize);
        let name = shown(self.key_text(second));
        let text = self.text;
        self.problem(Code::Syntax, raw.start as usize..raw.end as usize, || {
            let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
            Note::new(
                format!("the key {name} appears twice, first in line {line}"),
                Some("remove one of them".to_owned()),
            )
        });
    }

    /// Children with those of `<<` at the end, less the keys that are there already; of several sources the first wins.
    fn merged(&mut self, children: &[u32]) -> Vec<u32> {
        let mut kept = Vec::with_capacity(children.len());
        let mut sources = Vec::new();
        for pair in children.chunks_exact(2) {
            match pair {
                [key, value] if self.key_text(*key) == "<<" && self.is_plain(*key) => sources.push(*value),
                _ => kept.extend_from_slice(pair),
            }
        }
        let mut seen: BTreeSet<String> = kept.iter().step_by(2).map(|id| self.key_text(*id).to_owned()).collect();
        for mapping in sources.into_iter().flat_map(|id| self.mappings(id)).collect::<Vec<_>>() {
            let Some(raw) = self.source.nodes.get(mapping as usize).copied() else { continue };
            let Kind::Map(run) = raw.kind else {
                self.problem(Code::Syntax, raw.start as usize..raw.end as usize, || {
                    Note::new(
                        "`<<` merges mappings only",
                        Some("give it an alias of a mapping, or a list of them".to_owned()),
                    )
                });
                continue;
            };
            let range = run.first as usize..run.first as usize + run.len as usize;
            let members = self.source.children.get(range).unwrap_or(&[]).to_vec();
            for pair in members.chunks_exact(2) {
                let name = pair.first().map_or("", |key| self.key_text(*key));
                if seen.insert(name.to_owned()) {
                    kept.extend_from_slice(pair);
                }
            }
        }
        kept
    }

    /// The items of a sequence, or the node itself.
    fn mappings(&self, id: u32) -> Vec<u32> {
        match self.source.nodes.get(id as usize).map(|raw| raw.kind) {
            Some(Kind::Seq(run)) => {
                let range = run.first as usize..run.first as usize + run.len as usize;
                self.source.children.get(range).unwrap_or(&[]).to_vec()
            }
            _ => vec![id],
        }
    }
}

/// Pairs of equal keys, the earlier one first, in the order of the later one.
fn repeated(mut keys: Vec<(&str, u32)>) -> Vec<(u32, u32)> {
    let mut pairs = Vec::new();
    if keys.len() <= SMALL {
        for (at, (text, id)) in keys.iter().enumerate() {
            if let Some((_, first)) = keys.iter().take(at).find(|(other, _)| other == text) {
                pairs.push((*first, *id));
            }
        }
        return pairs;
    }
    keys.sort_by_key(|(text, _)| *text);
    let mut group: Option<(&str, u32)> = None;
    for (text, id) in keys {
        match group {
            Some((same, first)) if same == text => pairs.push((first, id)),
            _ => group = Some((text, id)),
        }
    }
    pairs.sort_by_key(|(_, second)| *second);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_short_lists_find_the_same_repeats() {
        let names: Vec<String> = (0..40).map(|n| format!("k{}", n % 30)).collect();
        let keys: Vec<(&str, u32)> = names.iter().zip(0..).map(|(name, id)| (name.as_str(), id)).collect();
        let expected: Vec<(u32, u32)> = (30..40).map(|id| (id - 30, id)).collect();
        assert_eq!(repeated(keys), expected);
        assert_eq!(repeated(vec![("a", 0), ("b", 1), ("a", 2), ("a", 3)]), [(0, 2), (0, 3)]);
    }
}
