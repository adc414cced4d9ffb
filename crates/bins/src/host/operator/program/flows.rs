//! Settings of flows: how secrets come to their steps, and what they do that do not say it.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use orlop_core::error::Problem;
use orlop_core::id::dns1123_subdomain;
use orlop_core::spec::artifact::{ArchiveFormat, Compression};
use orlop_core::spec::policy::ConcurrencyPolicy;
use orlop_core::time::GoDuration;
use orlop_k8s::flow::{Defaults, SecretMode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::config::variable;
use crate::host::program::wrong_setting;

/// The longest delay between two tries of a step, in hours.
const LONGEST: u64 = 720;

/// How secrets come to the pods of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Secrets {
    /// As references; the operator reads no Secret
    Env,
    /// As text in the Job, for anyone who may read Jobs to see; needs the right to get Secrets
    Read,
}

/// See the module.
#[derive(Args, Debug)]
pub(super) struct FlowFlags {
    /// How secrets that are parameters come to the pods of flows
    #[arg(long, env = "ORLOP_SECRET_MODE", value_enum, ignore_case = true, default_value_t = Secrets::Env)]
    secret_mode: Secrets,
}

/// Settings of flows in effect. Those that begin with `default_` have the names of variables.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FlowConfig {
    secret_mode: Secrets,
    default_concurrency_policy: Option<ConcurrencyPolicy>,
    default_ttl_seconds: Option<i32>,
    default_backoff_limit: Option<i32>,
    default_retry_limit: Option<i32>,
    default_backoff_base: Option<GoDuration>,
    default_backoff_factor: Option<f64>,
    default_container_name: Option<String>,
    default_configmap_key: Option<String>,
    default_archive_format: Option<ArchiveFormat>,
    default_compression: Option<Compression>,
}

impl FlowFlags {
    /// With the variables of this process.
    pub(super) fn config(&self) -> Result<FlowConfig, Problem> {
        self.with(&Variables(&variable))
    }

    fn with(&self, variables: &Variables<'_>) -> Result<FlowConfig, Problem> {
        // Names of Jobs hold that many characters of a uid; with another number nothing would be found again.
        let name = "ZEN_FLOW_UID_TRUNCATE_LENGTH";
        variables.read::<u8>(name, "8, which it always is", |length| *length == 8)?;
        Ok(FlowConfig {
            secret_mode: self.secret_mode,
            default_concurrency_policy: variables
                .word("ZEN_FLOW_DEFAULT_CONCURRENCY_POLICY", "Allow, Forbid or Replace")?,
            default_ttl_seconds: variables.count("ZEN_FLOW_DEFAULT_TTL_SECONDS")?,
            default_backoff_limit: variables.count("ZEN_FLOW_DEFAULT_BACKOFF_LIMIT")?,
            default_retry_limit: variables.count("ZEN_FLOW_DEFAULT_RETRY_LIMIT")?,
            default_backoff_base: variables.read(
                "ZEN_FLOW_DEFAULT_BACKOFF_BASE",
                "a duration like 500ms, more than 0 and at most 720h",
                |base: &GoDuration| !base.get().is_zero() && base.get() <= Duration::from_secs(LONGEST * 3600),
            )?,
            default_backoff_factor: variables.read(
                "ZEN_FLOW_DEFAULT_BACKOFF_FACTOR",
                "a number, 1.0 or more",
                |factor: &f64| factor.is_finite() && *factor >= 1.0,
            )?,
            default_container_name: variables.read(
                "ZEN_FLOW_DEFAULT_CONTAINER_NAME",
                "a name of lower case letters, digits and `-`",
                |name: &String| dns1123_subdomain(name).is_ok() && !name.contains('.') && name.len() <= 63,
            )?,
            default_configmap_key: variables.read(
                "ZEN_FLOW_DEFAULT_CONFIGMAP_KEY",
                "letters, digits, `-`, `_` and `.`",
                |key: &String| {
                    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
                    (1..=253).contains(&key.len()) && key.chars().all(legal)
                },
            )?,
            default_archive_format: variables.word("ZEN_FLOW_DEFAULT_ARCHIVE_FORMAT", "tar or zip")?,
            default_compression: variables.word("ZEN_FLOW_DEFAULT_COMPRESSION", "gzip or none")?,
        })
    }
}

impl FlowConfig {
    /// How secrets come to pods.
    pub(super) const fn secrets(&self) -> SecretMode {
        match self.secret_mode {
            Secrets::Env => SecretMode::Env,
            Secrets::Read => SecretMode::Read,
        }
    }

    /// What flows do that do not say it.
    pub(super) fn defaults(&self) -> Defaults {
        let mut defaults = Defaults::default();
        defaults.concurrency_policy = self.default_concurrency_policy;
        defaults.ttl_seconds = self.default_ttl_seconds;
        defaults.backoff_limit = self.default_backoff_limit;
        defaults.retry_limit = self.default_retry_limit;
        defaults.backoff_base = self.default_backoff_base;
        defaults.backoff_factor = self.default_backoff_factor;
        defaults.container.clone_from(&self.default_container_name);
        defaults.config_map_key.clone_from(&self.default_configmap_key);
        defaults.archive_format = self.default_archive_format;
        defaults.compression = self.default_compression;
        defaults
    }
}

/// Where variables are looked up.
pub(super) struct Variables<'v>(pub(super) &'v dyn Fn(&str) -> Option<String>);

impl Variables<'_> {
    pub(super) fn read<T: FromStr>(
        &self,
        name: &'static str,
        wanted: &'static str,
        holds: impl Fn(&T) -> bool,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = (self.0)(name) else { return Ok(None) };
        let read = text.trim().parse().ok().filter(holds);
        read.map(Some).ok_or_else(|| wrong_setting(name, format!("`{text}` is not valid; use {wanted}")))
    }

    fn count(&self, name: &'static str) -> Result<Option<i32>, Problem> {
        self.read(name, "a number from 0 to 2147483647", |count: &i32| *count >= 0)
    }

    /// A value that is one of some words.
    fn word<T: DeserializeOwned>(&self, name: &'static str, wanted: &str) -> Result<Option<T>, Problem> {
        let Some(text) = (self.0)(name) else { return Ok(None) };
        let read = serde_json::from_value(serde_json::Value::from(text.trim()));
        read.map(Some).map_err(|_| wrong_setting(name, format!("`{text}` is not valid; use {wanted}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<FlowConfig, String> {
        let find = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        FlowFlags { secret_mode: Secrets::Env }.with(&Variables(&find)).map_err(|error| error.to_string())
    }

    #[test]
    fn variables_of_other_controllers_set_the_matching_defaults() {
        let defaults = of(&[
            ("ZEN_FLOW_DEFAULT_TTL_SECONDS", "60"),
            ("ZEN_FLOW_DEFAULT_BACKOFF_LIMIT", "10"),
            ("ZEN_FLOW_DEFAULT_RETRY_LIMIT", " 5 "),
            ("ZEN_FLOW_DEFAULT_BACKOFF_BASE", "500ms"),
            ("ZEN_FLOW_DEFAULT_BACKOFF_FACTOR", "1.5"),
            ("ZEN_FLOW_DEFAULT_CONCURRENCY_POLICY", "Replace"),
            ("ZEN_FLOW_DEFAULT_CONTAINER_NAME", "work"),
            ("ZEN_FLOW_DEFAULT_CONFIGMAP_KEY", "value.txt"),
            ("ZEN_FLOW_DEFAULT_ARCHIVE_FORMAT", "zip"),
            ("ZEN_FLOW_DEFAULT_COMPRESSION", "gzip"),
            ("ZEN_FLOW_UID_TRUNCATE_LENGTH", "8"),
        ]);
        let defaults = defaults.unwrap().defaults();
        assert_eq!((defaults.ttl_seconds, defaults.backoff_limit, defaults.retry_limit), (Some(60), Some(10), Some(5)));
        assert_eq!(
            (defaults.backoff_base.unwrap().to_string().as_str(), defaults.backoff_factor),
            ("500ms", Some(1.5))
        );
        assert_eq!(defaults.concurrency_policy, Some(ConcurrencyPolicy::Replace));
        assert_eq!(defaults.container.as_deref(), Some("work"));
        assert_eq!(of(&[]).unwrap().defaults(), Defaults::default());
    }

    #[test]
    fn an_invalid_variable_refuses_to_start() {
        let mut told = Vec::new();
        for (name, value) in [
            ("ZEN_FLOW_UID_TRUNCATE_LENGTH", "7"),
            ("ZEN_FLOW_DEFAULT_TTL_SECONDS", "-1"),
            ("ZEN_FLOW_DEFAULT_RETRY_LIMIT", "many"),
            ("ZEN_FLOW_DEFAULT_BACKOFF_BASE", "0s"),
            ("ZEN_FLOW_DEFAULT_BACKOFF_FACTOR", "0.5"),
            ("ZEN_FLOW_DEFAULT_CONCURRENCY_POLICY", "Sometimes"),
            ("ZEN_FLOW_DEFAULT_CONTAINER_NAME", "Main"),
            ("ZEN_FLOW_DEFAULT_CONFIGMAP_KEY", "a b"),
            ("ZEN_FLOW_DEFAULT_ARCHIVE_FORMAT", "rar"),
            ("ZEN_FLOW_DEFAULT_COMPRESSION", "zstd"),
        ] {
            told.push(of(&[(name, value)]).unwrap_err());
        }
        insta::assert_snapshot!(told.join("\n"), @"
        ZEN_FLOW_UID_TRUNCATE_LENGTH: `7` is not valid; use 8, which it always is
        ZEN_FLOW_DEFAULT_TTL_SECONDS: `-1` is not valid; use a number from 0 to 2147483647
        ZEN_FLOW_DEFAULT_RETRY_LIMIT: `many` is not valid; use a number from 0 to 2147483647
        ZEN_FLOW_DEFAULT_BACKOFF_BASE: `0s` is not valid; use a duration like 500ms, more than 0 and at most 720h
        ZEN_FLOW_DEFAULT_BACKOFF_FACTOR: `0.5` is not valid; use a number, 1.0 or more
        ZEN_FLOW_DEFAULT_CONCURRENCY_POLICY: `Sometimes` is not valid; use Allow, Forbid or Replace
        ZEN_FLOW_DEFAULT_CONTAINER_NAME: `Main` is not valid; use a name of lower case letters, digits and `-`
        ZEN_FLOW_DEFAULT_CONFIGMAP_KEY: `a b` is not valid; use letters, digits, `-`, `_` and `.`
        ZEN_FLOW_DEFAULT_ARCHIVE_FORMAT: `rar` is not valid; use tar or zip
        ZEN_FLOW_DEFAULT_COMPRESSION: `zstd` is not valid; use gzip or none
        ");
    }
}
