//! `orlop flow graph`: the DAG of a file's flow, or of a run with its phases. Owns the choice between the two.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use orlop_dag::manifest::Limits;

use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::{manifest, output, target};
use crate::view::graph::Graph;

/// Form of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// Lines of text
    #[default]
    Text,
    /// Graphviz
    Dot,
    /// Mermaid
    Mermaid,
    /// JSON
    Json,
}

/// Options of `orlop flow graph`.
#[derive(Args, Debug)]
pub(super) struct GraphArgs {
    /// A file, or the name of a run
    pub subject: String,
    #[command(flatten)]
    pub globals: GlobalArgs,
    /// Form of the graph
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub output: Form,
    /// The flow of this name, where the file holds several
    #[arg(long)]
    pub name: Option<String>,
}

impl GraphArgs {
    /// Whether it is about a file, not a run.
    pub(super) fn is_file(&self) -> bool {
        let path = Path::new(&self.subject);
        path == Path::new("-") || path.is_file() || self.subject.contains(['/', '\\'])
    }
}

/// Draws a graph.
///
/// # Errors
/// When there is neither such a file nor such a flow.
pub(super) async fn graph(args: &GraphArgs) -> Result<Exit, Failure> {
    if args.is_file() {
        let limits = Limits::elsewhere().images_optional();
        let plan = manifest::one(&PathBuf::from(&args.subject), limits, args.name.as_deref())?.plan;
        return drawn(&Graph { plan: &plan, status: None }, args.output);
    }
    let flow = target::of(&args.globals)?.get(&args.subject).await?;
    drawn(&Graph { plan: &flow.replayed()?.0, status: Some(&flow.status()) }, args.output)
}

/// Prints a graph.
///
/// # Errors
/// When it cannot be written.
fn drawn(graph: &Graph<'_>, form: Form) -> Result<Exit, Failure> {
    let text = match form {
        Form::Text => graph.text(output::colour()),
        Form::Dot => graph.dot(),
        Form::Mermaid => graph.mermaid(),
        Form::Json => output::serialized(&graph.json(), output::Format::Json)?,
    };
    output::print(&text)?;
    Ok(Exit::Done)
}
