//! Files of manifests: which form every document has, and the way from text to checked flows. Owns recognition and the
//! treatment of documents of other kinds.

use std::sync::Arc;

use orlop_core::spec::flow::{API_VERSION, GROUP, JobFlow, KIND};

use super::data::{Data, Shape};
use super::path::Path;
use super::report::Report;
use super::schema::nearest;
use super::source::{Node, Source, TextLimits};
use super::validate::Limits;
use super::violation::{Severity, Violations, shown};
use super::{jobflow, pipeline};
use crate::code::Code;

/// Options of [`read`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Limits of the text: size, depth and number of nodes.
    pub text: TextLimits,
    /// Limits and rules of the flows, by where they run.
    pub limits: Limits,
}

impl Options {
    /// Options with these limits of flows, and the default limits of text.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { text: TextLimits::default(), limits }
    }
}

/// The form of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A JobFlow object.
    JobFlow,
    /// A pipeline.
    Pipeline,
}

/// A flow read from a file.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The form it has in the file.
    pub form: Form,
    /// The flow.
    pub flow: JobFlow,
    source: Arc<Source>,
    document: usize,
    names: pipeline::Names,
}

impl Manifest {
    /// Adds the field paths and places in this file to violations that were found later, such as cycles.
    pub fn place(&self, violations: &mut Violations) {
        let Some(root) = self.source.documents().nth(self.document) else { return };
        self.names.translate(violations);
        self.source.place(root, violations);
    }

    /// The name of a step as the file has it, which in a pipeline may differ from the name in the flow.
    #[must_use]
    pub fn step_name<'n>(&'n self, step: &'n str) -> &'n str {
        self.names.original(step).unwrap_or(step)
    }
}

/// What a file holds.
#[derive(Clone, Debug)]
pub struct ParsedFile {
    /// Its flows, in file order; at least one.
    pub manifests: Vec<Manifest>,
    /// Warnings about them and about documents that are ignored.
    pub warnings: Report,
}

/// Reads a file of one or more YAML or JSON documents: JobFlow objects and pipelines, all checked.
///
/// ```
/// use orlop_dag::manifest::{Limits, Options, checked, read};
/// let text = "
/// apiVersion: workflow.kube-zen.io/v1alpha1
/// kind: JobFlow
/// metadata: {name: release}
/// spec:
///   steps:
///   - {name: approve, type: Manual, message: Release it?}
///   - {name: publish, type: Manual, dependencies: [approve]}
/// ";
/// let limits = Limits::elsewhere();
/// let file = read("flow.yaml", text, &Options::new(limits.clone()))?;
/// let plan = checked(&file.manifests[0].flow, &limits)?;
/// assert_eq!(plan.len(), 2);
///
/// let error = read("flow.yaml", text.replace("kind: JobFlow", "kind: JobFlo"), &Options::new(limits)).unwrap_err();
/// assert!(error.to_string().contains("flow.yaml:3:7"), "{error}");
/// # Ok::<(), orlop_dag::manifest::Report>(())
/// ```
///
/// # Errors
/// Everything wrong with any document, and a file without any flow.
pub fn read(file: &str, text: impl Into<Arc<str>>, options: &Options) -> Result<ParsedFile, Report> {
    let (source, mut found) = Source::parse(file, text, &options.text);
    let source = Arc::new(source);
    let mut manifests = Vec::new();
    for (document, root) in source.documents().enumerate() {
        let mut own = Violations::new();
        let read = recognise(root, &options.limits, &mut own);
        if let Some((form, flow, names)) = read {
            names.translate(&mut own);
            manifests.push(Manifest { form, flow, source: Arc::clone(&source), document, names });
        }
        source.place(root, &mut own);
        found.append(own);
    }
    if manifests.is_empty() && !found.has_errors() {
        found.error(Code::Object, &Path::ROOT, || {
            let help =
                format!("write a document with apiVersion: {API_VERSION} and kind: {KIND}, or a pipeline with `steps`");
            ("the file holds no flow", help)
        });
    }
    found.sort_by_place();
    let report = Report::new(found);
    if report.violations.has_errors() { Err(report) } else { Ok(ParsedFile { manifests, warnings: report }) }
}

/// The flow of a document, if it has one of the two forms and can be read.
fn recognise(root: Node<'_>, limits: &Limits, found: &mut Violations) -> Option<(Form, JobFlow, pipeline::Names)> {
    match root.shape() {
        Shape::Null => return None,
        Shape::Map => {}
        other => {
            found.error(Code::Object, &Path::ROOT, || {
                (format!("the document is {}, not a flow", other.described()), format!("begin it with kind: {KIND}"))
            });
            return None;
        }
    }
    let kind = root.member("kind").map(Data::shape);
    match kind {
        Some(Shape::Str(KIND)) => {
            let (flow, own) = jobflow::read(root, limits);
            found.append(own);
            flow.map(|flow| (Form::JobFlow, flow, pipeline::Names::default()))
        }
        None if root.member("steps").is_some() => {
            let (read, own) = pipeline::read(root, limits);
            found.append(own);
            read.map(|(flow, names)| (Form::Pipeline, flow, names))
        }
        None => {
            found.error(Code::Object, &Path::ROOT.field("kind"), || {
                let help = format!("write kind: {KIND} and apiVersion: {API_VERSION}, or list `steps` for a pipeline");
                ("the document has neither `kind` nor `steps`, so it is not a flow", help)
            });
            None
        }
        Some(other) => {
            ignored(root, other, found);
            None
        }
    }
}

/// Documents of other kinds: a misspelt kind is an error, what belongs to somebody else is ignored.
fn ignored(root: Node<'_>, kind: Shape<'_>, found: &mut Violations) {
    let path = Path::ROOT.field("kind");
    let group = root
        .pair("apiVersion")
        .and_then(|(_, version)| version.text())
        .is_some_and(|version| version.starts_with(GROUP));
    match kind {
        Shape::Str(kind) if group || nearest(kind, [KIND]).is_some() => found.error(Code::Object, &path, || {
            (format!("there is no kind {}", shown(kind)), format!("did you mean `{KIND}`?"))
        }),
        Shape::Str(kind @ ("List" | "JobFlowList")) => found.error(Code::Object, &path, || {
            (
                format!("a document of kind {kind} is not read"),
                "write its items as separate documents, separated by `---`",
            )
        }),
        Shape::Str(kind) => {
            found.add((Severity::Warning, Code::Object), &path, || {
                (format!("a document of kind {} is ignored", shown(kind)), "apply it with its own tool")
            });
        }
        other => found.error(Code::Object, &path, || format!("`kind` is {}, not a text", other.described())),
    }
}
