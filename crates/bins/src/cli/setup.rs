//! Options of what a run on this machine may use.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::TypedValueParser as _;
use orlop_cloud::runtime::pod::Pull;
use orlop_core::id::dns1123_subdomain;

use super::failure::Failure;
use super::globals::Target;
use crate::host::local::LocalSetup;

/// What a run on this machine may use.
#[derive(Args, Clone, Debug)]
pub(super) struct SetupArgs {
    /// Directory with Secrets, `<name>/<key>`
    #[arg(long, value_name = "DIR", env = "ORLOP_SECRETS_DIR")]
    pub secrets_dir: Option<PathBuf>,
    /// Directory with ConfigMaps, `<name>/<key>`
    #[arg(long, value_name = "DIR", env = "ORLOP_CONFIGS_DIR")]
    pub configs_dir: Option<PathBuf>,
    /// Directory with volume claims, `<claim>/`
    #[arg(long, value_name = "DIR", env = "ORLOP_VOLUMES_DIR")]
    pub volumes_dir: Option<PathBuf>,
    /// Let steps mount this directory of the machine (repeatable)
    #[arg(long, value_name = "DIR")]
    pub allow_host_path: Vec<PathBuf>,
    /// Directory that steps begin in that run as processes and name no `workingDir` [default: a private one]
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<PathBuf>,
    /// Which images are pulled, whatever steps say [default: by `imagePullPolicy`; without one those that are missing, and
    /// those without a tag or with `latest` once, if the registry can be asked]
    #[arg(long, value_name = "WHICH", ignore_case = true, value_parser = pulls())]
    pub pull: Option<Pull>,
    /// Let containers be privileged, add capabilities and share namespaces of the host
    #[arg(long)]
    pub allow_privileged: bool,
    /// `backoffLimit` of Jobs that give none
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub job_backoff_default: u32,
    /// The most bytes an artifact may have
    #[arg(long, value_name = "BYTES")]
    pub artifact_max_bytes: Option<u64>,
}

/// Directories that steps may mount, as they are written and without links.
///
/// # Errors
/// When one is not there.
pub(super) fn host_paths(allowed: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for path in allowed {
        paths.extend([directory(path)?, absolute(path)?]);
    }
    paths.dedup();
    Ok(paths)
}

impl SetupArgs {
    /// The setup for steps of a manifest that run there, its directories as absolute paths.
    ///
    /// # Errors
    /// When a directory is not there.
    pub(super) fn setup(&self, target: Target, manifest: Option<&Path>) -> Result<LocalSetup, Failure> {
        let optional = |path: &Option<PathBuf>| path.as_deref().map(directory).transpose();
        Ok(LocalSetup {
            runtime: target.runtime(),
            secrets_dir: optional(&self.secrets_dir)?,
            configs_dir: optional(&self.configs_dir)?,
            volumes_dir: optional(&self.volumes_dir)?,
            allow_host_path: host_paths(&self.allow_host_path)?,
            workdir: optional(&self.workdir)?,
            folder: manifest.map(folder).transpose()?,
            pull: self.pull,
            allow_privileged: self.allow_privileged,
            job_backoff_default: self.job_backoff_default,
            artifact_max_bytes: self.artifact_max_bytes,
            ..LocalSetup::default()
        })
    }
}

/// Values of `--pull`.
fn pulls() -> impl clap::builder::TypedValueParser<Value = Pull> {
    let all = [("missing", Pull::Missing), ("always", Pull::Always), ("never", Pull::Never)];
    let known = clap::builder::PossibleValuesParser::new(all.map(|(word, _)| word));
    known.map(move |text| {
        all.iter().find(|(word, _)| word.eq_ignore_ascii_case(&text)).map_or(Pull::Missing, |(_, pull)| *pull)
    })
}

/// A directory that is there, as an absolute path without links.
fn directory(path: &Path) -> Result<PathBuf, Failure> {
    std::fs::canonicalize(path)
        .map_err(|error| Failure::usage(format!("{} cannot be used as a directory: {error}", path.display())))
}

/// The directory that relative paths of a manifest begin in; that of standard input is the current one.
fn folder(manifest: &Path) -> Result<PathBuf, Failure> {
    let parent = manifest.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = absolute(parent)?;
    // A missing file is reported when the manifest is read.
    Ok(std::fs::canonicalize(&written).unwrap_or(written))
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::io("the current directory cannot be used", &error))
}

/// A value of a parameter, `name=value`.
///
/// # Errors
/// A sentence when there is no `=`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// A name of a flow.
///
/// # Errors
/// A sentence when it can be none.
pub(super) fn flow_name(text: &str) -> Result<String, String> {
    dns1123_subdomain(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}
