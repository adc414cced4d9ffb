//! Packages as a registry shows them: a page, a licence, what they are, every feature in a table, and the oldest compiler that is
//! promised.

use std::collections::BTreeSet;

use cargo_metadata::Package;

use super::{metadata, none, read, root};

/// Lines of a package's page, at least and at most.
const LINES: std::ops::RangeInclusive<usize> = 25..=70;
/// What the registry takes: at most so many keywords and categories.
const MOST_WORDS: usize = 5;
/// The longest keyword, in bytes.
const LONGEST_KEYWORD: usize = 20;

/// The packages that are published.
fn published() -> Vec<&'static Package> {
    let published = |package: &&Package| package.publish.as_ref().is_none_or(|registries| !registries.is_empty());
    let found: Vec<_> = metadata().workspace_packages().into_iter().filter(published).collect();
    assert_eq!(found.len(), 6, "the packages that are published");
    found
}

/// The folder of a package, from the root.
fn folder(package: &Package) -> &str {
    let folder = package.manifest_path.parent().expect("a manifest lies in a folder").as_std_path();
    folder.strip_prefix(root()).expect("packages lie in the workspace").to_str().expect("UTF-8")
}

/// The first column of the first table below the heading `# Cargo features` or `## Features`.
fn table(page: &str) -> BTreeSet<String> {
    let below = page.lines().skip_while(|line| !["## Features", "# Cargo features"].contains(line));
    let rows = below.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next()).map(str::to_owned).collect()
}

/// What a page and a manifest say of features differently.
fn differences(page: &str, text: &str, package: &Package) -> Vec<String> {
    let listed = table(text);
    let declared: BTreeSet<_> = package.features.keys().filter(|name| *name != "default").cloned().collect();
    let missing = declared.difference(&listed).map(|name| format!("{page}: lacks the feature `{name}`"));
    let strange =
        listed.difference(&declared).map(|name| format!("{page}: `{name}` is no feature of {}", package.name));
    missing.chain(strange).collect()
}

#[test]
fn pages_name_exactly_the_features_of_their_packages() {
    let mut findings = Vec::new();
    for package in published() {
        let page = format!("{}/README.md", folder(package));
        findings.extend(differences(&page, &read(&page), package));
        if package.name.as_str() == "orlop" {
            findings.extend(differences("docs/reference/features.md", &read("docs/reference/features.md"), package));
        }
    }
    none("tables of features", &findings);
}

#[test]
fn the_table_of_features_is_read() {
    let text = "| `no` | before |\n## Features\n\nNone.\n\n| feature | adds |\n|---|---|\n| `a` (default) | `b` |\n| `c-d` | e |\n\n| `f` |\n";
    assert_eq!(table(text).into_iter().collect::<Vec<_>>(), ["a", "c-d"]);
    let package =
        published().into_iter().find(|package| package.name.as_str() == "orlop-dag").expect("it is published");
    let found = differences("page", "## Features\n| `schema` |\n| `x` |\n", package);
    assert_eq!(found, ["page: lacks the feature `testing`", "page: `x` is no feature of orlop-dag"]);
}

#[test]
fn packages_have_what_a_registry_shows() {
    let mut findings = Vec::new();
    for package in published() {
        let (name, folder) = (&package.name, folder(package));
        let mut need = |met: bool, what: &str| {
            if !met {
                findings.push(format!("{folder}: {what}"));
            }
        };
        let lines = read(&format!("{folder}/README.md")).lines().count();
        need(LINES.contains(&lines), &format!("README.md has {lines} lines, not {LINES:?}"));
        need(package.readme.as_ref().is_some_and(|path| path == "README.md"), "`readme` is not README.md");
        need(read(&format!("{folder}/README.md")).starts_with(&format!("# {name}\n")), "README.md has another title");
        need(read(&format!("{folder}/LICENSE")) == read("LICENSE"), "LICENSE is not that of the root");
        need(package.description.as_ref().is_some_and(|text| text.len() > 40), "`description` says too little");
        need((1..=MOST_WORDS).contains(&package.keywords.len()), "`keywords` are none or too many");
        need(package.keywords.iter().all(|word| word.len() <= LONGEST_KEYWORD), "a keyword is too long");
        need((1..=MOST_WORDS).contains(&package.categories.len()), "`categories` are none or too many");
        let documents = &package.metadata["docs"]["rs"];
        need(documents["all-features"] == true, "`[package.metadata.docs.rs]` lacks `all-features = true`");
        need(documents["rustdoc-args"][1] == "docsrs", "`[package.metadata.docs.rs]` does not say `--cfg docsrs`");
        need(read(&format!("{folder}/src/lib.rs")).contains("\"../README.md\""), "src/lib.rs does not show README.md");
    }
    none("packages", &findings);
}

#[test]
fn pages_name_the_oldest_compiler_of_the_manifest() {
    let mut findings = Vec::new();
    for package in published() {
        let oldest = package.rust_version.as_ref().expect("`rust-version` is stated");
        let words = format!("Rust {}.{} or newer", oldest.major, oldest.minor);
        for page in [format!("{}/README.md", folder(package)), "README.md".to_owned()] {
            if !read(&page).contains(&words) {
                findings.push(format!("{page}: does not say `{words}`"));
            }
        }
    }
    none("the oldest compiler", &findings);
}
