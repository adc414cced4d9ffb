//! `orlop flow validate`: files and folders against every rule. Owns which files are looked at, and what is said of each.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use orlop_core::spec::flow::GROUP;
use orlop_dag::manifest::{Limits, Node, Report, Source, TextLimits};
use serde_json::{Value, json};

use super::failure::{Exit, Failure};
use super::globals::{Former, Target};
use super::manifest::{load, text};
use super::output::{self, Format};

/// Options of `orlop flow validate`.
#[derive(Args, Debug)]
pub(super) struct ValidateArgs {
    /// Files or folders; of a folder all `.yaml`, `.yml` and `.json` below it. `-` is standard input
    #[arg(required = true)]
    pub paths: Vec<PathBuf>,
    /// Treat warnings as errors
    #[arg(long)]
    pub strict: bool,
    /// Also check what this place ignores and refuses
    #[arg(long, value_enum, ignore_case = true, env = "ORLOP_TARGET")]
    pub target: Option<Target>,
    #[command(flatten)]
    pub former: Former,
    /// Form of the findings
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub output: Format,
}

impl ValidateArgs {
    fn limits(&self) -> Limits {
        match self.target {
            Some(target) => target.limits(self.strict),
            None if self.strict => Limits::elsewhere().images_optional().strict(),
            None => Limits::elsewhere().images_optional(),
        }
    }
}

/// Checks files.
///
/// # Errors
/// When there is none to check. One that cannot be read is a finding.
pub(super) fn validate(args: &ValidateArgs) -> Result<Exit, Failure> {
    let mut files = Vec::new();
    for path in &args.paths {
        collect(path, &mut files, true);
    }
    if files.is_empty() {
        return Err(Failure::new(Exit::NotFound, "there is no .yaml, .yml or .json file in these folders"));
    }
    let (mut refused, mut unreadable, mut found) = (false, None, Vec::new());
    for (file, given) in files {
        let name = file.display().to_string();
        let finding = match given.and_then(|given| check(&file, given, args.limits())) {
            Err(failure) => {
                let finding = Finding::Unreadable(failure.message);
                unreadable = unreadable.or(Some(failure.exit));
                finding
            }
            Ok(finding) => finding,
        };
        refused |= matches!(finding, Finding::Refused(_));
        match args.output {
            Format::Table => output::print(&finding.line(&name))?,
            Format::Name => {
                if matches!(finding, Finding::Refused(_) | Finding::Unreadable(_)) {
                    output::print(&name)?;
                }
            }
            _ => found.push(finding.json(&name)),
        }
    }
    if matches!(args.output, Format::Json | Format::Yaml) {
        output::print(&output::serialized(&found, args.output)?)?;
    }
    Ok(if refused { Exit::Refused } else { unreadable.unwrap_or(Exit::Done) })
}

/// What is said of a file.
enum Finding {
    Good(Report),
    Refused(Report),
    /// It holds documents of others only.
    Foreign,
    Unreadable(String),
}

impl Finding {
    fn line(&self, name: &str) -> String {
        match self {
            Self::Good(report) if report.violations.is_empty() => format!("{name}: good"),
            Self::Foreign => format!("{name}: skipped, it holds no flow"),
            // The message names the file.
            Self::Unreadable(message) => format!("error: {message}"),
            Self::Good(report) | Self::Refused(report) => {
                // Findings about no place in a file do not name it.
                let text = report.to_string();
                let whose = if text.contains(name) { String::new() } else { format!("{name}: ") };
                format!("{whose}{text}")
            }
        }
    }

    fn json(&self, name: &str) -> Value {
        match self {
            Self::Good(report) => json!({"file": name, "good": true, "report": report.json()}),
            Self::Refused(report) => json!({"file": name, "good": false, "report": report.json()}),
            Self::Foreign => json!({"file": name, "good": true, "skipped": "it holds no flow"}),
            Self::Unreadable(message) => json!({"file": name, "good": false, "error": message}),
        }
    }
}

/// Checks a file. One that was named is a flow; one that was found in a folder may be of others.
fn check(file: &Path, given: bool, limits: Limits) -> Result<Finding, Failure> {
    let (name, text) = (file.display().to_string(), text(file)?);
    if !given && is_foreign(&name, &text) {
        return Ok(Finding::Foreign);
    }
    Ok(match load(&name, &text, limits) {
        Ok((_, warnings)) => Finding::Good(warnings),
        Err(report) => Finding::Refused(report),
    })
}

/// Whether a file holds documents and none is meant as a flow: neither of this kind or its API, nor with `steps`.
fn is_foreign(name: &str, text: &str) -> bool {
    let (source, found) = Source::parse(name, text.to_owned(), &TextLimits::large());
    if found.has_errors() {
        return false;
    }
    let begins = |root: Node<'_>, key: &str, with: &str| {
        root.pair(key).and_then(|(_, value)| value.text()).is_some_and(|text| text.starts_with(with))
    };
    let is_meant = |root: Node<'_>| {
        root.pair("steps").is_some() || begins(root, "kind", "JobFlow") || begins(root, "apiVersion", GROUP)
    };
    let mut documents = source.documents().filter(|root| !root.to_value().is_null()).peekable();
    documents.peek().is_some() && !documents.any(is_meant)
}

/// A file, and whether it was named; or why it cannot be looked at.
type Candidate = (PathBuf, Result<bool, Failure>);

/// The files of a path. Links to folders are not followed, so no loop has no end.
fn collect(path: &Path, files: &mut Vec<Candidate>, given: bool) {
    match children(path, given) {
        Ok(Some(children)) => {
            for child in children {
                collect(&child, files, false);
            }
        }
        Ok(None) if given || is_manifest(path) => files.push((path.to_owned(), Ok(given))),
        Ok(None) => {}
        Err(error) => {
            let failure = Failure::io(&format!("reading {} failed", path.display()), &error);
            files.push((path.to_owned(), Err(failure)));
        }
    }
}

/// What a folder holds, in order; none where the path is no folder.
fn children(path: &Path, given: bool) -> io::Result<Option<Vec<PathBuf>>> {
    if path == Path::new("-") {
        return Ok(None);
    }
    let metadata = if given { std::fs::metadata(path) } else { std::fs::symlink_metadata(path) }?;
    if !metadata.is_dir() {
        return Ok(None);
    }
    let mut entries = std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    Ok(Some(entries))
}

fn is_manifest(path: &Path) -> bool {
    path.extension().and_then(|end| end.to_str()).is_some_and(|end| matches!(end, "yaml" | "yml" | "json"))
}
