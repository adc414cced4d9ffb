//! A step's own cells (name, type, message, metadata, dependencies, timeout, fan-out, `finally`) and the rules on names
//! across steps (unique names, none like that of an instance).

use std::collections::BTreeMap;

use orlop_core::id::{dns1123_subdomain, label_key, label_value};
use orlop_core::name::{Parts, bounded, instance, short63};
use orlop_core::spec::step::Step;

use super::context::{At, Context};
use super::policy::at_least;
use crate::code::Code;
use crate::manifest::path::Path;
use crate::manifest::violation::{Note, Violations, shown};

/// Characters of a message.
const MESSAGE_MAX: usize = 1024;
/// Longest timeout, in seconds: 30 days.
const TIMEOUT_MAX: i64 = 2_592_000;
/// Prefix of keys that only the controller writes.
pub(super) const OWN_PREFIX: &str = "workflow.kube-zen.io/";
/// Longest label value and Job name.
const LABEL_MAX: usize = 63;
/// Instances of fan-out steps whose names are compared.
const INSTANCES_MAX: usize = 100_000;
/// Ends of Job names of attempts 1, 2–9, 10–99 and 100–999, shortest first; only their lengths matter.
const SUFFIXES: [&str; 4] = ["-00000000", "-00000000-2", "-00000000-10", "-00000000-100"];

pub(super) fn check(context: &Context<'_>, at: At<'_>, found: &mut Violations) {
    name(at, found);
    kind(context, at, found);
    metadata(at, found);
    dependencies(context, at, found);
    fan_out(context, at, found);
    if let Some(message) = &at.step.message {
        let length = message.chars().count();
        if length > MESSAGE_MAX {
            found.error(Code::Value, &at.path.field("message"), || {
                (format!("the message has {length} characters"), format!("use at most {MESSAGE_MAX}"))
            });
        }
    }
    let (timeout, pending) = (at.step.timeout_seconds, at.step.pending_timeout_seconds);
    for (field, given) in [("timeoutSeconds", timeout), ("pendingTimeoutSeconds", pending)] {
        if let Some(seconds) = given.filter(|seconds| !(1..=TIMEOUT_MAX).contains(seconds)) {
            found.error(Code::Value, &at.path.field(field), || {
                (
                    format!("a timeout of {seconds} seconds"),
                    format!("use 1 to {TIMEOUT_MAX} (30 days), or leave it out for none"),
                )
            });
        }
    }
    if pending.is_some() && at.step.is_manual() {
        found.error(Code::Value, &at.path.field("pendingTimeoutSeconds"), || {
            ("a Manual step has no pod to wait for".to_owned(), "use `timeoutSeconds` to limit the approval".to_owned())
        });
    }
}

fn name(at: At<'_>, found: &mut Violations) {
    let name = at.step.name.as_str();
    let path = at.path.field("name");
    if name.trim() != name && !name.trim().is_empty() {
        found.error(Code::Value, &path, || {
            (format!("the step name {} has blanks around it", shown(name)), format!("write {}", shown(name.trim())))
        });
    } else if let Err(error) = dns1123_subdomain(name) {
        found.error(Code::Value, &path, || Note::of(&error.about("step name")));
    }
}

fn kind(context: &Context<'_>, at: At<'_>, found: &mut Violations) {
    let Step { kind, template, .. } = at.step;
    let path = at.path.field("template");
    match (at.step.is_manual(), template) {
        (true, Some(_)) => found.warning(Code::Value, &path, || {
            ("a Manual step runs nothing: its template is ignored", "remove the template, or `type: Manual`")
        }),
        (false, None) if !context.limits.template_optional => found.error(Code::Value, &path, || {
            let help = if kind.is_none() {
                "add a template; a step that waits for a person needs `type: Manual`"
            } else {
                "add a template"
            };
            ("the step has no template, so there is nothing to run", help)
        }),
        _ => {}
    }
    if at.finally && at.step.is_manual() {
        found.error(Code::Value, &at.path.field("type"), || {
            ("a Manual step is not allowed in `finally`", "move it to `steps`: cleaning up does not wait for people")
        });
    }
}

fn metadata(at: At<'_>, found: &mut Violations) {
    let Some(metadata) = &at.step.metadata else { return };
    let path = at.path.field("metadata");
    let (labels, annotations) = (path.field("labels"), path.field("annotations"));
    for (key, value) in &metadata.labels {
        if let Err(error) = label_key(key).and_then(|()| label_value(value)) {
            found.error(Code::Value, &labels.field(key), || Note::of(&error));
        }
    }
    for key in metadata.annotations.keys() {
        if let Err(error) = label_key(key) {
            found.error(Code::Value, &annotations.field(key), || Note::of(&error.about("annotation key")));
        }
    }
    own_keys(Code::Value, metadata.labels.keys(), &labels, found);
    own_keys(Code::Value, metadata.annotations.keys(), &annotations, found);
}

/// Refuses keys that only the controller writes.
pub(super) fn own_keys<'k>(
    code: Code,
    keys: impl Iterator<Item = &'k String>,
    path: &Path<'_>,
    found: &mut Violations,
) {
    for key in keys.filter(|key| key.starts_with(OWN_PREFIX)) {
        found.error(code, &path.field(key), || {
            (
                format!("the key {} is written by the controller", shown(key)),
                format!("use a key without the prefix {OWN_PREFIX}"),
            )
        });
    }
}

fn dependencies(context: &Context<'_>, at: At<'_>, found: &mut Violations) {
    let list = at.path.field("dependencies");
    if at.step.depends.is_some() && !at.step.dependencies.is_empty() {
        found.error(Code::Value, &at.path.field("depends"), || {
            ("the step has `dependencies` and `depends`", "keep one: `dependencies: [a, b]` is `depends: a && b`")
        });
    }
    for (index, name) in at.step.dependencies.iter().enumerate() {
        if name.is_empty() {
            found.error(Code::Dependency, &list.index(index), || {
                ("the dependency has no name", "name a step, or remove it")
            });
        } else {
            dependency(context, at, name, &list.index(index), found);
        }
    }
}

/// A step another one waits for must exist, in the same list.
pub(super) fn dependency(context: &Context<'_>, at: At<'_>, name: &str, path: &Path<'_>, found: &mut Violations) {
    match context.step(name) {
        None => found.error(Code::Dependency, path, || context.no_step(name)),
        Some((_, finally)) if finally == at.finally => {}
        Some((_, true)) => found.error(Code::Dependency, path, || {
            let message = format!("the step {} is in `finally`, which runs after all others", shown(name));
            (message, "depend on a step of `steps`, or move this step to `finally`")
        }),
        Some((_, false)) => found.error(Code::Dependency, path, || {
            let message = format!("the step {} is not in `finally`", shown(name));
            (message, "remove it: `finally` runs after all other steps anyway; its `when` may read them")
        }),
    }
}

fn fan_out(context: &Context<'_>, at: At<'_>, found: &mut Violations) {
    let step = at.step;
    if step.with_items.is_some() && step.with_param.is_some() {
        found.error(Code::Value, &at.path.field("withParam"), || {
            ("the step has `withItems` and `withParam`", "keep one: items known now, or a list an earlier step gives")
        });
    }
    let field = if step.with_items.is_some() { "withItems" } else { "withParam" };
    if step.is_fan_out() && step.is_manual() {
        found.error(Code::Value, &at.path.field(field), || {
            ("a Manual step does not fan out", format!("remove {field}"))
        });
    }
    if let Some(items) = step.with_items.as_ref().filter(|items| items.len() > context.limits.items) {
        let limit = context.limits.items;
        found.error(Code::Value, &at.path.field("withItems"), || {
            (format!("{} items; at most {limit} are allowed here", items.len()), "split them over several steps")
        });
    }
    if step.parallelism.is_some() && !step.is_fan_out() {
        found.error(Code::Value, &at.path.field("parallelism"), || {
            let help = "remove it; the Job's own parallelism belongs in template.spec, the flow's in executionPolicy";
            ("`parallelism` of a step limits fan-out instances, and this step does not fan out", help)
        });
    }
    at_least(found, &at.path.field("parallelism"), step.parallelism, 1);
}

/// Names across steps: unique, and distinct also as labels, approval keys and object names.
pub(super) fn check_names(context: &Context<'_>, spec: &Path<'_>, found: &mut Violations) {
    let mut short = ShortForms::new(context);
    for (finally, field) in [(false, "steps"), (true, "finally")] {
        let list = spec.field(field);
        for (index, step) in context.list(finally).iter().enumerate() {
            let (name, item) = (step.name.as_str(), list.index(index));
            let path = item.field("name");
            if let Some((other, first)) = context.position(name).filter(|place| *place != (finally, index)) {
                found.error(Code::Value, &path, || {
                    let other = if other { "finally" } else { "steps" };
                    (format!("the name {} is that of spec.{other}[{first}] already", shown(name)), "rename one of them")
                });
                continue;
            }
            instance_name(context, name, &path, found);
            if let Some(other) = short.add(step) {
                found.error(Code::Name, &path, || {
                    let message = format!(
                        "the names {} and {} become the same when they are shortened",
                        shown(name),
                        shown(other)
                    );
                    (message, "rename one of them, best below 45 characters")
                });
            }
        }
    }
}

/// `<s>-i<digits>` is the name of an instance of the fan-out step `<s>`.
fn instance_name(context: &Context<'_>, name: &str, path: &Path<'_>, found: &mut Violations) {
    let Some((base, digits)) = name.rsplit_once("-i") else { return };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return;
    }
    if context.step(base).is_some_and(|(step, _)| step.is_fan_out()) {
        found.error(Code::Name, path, || {
            (
                format!("{} is the name of an instance of the fan-out step {}", shown(name), shown(base)),
                "rename this step",
            )
        });
    }
}

/// Forms of step names that must be their own because one of two equal ones is shortened: the label value and approval
/// key, and the Job names of attempts and instances.
struct ShortForms<'c> {
    flow: &'c str,
    taken: BTreeMap<String, &'c str>,
    /// Ends of Job names that are compared.
    suffixes: &'static [&'static str],
    /// Instances that are still compared.
    instances: usize,
}

impl<'c> ShortForms<'c> {
    fn new(context: &Context<'c>) -> Self {
        // Two shortened names that are equal with some end are equal with every longer one, which leave less of them. Only
        // a name that is not shortened can equal a short form with one end and not with another.
        let literal = context.steps().any(|step| ends_in_hash(&step.name));
        let suffixes = if literal { SUFFIXES.as_slice() } else { SUFFIXES.get(3..).unwrap_or_default() };
        Self { flow: &context.flow.metadata.name, taken: BTreeMap::new(), suffixes, instances: INSTANCES_MAX }
    }

    /// Adds the forms of a step; the name of another step that has one of them.
    fn add(&mut self, step: &'c Step) -> Option<&'c str> {
        let name = step.name.as_str();
        let hashed = ends_in_hash(name);
        let mut other = None;
        if hashed || name.len() > LABEL_MAX {
            other = self.take(format!("label {}", short63(name)), name);
        }
        other = self.job(name, hashed, name).or(other);
        let items = step.with_items.as_ref().map_or(0, Vec::len).min(self.instances);
        self.instances -= items;
        if self.flow.len() + name.len() + 24 > LABEL_MAX {
            for index in (0..items).filter_map(|index| u32::try_from(index).ok()) {
                other = self.job(&instance(name, index), false, name).or(other);
            }
        }
        other
    }

    fn job(&mut self, part: &str, hashed: bool, owner: &'c str) -> Option<&'c str> {
        let mut other = None;
        for suffix in self.suffixes {
            if hashed || self.flow.len() + 1 + part.len() + suffix.len() > LABEL_MAX {
                let form = bounded(Parts { flow: self.flow, part, suffix }, LABEL_MAX);
                other = self.take(form, owner).or(other);
            }
        }
        other
    }

    fn take(&mut self, form: String, owner: &'c str) -> Option<&'c str> {
        self.taken.insert(form, owner).filter(|other| *other != owner)
    }
}

/// Whether a name looks as if it were shortened: only such a name can equal the short form of another.
fn ends_in_hash(name: &str) -> bool {
    let hex = |tail: &str| tail.len() == 8 && tail.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.rsplit_once('-').is_some_and(|(_, tail)| hex(tail))
}
