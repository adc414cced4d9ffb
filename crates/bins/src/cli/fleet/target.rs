//! Options that all verbs of the fleet have: which server, with which token, in which form.

use std::future::Future;
use std::path::{Path, PathBuf};

use clap::Args;
use orlop_core::time::HumanDuration;

use super::super::failure::{Exit, Failure};
use super::super::output::{self, Format};
use super::client::{Client, SERVER};
use crate::view::text::Colour;

/// Which server, and in which form.
#[derive(Args, Clone, Debug)]
pub(super) struct Target {
    /// Addresses of servers, separated by commas: the first that leads is asked
    #[arg(long, value_name = "URL", env = "ORLOP_SERVER", default_value = SERVER)]
    pub server: String,
    /// File with the token; else the variable ORLOP_TOKEN holds it
    #[arg(long, value_name = "FILE", env = "ORLOP_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// File with the CA certificate of the server, for https; else the system's authorities
    #[arg(long, value_name = "FILE", env = "ORLOP_CA_FILE")]
    pub ca_file: Option<PathBuf>,
    /// Send tokens, secrets and data to a server of another machine in plain text (http)
    #[arg(long, env = "ORLOP_INSECURE")]
    pub insecure: bool,
    /// Tenant
    #[arg(long, value_name = "NAME", env = "ORLOP_TENANT")]
    pub tenant: Option<String>,
    /// Form of the output
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub output: Format,
    /// No colours
    #[arg(long)]
    pub no_color: bool,
}

impl Target {
    /// The client for this server.
    ///
    /// # Errors
    /// The token cannot be read, or an address is none.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        client(&self.server, self.token_file.as_deref(), self.ca_file.as_deref(), self.insecure)
    }

    /// Whether colours are shown.
    pub(super) fn colour(&self) -> Colour {
        if self.no_color { Colour::Never } else { output::colour() }
    }

    /// A value in the form asked for, where that is not a table; a name is what `name` says of it.
    pub(super) fn shown(
        &self,
        value: &serde_json::Value,
        names: impl FnOnce(&serde_json::Value) -> Vec<String>,
    ) -> Result<Option<String>, Failure> {
        Ok(match self.output {
            Format::Table => None,
            Format::Name => {
                let names = names(value);
                Some(if names.is_empty() { String::new() } else { names.join("\n") + "\n" })
            }
            format => Some(output::serialized(value, format)?),
        })
    }
}

/// The client for servers, with the token of a file or of the environment.
///
/// # Errors
/// The token cannot be read, or an address is none.
pub(super) fn client(
    servers: &str,
    token_file: Option<&Path>,
    ca_file: Option<&Path>,
    insecure: bool,
) -> Result<Client, Failure> {
    let token = match token_file {
        Some(file) => {
            let read = std::fs::read_to_string(file);
            let shown = file.display().to_string();
            let read = read.map_err(|error| Failure::usage(format!("cannot read the token in {shown}: {error}")))?;
            Some((read, shown))
        }
        None => std::env::var("ORLOP_TOKEN").ok().map(|token| (token, "ORLOP_TOKEN".to_owned())),
    };
    let token = token.map(|(token, source)| match token.trim() {
        // Anyone who names a token does not mean to be somebody else, such as the administrator of this machine.
        "" => Err(Failure::usage(format!("{source} contains no token; give another file, or none"))),
        token => Ok(token.to_owned()),
    });
    let token = token.transpose()?;
    Client::new(servers, token, ca_file, insecure)
}

/// Options of a verb that has none of its own.
#[derive(Args, Debug)]
pub(in crate::cli) struct Plain {
    #[command(flatten)]
    pub(super) target: Target,
    #[command(flatten)]
    pub(super) patience: Patience,
}

/// How long a verb may take.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Give up after this time, such as 30s (exit code 8)
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<HumanDuration>,
}

impl Patience {
    /// Does something for so long.
    pub(super) async fn bound<T>(self, what: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let Some(limit) = self.timeout else { return what.await };
        match tokio::time::timeout(limit.get(), what).await {
            Ok(done) => done,
            Err(_) => Err(Failure::new(Exit::TimedOut, format!("not done within {limit}"))),
        }
    }
}
