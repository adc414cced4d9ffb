//! Arguments about the fleet that a machine joins.

use std::path::PathBuf;

use clap::Args;
use orlop_cloud::provision::join::{Address, Digest};

/// The fleet that a machine joins, and its program.
#[derive(Args, Debug)]
#[command(next_help_heading = "Fleet")]
pub(in super::super) struct JoinArgs {
    /// Fleet that the machine joins: https address of its server for workers
    #[arg(long, value_name = "URL")]
    pub(in super::super) join: Option<Address>,
    /// Where orlop-worker is downloaded from, https; default: ORLOP_JOIN_WORKER_URL
    #[arg(long, value_name = "URL")]
    pub(in super::super) worker_url: Option<Address>,
    /// SHA-256 of that program, checked before it runs; default: ORLOP_JOIN_WORKER_SHA256
    #[arg(long, value_name = "HEX")]
    pub(in super::super) worker_sha256: Option<Digest>,
}

/// The fleet that is asked what its workers do.
#[derive(Args, Debug)]
#[command(next_help_heading = "Fleet")]
pub(in super::super) struct FleetArgs {
    /// REST address of the fleet's server, which is asked for the worker; default: that of the deployment, else ORLOP_SERVER
    #[arg(long, value_name = "URL")]
    pub(in super::super) fleet: Option<String>,
    /// File with the token for it; default: ORLOP_TOKEN_FILE, else the variable ORLOP_TOKEN holds it
    #[arg(long, value_name = "FILE")]
    pub(in super::super) fleet_token_file: Option<PathBuf>,
    /// CA certificate of the server, PEM; default: ORLOP_CA_FILE, else the system's
    #[arg(long, value_name = "FILE")]
    pub(in super::super) fleet_ca_file: Option<PathBuf>,
}
