//! `orlop flow submit`: the options with which a flow is handed over. Owns their names; handing over is the fleet's.

use std::path::PathBuf;

use clap::Args;
use orlop_core::time::HumanDuration;

use super::globals::GlobalArgs;
use super::output::Format;
use super::setup::pair;

/// Options of `orlop flow submit`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop flow submit flow.yaml --target fleet
  orlop flow submit flow.yaml --target fleet -p env=prod --watch
  orlop flow submit nightly.json --target fleet --key nightly-2026-11-21   takes effect once
  orlop flow submit flow.yaml --target kube -n team --wait                 the operator of a cluster drives it")]
pub(super) struct SubmitArgs {
    /// File with the flow or pipeline, YAML or JSON; `-` is standard input
    pub file: PathBuf,
    #[command(flatten)]
    pub globals: GlobalArgs,
    /// Value of a parameter (repeatable)
    #[arg(short, long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    pub param: Vec<(String, String)>,
    /// Name of the flow, in place of the one in the file
    #[arg(long)]
    pub name: Option<String>,
    /// Idempotency key: repeated within a day, the submit takes effect once
    #[arg(long)]
    pub key: Option<String>,
    /// Begin suspended
    #[arg(long)]
    pub suspend: bool,
    /// Wait until it has ended; the exit code says how
    #[arg(long)]
    pub wait: bool,
    /// Show what happens until it has ended
    #[arg(long)]
    pub watch: bool,
    /// Show what its steps write when it has ended
    #[arg(long)]
    pub logs: bool,
    /// Give up waiting after this long, with exit code 8
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<HumanDuration>,
    /// Form of the output
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub output: Format,
}
