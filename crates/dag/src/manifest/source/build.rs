//! From parser events to nodes. Owns anchors, aliases and the limits on a text; never recurses, so that no text can
//! exhaust the stack.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use granit_parser::{Event, Options, Parser, ScalarStyle, Span, Tag};

use super::scalar::{Plain, older_meaning, resolve};
use super::syntax::explained;
use super::tree::{Kind, Raw, Run, Text};
use super::{Problem, Source, TextLimits};
use crate::code::Code;
use crate::manifest::violation::{KEPT, Note, Severity, shown};

/// Deepest nesting whatever the limits say: what follows may recurse over a document.
const DEPTH_MAX: usize = 256;

/// Fills the nodes of a source from its text. Returns what is wrong, in text order, and how many more such things.
pub(super) fn build(source: &mut Source, limits: &TextLimits) -> (Vec<Problem>, usize) {
    let text = Arc::clone(&source.text);
    let limit = limits.bytes.min(u32::MAX as usize);
    if text.len() > limit {
        let note = Note::new(
            format!("the file has {} bytes; at most {limit} are read", text.len()),
            Some("split it, or write many similar steps as one step with `withItems`".to_owned()),
        );
        return (vec![Problem { severity: Severity::Error, code: Code::Limit, span: 0..0, note }], 0);
    }
    let depth = limits.depth.min(DEPTH_MAX);
    let mut options = Options::default();
    options.set_emit_comments(false);
    options.flow_nesting_limit = depth;
    options.block_nesting_limit = depth;
    let mut parser = Parser::new_from_str_with_options(&text, options);
    let mut builder = Builder::new(source, &text, TextLimits { depth, ..*limits });
    while !builder.full {
        match parser.next() {
            None | Some(Ok((Event::StreamEnd, _))) => break,
            Some(Ok((event, span))) => builder.event(event, &span),
            Some(Err(error)) => {
                let at = error.marker().byte_offset().unwrap_or_default();
                builder.problem(Code::Syntax, at..at, || explained(error.kind(), depth));
                builder.open.clear();
                builder.pending.clear();
                if !matches!(parser.proceed_next_document(), Ok(true)) {
                    break;
                }
            }
        }
    }
    (builder.problems, builder.more)
}

/// The tree under construction.
pub(super) struct Builder<'s> {
    pub(super) source: &'s mut Source,
    pub(super) text: &'s str,
    depth: usize,
    nodes: u64,
    documents: usize,
    open: Vec<Open>,
    /// Children of all open collections, innermost last.
    pending: Vec<u32>,
    anchors: BTreeMap<usize, Anchor>,
    problems: Vec<Problem>,
    /// Problems of either severity that are kept, and errors that are only counted.
    errors: usize,
    warnings: usize,
    more: usize,
    /// A limit is reached, nothing more is read.
    full: bool,
}

/// A collection whose end has not come yet.
struct Open {
    mapping: bool,
    start: u32,
    anchor: usize,
    /// Where its children begin in `pending`.
    base: usize,
    measure: Measure,
}

/// What aliases may stand for beyond what is written: so many values, and for each that is written so many more. A few lines of
/// aliases of aliases would otherwise be as much work as a text of megabytes.
const FREE: u64 = 50_000;
const SHARE: u64 = 20;

/// How large a node is with everything behind its aliases.
#[derive(Clone, Copy)]
struct Measure {
    nodes: u64,
    height: usize,
}

struct Anchor {
    id: u32,
    measure: Measure,
}

impl<'s> Builder<'s> {
    fn new(source: &'s mut Source, text: &'s str, limits: TextLimits) -> Self {
        let nodes = (limits.nodes as u64).min(u64::from(u32::MAX / 4));
        Self {
            source,
            text,
            depth: limits.depth,
            nodes,
            documents: limits.documents,
            open: Vec::new(),
            pending: Vec::new(),
            anchors: BTreeMap::new(),
            problems: Vec::new(),
            errors: 0,
            warnings: 0,
            more: 0,
            full: false,
        }
    }

    /// Records something wrong; past the cap of reports it is only counted.
    pub(super) fn problem(&mut self, code: Code, span: Range<usize>, note: impl FnOnce() -> Note) {
        if self.errors < KEPT {
            self.errors += 1;
            self.problems.push(Problem { severity: Severity::Error, code, span, note: note() });
        } else {
            self.more += 1;
        }
    }

    fn event(&mut self, event: Event<'_>, span: &Span) {
        let range = span.byte_range().unwrap_or_default();
        match event {
            Event::DocumentStart(..) => {
                self.anchors.clear();
                self.open.clear();
                self.pending.clear();
                if self.source.documents.len() >= self.documents {
                    let limit = self.documents;
                    self.stop(range, format!("the file holds more than {limit} documents"));
                }
            }
            Event::DocumentEnd => self.source.documents.extend(self.pending.pop()),
            Event::Scalar(value, style, anchor, tag) => {
                let kind = self.scalar(&value, style, tag.as_deref(), &range);
                let id = self.node(&range, kind);
                self.finish(id, anchor, Measure { nodes: 1, height: 0 });
            }
            Event::SequenceStart(_, anchor, tag) => self.begin(false, anchor, tag.as_deref(), &range),
            Event::MappingStart(_, anchor, tag) => self.begin(true, anchor, tag.as_deref(), &range),
            Event::SequenceEnd | Event::MappingEnd => self.end(&range),
            Event::Alias(anchor) => self.alias(anchor, range),
            _ => {}
        }
    }

    /// Stores a node and returns its id.
    pub(super) fn node(&mut self, range: &Range<usize>, kind: Kind) -> u32 {
        let id = narrow(self.source.nodes.len());
        self.source.nodes.push(Raw { start: narrow(range.start), end: narrow(range.end), kind });
        id
    }

    fn begin(&mut self, mapping: bool, anchor: usize, tag: Option<&Tag>, range: &Range<usize>) {
        if let Some(tag) = tag.filter(|tag| tag.core_suffix() != Some(if mapping { "map" } else { "seq" })) {
            self.unknown_tag(tag, range);
        }
        let measure = Measure { nodes: 1, height: 1 };
        let base = self.pending.len();
        self.open.push(Open { mapping, start: narrow(range.start), anchor, base, measure });
    }

    fn end(&mut self, range: &Range<usize>) {
        let Some(open) = self.open.pop() else { return };
        let children = self.pending.split_off(open.base);
        let children = if open.mapping { self.members(children) } else { children };
        let run = Run { first: narrow(self.source.children.len()), len: narrow(children.len()) };
        let last =
            children.last().and_then(|id| self.source.nodes.get(*id as usize)).map_or(0, |node| node.end as usize);
        self.source.children.extend(children);
        let end = if range.is_empty() { last } else { range.end }.max(open.start as usize);
        let id = self.node(&(open.start as usize..end), if open.mapping { Kind::Map(run) } else { Kind::Seq(run) });
        self.finish(id, open.anchor, open.measure);
    }

    fn alias(&mut self, anchor: usize, range: Range<usize>) {
        let Some(&Anchor { id, measure }) = self.anchors.get(&anchor) else {
            self.problem(Code::Syntax, range.clone(), || {
                Note::new("the alias is inside the value it names", Some("write the value out".to_owned()))
            });
            let id = self.node(&range, Kind::Null);
            return self.finish(id, 0, Measure { nodes: 1, height: 0 });
        };
        if self.open.len() + measure.height > self.depth {
            let depth = self.depth;
            self.stop(range, format!("lists and mappings are nested deeper than {depth} levels behind this alias"));
        } else {
            self.finish(id, 0, measure);
        }
    }

    /// Hands a complete node to the collection or document around it.
    fn finish(&mut self, id: u32, anchor: usize, measure: Measure) {
        if anchor > 0 {
            self.anchors.insert(anchor, Anchor { id, measure });
        }
        self.pending.push(id);
        let mut nodes = measure.nodes;
        if let Some(open) = self.open.last_mut() {
            nodes = open.measure.nodes.saturating_add(measure.nodes);
            open.measure = Measure { nodes, height: open.measure.height.max(measure.height + 1) };
        }
        let written = self.source.nodes.len() as u64;
        if nodes > FREE.saturating_add(written.saturating_mul(SHARE)) {
            let start = self.source.nodes.get(id as usize).map_or(0, |node| node.start as usize);
            self.stop(start..start, format!("{written} values expand to more than {nodes} through their aliases"));
        } else if nodes.max(written) > self.nodes {
            let limit = self.nodes;
            let start = self.source.nodes.get(id as usize).map_or(0, |node| node.start as usize);
            self.stop(
                start..start,
                format!("the file holds more than {limit} values, those behind aliases counted at every use"),
            );
        }
    }

    fn stop(&mut self, span: Range<usize>, message: String) {
        self.full = true;
        let help = "split it, or write many similar steps as one step with `withItems`".to_owned();
        self.problem(Code::Limit, span, || Note::new(message, Some(help)));
    }

    fn scalar(&mut self, value: &str, style: ScalarStyle, tag: Option<&Tag>, range: &Range<usize>) -> Kind {
        let wanted = match tag {
            None if style == ScalarStyle::Plain => return self.plain(value, range),
            None => "str",
            Some(tag) => match tag.core_suffix() {
                Some(core) => core,
                None if tag.suffix_in_namespace("tag:yaml.org,2002:").is_some_and(|name| name == "binary") => "str",
                None if tag.suffix().is_empty() || tag.handle().is_empty() && tag.suffix() == "!" => "str",
                None => {
                    self.unknown_tag(tag, range);
                    "str"
                }
            },
        };
        if wanted == "str" {
            return Kind::Str(self.stored(value, range));
        }
        let kind = self.plain(value, range);
        match (wanted, kind) {
            ("null", Kind::Null)
            | ("bool", Kind::Bool(_))
            | ("int", Kind::Int(_) | Kind::UInt(_))
            | ("float", Kind::Float(_) | Kind::Int(_) | Kind::UInt(_)) => kind,
            _ => {
                self.problem(Code::Syntax, range.clone(), || {
                    Note::new(
                        format!("{} is not what its tag `!!{wanted}` says", shown(value)),
                        Some("remove the tag".to_owned()),
                    )
                });
                kind
            }
        }
    }

    fn plain(&mut self, value: &str, range: &Range<usize>) -> Kind {
        match resolve(value) {
            None => {
                if let Some(meaning) = older_meaning(value) {
                    self.ambiguous(value, meaning, range);
                }
                Kind::Str(self.stored(value, range))
            }
            Some(Plain::Null) => Kind::Null,
            Some(Plain::Bool(value)) => Kind::Bool(value),
            Some(Plain::Int(value)) => Kind::Int(value),
            Some(Plain::UInt(value)) => Kind::UInt(value),
            Some(Plain::Float(value)) => Kind::Float(value),
            Some(Plain::NonFinite) => {
                self.problem(Code::Syntax, range.clone(), || {
                    let message = format!("the number {} has no finite value", shown(value));
                    Note::new(message, Some("quote it if a text is meant".to_owned()))
                });
                Kind::Null
            }
        }
    }

    /// Keeps a text: as bytes of the source where it is spelled there as it is.
    fn stored(&mut self, value: &str, range: &Range<usize>) -> Text {
        let raw = self.text.get(range.clone()).unwrap_or_default();
        let quoted = raw.get(1..raw.len().saturating_sub(1));
        let start = if raw == value { Some(range.start) } else { (quoted == Some(value)).then_some(range.start + 1) };
        if let Some(start) = start {
            return Text { start: narrow(start), len: narrow(value.len()), decoded: false };
        }
        let start = narrow(self.source.decoded.len());
        self.source.decoded.push_str(value);
        Text { start, len: narrow(value.len()), decoded: true }
    }

    /// A text here, something else to `kubectl`: the same file would mean two things.
    fn ambiguous(&mut self, value: &str, meaning: &str, range: &Range<usize>) {
        if self.warnings >= KEPT {
            return;
        }
        self.warnings += 1;
        let message = format!("{} is a text here, and {meaning} to kubectl", shown(value));
        let note = Note::new(message, Some(format!("quote it: \"{value}\"; or write {meaning} if that is meant")));
        self.problems.push(Problem { severity: Severity::Warning, code: Code::Syntax, span: range.clone(), note });
    }

    fn unknown_tag(&mut self, tag: &Tag, range: &Range<usize>) {
        self.problem(Code::Syntax, range.clone(), || {
            let message =
                format!("the tag {} does not fit here or has no meaning in a manifest", shown(&tag.to_string()));
            Note::new(message, Some("remove it; quote the value if a text is meant".to_owned()))
        });
    }
}

/// Positions and counts are below 2³², which `build` checks first.
pub(super) fn narrow(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
