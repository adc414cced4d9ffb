//! `orlop flow validate`: files and folders against every rule. Owns which files are looked at.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use orlop_dag::manifest::Limits;
use orlop_dag::manifest::substrate::{Runtime, Target};
use serde_json::json;

use super::failure::{Exit, Failure};
use super::manifest::{load, text};
use super::output::{self, Format};

/// Where a flow is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum For {
    /// Processes of this machine
    Local,
    /// Containers of this machine
    Docker,
    /// Workers of a fleet
    Fleet,
    /// Kubernetes
    Kube,
}

/// Options of `orlop flow validate`.
#[derive(Args, Debug)]
pub(super) struct ValidateArgs {
    /// Files or folders; of a folder all `.yaml`, `.yml` and `.json` below it. `-` is standard input
    #[arg(required = true)]
    pub paths: Vec<PathBuf>,
    /// Refuse what is otherwise only warned about
    #[arg(long)]
    pub strict: bool,
    /// Also check what this place ignores and refuses
    #[arg(long = "for", value_enum)]
    pub target: Option<For>,
    /// Form of the findings
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
}

impl ValidateArgs {
    fn limits(&self) -> Limits {
        let limits = match self.target {
            None => Limits::elsewhere(),
            Some(For::Local) => Limits::at(Target::local(Runtime::Process)),
            Some(For::Docker) => Limits::at(Target::local(Runtime::Docker)),
            Some(For::Fleet) => Limits::at(Target::fleet(Runtime::ByImage)),
            Some(For::Kube) => Limits::kubernetes(),
        };
        if self.strict { limits.strict() } else { limits }
    }
}

/// Checks files.
///
/// # Errors
/// When one cannot be read.
pub(super) fn validate(args: &ValidateArgs) -> Result<Exit, Failure> {
    let mut files = Vec::new();
    for path in &args.paths {
        collect(path, &mut files, true)?;
    }
    if files.is_empty() {
        return Err(Failure::new(Exit::NotFound, "there is no .yaml, .yml or .json file in these folders"));
    }
    let (mut refused, mut found) = (false, Vec::new());
    for file in files {
        let name = file.display().to_string();
        let text = text(&file)?;
        let (good, report) = match load(&name, &text, args.limits()) {
            Ok((_, warnings)) => (true, warnings),
            Err(report) => (false, report),
        };
        refused |= !good;
        match args.output {
            Format::Table if good && report.violations.is_empty() => output::print(&format!("{name}: good"))?,
            Format::Table => {
                // Findings about no place in a file do not name it.
                let text = report.to_string();
                let whose = if text.contains(&name) { String::new() } else { format!("{name}: ") };
                output::print(&format!("{whose}{text}"))?;
            }
            Format::Name => {
                if !good {
                    output::print(&name)?;
                }
            }
            _ => found.push(json!({"file": name, "good": good, "report": report.json()})),
        }
    }
    if matches!(args.output, Format::Json | Format::Yaml) {
        output::print(&output::serialized(&found, args.output)?)?;
    }
    Ok(if refused { Exit::Refused } else { Exit::Done })
}

/// The files of a path. Links to folders are not followed, so no loop has no end.
fn collect(path: &Path, files: &mut Vec<PathBuf>, given: bool) -> Result<(), Failure> {
    let failed = |error| Failure::io(&format!("reading {} failed", path.display()), &error);
    if path == Path::new("-") {
        files.push(path.to_owned());
        return Ok(());
    }
    let metadata = if given { std::fs::metadata(path) } else { std::fs::symlink_metadata(path) }.map_err(failed)?;
    if metadata.is_dir() {
        let mut entries = std::fs::read_dir(path)
            .map_err(failed)?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(failed)?;
        entries.sort();
        for entry in entries {
            collect(&entry, files, false)?;
        }
    } else if given || is_manifest(path) {
        files.push(path.to_owned());
    }
    Ok(())
}

fn is_manifest(path: &Path) -> bool {
    path.extension().and_then(|end| end.to_str()).is_some_and(|end| matches!(end, "yaml" | "yml" | "json"))
}
