//! Settings of `orlop-scheduler` for its edges: TLS, the first token, rates, and what holds for specifications that leave
//! it open.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use orlop_core::rate::Rate;
use serde::Serialize;

use super::engine::{milliseconds, path};
use super::tls::TlsPlan;
use crate::host::client_token;

/// How the server proves who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Args)]
pub(super) struct TlsConfig {
    /// `auto`: listeners that can be reached from outside have it, by the fleet's own authority or by the files below;
    /// `always`: those on loopback too.
    #[arg(id = "tls.mode", value_enum, ignore_case = true)]
    pub(super) mode: TlsMode,
    /// Where the fleet's own authority is kept. Servers that share a store share it too.
    #[arg(id = "tls.directory", value_parser = path)]
    pub(super) directory: PathBuf,
    /// Names and addresses by which clients find this server.
    #[arg(id = "tls.names")]
    pub(super) names: Vec<String>,
    /// The server's certificate of an outside authority, in PEM, with those between; empty = the fleet's own authority.
    #[arg(id = "tls.certificate", value_parser = path)]
    pub(super) certificate: PathBuf,
    /// Its key.
    #[arg(id = "tls.key", value_parser = path)]
    pub(super) key: PathBuf,
    /// The certificate of the outside authority whose workers are taken.
    #[arg(id = "tls.authority", value_parser = path)]
    pub(super) authority: PathBuf,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self {
            mode: TlsMode::default(),
            directory: PathBuf::from("orlop-tls"),
            names: Vec::new(),
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            authority: PathBuf::new(),
        }
    }
}

/// Which listeners have TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum TlsMode {
    /// Those that can be reached from outside.
    #[default]
    Auto,
    /// All.
    Always,
}

impl TlsConfig {
    /// Where the identity comes from.
    ///
    /// # Errors
    /// Some of the three files are named and others are not.
    pub(super) fn plan(&self) -> Result<TlsPlan, String> {
        let empty = |path: &PathBuf| path.as_os_str().is_empty();
        match (empty(&self.certificate), empty(&self.key), empty(&self.authority)) {
            (true, true, true) => Ok(TlsPlan::Own { directory: self.directory.clone(), names: self.names.clone() }),
            (false, false, false) => Ok(TlsPlan::Files {
                certificate: self.certificate.clone(),
                key: self.key.clone(),
                authority: self.authority.clone(),
            }),
            _ => Err("tls.certificate, tls.key and tls.authority must be given together; give all of them, or none"
                .to_owned()),
        }
    }
}

/// Who may call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Args)]
pub(super) struct AuthConfig {
    /// The file of the token with which the people and workers of this machine call, an administrator's; made when it is not
    /// there. Commands of the same user find it by the server's address. Empty = `client.token` beside the SQLite file, or in the
    /// working directory.
    #[arg(id = "auth.client_token_file", value_parser = path)]
    pub(super) client_token_file: PathBuf,
    /// While there is no token in the store: the file of an administrator's. One that is there is taken, else one is made and
    /// written to it. Empty = none is made.
    #[arg(id = "auth.first_token_file", value_parser = path)]
    pub(super) first_token_file: PathBuf,
}

impl AuthConfig {
    /// Where the token of this machine is, beside a store's file.
    pub(super) fn client_token(&self, store: &Path) -> PathBuf {
        match self.client_token_file.as_os_str().is_empty() {
            true => store.with_file_name(client_token::FILE),
            false => self.client_token_file.clone(),
        }
    }
}

/// How often may be called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Args)]
pub(super) struct RateConfig {
    /// Calls a second of one token.
    #[arg(id = "rate.token")]
    pub(super) token: u64,
    /// As many at once after a pause.
    #[arg(id = "rate.token_burst")]
    pub(super) token_burst: u64,
    /// Calls a second of one address without a token.
    #[arg(id = "rate.address")]
    pub(super) address: u64,
    /// As many at once after a pause.
    #[arg(id = "rate.address_burst")]
    pub(super) address_burst: u64,
}

impl Default for RateConfig {
    fn default() -> Self {
        Self { token: 100, token_burst: 200, address: 20, address_burst: 20 }
    }
}

impl RateConfig {
    pub(super) fn check(&self) -> Result<(), String> {
        let keys = [
            ("token", self.token),
            ("token_burst", self.token_burst),
            ("address", self.address),
            ("address_burst", self.address_burst),
        ];
        match keys.into_iter().find(|(_, value)| *value == 0) {
            Some((key, _)) => Err(format!("rate.{key} is 0, which would reject every call; use 1 or more")),
            None => Ok(()),
        }
    }

    /// Of tokens, and of addresses.
    pub(super) fn rates(&self) -> [Rate; 2] {
        [
            Rate { per_second: self.token, burst: self.token_burst },
            Rate { per_second: self.address, burst: self.address_burst },
        ]
    }
}

/// What holds for specifications that leave it open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Args)]
pub(super) struct DefaultsConfig {
    /// Wall limit of an attempt; 0 = none.
    #[arg(id = "defaults.timeout", value_parser = milliseconds::<u64>)]
    pub(super) timeout: u64,
}

/// Which tenants there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Args)]
pub(super) struct TenantsConfig {
    /// Whether every tenant that work names is one; else an administrator makes them.
    #[arg(id = "tenants.create")]
    pub(super) create: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_lets_nobody_call_is_refused() {
        assert_eq!(RateConfig::default().check(), Ok(()));
        let none = RateConfig { address_burst: 0, ..RateConfig::default() };
        insta::assert_snapshot!(none.check().unwrap_err(), @"rate.address_burst is 0, which would reject every call; use 1 or more");
    }

    #[test]
    fn files_of_an_outside_authority_go_together() {
        assert!(matches!(TlsConfig::default().plan(), Ok(TlsPlan::Own { .. })));
        let half = TlsConfig { key: "a".into(), ..TlsConfig::default() };
        insta::assert_snapshot!(half.plan().unwrap_err(), @"tls.certificate, tls.key and tls.authority must be given together; give all of them, or none");
        let whole = TlsConfig { certificate: "b".into(), authority: "c".into(), ..half };
        assert!(matches!(whole.plan(), Ok(TlsPlan::Files { .. })));
    }
}
