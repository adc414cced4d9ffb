//! Checking values against a structure: types, bounds, lists, then rules. Messages are those of API servers. Depth is
//! bounded by that of the parser which read the object.

use serde_json::Value;

use super::super::object::Object;
use super::super::refusal::Cause;
use super::{ListType, Structure, Type, format};

/// What is wrong with an object; rules are asked only of objects that are right otherwise.
pub(crate) fn check(
    structure: &Structure,
    object: &Object,
    old: Option<&Object>,
    known: Vec<Cause>,
    more: Vec<Cause>,
) -> Vec<Cause> {
    let mut causes = known;
    members(structure, object, "", &mut causes);
    causes.extend(more);
    if !super::rule::has_rules(structure) {
        return causes;
    }
    if causes.iter().any(Cause::blocks_rules) {
        let why = "some validation rules were not checked because the object was invalid; correct the existing errors to \
                   complete validation";
        causes.push(Cause::invalid("<nil>", &Value::Null, why));
    } else {
        super::rule::check(structure, object, old, &mut causes);
    }
    causes
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn members(structure: &Structure, object: &Object, path: &str, causes: &mut Vec<Cause>) {
    for name in &structure.required {
        if !object.contains_key(name) {
            causes.push(Cause::required(join(path, name), ""));
        }
    }
    let count = u64::try_from(object.len()).unwrap_or(u64::MAX);
    let body = |path: &str| if path.is_empty() { "object".to_owned() } else { path.to_owned() };
    if let Some(limit) = structure.limits.min_properties.filter(|limit| count < *limit) {
        let why = format!("{} in body should have at least {limit} properties", body(path));
        causes.push(Cause::invalid(path, &Value::from(count), why));
    }
    if let Some(limit) = structure.limits.max_properties.filter(|limit| count > *limit) {
        causes.push(Cause::too_many(path, object.len(), limit));
    }
    for (name, value) in object {
        if path.is_empty() && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        if let Some(member) = structure.member(name) {
            descend(member, value, &join(path, name), causes);
        }
    }
}

fn descend(structure: &Structure, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.is_null() && structure.nullable {
        return;
    }
    let format = structure.limits.format.as_str();
    if structure.kind == Some(Type::Integer)
        && matches!(format, "int32" | "int64")
        && value.as_f64().is_some_and(|number| number.fract() != 0.0)
    {
        causes.push(Cause::wrong_type(
            path,
            "float64",
            &format!("{path} in body must be of type {format}: \"float64\""),
        ));
        causes.push(unfit(format, path));
        return;
    }
    if structure.int_or_string {
        if !value.is_string() && !Type::Integer.fits(value) {
            causes.push(type_cause(path, "integer,string", value));
        }
    } else if let Some(kind) = structure.kind.filter(|kind| !kind.fits(value)) {
        causes.push(type_cause(path, kind.as_str(), value));
        return;
    }
    options(structure, value, path, causes);
    match value {
        Value::Object(object) => members(structure, object, path, causes),
        Value::Array(items) => list(structure, items, path, causes),
        Value::String(text) => string(structure, text, path, causes),
        Value::Number(_) => number(structure, value, path, causes),
        _ => {}
    }
    junctors(structure, value, path, causes);
}

fn type_cause(path: &str, wanted: &str, value: &Value) -> Cause {
    let given = Type::name_of(value);
    Cause::wrong_type(path, given, &format!("{path} in body must be of type {wanted}: \"{given}\""))
}

fn options(structure: &Structure, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let options = &structure.limits.options;
    if !options.is_empty() && !options.contains(value) {
        let shown: Vec<String> = options
            .iter()
            .map(|option| match option {
                Value::String(text) => format!("\"{text}\""),
                other => format!("\"{other}\""),
            })
            .collect();
        causes.push(Cause::unsupported(path, value, &shown));
    }
}

fn string(structure: &Structure, text: &str, path: &str, causes: &mut Vec<Cause>) {
    let limits = &structure.limits;
    let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    let value = Value::from(text);
    // The first fault hides the others.
    if let Some(limit) = limits.max_length.filter(|limit| length > *limit) {
        causes.push(Cause::too_long(path, limit));
    } else if let Some(limit) = limits.min_length.filter(|limit| length < *limit) {
        causes.push(Cause::invalid(path, &value, format!("{path} in body should be at least {limit} chars long")));
    } else if let Some(pattern) = limits.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        causes.push(Cause::invalid(path, &value, format!("{path} in body should match '{}'", pattern.as_str())));
    }
    if !format::fits(&limits.format, text) {
        let why = format!("{path} in body must be of type {}: {value}", limits.format);
        causes.push(Cause::invalid(path, &value, why));
    }
}

fn number(structure: &Structure, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let limits = &structure.limits;
    let Some(number) = value.as_f64() else { return };
    if let Some(limit) = limits.minimum.filter(|limit| number < *limit || limits.exclusive_minimum && number <= *limit)
    {
        let words = if limits.exclusive_minimum { "greater than" } else { "greater than or equal to" };
        causes.push(Cause::invalid(path, value, format!("{path} in body should be {words} {limit}")));
    }
    if let Some(limit) = limits.maximum.filter(|limit| number > *limit || limits.exclusive_maximum && number >= *limit)
    {
        let words = if limits.exclusive_maximum { "less than" } else { "less than or equal to" };
        causes.push(Cause::invalid(path, value, format!("{path} in body should be {words} {limit}")));
    }
    if let Some(factor) = limits.multiple_of.filter(|factor| (number / factor).fract() != 0.0) {
        causes.push(Cause::invalid(path, value, format!("{path} in body should be a multiple of {factor}")));
    }
    let (low, high) = match limits.format.as_str() {
        "int32" => (f64::from(i32::MIN), f64::from(i32::MAX)),
        _ => return,
    };
    if number < low || number > high {
        causes.push(unfit("int32", path));
    }
}

/// An integer beyond its format.
fn unfit(format: &str, path: &str) -> Cause {
    let why = format!("Checked value must be of type integer with format {format} in {path}");
    Cause::invalid("<nil>", &Value::from(""), why)
}

fn list(structure: &Structure, items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    let limits = &structure.limits;
    let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
    if let Some(limit) = limits.min_items.filter(|limit| count < *limit) {
        causes.push(Cause::invalid(
            path,
            &Value::from(count),
            format!("{path} in body should have at least {limit} items"),
        ));
    }
    if let Some(limit) = limits.max_items.filter(|limit| count > *limit) {
        causes.push(Cause::too_many(path, items.len(), limit));
    }
    for (index, item) in items.iter().enumerate() {
        let place = format!("{path}[{index}]");
        if let Some(schema) = &structure.items {
            descend(schema, item, &place, causes);
        }
        if matches!(structure.list, ListType::Map(_)) && !item.is_object() {
            causes.push(Cause::invalid(place, item, "must be an object for an array of list-type map"));
        }
    }
    let keys: Vec<String> = match &structure.list {
        ListType::Atomic if !limits.unique_items => return,
        ListType::Atomic | ListType::Set => items.iter().map(Value::to_string).collect(),
        ListType::Map(names) => items.iter().map(|item| key(structure, names, item)).collect(),
    };
    let mut seen = std::collections::BTreeSet::new();
    for (index, key) in keys.iter().enumerate() {
        if !seen.insert(key) {
            let value = serde_json::from_str(key).unwrap_or(Value::Null);
            causes.push(Cause::duplicate(format!("{path}[{index}]"), &value));
        }
    }
}

/// The key of an item of a list-map, as JSON.
fn key(structure: &Structure, names: &[String], item: &Value) -> String {
    let members = names.iter().filter_map(|name| {
        let default =
            || structure.items.as_ref().and_then(|items| items.member(name)).and_then(|member| member.default.clone());
        let value = item.get(name).cloned().or_else(default)?;
        Some((name.clone(), value))
    });
    Value::Object(members.collect()).to_string()
}

fn junctors(structure: &Structure, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let holds = |part: &Structure| {
        let mut inner = Vec::new();
        descend(part, value, path, &mut inner);
        inner
    };
    for part in &structure.all_of {
        causes.extend(holds(part));
    }
    let whole = |words: &str| Cause::invalid("<nil>", &Value::from(""), format!("\"{path}\" {words}"));
    if !structure.any_of.is_empty() {
        let tried: Vec<Vec<Cause>> = structure.any_of.iter().map(holds).collect();
        if tried.iter().all(|inner| !inner.is_empty()) {
            causes.push(whole("must validate at least one schema (anyOf)"));
            causes.extend(tried.into_iter().min_by_key(Vec::len).unwrap_or_default());
        }
    }
    if !structure.one_of.is_empty() {
        let right = structure.one_of.iter().filter(|part| holds(part).is_empty()).count();
        if right != 1 {
            causes.push(whole("must validate one and only one schema (oneOf). Found none valid"));
        }
    }
    if structure.not.as_ref().is_some_and(|not| holds(not).is_empty()) {
        causes.push(whole("must not validate the schema (not)"));
    }
}
