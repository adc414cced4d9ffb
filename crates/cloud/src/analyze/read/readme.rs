//! Documents for people: headings, lists, tables and paragraphs cut into sentences. Owns the
//! cutting and which words a sentence inherits from its heading; what a sentence says stands in `sentence`.

use super::super::fact::{At, Sink, Strength};
use super::super::python;
use super::sentence::{self, Around};
use super::{pip, shell};

/// Bytes of a sentence that are looked at.
const MAX_SENTENCE: usize = 2000;
/// Pieces of code in a sentence that are looked at.
const MAX_SPANS: usize = 40;

/// Reads a document.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    let mut page = Page::default();
    let mut command = String::new();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            page.end_table(sink);
            page.end(sink);
            page.fenced = !page.fenced;
            command.clear();
            continue;
        }
        if !page.fenced && !trimmed.starts_with("$ ") {
            page.line(trimmed, index + 1, sink);
            continue;
        }
        // A command goes on in the next line.
        let (part, goes_on) = trimmed.strip_suffix('\\').map_or((trimmed, false), |part| (part, true));
        command.push_str(part.trim_start_matches("$ "));
        if goes_on && command.len() < MAX_SENTENCE {
            command.push(' ');
        } else {
            installed(&std::mem::take(&mut command), At { line: index + 1, quote: trimmed }, sink);
        }
    }
    page.end_table(sink);
    page.end(sink);
}

/// What a command of a document installs: soft evidence, since it may be one way of several.
fn installed(command: &str, at: At<'_>, sink: &mut Sink<'_>) {
    let mark = sink.mark();
    shell::judge(command.split(" #").next().unwrap_or_default(), at, sink);
    sink.soften(mark);
}

/// A document while it is read.
#[derive(Default)]
struct Page {
    /// Within a block of code, of which only commands that install say something.
    fenced: bool,
    /// The paragraph so far: pieces with their lines.
    pieces: Vec<(usize, String)>,
    /// What lists under this heading inherit.
    heading: Option<Strength>,
    /// Whether the section is about doing without a GPU.
    is_choice: bool,
    /// What the list after a line that ends in `:` inherits.
    intro: Option<Strength>,
    /// Whether the paragraph is an entry of a list.
    entry: bool,
    /// The row before, with its line, while it is not known whether it is the head of a table.
    row: Option<(usize, String)>,
    /// The heads of the columns of the table.
    columns: Vec<String>,
}

impl Page {
    fn line(&mut self, trimmed: &str, number: usize, sink: &mut Sink<'_>) {
        if trimmed.starts_with('|') {
            return self.table(trimmed, number, sink);
        }
        self.end_table(sink);
        if trimmed.is_empty() {
            self.end(sink);
            return;
        }
        if is_heading(trimmed) {
            self.end(sink);
            self.head(&trimmed.to_lowercase());
            return;
        }
        if trimmed.chars().all(|ch| "=-~^*".contains(ch)) && trimmed.len() > 2 {
            // The line below a heading in other markup: the paragraph before it was the heading.
            let title: Vec<String> = self.pieces.drain(..).map(|(_, text)| text).collect();
            self.head(&title.concat().to_lowercase());
            return;
        }
        let entry = entry(trimmed);
        if entry.is_some() {
            self.end(sink);
        }
        self.entry |= entry.is_some();
        self.pieces.push((number, entry.unwrap_or(trimmed).to_owned()));
    }

    fn head(&mut self, small: &str) {
        let is_about_cards = ["hardware", "system"].iter().any(|word| small.contains(word));
        // Appendices of papers list what an artifact depends on.
        let depends = is_about_cards && ["dependenc", "specification"].iter().any(|word| small.contains(word));
        self.heading = sentence::strength(small)
            .or(depends.then_some(Strength::Hard))
            .filter(|_| is_about_cards || !small.contains("cpu only"));
        self.is_choice = small.contains("cpu");
        self.intro = None;
    }

    /// A line of a table: its head, the line below it, or a row.
    fn table(&mut self, trimmed: &str, number: usize, sink: &mut Sink<'_>) {
        self.end(sink);
        let is_rule = trimmed.chars().all(|ch| "|-: ".contains(ch)) && trimmed.contains('-');
        if is_rule {
            self.columns = self.row.take().map(|(_, row)| cells(&row).map(str::to_owned).collect()).unwrap_or_default();
            return;
        }
        self.end_row(sink);
        self.row = Some((number, trimmed.to_owned()));
    }

    fn end_row(&mut self, sink: &mut Sink<'_>) {
        let Some((line, row)) = self.row.take() else { return };
        let found: Vec<&str> = cells(&row).collect();
        let first = found.first().copied().unwrap_or_default();
        let is_variant = found.len() > 2 && !names_resource(first);
        for (index, cell) in found.iter().enumerate().skip(usize::from(found.len() > 1)) {
            let head = self.columns.get(index).map_or("", String::as_str);
            let column = sentence::strength(&head.to_lowercase());
            let text = format!("{} {head} : {cell}", if index == 0 { "" } else { first });
            let inherited = column.or(self.intro).or(self.heading);
            let around = Around { inherited, is_choice: self.is_choice, is_variant };
            sentence::judge(&text, around, At { line, quote: &row }, sink);
        }
    }

    fn end_table(&mut self, sink: &mut Sink<'_>) {
        self.end_row(sink);
        self.columns.clear();
    }

    /// Ends the paragraph and judges its sentences.
    fn end(&mut self, sink: &mut Sink<'_>) {
        let pieces = std::mem::take(&mut self.pieces);
        let entry = std::mem::take(&mut self.entry);
        let inherited = if entry { self.intro.or(self.heading) } else { None };
        let around = Around { inherited, is_choice: self.is_choice, is_variant: false };
        for (number, text) in sentences(&pieces) {
            let at = At { line: number, quote: &text };
            sentence::judge(&text, around, at, sink);
            spans(&text, around, at, sink);
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

/// Code within a sentence: commands that install, and packages that a sentence asks for with a version.
fn spans(text: &str, around: Around, at: At<'_>, sink: &mut Sink<'_>) {
    if !text.contains('`') {
        return;
    }
    let is_asked = sentence::strength(&text.to_lowercase()).or(around.inherited).is_some();
    for span in text.split('`').skip(1).step_by(2).take(MAX_SPANS) {
        let package = pip::package(span).filter(|_| is_asked && span.contains(['=', '<', '>', '~']));
        if let Some(package) = package {
            let mark = sink.mark();
            python::judge(&package, at, sink);
            sink.soften(mark);
        } else if span.contains(' ') {
            installed(span, at, sink);
        }
    }
}

/// Cells of a row of a table.
fn cells(row: &str) -> impl Iterator<Item = &str> {
    row.trim().trim_start_matches('|').trim_end_matches('|').split('|').map(str::trim).take(32)
}

/// Whether the first cell of a row says what the others are of.
fn names_resource(cell: &str) -> bool {
    let small = cell.to_lowercase();
    ["cpu", "ram", "memory", "gpu", "vram", "disk", "storage", "core", "ssd", "space", "os", "cuda", "processor"]
        .iter()
        .any(|word| small.split(|ch: char| !ch.is_alphanumeric()).any(|part| part.trim_end_matches('s') == *word))
}

fn is_heading(trimmed: &str) -> bool {
    let rest = trimmed.trim_start_matches('#');
    (rest.len() < trimmed.len() && rest.starts_with(' '))
        || (trimmed.starts_with("== ") || trimmed.starts_with("* **") && trimmed.ends_with("**:"))
}

/// The words of an entry of a list.
fn entry(trimmed: &str) -> Option<&str> {
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

    fn reported(text: &str) -> String {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        read(text, &mut Sink::new("README.md", &mut facts, &mut notes));
        let facts = facts.iter().filter(|fact| !matches!(fact.finding, Finding::Card(_)));
        facts.map(|fact| format!("{} {:?} {:?}", fact.line, fact.strength, fact.finding)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn sentences_may_run_over_lines_and_code_says_nothing() {
        let text = "# Title\n\nThis needs at least\n16 GB of RAM. It was nice.\n\n```\nrequires 512 GB of RAM\n```\n~~~\nrequires 256 GB of RAM\n~~~\n";
        assert_eq!(reported(text), "3 Hard Ram(16)");
    }

    #[test]
    fn lists_and_tables_inherit_the_words_of_their_heading() {
        let text = "## Requirements\n\n- 8 cores\n- 32 GB RAM\n\nSome prose about 64 GB RAM.\n\n## Recommended\n* 64 GB RAM\n\n## Results\n- 128 GB RAM\n";
        assert_eq!(reported(text), "3 Hard Cores(8)\n4 Hard Ram(32)\n9 Target Ram(64)");
        let table = "Hardware requirements\n---------------------\n\n| Part | Size |\n|---|---|\n| Disk | 100 GB |\n";
        assert_eq!(reported(table), "6 Hard Disk(100)");
        let intro = "You will need:\n\n1. 16 GB of memory\n2. 50 GB of disk\n";
        assert_eq!(reported(intro), "3 Hard Ram(16)\n4 Hard Disk(50)");
    }

    #[test]
    fn endless_sentences_are_cut() {
        let text = format!("{} needs 16 GB RAM", "word ".repeat(100_000));
        assert_eq!(reported(&text), "");
    }
}
