//! The pages of conditions, reasons and events against the sources: each word in the first column of their tables is one that
//! the sources write, and each word that the sources write as such is on a page.

use std::collections::{BTreeMap, BTreeSet};

use super::{files, none, read, rust_files};

/// Where the pages are.
const PAGES: &str = "docs/reference/conditions";

/// What stands before a word that the sources write, blanks aside.
const BEFORE: [&str; 28] = [
    ".with_reason(",
    "AttemptEnd::start_failed(",
    "NewCondition::no(",
    "NewCondition::no(KIND,",
    "NewCondition::unknown(",
    "NewCondition::unknown(KIND,",
    "NewCondition::yes(",
    "NewCondition::yes(KIND,",
    "Notice::normal(",
    "Notice::warning(",
    "Observed::failed(",
    "Refusal::new(",
    "TaskEnd::Failed,",
    "TaskEnd::Lost,",
    "about_job(",
    "facts.push((",
    "notice(false,",
    "notice(true,",
    "notice_decision(at,",
    "notice_flow(",
    "publish_plain(",
    "publish_tenant(",
    "publish_worker(",
    "reason.unwrap_or(",
    "reason:",
    "self.event(",
    "spool.rejected(id,",
    "verbs.push((",
];

/// Files in which every word after such a text is one.
const LISTS: [(&str, &str); 14] = [
    ("bins/src/host/flow/fleet/end.rs", "=>"),
    ("bins/src/host/scheduler/batch/publish.rs", "=>"),
    ("bins/src/host/worker/steps/end.rs", "=>"),
    ("cloud/src/runtime/failure.rs", ": &str ="),
    ("cloud/src/runtime/local/life.rs", "=>"),
    ("cloud/src/runtime/worker/docker/begin.rs", "=>"),
    ("cloud/src/runtime/worker/process/begin.rs", "=>"),
    ("dag/src/attempt/answer.rs", "=>"),
    ("dag/src/engine/reason.rs", ": &str ="),
    ("dag/src/engine/view.rs", "=>"),
    ("k8s/src/hardware/availability.rs", "=>"),
    ("k8s/src/hourglass/plan.rs", ": &str ="),
    ("scheduler/src/effect.rs", "=>"),
    ("scheduler/src/engine/explanation.rs", "=>"),
];

/// Enums whose variants are shown, by their texts.
const ENUMS: &str = "AttemptState ExecutorPhase ExecutorState FlowPhase JobState PerformerPhase PerformerState SagaState StepPhase \
                     TenantState WorkerState";

/// Sources that tests are not made of, up to their tests, without comments.
fn sources() -> impl Iterator<Item = (&'static str, String)> {
    let tested = |path: &str| ["/tests", "/testing/", "/fake.rs", "/suite"].iter().any(|part| path.contains(part));
    let paths = rust_files().filter(move |path| path.starts_with("crates/") && path.contains("/src/") && !tested(path));
    paths.map(|path| {
        let text = read(path);
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().lines();
        (path, code.filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n"))
    })
}

/// Literals that directly follow a text, when they are one word.
fn after<'t>(code: &'t str, before: &'t str) -> impl Iterator<Item = &'t str> {
    let literals = code.split(before).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
    literals.filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()) && word.matches(' ').count() < 2)
}

/// Texts of the variants of an enum that is named.
fn variants<'t>(code: &'t str, name: &str) -> Vec<&'t str> {
    let body =
        code.split(&format!("pub enum {name}(")).nth(1).and_then(|rest| rest.split_once('{')?.1.split('}').next());
    let lines = body.into_iter().flat_map(str::lines).map(|line| line.trim().trim_end_matches(','));
    let texts = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    texts.map(|line| line.split_once(" = ").map_or(line, |(_, text)| text.trim_matches('"'))).collect()
}

/// Words that the sources write, with where.
fn written() -> BTreeMap<String, &'static str> {
    let mut words = BTreeMap::new();
    // Errors of stores, and of requests before they are sent, are in no status.
    let hidden = |path: &str| path.contains("/store/") || path.contains("/shell/");
    for (path, code) in sources().filter(|(path, _)| !hidden(path)) {
        let mut found: Vec<&str> = BEFORE.iter().flat_map(|before| after(&code, before)).collect();
        let lists = LISTS.iter().filter(|(list, _)| path.strip_prefix("crates/") == Some(list));
        found.extend(lists.flat_map(|(_, before)| after(&code, before)));
        found.extend(ENUMS.split_whitespace().flat_map(|name| variants(&code, name)));
        let arrays = code.split("const REASONS: [&str;").skip(1).filter_map(|rest| rest.split(';').next());
        found.extend(arrays.flat_map(|array| after(array, "\n")));
        words.extend(found.into_iter().map(|word| (word.to_owned(), path)));
    }
    words
}

/// Words in the first column of the tables of the pages, with where.
fn listed() -> BTreeMap<String, String> {
    let pages = files().iter().filter(|path| path.starts_with(PAGES) && path.ends_with(".md"));
    let mut words = BTreeMap::new();
    for path in pages {
        for (number, line) in read(path).lines().enumerate() {
            let word = line.strip_prefix("| `").and_then(|rest| rest.split_once("` |"));
            words.extend(word.map(|(word, _)| (word.to_owned(), format!("{path}:{}", number + 1))));
        }
    }
    words
}

#[test]
fn every_word_of_the_pages_is_one_of_the_sources() {
    let listed = listed();
    assert!(listed.len() > 200, "the pages have tables: {}", listed.len());
    let mut unknown: BTreeSet<&str> = listed.keys().map(String::as_str).collect();
    for (_, code) in sources() {
        for literal in code.split('"') {
            unknown.remove(literal);
            unknown.remove(literal.split(':').next().unwrap_or_default());
        }
        for line in code.lines() {
            unknown.remove(line.trim().trim_end_matches(','));
        }
    }
    let findings: Vec<_> = unknown.iter().map(|word| format!("{}: `{word}`", listed[*word])).collect();
    none("words that nothing writes", &findings);
}

#[test]
fn every_word_of_the_sources_is_on_a_page() {
    let (listed, written) = (listed(), written());
    assert!(written.len() > 200, "the sources have words: {}", written.len());
    let missing = written.iter().filter(|(word, _)| !listed.contains_key(*word));
    let findings: Vec<_> = missing.map(|(word, path)| format!("{path}: `{word}`; add it to {PAGES}*.md")).collect();
    none("words that no page explains", &findings);
}

#[test]
fn every_text_before_a_word_finds_one() {
    let sources: Vec<(&str, String)> = sources().collect();
    let everywhere =
        BEFORE.iter().filter(|before| !sources.iter().any(|(_, code)| after(code, before).next().is_some()));
    let mut findings: Vec<String> = everywhere.map(|before| format!("`{before}` stands before no word")).collect();
    for (path, before) in LISTS {
        let code = sources.iter().find(|(source, _)| source.strip_prefix("crates/") == Some(path));
        if code.is_none_or(|(_, code)| after(code, before).next().is_none()) {
            findings.push(format!("{path}: `{before}` stands before no word"));
        }
    }
    let enums =
        ENUMS.split_whitespace().filter(|name| !sources.iter().any(|(_, code)| !variants(code, name).is_empty()));
    findings.extend(enums.map(|name| format!("there is no enum {name}")));
    none("texts that find no word", &findings);
}
