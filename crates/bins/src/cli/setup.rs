//! Options of what a run on this machine may use. Owns their names and where they come from.

use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use super::place::Target;
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

impl SetupArgs {
    /// The setup for steps that run there, its directories as absolute paths.
    ///
    /// # Errors
    /// When a directory is not there.
    pub(super) fn setup(&self, target: Target) -> Result<LocalSetup, Failure> {
        let directory = |path: &PathBuf| {
            std::fs::canonicalize(path)
                .map_err(|error| Failure::usage(format!("{} cannot be used as a directory: {error}", path.display())))
        };
        let optional = |path: &Option<PathBuf>| path.as_ref().map(directory).transpose();
        Ok(LocalSetup {
            runtime: target.runtime(),
            secrets_dir: optional(&self.secrets_dir)?,
            configs_dir: optional(&self.configs_dir)?,
            volumes_dir: optional(&self.volumes_dir)?,
            allow_host_path: self.allow_host_path.iter().map(directory).collect::<Result<_, _>>()?,
            allow_privileged: self.allow_privileged,
            job_backoff_default: self.job_backoff_default,
            artifact_max_bytes: self.artifact_max_bytes,
            ..LocalSetup::default()
        })
    }
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
