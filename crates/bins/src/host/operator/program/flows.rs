//! Settings of flows: how secrets come to their steps, and what they do that do not say it.

use std::time::Duration;

use clap::{Args, ValueEnum};
use orlop_core::id::dns1123_subdomain;
use orlop_core::spec::artifact::{ArchiveFormat, Compression};
use orlop_core::spec::policy::ConcurrencyPolicy;
use orlop_core::time::GoDuration;
use orlop_k8s::flow::{Defaults, SecretMode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest delay between two tries of a step, in hours.
const LONGEST: u64 = 720;

/// How secrets come to the pods of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Secrets {
    /// As references; the operator reads no Secret
    Env,
    /// As text in the Job, visible to anyone who may read Jobs; requires the right to get Secrets
    Read,
}

/// See the module.
#[derive(Args, Clone, Debug, Serialize)]
pub(super) struct FlowConfig {
    /// How secret parameters are passed to the pods of flows
    #[arg(long, value_enum, ignore_case = true, default_value_t = Secrets::Env)]
    secret_mode: Secrets,
    /// Concurrency policy of flows that do not set one: Allow, Forbid or Replace
    #[arg(long, value_name = "POLICY", value_parser = word::<ConcurrencyPolicy>)]
    default_concurrency_policy: Option<ConcurrencyPolicy>,
    /// Seconds after its end until a flow is deleted that does not set this
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i32).range(0..))]
    default_ttl_seconds: Option<i32>,
    /// Failed steps that a flow tolerates that does not set this
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(0..))]
    default_backoff_limit: Option<i32>,
    /// Retries of a step that does not set this
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(0..))]
    default_retry_limit: Option<i32>,
    /// Delay before the second try of a step that does not set it, such as 500ms
    #[arg(long, value_name = "DURATION", value_parser = base)]
    default_backoff_base: Option<GoDuration>,
    /// By how much each further delay is longer, 1.0 or more
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    default_backoff_factor: Option<f64>,
    /// Name of the container of a step that does not set it
    #[arg(long, value_name = "NAME", value_parser = container)]
    default_container_name: Option<String>,
    /// Key of a ConfigMap whose reference names none
    #[arg(long, value_name = "KEY", value_parser = config_map_key)]
    default_configmap_key: Option<String>,
    /// Archive format of artifacts that do not set one: tar or zip
    #[arg(long, value_name = "FORMAT", value_parser = word::<ArchiveFormat>)]
    default_archive_format: Option<ArchiveFormat>,
    /// Compression of artifacts that do not set one: gzip or none
    #[arg(long, value_name = "COMPRESSION", value_parser = word::<Compression>)]
    default_compression: Option<Compression>,
    /// Characters of a uid in names of Jobs, which are always 8: with another number nothing would be found again
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(8..=8), hide = true)]
    #[serde(skip)]
    uid_truncate_length: Option<u8>,
}

/// A value of an enumeration, in any case.
fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let lower = text.to_lowercase();
    let first = lower.chars().next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let capital = format!("{first}{}", lower.chars().skip(1).collect::<String>());
    let read = |text: &str| serde_json::from_value(serde_json::Value::from(text));
    let exact = read(text);
    exact.or_else(|error| read(&lower).or_else(|_| read(&capital)).map_err(|_| error.to_string()))
}

fn base(text: &str) -> Result<GoDuration, String> {
    let longest = Duration::from_secs(LONGEST * 3600);
    let read = text.parse().ok().filter(|base: &GoDuration| !base.get().is_zero() && base.get() <= longest);
    read.ok_or_else(|| "use a duration like 500ms, more than 0 and at most 720h".to_owned())
}

fn factor(text: &str) -> Result<f64, String> {
    let read = text.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor >= 1.0);
    read.ok_or_else(|| "use a number, 1.0 or more".to_owned())
}

fn container(text: &str) -> Result<String, String> {
    let legal = dns1123_subdomain(text).is_ok() && !text.contains('.') && text.len() <= 63;
    legal.then(|| text.to_owned()).ok_or_else(|| "use a name of lower case letters, digits and `-`".to_owned())
}

fn config_map_key(text: &str) -> Result<String, String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let legal = (1..=253).contains(&text.len()) && text.chars().all(legal);
    legal.then(|| text.to_owned()).ok_or_else(|| "use letters, digits, `-`, `_` and `.`".to_owned())
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

#[cfg(test)]
mod tests {
    use super::super::config::read_with;
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<FlowConfig, String> {
        read_with(&[], variables, false).map(|config| config.flows).map_err(|error| error.to_string())
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
        let mut refused = Vec::new();
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
            refused.push(of(&[(name, value)]).unwrap_err());
        }
        insta::assert_snapshot!(refused.join("\n"), @"
        ZEN_FLOW_UID_TRUNCATE_LENGTH: invalid value '7' for '--uid-truncate-length <COUNT>': 7 is not in 8..=8
        ZEN_FLOW_DEFAULT_TTL_SECONDS: invalid value '-1' for '--default-ttl-seconds <SECONDS>': -1 is not in 0..=2147483647
        ZEN_FLOW_DEFAULT_RETRY_LIMIT: invalid value 'many' for '--default-retry-limit <COUNT>': invalid digit found in string
        ZEN_FLOW_DEFAULT_BACKOFF_BASE: invalid value '0s' for '--default-backoff-base <DURATION>': use a duration like 500ms, more than 0 and at most 720h
        ZEN_FLOW_DEFAULT_BACKOFF_FACTOR: invalid value '0.5' for '--default-backoff-factor <FACTOR>': use a number, 1.0 or more
        ZEN_FLOW_DEFAULT_CONCURRENCY_POLICY: invalid value 'Sometimes' for '--default-concurrency-policy <POLICY>': unknown variant `Sometimes`, expected one of `Forbid`, `Allow`, `Replace`
        ZEN_FLOW_DEFAULT_CONTAINER_NAME: invalid value 'Main' for '--default-container-name <NAME>': use a name of lower case letters, digits and `-`
        ZEN_FLOW_DEFAULT_CONFIGMAP_KEY: invalid value 'a b' for '--default-configmap-key <KEY>': use letters, digits, `-`, `_` and `.`
        ZEN_FLOW_DEFAULT_ARCHIVE_FORMAT: invalid value 'rar' for '--default-archive-format <FORMAT>': unknown variant `rar`, expected `tar` or `zip`
        ZEN_FLOW_DEFAULT_COMPRESSION: invalid value 'zstd' for '--default-compression <COMPRESSION>': unknown variant `zstd`, expected `none` or `gzip`
        ");
    }
}
