//! Documents for people: headings, lists, tables and paragraphs cut into sentences (provisioner contract, 3.3). Owns the
//! cutting and which words a sentence inherits from its heading; what a sentence says stands in `sentence`.

use super::super::fact::{At, Sink, Strength};
use super::sentence;

/// Bytes of a sentence that are looked at.
const MAX_SENTENCE: usize = 2000;

/// Reads a document.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    let mut page = Page::default();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            page.end(sink);
            page.fenced = !page.fenced;
            continue;
        }
        if !page.fenced {
            page.line(trimmed, index + 1, sink);
        }
    }
    page.end(sink);
}

/// A document while it is read.
#[derive(Default)]
struct Page {
    /// Within a block of code, which says nothing.
    fenced: bool,
    /// The paragraph so far: pieces with their lines.
    pieces: Vec<(usize, String)>,
    /// What lists under this heading inherit.
    heading: Option<Strength>,
    /// What the list after a line that ends in `:` inherits.
    intro: Option<Strength>,
    /// Whether the paragraph is an entry of a list or table.
    entry: bool,
}

impl Page {
    fn line(&mut self, trimmed: &str, number: usize, sink: &mut Sink<'_>) {
        if trimmed.is_empty() {
            self.end(sink);
            return;
        }
        if is_heading(trimmed) {
            self.end(sink);
            self.heading = sentence::strength(&trimmed.to_lowercase());
            self.intro = None;
            return;
        }
        if trimmed.chars().all(|ch| "=-~^*".contains(ch)) && trimmed.len() > 2 {
            // The line below a heading in other markup: the paragraph before it was the heading.
            let title: Vec<String> = self.pieces.drain(..).map(|(_, text)| text).collect();
            self.heading = sentence::strength(&title.concat().to_lowercase());
            self.intro = None;
            return;
        }
        let entry = entry(trimmed);
        if entry.is_some() {
            self.end(sink);
        }
        self.entry |= entry.is_some();
        self.pieces.push((number, entry.unwrap_or(trimmed).to_owned()));
    }

    /// Ends the paragraph and judges its sentences.
    fn end(&mut self, sink: &mut Sink<'_>) {
        let pieces = std::mem::take(&mut self.pieces);
        let entry = std::mem::take(&mut self.entry);
        let inherited = if entry { self.intro.or(self.heading) } else { None };
        for (number, text) in sentences(&pieces) {
            sentence::judge(&text, inherited, At { line: number, quote: &text }, sink);
        }
        if !entry && let Some((_, last)) = pieces.last() {
            self.intro = last
                .trim_end()
                .trim_end_matches('*')
                .ends_with(':')
                .then(|| sentence::strength(&last.to_lowercase()))
                .flatten();
        }
    }
}

fn is_heading(trimmed: &str) -> bool {
    let rest = trimmed.trim_start_matches('#');
    (rest.len() < trimmed.len() && rest.starts_with(' '))
        || (trimmed.starts_with("== ") || trimmed.starts_with("* **") && trimmed.ends_with("**:"))
}

/// The words of an entry of a list or a row of a table.
fn entry(trimmed: &str) -> Option<&str> {
    if let Some(row) = trimmed.strip_prefix('|') {
        return Some(row);
    }
    let rest = trimmed.strip_prefix(['-', '*', '+', '•']).filter(|rest| rest.starts_with(' '));
    rest.or_else(|| {
        let digits = trimmed.chars().take_while(char::is_ascii_digit).count();
        let rest = trimmed.get(digits..)?;
        (digits > 0 && digits < 4).then(|| rest.strip_prefix(['.', ')']).filter(|rest| rest.starts_with(' '))).flatten()
    })
}

/// Cuts a paragraph into sentences, each with the line it begins on.
fn sentences(pieces: &[(usize, String)]) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, piece) in pieces {
        for word in piece.split_whitespace() {
            let (_, text) = open.get_or_insert_with(|| (*number, String::new()));
            let said = without_address(word);
            if text.len() < MAX_SENTENCE && !said.is_empty() {
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(said);
            }
            if ends(word) {
                found.extend(open.take());
            }
        }
    }
    found.extend(open);
    found
}

/// A word up to an address in it: what stands in an address is no requirement.
fn without_address(word: &str) -> &str {
    let Some(at) = word.find("://") else { return word };
    let before = word.get(..at).unwrap_or_default();
    before.trim_end_matches(|ch: char| ch.is_ascii_alphanumeric())
}

/// Whether a word ends a sentence; abbreviations do not.
fn ends(word: &str) -> bool {
    let bare = word.trim_end_matches(['*', '_', ')', '"']);
    let small = bare.to_lowercase();
    bare.ends_with(['!', '?'])
        || bare.ends_with('.')
            && !["e.g.", "i.e.", "etc.", "approx.", "ca.", "vs.", "min.", "max.", "(e.g.", "(i.e.", "no."]
                .contains(&small.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::fact::Finding;

    fn told(text: &str) -> String {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        read(text, &mut Sink::new("README.md", &mut facts, &mut notes));
        let facts = facts.iter().filter(|fact| !matches!(fact.finding, Finding::Card(_)));
        facts.map(|fact| format!("{} {:?} {:?}", fact.line, fact.strength, fact.finding)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn s3_3_sentences_may_run_over_lines_and_code_says_nothing() {
        let text = "# Title\n\nThis needs at least\n16 GB of RAM. It was nice.\n\n```\nrequires 512 GB of RAM\n```\n~~~\nrequires 256 GB of RAM\n~~~\n";
        assert_eq!(told(text), "3 Hard Ram(16)");
    }

    #[test]
    fn s3_3_lists_and_tables_inherit_the_words_of_their_heading() {
        let text = "## Requirements\n\n- 8 cores\n- 32 GB RAM\n\nSome prose about 64 GB RAM.\n\n## Recommended\n* 64 GB RAM\n\n## Results\n- 128 GB RAM\n";
        assert_eq!(told(text), "3 Hard Cores(8)\n4 Hard Ram(32)\n9 Target Ram(64)");
        let table = "Hardware requirements\n---------------------\n\n| Part | Size |\n|---|---|\n| Disk | 100 GB |\n";
        assert_eq!(told(table), "6 Hard Disk(100)");
        let intro = "You will need:\n\n1. 16 GB of memory\n2. 50 GB of disk\n";
        assert_eq!(told(intro), "3 Hard Ram(16)\n4 Hard Disk(50)");
    }

    #[test]
    fn s3_1_endless_sentences_are_cut() {
        let text = format!("{} needs 16 GB RAM", "word ".repeat(100_000));
        assert_eq!(told(&text), "");
    }
}
