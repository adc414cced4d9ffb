//! A need as a file says it: a Performer, or the fields of its `hardwareRequirements`.

use std::borrow::Cow;

use orlop_core::hardware::{HardwareError, HardwareInput, Resolved, Tables, resolve};
use orlop_dag::manifest::{Code, FieldPath, Node, Note, Report, Segment, Severity, Source, TextLimits, Violations};
use orlop_k8s::hourglass::spec::PerformerSpec;
use serde_json::{Map, Value, json};

use crate::cli::failure::{Exit, Failure};

/// The kind that has needs.
const KIND: &str = "Performer";
/// Fields of every object.
const OBJECT: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
const HELP: &str = "give a Performer, or the fields of its hardwareRequirements alone";
/// The container that gets devices.
pub(super) const CONTAINER: &str = "performer";

/// A need, and the pod of the one who has it.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) input: HardwareInput,
    pub(super) resolved: Resolved,
    /// What the user asks for besides, as a pod specification.
    pub(super) pod: Value,
}

/// Reads a file with one need.
///
/// # Errors
/// Everything that is wrong with it, each with its line.
pub(super) fn read(file: &str, text: &str, tables: &Tables) -> Result<Request, Failure> {
    let (source, mut found) = Source::parse(file, text.to_owned(), &TextLimits::default());
    let refused = |found: Violations| Failure::new(Exit::Refused, Report::new(found).to_string());
    if found.has_errors() {
        return Err(refused(found));
    }
    let mut documents = source.documents().filter(|root| !root.to_value().is_null());
    let (Some(root), None) = (documents.next(), documents.next()) else {
        return Err(Failure::new(Exit::Refused, format!("{file} must hold exactly one need")));
    };
    let read = one(root, tables, &mut found);
    source.place(root, &mut found);
    found.sort_by_place();
    read.filter(|_| !found.has_errors()).ok_or_else(|| refused(found))
}

/// A path of names.
fn path(names: &[&str]) -> FieldPath {
    FieldPath::new(names.iter().map(|name| Segment::Field(Cow::Owned((*name).to_owned()))).collect())
}

fn wrong(found: &mut Violations, at: &[&str], note: Note) {
    found.add_at((Severity::Error, Code::Hardware), || path(at), || note);
}

/// Where the parts of the need stand: below `spec` in an object, at the top of a plain file.
fn one(root: Node<'_>, tables: &Tables, found: &mut Violations) -> Option<Request> {
    let spec = root.pair("spec").map(|(_, spec)| spec);
    let (holder, above): (Node<'_>, &[&str]) = spec.map_or((root, &[]), |spec| (spec, &["spec"]));
    let nested = holder.pair("hardwareRequirements").map(|(_, node)| node);
    let is_object = spec.is_some() || nested.is_some() || root.pair("kind").is_some();
    let mut at: Vec<&str> = above.to_vec();
    if is_object {
        known_object(root, holder, above, found);
        at.push("hardwareRequirements");
    }
    let fields = if is_object { nested } else { Some(root) };
    let input = fields.map_or_else(|| Some(HardwareInput::default()), |fields| input(fields, &at, found))?;
    let resolved = match input.requirements(tables).and_then(|needs| resolve(&needs, tables)) {
        Ok(resolved) => resolved,
        Err(error) => {
            refuse(&error, &at, found);
            return None;
        }
    };
    let value = if is_object { holder.to_value() } else { Value::Null };
    Some(Request { input, resolved, pod: pod(&value) })
}

/// An object that is no Performer has no need, and a field that Performers do not have would ask for nothing in silence.
fn known_object(root: Node<'_>, spec: Node<'_>, above: &[&str], found: &mut Violations) {
    if let Some(kind) = root.pair("kind").and_then(|(_, kind)| kind.text()).filter(|kind| *kind != KIND) {
        let note = Note::new(format!("a {kind} has no hardware requirements"), Some(HELP.to_owned()));
        wrong(found, &["kind"], note);
        return;
    }
    // Without `spec`, its fields stand at the top.
    let own: &[&str] = if above.is_empty() { &PerformerSpec::FIELDS } else { &[] };
    unknown(root, &[], &[&OBJECT, own].concat(), found);
    if !above.is_empty() {
        unknown(spec, above, &PerformerSpec::FIELDS, found);
    }
}

/// Tells of fields that are not among the known ones.
fn unknown(node: Node<'_>, above: &[&str], known: &[&str], found: &mut Violations) {
    let fields = node.to_value();
    let names = fields.as_object().into_iter().flat_map(Map::keys);
    for name in names.filter(|name| !known.contains(&name.as_str())) {
        let message = format!("unknown field `{name}`, expected one of `{}`", known.join("`, `"));
        wrong(found, &[above, &[name]].concat(), Note::new(message, None).on_key());
    }
}

/// The fields one by one, so that each finding has a line.
fn input(fields: Node<'_>, at: &[&str], found: &mut Violations) -> Option<HardwareInput> {
    let value = fields.to_value();
    let Some(members) = value.as_object() else {
        wrong(found, at, Note::new("must be a map of fields such as gpuType and gpuCount", None));
        return None;
    };
    for (name, value) in members {
        let alone = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
        if let Err(error) = serde_json::from_value::<HardwareInput>(alone) {
            let message = error.to_string();
            let mut at = at.to_vec();
            at.push(name);
            let note = Note::new(message.clone(), None);
            wrong(found, &at, if message.starts_with("unknown field") { note.on_key() } else { note });
        }
    }
    serde_json::from_value(value).ok()
}

fn refuse(error: &HardwareError, at: &[&str], found: &mut Violations) {
    let mut at = at.to_vec();
    at.extend(error.field());
    wrong(found, &at, Note::new(error.to_string(), Some(error.help().to_owned())));
}

/// What the user asks for besides, as a pod specification.
fn pod(spec: &Value) -> Value {
    let scheduling = |name: &str| spec.pointer(&format!("/scheduling/{name}")).cloned();
    let mut pod = Map::new();
    for (name, value) in [
        ("nodeSelector", scheduling("nodeSelector")),
        ("tolerations", scheduling("tolerations")),
        ("affinity", scheduling("affinity")),
        ("runtimeClassName", scheduling("runtimeClass")),
    ] {
        pod.extend(value.map(|value| (name.to_owned(), value)));
    }
    if let Some(affinity) = scheduling("nodeAffinity") {
        let all = pod.entry("affinity").or_insert_with(|| json!({}));
        if let Some(all) = all.as_object_mut() {
            all.insert("nodeAffinity".to_owned(), affinity);
        }
    }
    let mut container = json!({"name": CONTAINER});
    if let Some(resources) = spec.get("resources") {
        container["resources"] = resources.clone();
    }
    pod.insert("containers".to_owned(), json!([container]));
    Value::Object(pod)
}
