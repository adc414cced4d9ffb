//! `orlop health`: whether a server is ready, for checks of containers and scripts. Owns nothing but the question; it needs no
//! token.

use clap::Args;

use super::super::failure::{Exit, Failure};
use super::super::output;
use super::client::ApiRequest;
use super::read::text;
use super::target::{Patience, Target};

/// Options of `orlop health`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop health                              exit code 0 once the server leads or is on standby, 7 before
  orlop health --live                       0 while it answers at all")]
pub(in crate::cli) struct HealthArgs {
    /// Only whether it answers at all
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Tells whether a server is well.
pub(super) async fn health(args: HealthArgs) -> Result<Exit, Failure> {
    args.patience.bound(asked(&args)).await
}

async fn asked(args: &HealthArgs) -> Result<Exit, Failure> {
    let path = if args.live { "/health/live" } else { "/health/ready" };
    let health = args.target.client()?.ask(ApiRequest::get(path)).await?.body;
    let status = text(&health, "status");
    let shown = args.target.shown(&health, |_| vec![status.clone()])?;
    output::print(&shown.unwrap_or(format!("{status}\n")))?;
    Ok(Exit::Done)
}
