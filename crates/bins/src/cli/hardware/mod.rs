//! `orlop hardware`: what a need for hardware becomes on every substrate, and which nodes fit. Owns the verb, its options
//! and its exit codes; the translations are those of the libraries.

mod dialect;
mod nodes;
mod request;
mod show;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use orlop_core::hardware::Tables;
use orlop_k8s::hourglass::tables;

use super::failure::{Exit, Failure};
use super::manifest::text;
use super::output::{self, Format};

/// Verbs about hardware.
#[derive(Subcommand, Debug)]
pub(super) enum Hardware {
    /// Tell what a need becomes on every substrate, and which nodes fit
    Explain(ExplainArgs),
}

/// Options of `orlop hardware explain`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop hardware explain -f need.yaml                        what it becomes on every substrate
  orlop hardware explain -f performer.yaml --nodes nodes.json
  kubectl get nodes -o json | orlop hardware explain -f need.yaml --nodes -
  orlop hardware explain -f need.yaml --kubeconfig ~/.kube/config
  orlop hardware explain -f need.yaml -o json

A file holds a Performer, or the fields of its hardwareRequirements:
  gpuType: a100
  gpuCount: 2
  nvlink: true

Exit codes: 0 explained, 1 none of the nodes fits, 2 usage, 3 the file is refused, 4 no such file, 6 the cluster does not let
its nodes be read, 7 it does not answer")]
pub(super) struct ExplainArgs {
    /// File with the need, YAML or JSON; `-` is standard input
    #[arg(short, long)]
    pub file: PathBuf,
    /// File with nodes, as `kubectl get nodes -o json` (or yaml) writes them; resource slices and runtime classes may stand
    /// beside them. `-` is standard input
    #[arg(long)]
    pub nodes: Option<PathBuf>,
    /// Read the nodes of the cluster that this file tells the way to, in place of a file of nodes
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of that file, or of the one of KUBECONFIG
    #[arg(long, value_name = "NAME", conflicts_with = "nodes")]
    pub context: Option<String>,
    /// File of tables that are laid over the built-in ones
    #[arg(long)]
    pub hardware_config: Option<PathBuf>,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
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
    let stdin = Path::new("-");
    if args.file == stdin && args.nodes.as_deref() == Some(stdin) {
        return Err(Failure::usage("both the need and the nodes are read from standard input; give a file for one"));
    }
    let tables = overlaid(args.hardware_config.as_deref())?;
    let request = request::read(&args.file.display().to_string(), &text(&args.file)?, &tables)?;
    let nodes = match &args.nodes {
        Some(file) => Some(nodes::read(&file.display().to_string(), &text(file)?, &tables)?),
        None if args.kubeconfig.is_some() || args.context.is_some() => {
            let (file, context) = (args.kubeconfig.clone(), args.context.clone());
            Some(nodes::fetch(file, context, &tables).await?)
        }
        None => None,
    };
    let told = dialect::tell(&request, &tables, nodes.as_ref());
    let answer = match args.output {
        Format::Table => show::text(&told),
        Format::Name => {
            told.nodes.iter().flatten().filter(|node| node.fits).map(|node| node.name.clone() + "\n").collect()
        }
        format => output::serialized(&told, format)?,
    };
    output::print(&answer)?;
    let none_fits = told.nodes.as_ref().is_some_and(|nodes| !nodes.iter().any(|node| node.fits));
    Ok(if none_fits { Exit::Failed } else { Exit::Done })
}

/// The built-in tables, with those of a file laid over them.
fn overlaid(file: Option<&Path>) -> Result<Tables, Failure> {
    let Some(file) = file else { return Ok(Tables::default()) };
    tables::overlaid(&text(file)?).map_err(|error| Failure::new(Exit::Refused, format!("{}: {error}", file.display())))
}
