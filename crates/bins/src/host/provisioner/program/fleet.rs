//! The fleet that is asked what its workers do: its address and token, from flags, settings and what is known of a
//! deployment.

use std::path::PathBuf;
use std::sync::Arc;

use orlop_cloud::provision::fleet::{Fleet, RestFleet};
use orlop_core::error::{Class, Problem};

use super::args::FleetArgs;
use super::failure::Failure;
use super::settings::{Settings, text};

/// A fleet, and its address as it is remembered.
#[derive(Clone)]
pub(super) struct FleetTarget {
    pub(super) address: String,
    pub(super) fleet: Arc<dyn Fleet>,
}

/// The fleet that is named: by a flag, by the deployment, or by the settings of the other programs.
///
/// # Errors
/// None is named, or a file of it cannot be read.
pub(super) fn fleet(args: &FleetArgs, settings: &Settings, known: Option<&str>) -> Result<FleetTarget, Failure> {
    let address = args.fleet.clone().or_else(|| known.map(str::to_owned)).or_else(|| settings.get("ORLOP_SERVER"));
    let Some(address) = address else {
        let hint = "give --fleet URL, the REST address of its server, or set ORLOP_SERVER";
        return Err(Failure::usage("no fleet is given to ask for the worker").hint(hint));
    };
    let read = |flag: &Option<PathBuf>, variable: &str| -> Result<Option<String>, Failure> {
        let Some(path) = flag.clone().or_else(|| settings.path(variable)) else { return Ok(None) };
        let failed = |error: std::io::Error| Failure::usage(format!("{}: {error}", path.display()));
        text(&path).map(Some).map_err(failed)
    };
    let token = read(&args.fleet_token_file, "ORLOP_TOKEN_FILE")?.or_else(|| settings.get("ORLOP_TOKEN"));
    let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
    let authorities = read(&args.fleet_ca_file, "ORLOP_CA_FILE")?;
    let fleet = RestFleet::new(&address, token.map(Into::into), authorities.as_deref().map(str::as_bytes));
    let failed = |error: Problem| match error.class {
        Class::Invalid => Failure::usage(error.chain()),
        _ => Failure::from(error),
    };
    Ok(FleetTarget { address, fleet: Arc::new(fleet.map_err(failed)?) })
}
