//! Settings of the controllers of performers and executors.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use orlop_core::error::Problem;
use orlop_core::hardware::Tables;
use orlop_k8s::hourglass::spec::SecurityProfile;
use orlop_k8s::hourglass::{Config, tables};
use serde::Serialize;

use super::config::wrong_flag;

/// Security profile of pods that do not set one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Profile {
    /// Run as a non-root user, nothing more
    Restricted,
    /// Run as the image says, without gaining rights
    Baseline,
}

/// See the module.
#[derive(Args, Clone, Debug, Serialize)]
pub(super) struct HourglassFlags {
    /// Tables of hardware, laid over the built-in ones
    #[arg(long, value_name = "FILE")]
    hardware_config: Option<PathBuf>,
    /// Domain of Services
    #[arg(long, default_value = "cluster.local", value_name = "DOMAIN")]
    cluster_domain: String,
    /// Security profile of pods of performers and executors that do not set one
    #[arg(long, value_enum, ignore_case = true, default_value_t = Profile::Restricted)]
    security_profile: Profile,
}

impl HourglassFlags {
    /// What performers and executors are rendered with, by a process of that name.
    pub(super) fn config(&self, instance: &str) -> Result<Config, Problem> {
        let wrong = |error: String| wrong_flag("hardware-config", error);
        let tables = match &self.hardware_config {
            None => Tables::default(),
            Some(file) => {
                let read = std::fs::read_to_string(file);
                let text = read.map_err(|error| wrong(format!("{} cannot be read: {error}", file.display())))?;
                tables::overlaid(&text).map_err(|error| wrong(format!("{} is not valid: {error}", file.display())))?
            }
        };
        let mut config = Config::with_tables(tables);
        config.cluster_domain.clone_from(&self.cluster_domain);
        config.security = match self.security_profile {
            Profile::Restricted => SecurityProfile::Restricted,
            Profile::Baseline => SecurityProfile::Baseline,
        };
        instance.clone_into(&mut config.instance);
        Ok(config)
    }
}
