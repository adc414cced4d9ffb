//! The object form: a document of kind JobFlow becomes a typed flow. Owns what of a document with errors can still be
//! checked; never reads another kind.

use orlop_core::spec::flow::JobFlow;
use serde_json::Value;

use super::data::{Data, Shape};
use super::decode::decode;
use super::graph;
use super::path::{FieldPath, Path, Segment};
use super::schema::{Expected, Walk};
use super::source::Node;
use super::validate::{Limits, validate};
use super::violation::{FieldPart, Severity, Violation, Violations};
use crate::code::Code;

/// Names of other tools for fields of steps.
const ALIASES: &[(&str, &str)] = &[
    ("args", "template.spec.template.spec.containers[].args"),
    ("command", "template.spec.template.spec.containers[].command"),
    ("condition", "when"),
    ("container", "template.spec.template.spec.containers"),
    ("dependsOn", "dependencies"),
    ("depends_on", "dependencies"),
    ("env", "template.spec.template.spec.containers[].env"),
    ("if", "when"),
    ("image", "template.spec.template.spec.containers[].image"),
    ("needs", "dependencies"),
    ("onExit", "finally"),
    ("params", "parameters"),
    ("retries", "retryPolicy.limit"),
    ("retryStrategy", "retryPolicy"),
    ("timeout", "timeoutSeconds"),
    ("tasks", "steps"),
    ("variables", "parameters"),
];

/// The same where it takes more than a field.
const HINTS: &[(&str, &str)] = &[
    ("matrix", "list the combinations in `withItems`, each a mapping whose members are `{{parameters.item.NAME}}`"),
    ("onFailure", "a step of `finally` runs after a failure too; with `when: flow.outcome == 'Failed'` only then"),
    ("run", "write `command: [sh, -c, PROGRAM]` in template.spec.template.spec.containers[]"),
    (
        "schedule",
        "a flow runs once; make one on a schedule with a CronJob that calls `orlop flow submit --target kube`, or with cron",
    ),
    ("script", "write `command: [sh, -c, PROGRAM]` in template.spec.template.spec.containers[]"),
    (
        "withSequence",
        "list the numbers in `withItems`, such as [0, 1, 2], or have a step write the list and name it in `withParam`",
    ),
];

/// Rules that are also broken by what is not there, as it may be under a misspelt name.
const ABSENCES: [Code; 5] = [Code::Source, Code::Artifact, Code::Reference, Code::Placeholder, Code::Condition];

/// The flow of a parsed document, with everything wrong with it. The flow is absent when the document cannot be read as
/// one.
pub(super) fn read(root: Node<'_>, limits: &Limits) -> (Option<JobFlow>, Violations) {
    let mut found = Violations::new();
    let document = Document { data: root, is_top: true };
    let mut misfits = walk(&mut found).check(document, "JobFlow", &Path::ROOT);
    if misfits.fatal {
        return (None, found);
    }
    // What a manifest says about the state of a flow does not count.
    misfits.marks.extend(root.pair("status").map(|(_, status)| status.mark()));
    match decode::<JobFlow>(document, &misfits.marks) {
        Ok(mut flow) => {
            check(&flow, root, limits, &mut found);
            flow.spec = graph::check(flow.spec, &mut found);
            (Some(flow), found)
        }
        Err(error) => {
            found.error(Code::Value, &Path::ROOT, || format!("the document is not a flow: {error}"));
            (None, found)
        }
    }
}

/// Reads and checks a flow that arrived as JSON, as webhook and server get it. The violations are all warnings when
/// there is a flow.
///
/// # Errors
/// Everything wrong with the object.
pub fn read_object(object: &Value, limits: &Limits) -> Result<(JobFlow, Violations), Violations> {
    let mut found = Violations::new();
    let object = Document { data: object, is_top: true };
    let misfits = walk(&mut found).check(object, "JobFlow", &Path::ROOT);
    if misfits.fatal || !misfits.marks.is_empty() {
        return Err(found);
    }
    match decode::<JobFlow>(object, &misfits.marks) {
        Ok(mut flow) => {
            found.append(validate(&flow, limits));
            flow.spec = graph::check(flow.spec, &mut found);
            if found.has_errors() { Err(found) } else { Ok((flow, found)) }
        }
        Err(error) => {
            found.error(Code::Value, &Path::ROOT, || format!("the object is not a flow: {error}"));
            Err(found)
        }
    }
}

/// A document without its members `x-…`, which are a place for anchors.
#[derive(Clone, Copy)]
struct Document<D> {
    data: D,
    is_top: bool,
}

impl<'d, D: Data<'d>> Data<'d> for Document<D> {
    fn shape(self) -> Shape<'d> {
        self.data.shape()
    }

    fn items(self) -> impl Iterator<Item = Self> {
        self.data.items().map(|data| Self { data, is_top: false })
    }

    fn entries(self) -> impl Iterator<Item = (&'d str, Self)> {
        let kept = move |(name, _): &(&str, D)| !(self.is_top && name.starts_with("x-"));
        self.data.entries().filter(kept).map(|(name, data)| (name, Self { data, is_top: false }))
    }

    fn mark(self) -> u32 {
        self.data.mark()
    }

    fn written(self) -> Option<&'d str> {
        self.data.written()
    }
}

fn walk(found: &mut Violations) -> Walk<'_> {
    Walk::new(Expected { code: Code::Value, unknown: Severity::Error, aliases: ALIASES, hints: HINTS }, found)
}

/// Adds what the rules say, less what may only follow from fields that could not be read.
fn check(flow: &JobFlow, root: Node<'_>, limits: &Limits, found: &mut Violations) {
    if found.more(Severity::Error) > 0 {
        return;
    }
    let Some(doubtful) = found.iter().map(doubtful).collect::<Option<Vec<_>>>() else { return };
    let mut rules = validate(flow, limits);
    rules.retain(|violation| {
        let certain = root.at(&violation.path).is_some() && !ABSENCES.contains(&violation.code);
        certain || !doubtful.iter().any(|area| violation.path.is_within(area))
    });
    found.append(rules);
}

/// The part of a flow about which an unreadable field leaves doubt; `None` for all of it.
fn doubtful(violation: &Violation) -> Option<FieldPath> {
    let segments = violation.path.segments();
    let field = |at: usize| match segments.get(at) {
        Some(Segment::Field(name)) => Some(name.as_ref()),
        _ => None,
    };
    let whole = match (field(0), field(1), segments.get(2)) {
        (Some("metadata"), ..) => 1,
        (Some("spec"), Some("steps" | "finally"), Some(_)) => 3,
        (Some("spec"), Some("steps" | "finally" | "parameters") | None, _) => return None,
        (Some("spec"), Some(_), None) if violation.part == FieldPart::Key => return None,
        (Some("spec"), Some(_), _) => 2,
        _ => return None,
    };
    segments.get(..whole).map(|area| FieldPath::new(area.to_vec()))
}
