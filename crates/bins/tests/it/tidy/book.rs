//! The book in `docs/`: every page stands in its table of contents, every rule names tests that exist, and no page uses a word that
//! only this project would understand.

use std::collections::{BTreeMap, BTreeSet};

use super::{files, none, read};

const CONTENTS: &str = "docs/SUMMARY.md";
/// Words of earlier days: a reader of the field does not know them. What is said today stands in the second column.
const PRIVATE: [(&str, &str); 17] = [
    ("shelf", "store"),
    ("porter", "artifact helper"),
    ("courier", "event publisher"),
    ("keeper", "retention"),
    ("upkeep", "background tasks"),
    ("hopeless", "never fits"),
    ("standing", "state, status"),
    ("wishes", "options"),
    ("council", "advisor"),
    ("makeroom", "preemption"),
    ("thrifty", "reservation"),
    ("whoever", "the caller, the user"),
    ("pictured", "snapshot"),
    ("boarding", "fleet join"),
    ("desk", "control channel"),
    ("bed", "fixture"),
    ("tally", "metrics"),
];

/// The pages of the book.
fn pages() -> impl Iterator<Item = &'static str> {
    files()
        .iter()
        .map(String::as_str)
        .filter(|path| path.starts_with("docs/") && path.ends_with(".md") && *path != CONTENTS)
}

/// Whether a line names tests: it begins with a path in backquotes.
fn begins_tests(line: &str) -> bool {
    ["`crates/", "`examples/", "`fuzz/"].iter().any(|path| line.starts_with(path))
}

/// The lines of a page; those that go on with the tests of the line above, beginning with another one, are part of that.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match lines.last_mut() {
            Some(above) if begins_tests(above) && line.starts_with('`') && !begins_tests(line) => {
                above.push(' ');
                above.push_str(line);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

/// The names in backquotes of a line that begins with a path in backquotes; none of any other line.
fn tests_of(line: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    if !begins_tests(line) {
        return found;
    }
    for word in line.split('`').skip(1).step_by(2) {
        if word.ends_with(".rs") {
            found.push((word.to_owned(), Vec::new()));
        } else if let Some((_, names)) = found.last_mut() {
            names.push(word.to_owned());
        }
    }
    found
}

/// Whether a source has a test of this name: a function right below an attribute of a test, or one of those that a macro makes of the
/// rules of a suite, each in a line of its own.
fn is_test(source: &str, name: &str) -> bool {
    if source.contains("macro_rules! tests_of {")
        && source.lines().any(|line| line.trim().strip_suffix(',') == Some(name))
    {
        return true;
    }
    let declared = format!("fn {name}(");
    source.match_indices(&declared).any(|(at, _)| {
        let line = source[..at].rfind('\n').map_or(0, |end| end + 1);
        let above = source[..line].lines().rev().take_while(|line| !line.trim().is_empty()).take(12);
        let mut above = above.filter(|line| line.trim_start().starts_with("#["));
        above.any(|line| line.contains("test]") || line.contains("test("))
    })
}

/// The id of the rule that a line begins, such as `F12`.
fn id(line: &str) -> Option<(char, usize)> {
    let word = line.strip_prefix("**")?.split_once("** ")?.0;
    let letter = word.chars().next().filter(char::is_ascii_uppercase)?;
    Some((letter, word.get(1..)?.parse().ok()?))
}

#[test]
fn every_rule_of_the_book_names_tests_that_exist() {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let (mut findings, mut rules) = (Vec::new(), 0);
    let (mut letters, mut all) = (BTreeSet::new(), 0);
    for page in pages().filter(|page| page.starts_with("docs/rules/") && !page.ends_with("README.md")) {
        let text = read(page);
        let mut last: Option<(String, usize)> = None;
        let mut next = 1;
        let end = |last: &Option<(String, usize)>, findings: &mut Vec<String>| {
            if let Some((rule, 0)) = last {
                findings.push(format!("{page}: {rule} names no test"));
            }
        };
        for line in lines(&text) {
            let line = line.as_str();
            if let Some((letter, number)) = id(line) {
                end(&last, &mut findings);
                if next == 1 && !letters.insert(letter) {
                    findings.push(format!("{page}: the letter {letter} is that of another page"));
                }
                if number != next {
                    findings.push(format!("{page}: {letter}{number} stands where {letter}{next} is expected"));
                }
                (next, rules) = (number + 1, rules + 1);
                last = Some((format!("{letter}{number}"), 0));
            }
            for (file, names) in tests_of(line) {
                let Some((rule, count)) = &mut last else { continue };
                if !files().contains(&file) {
                    findings.push(format!("{page}: {rule} names {file}, which is not there"));
                    continue;
                }
                let source = texts.entry(file.clone()).or_insert_with(|| read(&file));
                for name in names {
                    if !is_test(source, &name) {
                        findings.push(format!("{page}: {rule} names {name}, which is not in {file}"));
                    }
                    *count += 1;
                    all += 1;
                }
            }
        }
        end(&last, &mut findings);
    }
    none("rules of the book and their tests", &findings);
    assert!(rules > 300 && all > 600, "the book has rules and tests: {rules}, {all}");
}

#[test]
fn every_page_stands_in_the_table_of_contents_once() {
    let contents = read(CONTENTS);
    let listed: Vec<&str> = contents.lines().filter_map(|line| line.split_once("](")?.1.strip_suffix(')')).collect();
    let findings = pages().filter_map(|page| {
        let page = page.strip_prefix("docs/").unwrap_or(page);
        let count = listed.iter().filter(|listed| **listed == page).count();
        (count != 1).then(|| format!("{page} stands there {count} times"))
    });
    none(CONTENTS, &findings.collect::<Vec<_>>());
}

#[test]
fn no_page_uses_a_word_that_only_this_project_understands() {
    let mut findings = Vec::new();
    for page in pages().chain(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]) {
        for (number, line) in read(page).lines().enumerate() {
            // Names of files, tests and items are not prose.
            let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase();
            let words: BTreeSet<&str> = prose.split(|letter: char| !letter.is_alphanumeric()).collect();
            for (word, instead) in PRIVATE.iter().filter(|(word, _)| words.contains(word)) {
                findings.push(format!("{page}:{}: `{word}`; say {instead}", number + 1));
            }
        }
    }
    none("words of the book", &findings);
}

#[test]
fn tests_of_rules_are_read_from_lines_that_begin_with_a_path() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        tests_of("`crates/a/x.rs`: `one`, `two`; `crates/b.rs`: `three`"),
        [("crates/a/x.rs".to_owned(), names(&["one", "two"])), ("crates/b.rs".to_owned(), names(&["three"]))]
    );
    assert_eq!(tests_of("see `crates/a/x.rs`"), []);
    assert_eq!(lines("`crates/a.rs`: `one`,\n`two`\n\n`a` is\n"), ["`crates/a.rs`: `one`, `two`", "", "`a` is"]);
    let source = "#[test]\nfn one() {}\n\nfn two() {}\n\n#[tokio::test(start_paused = true)]\nasync fn three() {}\n";
    assert_eq!(["one", "two", "three"].map(|name| is_test(source, name)), [true, false, true]);
    assert_eq!((id("**F12** A step"), id("**not** a rule"), id("F12")), (Some(('F', 12)), None, None));
}
