//! Words that do not belong into the project: promises not kept, switches that hide dead code, paths of somebody's machine.

use super::{files, none, read, rust_files};

/// What no Rust file may contain, written in halves so that this file does not.
const UNKEPT: [(&str, &str); 10] = [
    ("todo", "!("),
    ("unimplemented", "!("),
    ("dbg", "!("),
    ("#[ign", "ore"),
    ("allow(dead", "_code)"),
    ("allow(un", "used"),
    ("expect(dead", "_code"),
    ("FIX", "ME"),
    ("XX", "X"),
    ("TO", "DO"),
];

/// How paths on a developer's machine begin; the home of whoever runs this is added.
const MACHINES: [(&str, &str); 4] = [("/Us", "ers/"), ("/ro", "ot/"), ("/wo", "rk/"), ("C:\\Us", "ers")];

/// What builds an HTTP client; Kubernetes has its own.
const CLIENTS: [(&str, &str); 5] = [
    ("Client::buil", "der("),
    ("Client", "Builder"),
    ("client::leg", "acy"),
    ("reqwest::Client::", "new("),
    ("reqwest::", "get("),
];

fn find(paths: impl Iterator<Item = &'static str>, words: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    for path in paths {
        for (number, line) in read(path).lines().enumerate() {
            let found = words.iter().filter(|word| line.contains(word.as_str()));
            findings.extend(found.map(|word| format!("{path}:{}: {word}", number + 1)));
        }
    }
    findings
}

fn whole(halves: &[(&str, &str)]) -> Vec<String> {
    halves.iter().map(|(left, right)| format!("{left}{right}")).collect()
}

#[test]
fn no_promise_is_left_in_the_code() {
    none("write it, or take it out", &find(rust_files(), &whole(&UNKEPT)));
}

#[test]
fn no_path_of_a_developers_machine_is_committed() {
    let texts = files().iter().map(String::as_str).filter(|path| !path.contains("/corpus/"));
    let mut machines = whole(&MACHINES);
    machines.extend(std::env::var("HOME").ok().filter(|home| home.len() > 1).map(|home| format!("{home}/")));
    none("paths of somebody's machine", &find(texts, &machines));
}

#[test]
fn there_is_one_http_client() {
    let others = rust_files().filter(|path| !path.ends_with("crates/cloud/src/http/client.rs"));
    none("build it with orlop_cloud::http::ClientOptions", &find(others, &whole(&CLIENTS)));
}
