//! Documents as a code host shows them: every link leads to a file and heading that exist, README is short, and every page of
//! `docs/` is near it. Web addresses are not asked.

use std::collections::{BTreeMap, BTreeSet};

use super::{files, none, read};

/// Where a reader begins.
const FIRST: &str = "README.md";
/// README has at most so many lines.
const LINES: usize = 150;
/// What a reader of README gets to with one click.
const ONE_CLICK: [(&str, &str); 10] = [
    ("install, first flow", "docs/start/flow.md"),
    ("fleet", "docs/start/fleet.md"),
    ("cluster", "docs/start/cluster.md"),
    ("provisioner", "docs/start/server.md"),
    ("library use", "docs/library.md"),
    ("performance", "docs/performance.md"),
    ("exit codes", "docs/reference/exit-codes.md"),
    ("cargo features", "docs/reference/features.md"),
    ("architecture", "ARCHITECTURE.md"),
    ("contributing", "CONTRIBUTING.md"),
];
/// Clicks from README to any page of `docs/`.
const CLICKS: usize = 2;

/// A link of a document to a place in this project.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Link {
    /// As it is written.
    text: String,
    /// The file or folder, from the root; none where it leaves the project.
    path: Option<String>,
    /// The heading, or empty.
    anchor: String,
}

/// The documents of the project.
fn documents() -> impl Iterator<Item = &'static str> {
    files().iter().map(String::as_str).filter(|path| path.ends_with(".md"))
}

/// The lines of a document that are not in a fenced block.
fn outside_blocks(text: &str) -> Vec<&str> {
    let mut fence: Option<(char, usize)> = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        let start = line.trim_start();
        let mark = start.chars().next().filter(|mark| ['`', '~'].contains(mark)).unwrap_or(' ');
        let length = start.chars().take_while(|letter| *letter == mark).count();
        let is_fence = mark != ' ' && length >= 3;
        match fence {
            None if is_fence => fence = Some((mark, length)),
            None => lines.push(line),
            Some((open, least)) if is_fence && mark == open && length >= least => fence = None,
            Some(_) => {}
        }
    }
    lines
}

/// The text of a document without its code.
fn prose(text: &str) -> String {
    let paragraphs = outside_blocks(text).join("\n");
    let without_spans = |paragraph: &str| paragraph.split('`').step_by(2).collect::<String>();
    paragraphs.split("\n\n").map(without_spans).collect::<Vec<_>>().join("\n\n")
}

/// What links and images are written with: inline, by reference, as HTML.
fn targets(text: &str) -> BTreeSet<String> {
    let text = prose(text);
    let after = |opening: &'static str, closing: &'static [char]| {
        text.split(opening).skip(1).filter_map(move |rest| rest.split(closing).next())
    };
    let inline = after("](", &[')', ' ', '\n']);
    let html = after("href=\"", &['"']).chain(after("src=\"", &['"']));
    let references = text.lines().filter(|line| line.starts_with('[') && !line.starts_with("[^"));
    let references = references.filter_map(|line| line.split_once("]: ")?.1.split(' ').next());
    let all = inline.chain(html).chain(references).map(|target| target.trim_matches(['<', '>']));
    all.filter(|target| !target.is_empty()).map(str::to_owned).collect()
}

/// The links of a document, but for those to web addresses.
fn links(document: &str, text: &str) -> Vec<Link> {
    let inside = targets(text).into_iter().filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    let link = |target: String| {
        let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let (path, anchor) = (resolved(document, path), anchor.to_owned());
        Link { text: target, path, anchor }
    };
    inside.map(link).collect()
}

/// A path of a document's link from the root. Nothing stands for the document itself.
fn resolved(document: &str, path: &str) -> Option<String> {
    if path.is_empty() {
        return Some(document.to_owned());
    }
    let folder = if path.starts_with('/') { "" } else { document.rsplit_once('/').map_or("", |(folder, _)| folder) };
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Whether git knows a file of this path, or files below it.
fn exists(path: &str) -> bool {
    let below = format!("{path}/");
    path.is_empty() || files().iter().any(|file| file == path || file.starts_with(&below))
}

/// The anchors of a document: those of its headings, repeated ones with a number, and those written as HTML.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut found, mut counts) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    for title in outside_blocks(text).into_iter().filter_map(heading) {
        let slug = slug(title);
        let count = counts.entry(slug.clone()).or_default();
        found.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
        *count += 1;
    }
    let text = prose(text);
    for attribute in [" id=\"", " name=\""] {
        found.extend(text.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned));
    }
    found
}

/// The title of a line that is a heading.
fn heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    let is_heading = (1..=6).contains(&level) && title.starts_with(' ');
    is_heading.then(|| title.trim().trim_end_matches('#').trim_end())
}

/// What code hosts make of a title: lower case, blanks as dashes, without other signs; of a link its text.
fn slug(title: &str) -> String {
    let mut parts = title.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    let kept = text.chars().filter(|letter| letter.is_alphanumeric() || ['-', '_', ' '].contains(letter));
    kept.flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

#[test]
fn links_of_documents_lead_to_files_and_headings_that_exist() {
    let mut findings = Vec::new();
    for document in documents() {
        for link in links(document, &read(document)) {
            let Some(path) = link.path.filter(|path| exists(path)) else {
                findings.push(format!("{document}: {}: there is no such file", link.text));
                continue;
            };
            if path.ends_with(".md") && !link.anchor.is_empty() && !anchors(&read(&path)).contains(&link.anchor) {
                findings.push(format!("{document}: {}: {path} has no such heading", link.text));
            }
        }
    }
    none("dead links", &findings);
}

#[test]
fn the_readme_is_short() {
    let count = read(FIRST).lines().count();
    assert!(count <= LINES, "{FIRST} has {count} lines; at most {LINES}, the rest belongs into docs/");
}

#[test]
fn every_page_is_near_the_readme() {
    let mut clicks = BTreeMap::from([(FIRST.to_owned(), 0)]);
    let mut reached = vec![FIRST.to_owned()];
    for click in 1..=CLICKS {
        let pages = std::mem::take(&mut reached).into_iter().filter(|path| path.ends_with(".md") && exists(path));
        let found = pages.flat_map(|page| links(&page, &read(&page))).filter_map(|link| link.path);
        for path in found.collect::<BTreeSet<_>>() {
            if !clicks.contains_key(&path) {
                clicks.insert(path.clone(), click);
                reached.push(path);
            }
        }
    }
    let far = ONE_CLICK.iter().filter(|(_, page)| clicks.get(*page) != Some(&1));
    let far = far.map(|(what, page)| format!("{what}: {FIRST} does not link {page}"));
    let lost =
        files().iter().filter(|path| path.starts_with("docs/") && path.ends_with(".md") && *path != "docs/SUMMARY.md");
    let lost = lost.filter(|path| !clicks.contains_key(*path));
    let lost = lost.map(|path| format!("{path}: more than {CLICKS} clicks from {FIRST}"));
    none("pages that a reader does not find", &far.chain(lost).collect::<Vec<_>>());
}

#[test]
fn the_flow_in_the_readme_is_the_one_in_the_examples() {
    let readme = read(FIRST);
    let shown = readme.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    let shown = shown.expect("README shows a flow");
    let file = "examples/flows/hello.yaml";
    assert!(read(file).ends_with(shown), "{FIRST} shows another flow than {file}");
}

#[test]
fn anchors_are_those_of_code_hosts() {
    let text = "# A fleet\n## What `orlop up` does: it's all-in_one!\n## [Links](docs/a.md) too ##\n## A fleet\n\
                ```sh\n# no heading\n```\n#none\n####### none\n<a id=\"own\"></a>\n";
    let found: Vec<String> = anchors(text).into_iter().collect();
    assert_eq!(found, ["a-fleet", "a-fleet-1", "links-too", "own", "what-orlop-up-does-its-all-in_one"]);
}

#[test]
fn links_are_read_as_code_hosts_show_them() {
    let text = "[`a`](../x.rs) ![b](b.svg \"B\") [c](#here)\n[d]: ./d/ 'D'\n[^1]: note\n`[no](no.md)` and `over\nlines` \
                [e](/e.md#f)\n\n<img src=\"i.svg\"> [web](https://h.example/x) [up](../../../out)\n\
                ~~~~text\n```\n[no](no2.md)\n~~~\n[no](no3.md)\n~~~~\n";
    let found = links("docs/deep/page.md", text);
    let found: Vec<String> = found
        .into_iter()
        .map(|link| format!("{} {} {}", link.text, link.path.unwrap_or("outside".into()), link.anchor))
        .collect();
    let wanted = [
        "#here docs/deep/page.md here",
        "../../../out outside ",
        "../x.rs docs/x.rs ",
        "./d/ docs/deep/d ",
        "/e.md#f e.md f",
        "b.svg docs/deep/b.svg ",
        "i.svg docs/deep/i.svg ",
    ];
    assert_eq!(found, wanted);
}
