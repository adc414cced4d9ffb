//! `orlop hardware`: what a need for hardware becomes on every substrate, and which machines fit. Owns the verb, its options
//! and its exit codes; the translations are those of the libraries.

mod dialect;
mod hosts;
mod nodes;
mod request;
mod show;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use orlop_cloud::exit;
use orlop_core::hardware::Tables;
use orlop_k8s::hourglass::tables;

use self::dialect::{Machines, NodeVerdict};
use self::nodes::Cluster;
use super::failure::{Exit, Failure};
use super::manifest::text;
use super::output::{self, Format};

/// Verbs about hardware.
#[derive(Subcommand, Debug)]
pub(super) enum Hardware {
    /// Show what a hardware requirement becomes on every substrate, and which machines fit
    Explain(ExplainArgs),
}

/// Options of `orlop hardware explain`.
#[derive(Args, Debug)]
#[command(after_help = exit::help("Examples:
  orlop hardware explain -f need.yaml                        what it becomes on every substrate
  orlop hardware explain -f performer.yaml --nodes nodes.json
  kubectl get nodes -o json | orlop hardware explain -f need.yaml --nodes -
  orlop hardware explain -f need.yaml --kubeconfig ~/.kube/config
  orlop hardware explain -f need.yaml --catalog site.json    hosts of a site, and what reserves them
  orlop hardware explain -f need.yaml --inventory host.yaml  devices of a container on that host
  orlop hardware explain -f need.yaml -o json

A file holds a Performer, or the fields of its hardwareRequirements:
  gpuType: a100
  gpuCount: 2
  nvlink: true

An inventory says what one host has that is free:
  arch: amd64
  free: {cpu: 8, memory: 32Gi, ephemeral-storage: 100Gi}
  devices: [{id: GPU-8f6a, vendor: nvidia, name: A100-SXM4-40GB, nvlinkGroup: 0}]
  deviceNodes: [/dev/sgx_enclave]
  runtimes: [runc]

It fails with exit code 1 where none of the nodes or hosts fits."))]
pub(super) struct ExplainArgs {
    /// File with the need, YAML or JSON; `-` is standard input
    #[arg(short, long)]
    pub file: PathBuf,
    /// File with nodes, as `kubectl get nodes -o json` (or yaml) writes them; resource slices, runtime classes and device
    /// classes may stand beside them. `-` is standard input
    #[arg(long)]
    pub nodes: Option<PathBuf>,
    /// Read the nodes of the cluster that this file tells the way to, in place of a file of nodes
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of that file, or of the one of KUBECONFIG
    #[arg(long, value_name = "NAME", conflicts_with = "nodes")]
    pub context: Option<String>,
    /// File with the hosts of an OpenStack site, as the site's reference API writes node documents
    #[arg(long, value_name = "FILE")]
    pub catalog: Option<PathBuf>,
    /// File that says what one Docker host has
    #[arg(long, value_name = "FILE")]
    pub inventory: Option<PathBuf>,
    /// File of tables that are laid over the built-in ones
    #[arg(long)]
    pub hardware_config: Option<PathBuf>,
    /// Form of the answer
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub output: Format,
}

/// Runs a verb.
///
/// # Errors
/// As of the verb.
pub(super) async fn run(verb: Hardware) -> Result<Exit, Failure> {
    match verb {
        Hardware::Explain(args) => explain(&args).await,
    }
}

async fn explain(args: &ExplainArgs) -> Result<Exit, Failure> {
    let files = [Some(&args.file), args.nodes.as_ref(), args.catalog.as_ref(), args.inventory.as_ref()];
    if files.into_iter().flatten().filter(|file| *file == Path::new("-")).count() > 1 {
        return Err(Failure::usage("only one file can be read from standard input; give the other by its name"));
    }
    let tables = overlaid(args.hardware_config.as_deref())?;
    let request = request::read(&name(&args.file), &text(&args.file)?, &tables)?;
    let machines = Machines {
        cluster: cluster(args, &tables).await?,
        site: args.catalog.as_deref().map(|file| hosts::catalog(&name(file), &text(file)?, &tables)).transpose()?,
        docker: args
            .inventory
            .as_deref()
            .map(|file| hosts::inventory(&name(file), &text(file)?, &tables))
            .transpose()?,
    };
    let reported = dialect::tell(&request, &tables, &machines);
    let answer = match args.output {
        Format::Table => show::text(&reported),
        Format::Name => reported.judged().flatten().filter(|one| one.fits).map(|one| one.name.clone() + "\n").collect(),
        format => output::serialized(&reported, format)?,
    };
    output::print(&answer)?;
    let none_fits = |judged: &Vec<NodeVerdict>| !judged.iter().any(|one| one.fits);
    Ok(if reported.judged().any(none_fits) { Exit::Failed } else { Exit::Done })
}

fn name(file: &Path) -> String {
    file.display().to_string()
}

/// The nodes of a file or of a cluster, where they are asked for.
async fn cluster(args: &ExplainArgs, tables: &Tables) -> Result<Option<Cluster>, Failure> {
    Ok(match &args.nodes {
        Some(file) => Some(nodes::read(&name(file), &text(file)?, tables)?),
        None if args.kubeconfig.is_some() || args.context.is_some() => {
            let (file, context) = (args.kubeconfig.clone(), args.context.clone());
            Some(nodes::fetch(file, context, tables).await?)
        }
        None => None,
    })
}

/// The built-in tables, with those of a file laid over them.
fn overlaid(file: Option<&Path>) -> Result<Tables, Failure> {
    let Some(file) = file else { return Ok(Tables::default()) };
    tables::overlaid(&text(file)?).map_err(|error| Failure::new(Exit::Refused, format!("{}: {error}", file.display())))
}
