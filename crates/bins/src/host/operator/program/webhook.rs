//! The part of the configuration that is the webhook's.

use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;
use orlop_core::error::Problem;
use orlop_k8s::admission::Settings;
use orlop_k8s::{flow, hourglass};
use serde::Serialize;

use super::super::{Files, WebhookPlan};
use super::config::wrong_flag;
use super::listen::Listen;

/// Where it listens by default.
const PORT: u16 = 9443;

/// Flags of the webhook.
#[derive(Args, Debug)]
pub(super) struct WebhookFlags {
    /// Address of the webhook that the API server asks about flows and performers, or `off`; default: off
    #[arg(long, value_name = "HOST:PORT")]
    webhook_addr: Option<String>,
    /// The same flag as in zen-flow: on at port 9443 where no address is given, or off
    #[arg(long, value_parser = BoolishValueParser::new(), ignore_case = true, num_args = 0..=1, default_missing_value = "true", hide = true)]
    enable_webhook: Option<bool>,
    /// Folder with the webhook's certificate and key, as tls.crt and tls.key; read again when they change
    #[arg(long, default_value = "/etc/webhook/certs", value_name = "FOLDER")]
    webhook_cert_dir: PathBuf,
    /// File with the certificate, in place of tls.crt there
    #[arg(long, value_name = "FILE")]
    webhook_cert_file: Option<PathBuf>,
    /// File with its key, in place of tls.key there
    #[arg(long, value_name = "FILE")]
    webhook_key_file: Option<PathBuf>,
    /// Speak plain HTTP, for a proxy in the same pod that speaks TLS
    #[arg(long)]
    insecure_webhook: bool,
}

/// Settings of the webhook in effect.
#[derive(Clone, Debug, Serialize)]
pub(super) struct WebhookConfig {
    #[serde(serialize_with = "super::listen::or_off")]
    pub(super) webhook_addr: Option<Listen>,
    webhook_cert_file: PathBuf,
    webhook_key_file: PathBuf,
    insecure_webhook: bool,
}

impl WebhookFlags {
    pub(super) fn config(self, default: impl FnOnce(u16) -> Listen) -> Result<WebhookConfig, Problem> {
        let given = self.webhook_addr.as_deref().map(str::trim);
        let address = match (self.enable_webhook, given) {
            (Some(false), _) | (None, None) | (_, Some("off" | "0" | "")) => None,
            (Some(true), None) => Some(default(PORT)),
            (_, Some(text)) => Some(text.parse().map_err(|error: String| wrong("webhook-addr", &error))?),
        };
        Ok(WebhookConfig {
            webhook_addr: address,
            webhook_cert_file: self.webhook_cert_file.unwrap_or_else(|| self.webhook_cert_dir.join("tls.crt")),
            webhook_key_file: self.webhook_key_file.unwrap_or_else(|| self.webhook_cert_dir.join("tls.key")),
            insecure_webhook: self.insecure_webhook,
        })
    }
}

fn wrong(name: &'static str, why: &dyn std::fmt::Display) -> Problem {
    wrong_flag(name, why.to_string())
}

impl WebhookConfig {
    /// How it answers; nothing where it is off.
    pub(super) fn plan(&self, flows: &flow::Options, hourglass: &hourglass::Config) -> Option<WebhookPlan> {
        self.webhook_addr.as_ref()?;
        let mut settings = Settings::default();
        settings.limits = flows.clone().settled().limits;
        settings.hourglass = hourglass.clone();
        settings.concurrency_policy = flows.defaults.concurrency_policy.unwrap_or(settings.concurrency_policy);
        settings.ttl_seconds = flows.defaults.ttl_seconds.unwrap_or(settings.ttl_seconds);
        settings.backoff_limit = flows.defaults.backoff_limit.unwrap_or(settings.backoff_limit);
        let files = Files::new(self.webhook_cert_file.clone(), self.webhook_key_file.clone());
        Some(WebhookPlan { settings, files: (!self.insecure_webhook).then_some(files) })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: WebhookFlags,
    }

    fn of(words: &[&str]) -> Result<WebhookConfig, Problem> {
        Line::try_parse_from(["orlop-operator"].iter().chain(words)).unwrap().flags.config(Listen::everywhere)
    }

    fn listens(words: &[&str]) -> String {
        of(words).unwrap().webhook_addr.map_or("off".to_owned(), |address| address.to_string())
    }

    #[test]
    fn the_webhook_is_off_until_it_has_an_address_and_its_other_options_are_taken() {
        assert_eq!(listens(&[]), "off");
        assert_eq!(listens(&["--webhook-addr=:9443"]), ":9443");
        assert_eq!(listens(&["--webhook-addr=off", "--enable-webhook"]), "off");
        assert_eq!(listens(&["--enable-webhook=true"]), ":9443");
        assert_eq!(listens(&["--webhook-addr=127.0.0.1:1", "--enable-webhook"]), "127.0.0.1:1");
        assert_eq!(listens(&["--webhook-addr=:9443", "--enable-webhook=false"]), "off");
        insta::assert_snapshot!(of(&["--webhook-addr=9443"]).unwrap_err().to_string(), @"--webhook-addr: `9443` is not an address; write host:port, or :port for all addresses of the machine");
    }

    #[test]
    fn certificate_and_key_are_two_files_of_a_folder_or_named_one_by_one() {
        let plan = |words: &[&str]| of(words).unwrap().plan(&flow::Options::default(), &hourglass::Config::default());
        assert!(plan(&[]).is_none());
        let files = |words: &[&str]| plan(&[&["--webhook-addr=:1"], words].concat()).unwrap().files;
        let pair = |certificate: &str, key: &str| Some(Files::new(certificate.into(), key.into()));
        assert_eq!(files(&[]), pair("/etc/webhook/certs/tls.crt", "/etc/webhook/certs/tls.key"));
        assert_eq!(files(&["--webhook-cert-dir=/c"]), pair("/c/tls.crt", "/c/tls.key"));
        let named = ["--webhook-cert-dir=/c", "--webhook-cert-file=/a.pem", "--webhook-key-file=/b.pem"];
        assert_eq!(files(&named), pair("/a.pem", "/b.pem"));
        assert_eq!(files(&["--insecure-webhook"]), None);
    }

    #[test]
    fn what_objects_are_measured_by_is_the_same_as_in_the_controller() {
        let mut flows = flow::Options::default();
        flows.limits.strict = true;
        flows.secrets = flow::SecretMode::Read;
        flows.defaults.ttl_seconds = Some(60);
        let mut domain = hourglass::Config::default();
        domain.cluster_domain = "example".to_owned();
        let plan = of(&["--webhook-addr=:1"]).unwrap().plan(&flows, &domain).unwrap();
        let limits = &plan.settings.limits;
        assert!(limits.strict && limits.secrets_as_text && !limits.artifacts, "R29, R32");
        assert_eq!((plan.settings.ttl_seconds, plan.settings.backoff_limit), (60, 6));
        assert_eq!(plan.settings.hourglass.cluster_domain, "example");
    }
}
