//! Arguments of the verb `catalog`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{CloudArgs, OutputArgs, SpanArgs};

#[derive(Args, Debug)]
pub(in super::super) struct CatalogArgs {
    /// Ask anew for what is kept for a day: the public description of hardware
    #[arg(long, global = true)]
    pub(in super::super) refresh: bool,
    #[command(subcommand)]
    pub(in super::super) what: CatalogVerb,
}

#[derive(Subcommand, Debug)]
pub(in super::super) enum CatalogVerb {
    /// Hardware by type: how many hosts, how many of them are free in a window, and what an hour costs
    #[command(after_help = "Examples:
  orlop provisioner catalog nodes --site uc,tacc
  orlop provisioner catalog nodes --site tacc --lease-duration 48 --start-within 2d --output json
  orlop provisioner catalog nodes --site mine --catalog-file hosts.json")]
    Nodes(Box<NodesArgs>),
    /// Images, and which of them are chosen without being named
    #[command(after_help = "Example: orlop provisioner catalog images --site uc --output json")]
    Images(Box<CloudImagesArgs>),
    /// Sites by name: where they are, and whether there are credentials for them
    #[command(after_help = "Example: orlop provisioner catalog sites")]
    Sites(Box<SitesArgs>),
}

impl CatalogVerb {
    pub(in super::super) fn output(&self) -> &OutputArgs {
        match self {
            Self::Nodes(args) => &args.output,
            Self::Images(args) => &args.output,
            Self::Sites(args) => &args.output,
        }
    }

    pub(in super::super) const fn name(&self) -> &'static str {
        match self {
            Self::Nodes(_) => "catalog nodes",
            Self::Images(_) => "catalog images",
            Self::Sites(_) => "catalog sites",
        }
    }
}

#[derive(Args, Debug)]
pub(in super::super) struct NodesArgs {
    /// Sites, separated by commas; default: DEFAULT_SITE, else the one configured cloud, else uc
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(in super::super) site: Vec<String>,
    /// List of hosts in the shape of `os-hosts`, for the first site
    #[arg(long, value_name = "FILE")]
    pub(in super::super) catalog_file: Option<PathBuf>,
    #[command(flatten)]
    pub(in super::super) span: SpanArgs,
    #[command(flatten)]
    pub(in super::super) cloud: CloudArgs,
    #[command(flatten)]
    pub(in super::super) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(in super::super) struct CloudImagesArgs {
    /// Sites, separated by commas; default: DEFAULT_SITE, else the one configured cloud, else uc
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(in super::super) site: Vec<String>,
    #[command(flatten)]
    pub(in super::super) cloud: CloudArgs,
    #[command(flatten)]
    pub(in super::super) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(in super::super) struct SitesArgs {
    #[command(flatten)]
    pub(in super::super) cloud: CloudArgs,
    #[command(flatten)]
    pub(in super::super) output: OutputArgs,
}
