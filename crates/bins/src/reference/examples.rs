//! Commands and manifests that the documents show: each command of `orlop` has options that there are, each whole flow is valid.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;
use clap::error::ErrorKind;
use orlop_dag::manifest::{Limits, TextLimits};

use crate::host::flow::definitions;

/// A fenced block of a document.
pub(super) struct Block {
    /// The file, and the line that the block begins at.
    pub(super) place: String,
    pub(super) language: String,
    pub(super) text: String,
}

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn documents(folder: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            documents(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            out.push(path);
        }
    }
}

/// The fenced blocks of README and of the book, and the commands in its sentences.
pub(super) fn blocks() -> Vec<Block> {
    let mut files = vec![root().join("README.md")];
    documents(&root().join("docs"), &mut files);
    let mut blocks: Vec<Block> = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        let mut open = false;
        for (number, line) in text.lines().enumerate() {
            match line.strip_prefix("```") {
                Some(_) if open => open = false,
                Some(language) => {
                    open = true;
                    let place = format!("{name}:{}", number + 1);
                    blocks.push(Block { place, language: language.trim().to_owned(), text: String::new() });
                }
                None if open => {
                    let block = blocks.last_mut().expect("one is open");
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                None => {
                    // In a sentence or a table.
                    let spans = line.split('`').skip(1).step_by(2).filter(|span| span.starts_with("orlop "));
                    blocks.extend(spans.map(|span| Block {
                        place: format!("{name}:{}", number + 1),
                        language: "sh".to_owned(),
                        text: span.replace("\\|", "|"),
                    }));
                }
            }
        }
    }
    blocks
}

/// The words of each simple command of a line, as a shell splits them: quotes are taken away, substitutions stay as they are.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let (mut quote, mut depth) = (None::<char>, 0_usize);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        if depth > 0 {
            depth = if letter == '(' {
                depth + 1
            } else if letter == ')' {
                depth - 1
            } else {
                depth
            };
            continue;
        }
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (quote, '$') if quote != Some('\'') && letters.peek() == Some(&'(') => {
                letters.next();
                depth = 1;
                word.get_or_insert_default().push('x');
            }
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | ';' | '&' | '<' | '>') => {
                // The number before a redirection names what is redirected.
                let number = word.as_ref().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
                words.extend(word.take().filter(|_| !(letter == '>' && number)));
                all.push(std::mem::take(&mut words));
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    all.push(words);
    all
}

/// The commands of a block that call `orlop`, without what is put before its name.
fn calls(block: &Block) -> Vec<Vec<String>> {
    let text = block.text.replace("\\\n", " ");
    let lines = text.lines().filter_map(|line| match block.language.as_str() {
        "sh" => Some(line),
        "console" => line.strip_prefix("$ "),
        _ => None,
    });
    let all = lines.flat_map(commands);
    let calls = all.filter_map(|words| {
        let before = |word: &String| {
            word.contains('=') || matches!(word.as_str(), "if" | "until" | "while" | "!" | "do" | "nohup" | "exec")
        };
        let start = words.iter().position(|word| !before(word))?;
        (words[start] == "orlop").then(|| words[start..].to_vec())
    });
    calls.collect()
}

/// The parser of a command's words: that of a role, or of the command line.
fn parser(words: &[String]) -> (Command, usize) {
    match words.get(1).map(String::as_str) {
        Some("scheduler") => (crate::host::scheduler::program::command(), 1),
        #[cfg(target_os = "linux")]
        Some("worker") => (crate::host::worker::program::command(), 1),
        Some("operator") => (crate::host::operator::program::command(), 1),
        Some("provisioner") => (crate::host::provisioner::program::command(), 1),
        _ => (crate::cli::command(), 0),
    }
}

#[test]
fn every_command_of_the_documents_has_options_that_there_are() {
    let (mut findings, mut count) = (Vec::new(), 0);
    for block in blocks() {
        for words in calls(&block) {
            let (parser, from) = parser(&words);
            count += 1;
            // A sentence may name a verb without its arguments, and words in capitals stand for others.
            let is_open = words.iter().skip(1).take(2).any(|word| word.bytes().all(|byte| byte.is_ascii_uppercase()));
            if is_open || words.iter().any(|word| matches!(word.as_str(), "…" | "..." | "=" | "helper")) {
                continue;
            }
            if let Err(error) = parser.try_get_matches_from(&words[from..])
                && matches!(
                    error.kind(),
                    ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand | ErrorKind::ArgumentConflict
                )
            {
                findings.push(format!("{}: {}: {error}", block.place, words.join(" ")));
            }
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    assert!(count > 100, "the documents show commands: {count}");
}

/// The commands that the web page shows, from its sources: words in quotes, and `x` for what is put in while it runs. A verb that is
/// put in is not looked at.
fn commands_of_the_page() -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("crates/bins/web/src")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for rest in text.split("['orlop', ").skip(1) {
                let list = rest.split(']').next().unwrap_or_default();
                let parts = list.split(", ").take_while(|part| !part.contains("verb") && !part.starts_with("..."));
                let word =
                    |part: &str| part.strip_prefix('\'').map_or("x", |word| word.trim_end_matches('\'')).to_owned();
                let words = std::iter::once("orlop".to_owned()).chain(parts.map(word)).collect();
                found.push((path.display().to_string(), words));
            }
        }
    }
    found
}

#[test]
fn every_command_that_the_page_shows_is_one() {
    let all = commands_of_the_page();
    assert!(all.len() > 10, "the page shows commands: {}", all.len());
    for (place, words) in all {
        if let Err(error) = crate::cli::command().try_get_matches_from(&words) {
            let is_cut = matches!(
                error.kind(),
                ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            );
            assert!(is_cut, "{place}: {}: {error}", words.join(" "));
        }
    }
}

#[test]
fn every_flow_of_the_documents_is_valid() {
    let mut count = 0;
    for block in blocks().iter().filter(|block| block.language == "yaml") {
        let is_flow = block.text.lines().any(|line| line == "kind: JobFlow" || line.starts_with("steps:"));
        if is_flow {
            let limits = Limits::elsewhere().images_optional().strict();
            if let Err(report) = definitions(&block.place, &block.text, limits, TextLimits::large()) {
                panic!("{}: {report}", block.place);
            }
            count += 1;
        }
    }
    assert!(count > 5, "the documents show flows: {count}");
}

#[test]
fn lines_are_split_as_a_shell_does() {
    let split = |line: &str| commands(line).into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>();
    assert_eq!(
        split("orlop submit -- sh -c 'echo \"a b\"' # why"),
        [["orlop", "submit", "--", "sh", "-c", "echo \"a b\""]]
    );
    assert_eq!(split("orlop health 2>/dev/null")[0], ["orlop", "health"]);
    assert_eq!(
        split("x=$(orlop submit -- true | cat) && orlop wait \"$x\""),
        [vec!["x=x"], vec!["orlop", "wait", "$x"]]
    );
}
