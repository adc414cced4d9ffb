//! `orlop flow graph`: the DAG of a file's flow, or of a run with its phases. Owns the choice between the two.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use orlop_dag::manifest::Limits;

use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::stored::Stored;
use super::{manifest, output};
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
/// When there is neither such a file nor such a run.
pub(super) async fn graph(args: GraphArgs) -> Result<Exit, Failure> {
    let (plan, status) = if args.is_file() {
        let path = PathBuf::from(&args.subject);
        (manifest::one(&path, Limits::elsewhere().images_optional(), args.name.as_deref())?.plan, None)
    } else {
        let stored = Stored::read(&args.globals.existing(&args.subject)?).await?;
        let status = stored.status();
        (stored.plan, Some(status))
    };
    drawn(&Graph { plan: &plan, status: status.as_ref() }, args.output)
}

/// Prints a graph.
///
/// # Errors
/// When it cannot be written.
pub(super) fn drawn(graph: &Graph<'_>, form: Form) -> Result<Exit, Failure> {
    let text = match form {
        Form::Text => graph.text(output::colour()),
        Form::Dot => graph.dot(),
        Form::Mermaid => graph.mermaid(),
        Form::Json => output::serialized(&graph.json(), output::Format::Json)?,
    };
    output::print(&text)?;
    Ok(Exit::Done)
}
