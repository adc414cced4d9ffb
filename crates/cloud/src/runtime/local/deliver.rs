//! Input artifacts on their way into a pod. Owns where each is put: into the volume that is mounted there, or
//! beside the pod under its own mount.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use orlop_core::attempt::{ArtifactDelivery, ArtifactSource};
use orlop_core::error::{Class, Problem};
use orlop_core::name::sha256_hex;

use super::attempt::Inner;
use super::layout::PodDir;
use crate::retry::attempt_watched;
use crate::runtime::blocking::blocking;
use crate::runtime::plan::volume::normal;
use crate::runtime::pod::{ContainerPlan, Mount, PodRuntime};
use crate::runtime::volume::beneath::{make_directories, walk};
use crate::runtime::volume::give::give;
use crate::runtime::volume::locate::mount_above;

/// Tries of one artifact, about two minutes with their delays.
const TRIES: u32 = 8;

/// Where an artifact is put.
#[derive(Debug, PartialEq, Eq)]
enum DeliveryTarget {
    /// Below a mount that may be written to: its directory and the path in it.
    Below(PathBuf, PathBuf),
    /// All over a mount that may be written to.
    Over(PathBuf),
    /// At its own place, mounted at the artifact's path.
    Own(PathBuf),
    /// Nowhere, and why.
    Blocked(String),
}

fn place(input: &ArtifactDelivery, mounts: &[Mount], own: PathBuf) -> DeliveryTarget {
    if normal(&input.path).is_none_or(|path| path == "/") {
        return DeliveryTarget::Blocked("it is not an absolute path below `/` without `..`".to_owned());
    }
    match mount_above(mounts, &input.path) {
        None => DeliveryTarget::Own(own),
        Some((mount, _)) if mount.read_only => {
            DeliveryTarget::Blocked(format!("{} is mounted read-only", mount.target))
        }
        Some((mount, rest)) if rest.as_os_str().is_empty() => DeliveryTarget::Over(mount.source.clone()),
        Some((mount, rest)) => DeliveryTarget::Below(mount.source.clone(), rest),
    }
}

/// Mounts of the artifacts that no mount of the main container covers.
pub(super) fn own_mounts(inputs: &[ArtifactDelivery], mounts: &[Mount], pod: &PodDir) -> Vec<Mount> {
    let own = |(number, input): (usize, &ArtifactDelivery)| match place(input, mounts, pod.artifact(number)) {
        DeliveryTarget::Own(source) => {
            let target = normal(&input.path).unwrap_or_else(|| input.path.clone());
            Some(Mount { source, target, read_only: false })
        }
        _ => None,
    };
    inputs.iter().enumerate().filter_map(own).collect()
}

/// Where artifacts lie that no other pod can reach: beside the pod, and in volumes of its own.
pub(super) fn delivered(inputs: &[ArtifactDelivery], mounts: &[Mount], pod: &PodDir) -> Vec<PathBuf> {
    let lies = |(number, input): (usize, &ArtifactDelivery)| match place(input, mounts, pod.artifact(number)) {
        DeliveryTarget::Own(path) => Some(path),
        DeliveryTarget::Below(root, rest) if root.starts_with(pod.volumes()) => Some(root.join(rest)),
        // Nothing else is in it before its containers run.
        DeliveryTarget::Over(root) if root.starts_with(pod.volumes()) => Some(root),
        DeliveryTarget::Below(..) | DeliveryTarget::Over(_) | DeliveryTarget::Blocked(_) => None,
    };
    inputs.iter().enumerate().filter_map(lies).collect()
}

/// Checks that what is to come from the store is there.
///
/// # Errors
/// NotFound with reason ArtifactUnavailable.
pub(super) async fn check<R: PodRuntime + ?Sized>(
    inner: &Inner<R>,
    inputs: &[ArtifactDelivery],
) -> Result<(), Problem> {
    for input in inputs {
        if let ArtifactSource::Stored { location, .. } = &input.source
            && !inner.ports.store.contains(location).await?
        {
            let what = format!(
                "{} is not in the store of this run; run the step that makes it again, with `orlop flow retry RUN --step STEP`",
                location.reference
            );
            return Err(unavailable(input, &Problem::new(Class::NotFound, what)));
        }
    }
    Ok(())
}

/// Delivers all artifacts into a pod that has not started; what an earlier try left is replaced. The user of its main
/// container gets them, where one is named. `failed` is called with every error after which an artifact is fetched again.
///
/// # Errors
/// Reason ArtifactUnavailable when one is not available; Invalid when there is no place for it.
pub(super) async fn deliver<R: PodRuntime + ?Sized>(
    inner: &Inner<R>,
    inputs: &[ArtifactDelivery],
    main: &ContainerPlan,
    pod: &PodDir,
    failed: &(impl Fn(&Problem) + Sync),
) -> Result<(), Problem> {
    for (number, input) in inputs.iter().enumerate() {
        match place(input, &main.mounts, pod.artifact(number)) {
            DeliveryTarget::Own(target) => put(inner, input, target, failed).await?,
            DeliveryTarget::Below(root, rest) => {
                let target = blocking(move || below(&root, &rest)).await?;
                put(inner, input, target, failed).await?;
            }
            DeliveryTarget::Over(root) => {
                let pod = sha256_hex(pod.path.as_os_str().as_encoded_bytes(), 16);
                let half = root.join(format!(".orlop-{pod}-{number}"));
                put(inner, input, half.clone(), failed).await?;
                blocking(move || spread(&half, &root)).await?;
            }
            DeliveryTarget::Blocked(why) => {
                let message = format!("input artifact {} has no place at {}: {why}", input.name, input.path);
                return Err(Problem::new(Class::Invalid, message).with_reason("TemplateInvalid"));
            }
        }
    }
    if let Some(user) = main.user {
        let (group, paths) = (main.group, delivered(inputs, &main.mounts, pod));
        blocking(move || Ok(paths.iter().try_for_each(|path| give(path, user, group))?)).await?;
    }
    Ok(())
}

/// The path below a volume's directory, its parents made.
fn below(root: &Path, rest: &Path) -> Result<PathBuf, Problem> {
    let name = rest.file_name().unwrap_or_default();
    let parent = match rest.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => make_directories(root, parent)?,
        None => walk(root, Path::new(""))?.path,
    };
    Ok(parent.join(name))
}

async fn put<R: PodRuntime + ?Sized>(
    inner: &Inner<R>,
    input: &ArtifactDelivery,
    target: PathBuf,
    failed: &(impl Fn(&Problem) + Sync),
) -> Result<(), Problem> {
    let fetch = || async {
        let clear = target.clone();
        blocking(move || {
            remove(&clear)?;
            clear.parent().map_or(Ok(()), fs::create_dir_all)?;
            Ok(())
        })
        .await?;
        match &input.source {
            ArtifactSource::Stored { location, archive } => {
                inner.ports.store.get(location, *archive, input.unpack, &target).await
            }
            ArtifactSource::Http(source) => match &inner.ports.download {
                Some(download) => download.fetch(source, &target).await,
                None => Err(Problem::new(
                    Class::Invalid,
                    "this build cannot fetch artifacts over HTTP: it lacks the feature `remote-artifacts`",
                )),
            },
        }
    };
    let failed = |error: &Problem| failed(&named(input, error, error.class));
    // What was worth more tries has had them.
    attempt_watched(TRIES, fetch, failed).await.map_err(|error| unavailable(input, &error))
}

fn unavailable(input: &ArtifactDelivery, error: &Problem) -> Problem {
    let class = if error.class.is_retryable() { Class::NotFound } else { error.class };
    named(input, error, class)
}

fn named(input: &ArtifactDelivery, error: &Problem, class: Class) -> Problem {
    Problem::new(class, format!("{} (input artifact `{}`)", error.chain(), input.name))
        .with_reason("ArtifactUnavailable")
}

/// Removes a file, link or tree. None is fine.
fn remove(path: &Path) -> io::Result<()> {
    let gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => gone(fs::remove_dir_all(path)),
        Ok(_) => gone(fs::remove_file(path)),
        Err(error) => gone(Err(error)),
    }
}

/// Moves what is in a delivered tree into the directory it is meant to fill.
fn spread(tree: &Path, root: &Path) -> Result<(), Problem> {
    if !tree.is_dir() {
        remove(tree)?;
        let message = format!("a file cannot be delivered at {}, which is a directory", root.display());
        return Err(Problem::new(Class::Invalid, message).with_reason("ArtifactUnavailable"));
    }
    for entry in fs::read_dir(tree)? {
        let entry = entry?;
        let target = root.join(entry.file_name());
        remove(&target)?;
        fs::rename(entry.path(), target)?;
    }
    fs::remove_dir(tree)?;
    Ok(())
}
