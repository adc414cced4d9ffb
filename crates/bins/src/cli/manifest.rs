//! Files of flows as commands take them.

use std::io::Read as _;
use std::path::Path;

use orlop_dag::manifest::substrate::Target;
use orlop_dag::manifest::{Limits, Report, TextLimits};
use orlop_dag::plan::Plan;

use super::failure::{Exit, Failure};
use super::output;
pub(super) use crate::host::flow::{Definition as Loaded, flow_name};

use crate::host::flow::definitions;
use crate::host::local::LocalSetup;

/// What a flow must keep to run on this machine with a setup.
#[must_use]
pub(super) fn limits(setup: &LocalSetup, strict: bool) -> Limits {
    let mut target = Target::local(setup.runtime);
    target.privileged = setup.allow_privileged;
    target.host_paths = setup.allow_host_path.iter().map(|path| path.display().to_string()).collect();
    target.folder = setup.folder.as_ref().map(|folder| folder.display().to_string());
    let limits = Limits::at(target).images_optional();
    if strict { limits.strict() } else { limits }
}

/// The text of a file; `-` is standard input.
///
/// # Errors
/// When it cannot be read.
pub(super) fn text(file: &Path) -> Result<String, Failure> {
    let most = TextLimits::large().bytes as u64;
    // A byte more shows that there is too much of it.
    let read = |from: &mut dyn std::io::Read| {
        let mut text = String::new();
        from.take(most + 1).read_to_string(&mut text).map(|_| text)
    };
    let text = if file == Path::new("-") {
        read(&mut std::io::stdin())
    } else {
        std::fs::File::open(file).and_then(|mut file| read(&mut file))
    };
    let text = text.map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => {
            Failure::new(Exit::Refused, format!("{} is not UTF-8 text, so it is not a manifest", file.display()))
        }
        std::io::ErrorKind::IsADirectory => {
            let folder = file.display();
            let message =
                format!("{folder} is a folder; give a file, or check all it holds with `orlop flow validate {folder}`");
            Failure::usage(message)
        }
        _ => Failure::io(&format!("reading {} failed", file.display()), &error),
    })?;
    if text.len() as u64 > most {
        let message = format!("{} is longer than {} MiB, so it is not a manifest", file.display(), most >> 20);
        return Err(Failure::new(Exit::Refused, message));
    }
    Ok(text)
}

/// Reads all flows of a text, planned; warnings are in the report.
///
/// # Errors
/// Everything wrong with it, under strict limits every warning too.
pub(super) fn load(name: &str, text: &str, limits: Limits) -> Result<(Vec<Loaded>, Report), Report> {
    let strict = limits.strict;
    let (flows, Report { violations }) = definitions(name, text, limits, TextLimits::large())?;
    if strict && !violations.is_empty() {
        return Err(Report { violations: violations.strict() });
    }
    Ok((flows, Report { violations }))
}

/// The flows of a file that a command takes: all of them, or the one of a name where there are several. Warnings are reported.
///
/// # Errors
/// When the file is refused, or none of several has the name.
pub(super) fn chosen(file: &Path, limits: Limits, name: Option<&str>) -> Result<Vec<Loaded>, Failure> {
    chosen_of(file, &text(file)?, limits, name)
}

/// The same of the text of a file.
///
/// # Errors
/// As of [`chosen`].
fn chosen_of(file: &Path, text: &str, limits: Limits, name: Option<&str>) -> Result<Vec<Loaded>, Failure> {
    let (mut loaded, warnings) = load(&file.display().to_string(), text, limits)
        .map_err(|report| Failure::new(Exit::Refused, report.to_string()))?;
    if !warnings.violations.is_empty() {
        output::tell(&warnings.to_string());
    }
    if let Some(name) = name.filter(|_| loaded.len() > 1) {
        let names = names(&loaded);
        loaded.retain(|flow| flow.manifest.flow.metadata.name == name);
        if loaded.is_empty() {
            let message = format!("{} holds several flows and none is `{name}`; they are {names}", file.display());
            return Err(Failure::usage(message));
        }
    }
    Ok(loaded)
}

/// The one flow of a file that a command takes: the only one, or the one of a name. Warnings are reported.
///
/// # Errors
/// When the file is refused, or holds several flows and none is named.
pub(super) fn one(file: &Path, limits: Limits, name: Option<&str>) -> Result<Loaded, Failure> {
    one_of(file, &text(file)?, limits, name)
}

/// The same of the text of a file.
///
/// # Errors
/// As of [`one`].
pub(super) fn one_of(file: &Path, text: &str, limits: Limits, name: Option<&str>) -> Result<Loaded, Failure> {
    let mut loaded = chosen_of(file, text, limits, name)?;
    let names = names(&loaded);
    loaded.pop().filter(|_| loaded.is_empty()).ok_or_else(|| {
        let message = format!("{} holds several flows: {names}; choose one with --name NAME", file.display());
        Failure::usage(message)
    })
}

fn names(loaded: &[Loaded]) -> String {
    let names = loaded.iter().map(|flow| flow.manifest.flow.metadata.name.as_str()).filter(|name| !name.is_empty());
    names.collect::<Vec<_>>().join(", ")
}

/// Whether any step names an image.
#[must_use]
pub(super) fn has_images(plan: &Plan) -> bool {
    let spec = plan.spec();
    spec.steps.iter().chain(&spec.finally).any(|step| {
        let containers = step.template.as_ref().and_then(|job| job.pointer("/spec/template/spec/containers"));
        containers.and_then(|list| list.get(0)?.get("image")).is_some_and(|image| !image.is_null())
    })
}
