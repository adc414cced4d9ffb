//! Outputs of a pod that has ended: values of files and artifacts. Owns their limits; what is missing
//! is left out, and what that means is the engine's.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{FsType, PROC_SUPER_MAGIC, statfs};
use orlop_core::attempt::{ArtifactCollection, FileValue, OutputFile};
use orlop_core::error::{Class, Problem};
use orlop_core::spec::status::ArtifactRecord;

use super::attempt::Attempt;
use super::records::PodIntent;
use crate::output::{error_of, read_value};
use crate::retry::attempt;
use crate::runtime::blocking::blocking;
use crate::runtime::logs::{Masker, read_secrets};
use crate::runtime::plan::env::Missing;
use crate::runtime::pod::{EnvText, PodPlan, PodRuntime};
use crate::runtime::volume::locate::{Located, locate};

/// Tries of one output, about two minutes with their delays.
const TRIES: u32 = 8;

/// What a pod gave, and the first thing that could not be taken.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) files: Vec<FileValue>,
    pub(super) artifacts: Vec<ArtifactRecord>,
    pub(super) trouble: Option<Problem>,
}

/// Collects the outputs of a pod.
pub(super) async fn collect<R: PodRuntime + ?Sized>(
    attempt: &std::sync::Arc<Attempt<R>>,
    intent: PodIntent,
) -> Collected {
    let mut collected = Collected::default();
    if attempt.spec.output_files.is_empty() && attempt.spec.output_artifacts.is_empty() {
        return collected;
    }
    let (planner, number) = (attempt.clone(), intent.record.number);
    let plan = match blocking(move || planner.plan(&intent, Missing::Skipped)).await {
        Ok(plan) => plan,
        Err(error) => return Collected { trouble: Some(error), ..collected },
    };
    let secrets = match secrets(&plan).await {
        Ok(secrets) => secrets,
        Err(error) => return Collected { trouble: Some(error), ..collected },
    };
    let mut trouble = |error: Problem| {
        tracing::debug!(attempt = %attempt.spec.key, error = error.chain(), "an output cannot be collected");
        collected.trouble.get_or_insert(error);
    };
    let (mut files, mut artifacts) = (Vec::new(), Vec::new());
    for file in &attempt.spec.output_files {
        match file_value(attempt, &plan, number, file).await {
            Ok(value) => {
                let text = value.as_ref().and_then(|value| value.content.as_ref().ok());
                match text.and_then(|text| held(&secrets, text)) {
                    Some(held) => trouble(holds_secret(file, held)),
                    None => files.extend(value),
                }
            }
            Err(error) => trouble(error),
        }
    }
    for output in &attempt.spec.output_artifacts {
        match artifact_record(attempt, &plan, number, output).await {
            Ok(record) => artifacts.extend(record),
            Err(error) => trouble(error),
        }
    }
    Collected { files, artifacts, ..collected }
}

/// A secret that a pod saw.
struct Secret {
    /// Where the pod saw it.
    source: String,
    masker: Masker,
}

/// The secrets that a pod saw.
async fn secrets(plan: &PodPlan) -> Result<Vec<Secret>, Problem> {
    let variables = plan.init.iter().chain([&plan.main]).flat_map(|container| &container.env);
    let of_variable = |(name, text): &(String, EnvText)| Secret {
        source: format!("variable {name}"),
        masker: Masker::new([&text.value]),
    };
    let mut secrets: Vec<Secret> = variables.filter(|(_, text)| text.secret).map(of_variable).collect();
    let files = plan.secret_files.clone();
    blocking(move || {
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            secrets.push(Secret { source: format!("file {name}"), masker: Masker::new(read_secrets(&[file])?) });
        }
        Ok(secrets)
    })
    .await
}

/// The first secret that stands in a text.
fn held<'a>(secrets: &'a [Secret], text: &str) -> Option<&'a Secret> {
    secrets.iter().find(|secret| secret.masker.mask_text(text) != text)
}

/// The error for a value that may not be recorded.
fn holds_secret(output: &OutputFile, secret: &Secret) -> Problem {
    let message = format!(
        "output file {} at {} holds the value of the Secret in {}, and outputs are recorded in the open; hand secrets on by \
         a volume or an artifact",
        output.name, output.path, secret.source
    );
    Problem::new(Class::Denied, message).with_reason("Forbidden")
}

/// A path inside the pod as a path of this machine; none when there is nothing.
async fn find<R: PodRuntime + ?Sized>(
    followed: &Attempt<R>,
    plan: &PodPlan,
    number: u32,
    inside: &str,
) -> Result<Option<PathBuf>, Problem> {
    if ["/proc", "/sys"].iter().any(|kernel| Path::new(inside).starts_with(kernel)) {
        return Err(of_kernel(inside));
    }
    let (mounts, path) = (plan.main.mounts.clone(), inside.to_owned());
    let found = match blocking(move || Ok(locate(&mounts, &path)?)).await {
        Ok(Located::Here(path)) => Some(path),
        Ok(Located::Missing) => None,
        Ok(Located::Inside(path)) => fetch(followed, plan, number, &path).await?,
        // Another user's directory, which the runtime may be let into.
        Err(error) if error.class == Class::Denied => fetch(followed, plan, number, inside).await?,
        Err(error) => return Err(error),
    };
    match found {
        Some(path) if is_of_kernel(&path) => Err(of_kernel(inside)),
        found => Ok(found),
    }
}

/// The file system at `/sys`.
const SYSFS_MAGIC: FsType = FsType(0x6265_6572);

/// Whether a path leads into a file system of the kernel. There `self` is the process that reads, and lengths are not those of the content.
fn is_of_kernel(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| [PROC_SUPER_MAGIC, SYSFS_MAGIC].contains(&found.filesystem_type()))
}

/// The error for what is read there.
fn of_kernel(path: &str) -> Problem {
    let message = format!(
        "{path} is a file of the kernel, which shows each reader something else; have the step copy what is wanted into a file"
    );
    Problem::new(Class::Invalid, message).with_reason("OutputInvalid")
}

/// The same through the runtime: for what no mount covers, and for what only the runtime may read.
async fn fetch<R: PodRuntime + ?Sized>(
    followed: &Attempt<R>,
    plan: &PodPlan,
    number: u32,
    inside: &str,
) -> Result<Option<PathBuf>, Problem> {
    let (key, scratch) = (followed.pod_key(number), followed.dir.pod(number).scratch());
    let made = scratch.clone();
    blocking(move || Ok(fs::create_dir_all(made)?)).await?;
    match followed.inner.runtime.fetch(&key, plan, inside, &scratch).await {
        Ok(path) => Ok(Some(path)),
        Err(error) if error.class == Class::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The error with the path that the container knows.
fn as_seen_inside(mut error: Problem, outside: &Path, inside: &str) -> Problem {
    error.message = error.message.replace(&*outside.to_string_lossy(), inside.trim_end_matches('/'));
    error
}

async fn file_value<R: PodRuntime + ?Sized>(
    followed: &Attempt<R>,
    plan: &PodPlan,
    number: u32,
    output: &OutputFile,
) -> Result<Option<FileValue>, Problem> {
    let content = attempt(TRIES, || async {
        let read = |path: PathBuf| blocking(move || Ok(read_value(&path)?));
        let Some(path) = find(followed, plan, number, &output.path).await? else { return Ok(None) };
        match read(path).await {
            Err(error) if error.class == Class::Denied => match fetch(followed, plan, number, &output.path).await? {
                Some(path) => read(path).await,
                None => Ok(None),
            },
            read => read,
        }
    })
    .await
    .map_err(|error| error_of("file", &output.name, &output.path, error))?;
    Ok(content.map(|content| FileValue { name: output.name.clone(), content }))
}

async fn artifact_record<R: PodRuntime + ?Sized>(
    followed: &Attempt<R>,
    plan: &PodPlan,
    number: u32,
    output: &ArtifactCollection,
) -> Result<Option<ArtifactRecord>, Problem> {
    let location = attempt(TRIES, || async {
        let Some(path) = find(followed, plan, number, &output.path).await? else { return Ok(None) };
        let put = async |path: PathBuf| {
            let stored = followed.inner.ports.store.put(&path, output.archive).await;
            stored.map_err(|error| as_seen_inside(error, &path, &output.path))
        };
        let stored = match put(path).await {
            Err(error) if error.class == Class::Denied => match fetch(followed, plan, number, &output.path).await? {
                Some(path) => put(path).await,
                None => return Ok(None),
            },
            stored => stored,
        };
        match stored {
            Ok(location) => Ok(Some(location)),
            Err(error) if error.class == Class::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    })
    .await
    .map_err(|error| error_of("artifact", &output.name, &output.path, error))?;
    let record =
        |location| ArtifactRecord { name: output.name.clone(), path: output.path.clone(), location: Some(location) };
    Ok(location.map(record))
}
