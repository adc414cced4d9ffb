//! `orlop flow artifacts`: what the steps of a run left, listed and written out. Owns which artifacts are meant and their
//! places in a folder, which never lead out of it; the store delivers each of them whole or not at all.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use orlop_cloud::artifact::CasStore;
use orlop_core::ports::artifact::ArtifactStore as _;
use orlop_core::spec::artifact::{Archive, ArchiveFormat, Compression};
use orlop_core::spec::status::{ArtifactLocation, ArtifactRecord, StepStatus};
use orlop_dag::plan::Plan;
use serde_json::{Value, json};

use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::output::{self, Format};
use super::target::{FlowSnapshot, FlowTarget};
use crate::view::table::columns;

/// Options of `orlop flow artifacts`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop flow artifacts etl                              list what its steps left
  orlop flow artifacts etl --to results                 write all of it to results/STEP/ARTIFACT
  orlop flow artifacts etl train/model --to . --force   one artifact, in place of ./train/model

A file is written as it was, a directory as a tree. What a step packed by `archive` stays an archive and gets .tar,
.tar.gz or .zip behind its name.")]
pub(super) struct ArtifactsArgs {
    /// Name of the run
    pub name: String,
    /// Only the artifacts of this step or instance, or one of them
    #[arg(value_name = "STEP[/ARTIFACT]")]
    pub only: Option<String>,
    #[command(flatten)]
    pub globals: GlobalArgs,
    /// Write them below this directory, as STEP/ARTIFACT
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Replace what is there
    #[arg(long, requires = "to")]
    pub force: bool,
    /// Form of the list
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub output: Format,
}

/// An artifact of a run.
#[derive(Debug)]
pub(super) struct Artifact {
    step: String,
    name: String,
    /// How the manifest has it packed.
    archive: Option<Archive>,
    /// Where it is stored.
    pub(super) location: Option<ArtifactLocation>,
    /// Where it is written to.
    to: Option<PathBuf>,
}

impl Artifact {
    fn new(plan: &Plan, step: &StepStatus, record: &ArtifactRecord) -> Self {
        let declared = plan.address_of(&step.name).and_then(|at| plan.step(at.step));
        let output = declared.and_then(|step| step.outputs.as_ref()).map(|outputs| outputs.artifacts.as_slice());
        let output = output.unwrap_or_default().iter().find(|output| output.name == record.name);
        Self {
            step: step.name.clone(),
            name: record.name.clone(),
            archive: output.and_then(|output| output.archive),
            location: record.location.clone(),
            to: None,
        }
    }

    /// Step and name, as people write it.
    pub(super) fn label(&self) -> String {
        format!("{}/{}", self.step, self.name)
    }

    /// Its name with what says how it is packed.
    fn file_name(&self) -> String {
        let Some(archive) = self.archive else { return self.name.clone() };
        let suffix = match (archive.format.unwrap_or_default(), archive.compression.unwrap_or_default()) {
            (ArchiveFormat::Zip, _) => ".zip",
            (ArchiveFormat::Tar, Compression::None) => ".tar",
            (ArchiveFormat::Tar, Compression::Gzip) => ".tar.gz",
        };
        let name = self.name.strip_suffix(suffix).unwrap_or(&self.name);
        format!("{name}{suffix}")
    }

    /// Delivers it from a store that has it, at the path that is meant for it.
    ///
    /// # Errors
    /// When the store does not have it whole, something is at the path and may not be replaced, or the disk refuses.
    pub(super) async fn deliver(&self, store: &CasStore, replace: bool) -> Result<(), Failure> {
        let (Some(location), Some(path)) = (&self.location, &self.to) else { return Ok(()) };
        let unpack = self.archive.is_none();
        if replace {
            store.replace(location, self.archive, unpack, path).await?;
        } else {
            store.get(location, self.archive, unpack, path).await?;
        }
        Ok(())
    }

    fn shown(&self) -> Value {
        let location = self.location.clone().unwrap_or_default();
        let mut shown = json!({ "step": self.step, "artifact": self.name, "stored": self.location.is_some(),
                                "bytes": location.size_bytes, "sha256": location.sha256 });
        if let Some(to) = &self.to {
            shown["path"] = json!(to);
        }
        shown
    }

    fn row(&self) -> Vec<String> {
        let (bytes, digest) = match &self.location {
            Some(location) => (location.size_bytes.to_string(), location.sha256.clone()),
            None => (String::new(), "not stored".to_owned()),
        };
        let mut row = vec![self.step.clone(), self.name.clone(), bytes, digest];
        row.extend(self.to.as_ref().map(|to| to.display().to_string()));
        row
    }
}

/// Lists artifacts of a flow, or writes them out.
///
/// # Errors
/// When there is no such flow, step or artifact, or they cannot be written.
pub(super) async fn artifacts(target: &dyn FlowTarget, args: &ArtifactsArgs) -> Result<Exit, Failure> {
    let mut chosen = chosen(&target.get(&args.name).await?, args)?;
    if args.to.is_some() {
        target.export(&mut chosen, args).await?;
    }
    show(&chosen, args)
}

/// The artifacts of a flow that are meant, in the order of its status.
///
/// # Errors
/// NotFound when nothing has the name that is given; Refused when the flow cannot be planned.
fn chosen(flow: &FlowSnapshot, args: &ArtifactsArgs) -> Result<Vec<Artifact>, Failure> {
    let replayed = flow.replayed()?;
    let plan = &replayed.0;
    let (wanted, name) = match args.only.as_deref().map(|only| only.split_once('/').ok_or(only)) {
        None => (None, None),
        Some(Ok((step, name))) => (Some(step), Some(name)),
        Some(Err(step)) => (Some(step), None),
    };
    let status = flow.status();
    let exists = |name: &str| match plan.address_of(name) {
        Some(at) if at.item.is_some() => status.steps.iter().any(|step| step.name == name),
        at => at.is_some(),
    };
    if let Some(step) = wanted.filter(|step| !exists(step)) {
        let message = format!("flow `{}` has no step `{step}`; see `orlop flow get {}`", args.name, args.name);
        return Err(Failure::new(Exit::NotFound, message));
    }
    let of_step = |step: &&StepStatus| {
        let step_of = |at: orlop_core::attempt::Address| plan.name(at.step).to_owned();
        wanted.is_none_or(|wanted| {
            wanted == step.name || plan.address_of(&step.name).map(step_of).as_deref() == Some(wanted)
        })
    };
    let mut found = Vec::new();
    for step in status.steps.iter().filter(of_step) {
        let records = step.outputs.iter().flat_map(|outputs| &outputs.artifacts);
        let records = records.filter(|record| name.is_none_or(|name| record.name == name));
        found.extend(records.map(|record| Artifact::new(plan, step, record)));
    }
    if let (Some(only), true) = (&args.only, found.is_empty() && (name.is_some() || args.to.is_some())) {
        let message =
            format!("flow `{}` has no artifact `{only}` now; see `orlop flow artifacts {}`", args.name, args.name);
        return Err(Failure::new(Exit::NotFound, message));
    }
    Ok(found)
}

/// Writes artifacts below the directory that is given; `deliver` brings each to its path. Nothing is written where something
/// is in the way.
///
/// # Errors
/// Conflict when something is there; when one is not stored, or the disk refuses.
pub(super) async fn write(
    chosen: &mut [Artifact],
    args: &ArtifactsArgs,
    deliver: impl AsyncFn(&Artifact) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(dir) = &args.to else { return Ok(()) };
    for artifact in chosen.iter_mut() {
        if artifact.location.is_none() {
            let message = format!("artifact `{}` was not stored, so it cannot be written", artifact.label());
            return Err(Failure::new(Exit::NotFound, message));
        }
        let folder = dir.join(&artifact.step);
        check_folder(&folder)?;
        let path = folder.join(artifact.file_name());
        if !args.force && fs::symlink_metadata(&path).is_ok() {
            let message = format!("{} already exists; nothing was written, use --force to replace it", path.display());
            return Err(Failure::new(Exit::Conflict, message));
        }
        artifact.to = Some(path);
    }
    for artifact in chosen.iter() {
        let folder = dir.join(&artifact.step);
        fs::create_dir_all(dir).map_err(|error| unwritable(dir, &error))?;
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => check_folder(&folder)?,
            made => made.map_err(|error| unwritable(&folder, &error))?,
        }
        deliver(artifact).await?;
    }
    Ok(())
}

/// Holds unless something that is no folder, such as a link to elsewhere, stands where one is needed.
fn check_folder(folder: &Path) -> Result<(), Failure> {
    match fs::symlink_metadata(folder) {
        Ok(found) if found.is_dir() => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(unwritable(folder, &error)),
        Ok(_) => {
            let message = format!("{} is not a directory, so no artifact can be written below it", folder.display());
            Err(Failure::new(Exit::Conflict, message))
        }
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::io(&format!("{} cannot be written", path.display()), error)
}

/// Shows artifacts, and where they were written to.
///
/// # Errors
/// When nothing can be shown.
fn show(chosen: &[Artifact], args: &ArtifactsArgs) -> Result<Exit, Failure> {
    let text = match args.output {
        Format::Name => chosen.iter().map(|artifact| format!("{}\n", artifact.label())).collect(),
        Format::Table if chosen.is_empty() => "no artifacts\n".to_owned(),
        Format::Table => {
            let titles = ["STEP", "ARTIFACT", "BYTES", "SHA256", "WRITTEN TO"];
            let titles = titles.get(..if args.to.is_some() { 5 } else { 4 }).unwrap_or_default();
            columns(titles, &chosen.iter().map(Artifact::row).collect::<Vec<_>>())
        }
        format => {
            let items: Vec<Value> = chosen.iter().map(Artifact::shown).collect();
            output::serialized(&json!({ "items": items }), format)?
        }
    };
    output::print(&text)?;
    Ok(Exit::Done)
}
