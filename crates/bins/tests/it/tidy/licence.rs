//! What others wrote and we build on: licences, banned crates, where they come from. The lists stand in `deny.toml`, which
//! `cargo deny` reads too; here they hold also where that program is not installed.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::DependencyKind::Normal;

use super::{metadata, none, read};

/// Quoted texts between `key = [` and the closing bracket in `deny.toml`, comments left out.
fn list(key: &str) -> Vec<String> {
    let text = read("deny.toml");
    let opening = format!("{key} = [");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&opening)).skip(1);
    let inside = lines.by_ref().take_while(|line| *line != "]");
    let quoted = inside.filter_map(|line| line.split('#').next()?.split('"').nth(1).map(str::to_owned));
    let found: Vec<_> = quoted.collect();
    assert!(!found.is_empty(), "deny.toml lists {key}");
    found
}

/// Banned crates, each with those that may use it all the same (`wrappers`).
fn bans() -> Vec<(String, BTreeSet<String>)> {
    let text = read("deny.toml");
    let lines = text.lines().skip_while(|line| !line.starts_with("deny = [")).skip(1).take_while(|line| *line != "]");
    let quoted = |text: &str| text.split('"').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
    let found = lines.filter_map(|line| {
        let wrappers = line.split_once("wrappers = [").map(|(_, list)| quoted(list)).unwrap_or_default();
        Some((line.split('"').nth(1)?.to_owned(), wrappers))
    });
    let found: Vec<_> = found.collect();
    assert!(!found.is_empty(), "deny.toml bans something");
    found
}

/// Whether an SPDX expression can be met with the allowed licences alone. `/` is the old spelling of `OR`.
fn allowed(expression: &str, licences: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any(&mut words, licences) && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, licences: &[String]) -> bool {
    let mut met = all(words, licences);
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words, licences);
    }
    met
}

fn all(words: &mut Words<'_>, licences: &[String]) -> bool {
    let mut met = one(words, licences);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, licences);
    }
    met
}

fn one(words: &mut Words<'_>, licences: &[String]) -> bool {
    let Some(word) = words.next() else { return false };
    if word == "(" {
        let met = any(words, licences);
        return words.next() == Some(")") && met;
    }
    let name = match words.next_if_eq(&"WITH").and_then(|_| words.next()) {
        Some(exception) => format!("{word} WITH {exception}"),
        None => word.to_owned(),
    };
    licences.contains(&name)
}

#[test]
fn licence_expressions_are_read_as_spdx_says() {
    let licences = ["MIT".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned()];
    for met in ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "(GPL-3.0 OR MIT) AND MIT", "Apache-2.0 WITH LLVM-exception"] {
        assert!(allowed(met, &licences), "{met}");
    }
    for refused in ["", "GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "(MIT", "MIT MIT", "(GPL-3.0) OR GPL-2.0"] {
        assert!(!allowed(refused, &licences), "{refused}");
    }
}

#[test]
fn every_crate_has_a_licence_we_allow() {
    let licences = list("allow");
    let mut findings = Vec::new();
    for package in &metadata().packages {
        let expression = package.license.as_deref().unwrap_or_default();
        if !allowed(expression, &licences) {
            findings.push(format!("{} {}: `{expression}`", package.name, package.version));
        }
    }
    none("licences that deny.toml does not allow", &findings);
}

#[test]
fn no_banned_crate_is_built_in() {
    let mut found = Vec::new();
    for (banned, wrappers) in bans() {
        let graph = &metadata().packages;
        let present = graph.iter().any(|p| p.name.as_str() == banned);
        let users = graph.iter().filter(|p| {
            p.dependencies.iter().any(|d| (!d.optional || p.source.is_none()) && d.kind == Normal && d.name == banned)
        });
        let outside: Vec<_> = users.map(|p| p.name.as_str()).filter(|name| !wrappers.contains(*name)).collect();
        if present && (wrappers.is_empty() || !outside.is_empty()) {
            found.push(format!("{banned}, wanted by {outside:?}"));
        }
    }
    none("crates that deny.toml bans (`cargo tree -i NAME` says who wants them)", &found);
}

#[test]
fn every_crate_comes_from_the_registry_or_this_tree() {
    let elsewhere = metadata().packages.iter().filter_map(|package| {
        let source = package.source.as_ref()?;
        (!source.is_crates_io()).then(|| format!("{} from {source}", package.name))
    });
    none("crates from elsewhere", &elsewhere.collect::<Vec<_>>());
}

#[test]
fn crates_built_twice_are_listed() {
    let mut versions: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for package in &metadata().packages {
        versions.entry(package.name.as_str()).or_default().insert(package.version.to_string());
    }
    assert!(versions.contains_key("serde"), "the graph is read");
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        println!("notice: built twice: {name} {versions:?}");
    }
}
