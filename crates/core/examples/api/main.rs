//! Lists the public interface of a crate from what rustdoc writes as JSON, and names what breaks against a list that was kept.
//! `scripts/api` has rustdoc write it; nothing is built or asked for here.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]
#![allow(clippy::disallowed_methods, reason = "reads files; the crate itself is pure")]

mod compare;
mod signature;
mod surface;

use std::process::ExitCode;

const USAGE: &str = "usage: api save RUSTDOC.json > LIST | api compare LIST RUSTDOC.json";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(breaks) => ExitCode::from(u8::from(breaks)),
        Err(error) => {
            eprintln!("api: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether something breaks.
fn run(words: &[&str]) -> Result<bool, String> {
    match words {
        ["save", json] => {
            let listed = listed(json)?;
            println!("# The public interface of {} {}, by `scripts/api --save`.", listed.name, listed.version);
            surface::lines(&listed.items).iter().for_each(|line| println!("{line}"));
            Ok(false)
        }
        ["compare", list, json] => {
            let (kept, listed) = (read(list)?, listed(json)?);
            let since = kept.lines().next().and_then(|line| line.strip_prefix("# The public interface of "));
            let since =
                since.and_then(|rest| rest.split(',').next()).ok_or(format!("{list} is no list of an interface"))?;
            let kept = kept.lines().skip(1).map(surface::Item::read).collect::<Result<Vec<_>, _>>();
            let kept = kept.map_err(|line| format!("{list}: no item: {line}"))?.concat();
            let found = compare::compare(&kept, &listed.items);
            found.breaks.iter().for_each(|finding| println!("{finding}"));
            println!("{}: since {since} {} break, {} are new", listed.name, found.breaks.len(), found.added);
            Ok(!found.breaks.is_empty())
        }
        _ => Err(USAGE.to_owned()),
    }
}

fn listed(json: &str) -> Result<surface::Surface, String> {
    let document = serde_json::from_str(&read(json)?).map_err(|error| format!("{json} is not JSON: {error}"))?;
    surface::Surface::of(document).map_err(|error| format!("{json}: {error}"))
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path} cannot be read: {error}"))
}
