//! Rules in CEL (`x-kubernetes-validations`): parsed once, asked of each value with what it was before.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::super::object::Object;
use super::super::refusal::Cause;
use super::{ListType, Structure, Type};

/// One rule of a schema.
#[derive(Clone)]
pub(crate) struct Rule {
    text: String,
    program: Arc<cel::Program>,
    message: String,
    message_program: Option<Arc<cel::Program>>,
    reason: String,
    field: String,
    /// It compares with what was before, and is not asked of what is new.
    transition: bool,
    optional_old: bool,
}

impl fmt::Debug for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Rule").field("rule", &self.text).finish_non_exhaustive()
    }
}

/// The functions a server has besides those of the language, as far as they are offered here: those of texts.
fn environment() -> Arc<cel::Env> {
    static ENVIRONMENT: LazyLock<Arc<cel::Env>> = LazyLock::new(|| {
        let mut environment = cel::Env::stdlib();
        // Nothing else declares functions of these names.
        drop(environment.add_extension(cel::extensions::strings));
        Arc::new(environment)
    });
    Arc::clone(&ENVIRONMENT)
}

impl Rule {
    /// Parses one entry.
    pub(crate) fn parse(entry: &Value) -> Result<Self, String> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let rule = text("rule");
        let compile = |source: &str, what: &str| {
            environment().compile(source).map(Arc::new).map_err(|error| format!("{what}: compilation failed: {error}"))
        };
        let program = compile(&rule, "rule")?;
        let expression = text("messageExpression");
        let message_program =
            if expression.is_empty() { None } else { Some(compile(&expression, "messageExpression")?) };
        Ok(Self {
            transition: program.references().has_variable("oldSelf"),
            text: rule,
            program,
            message: text("message"),
            message_program,
            reason: text("reason"),
            field: text("fieldPath"),
            optional_old: entry.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or_default(),
        })
    }

    /// Asks the rule; `None` where it holds.
    fn ask(&self, structure: &Structure, value: &Value, old: Option<&Value>, path: &str) -> Option<Cause> {
        if self.transition && old.is_none() && !self.optional_old {
            return None;
        }
        let mut context = cel::Context::with_env(environment());
        context.add_variable_from_value("self", translate(structure, value));
        if let Some(old) = old {
            context.add_variable_from_value("oldSelf", translate(structure, old));
        }
        let place = if self.field.is_empty() { path.to_owned() } else { format!("{path}{}", self.field) };
        match self.program.execute(&context) {
            Ok(cel::Value::Bool(true)) => None,
            Ok(_) => Some(self.cause(place, value, self.words(&context))),
            Err(error) => Some(self.cause(place, value, format!("rule: {}: {error}", self.text))),
        }
    }

    fn words(&self, context: &cel::Context<'_, '_>) -> String {
        if let Some(Ok(cel::Value::String(text))) =
            self.message_program.as_ref().map(|program| program.execute(context))
        {
            return text.trim().to_owned();
        }
        if self.message.is_empty() { format!("failed rule: {}", self.text) } else { self.message.trim().to_owned() }
    }

    fn cause(&self, place: String, value: &Value, words: String) -> Cause {
        match self.reason.as_str() {
            "FieldValueForbidden" => Cause::forbidden(place, &words),
            "FieldValueRequired" => Cause::required(place, &words),
            "FieldValueDuplicate" => Cause::duplicate(place, value),
            // Lists and objects are not shown, however short.
            _ if matches!(value, Value::Array(_) | Value::Object(_)) => Cause::invalid_unshown(place, &words),
            _ => Cause::invalid(place, value, words),
        }
    }
}

/// Asks all rules of an object.
pub(crate) fn check(structure: &Structure, object: &Object, old: Option<&Object>, causes: &mut Vec<Cause>) {
    let value = Value::Object(object.clone());
    let old = old.map(|old| Value::Object(old.clone()));
    descend(structure, &value, old.as_ref(), "", causes);
}

/// Whether there is any rule at all below; most schemas have few.
pub(crate) fn has_rules(structure: &Structure) -> bool {
    !structure.rules.is_empty()
        || structure.properties.values().any(has_rules)
        || structure.additional.as_deref().is_some_and(has_rules)
        || structure.items.as_deref().is_some_and(has_rules)
}

fn descend(structure: &Structure, value: &Value, old: Option<&Value>, path: &str, causes: &mut Vec<Cause>) {
    for rule in &structure.rules {
        causes.extend(rule.ask(structure, value, old, path));
    }
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let Some(member) = structure.member(name).filter(|member| has_rules(member)) else { continue };
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let old = old.and_then(|old| old.get(name)).filter(|_| !structure.atomic_map);
                descend(member, value, old, &path, causes);
            }
        }
        Value::Array(items) => {
            let Some(schema) = structure.items.as_ref().filter(|items| has_rules(items)) else { return };
            let old = old.and_then(Value::as_array);
            for (index, item) in items.iter().enumerate() {
                descend(schema, item, counterpart(structure, item, old), &format!("{path}[{index}]"), causes);
            }
        }
        _ => {}
    }
}

/// What an item of a list was before: only items of list-maps can be found again.
fn counterpart<'a>(structure: &Structure, item: &Value, old: Option<&'a Vec<Value>>) -> Option<&'a Value> {
    let ListType::Map(keys) = &structure.list else { return None };
    old?.iter().find(|other| keys.iter().all(|key| other.get(key) == item.get(key)))
}

/// A JSON value as rules see it: only declared members, under names that are identifiers.
fn translate(structure: &Structure, value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => cel::Value::Bool(*value),
        Value::Number(number) => match (structure.kind, number.as_i64(), number.as_f64()) {
            (Some(Type::Number), _, Some(number)) | (_, None, Some(number)) => cel::Value::Float(number),
            (_, Some(number), _) => cel::Value::Int(number),
            _ => cel::Value::Null,
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(list) => {
            let unknown = Structure::default();
            let items = structure.items.as_deref().unwrap_or(&unknown);
            cel::Value::List(Arc::new(list.iter().map(|item| translate(items, item)).collect()))
        }
        Value::Object(object) => {
            let declared = structure.additional.is_none();
            let members: BTreeMap<String, cel::Value> = object
                .iter()
                .filter_map(|(name, value)| {
                    let known = structure.member(name)?;
                    let name = if declared { escaped(name) } else { name.clone() };
                    Some((name, translate(known, value)))
                })
                .chain(resource_members(structure, object))
                .collect();
            cel::Value::Map(members.into_iter().collect::<std::collections::HashMap<_, _>>().into())
        }
    }
}

/// `apiVersion`, `kind` and the names in the metadata are visible in objects that are resources.
fn resource_members(structure: &Structure, object: &Object) -> Vec<(String, cel::Value)> {
    let mut members = Vec::new();
    if !structure.embedded && !structure.properties.contains_key("metadata") {
        return members;
    }
    for name in ["apiVersion", "kind"] {
        if let Some(text) = object.get(name).and_then(Value::as_str) {
            members.push((name.to_owned(), text.into()));
        }
    }
    if let Some(metadata) = object.get("metadata").and_then(Value::as_object) {
        let names: std::collections::HashMap<String, cel::Value> = ["name", "generateName"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), metadata.get(name)?.as_str()?.into())))
            .collect();
        members.push(("metadata".to_owned(), cel::Value::Map(names.into())));
    }
    members
}

/// Words that cannot be names of members in CEL.
const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
];

/// A member's name as an identifier.
fn escaped(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return name.to_owned();
    }
    name.replace("__", "__underscores__").replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")
}
