//! What a parameter name stands for where an attempt is made: declared parameters, and item and index of a fan-out
//! instance. Owns the lookup; never reads a ConfigMap, Secret or document itself.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use orlop_core::attempt::FunctionInput;
use orlop_core::exact;
use orlop_core::spec::meta::KeyRef;
use serde_json::Value;

use super::name::{INDEX, ITEM, item_field};
use super::text::text_of;

/// What a name stands for.
#[derive(Clone, PartialEq, Eq)]
pub enum Lookup<'s> {
    /// A text.
    Plain(Cow<'s, str>),
    /// A key of a Secret, whose content is not known here.
    Secret(&'s KeyRef),
    /// Nothing: undeclared, a field the item does not have, or a field too large to be a text.
    Unresolved,
}

impl fmt::Debug for Lookup<'_> {
    /// Shows kinds only: under `--secret-mode=read` a text may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(_) => f.write_str("Plain(…)"),
            Self::Secret(key_ref) => f.debug_tuple("Secret").field(key_ref).finish(),
            Self::Unresolved => f.write_str("Unresolved"),
        }
    }
}

#[derive(Clone)]
enum Binding {
    Plain(String),
    Secret(KeyRef),
}

/// The parameters an attempt sees.
///
/// Bind the flow's parameters first, then the step's inputs: a later binding of a name wins.
///
/// ```
/// use orlop_dag::params::Scope;
/// use serde_json::json;
/// let mut scope = Scope::new();
/// scope.bind("tag", "v1");
/// scope.set_instance(json!({"lr": 0.7}), 3);
/// let text = scope.fill("${parameters.tag}-${parameters.item.lr}-${parameters.index}").unwrap();
/// assert_eq!(text, "v1-0.7-3");
/// ```
#[derive(Clone, Default)]
pub struct Scope {
    bindings: BTreeMap<String, Binding>,
    instance: Option<(Value, usize)>,
}

impl Scope {
    /// A scope without parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds a name to a text.
    pub fn bind(&mut self, name: impl Into<String>, text: impl Into<String>) {
        self.bindings.insert(name.into(), Binding::Plain(text.into()));
    }

    /// Binds a name to a key of a Secret.
    pub fn bind_secret(&mut self, name: impl Into<String>, secret: KeyRef) {
        self.bindings.insert(name.into(), Binding::Secret(secret));
    }

    /// Makes this the scope of a fan-out instance: `item`, `item.<field>` and `index` (from 0) are known.
    pub fn set_instance(&mut self, item: Value, index: usize) {
        self.instance = Some((item, index));
    }

    /// Whether no parameter at all is in scope, so that placeholders stay text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty() && self.instance.is_none()
    }

    /// The arguments of a step without a template: all parameters but secrets.
    #[must_use]
    pub fn plain(&self) -> FunctionInput {
        let plain = |(name, binding): (&String, &Binding)| match binding {
            Binding::Plain(text) => Some((name.clone(), text.clone())),
            Binding::Secret(_) => None,
        };
        let item = self.instance.as_ref().map(|(item, _)| item.clone());
        FunctionInput { parameters: self.bindings.iter().filter_map(plain).collect(), item }
    }

    /// What a name stands for.
    #[must_use]
    pub fn lookup(&self, name: &str) -> Lookup<'_> {
        if let Some((item, index)) = &self.instance {
            if name == INDEX {
                return Lookup::Plain(Cow::Owned(index.to_string()));
            }
            if name == ITEM {
                return plain(Some(item));
            }
            if let Some(field) = item_field(name) {
                return match member_of(item, field) {
                    Some(Cow::Borrowed(value)) => plain(Some(value)),
                    Some(Cow::Owned(value)) => match plain(Some(&value)) {
                        Lookup::Plain(text) => Lookup::Plain(Cow::Owned(text.into_owned())),
                        _ => Lookup::Unresolved,
                    },
                    None => Lookup::Unresolved,
                };
            }
        }
        match self.bindings.get(name) {
            Some(Binding::Plain(text)) => Lookup::Plain(Cow::Borrowed(text)),
            Some(Binding::Secret(secret)) => Lookup::Secret(secret),
            None => Lookup::Unresolved,
        }
    }
}

/// A field of an item: of an object, or of a text that holds one, as outputs of a step do.
pub(crate) fn member_of<'v>(item: &'v Value, field: &str) -> Option<Cow<'v, Value>> {
    match item {
        Value::String(text) if text.trim_start().starts_with('{') => {
            let mut members: serde_json::Map<String, Value> = exact::from_str(text).ok()?;
            members.remove(field).map(Cow::Owned)
        }
        item => item.get(field).map(Cow::Borrowed),
    }
}

fn plain(value: Option<&Value>) -> Lookup<'_> {
    value.and_then(|value| text_of(value).ok()).map_or(Lookup::Unresolved, Lookup::Plain)
}

impl fmt::Debug for Scope {
    /// Shows names only: a bound text may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("names", &self.bindings.keys())
            .field("index", &self.instance.as_ref().map(|(_, index)| index))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(scope: &Scope, name: &str) -> Option<String> {
        match scope.lookup(name) {
            Lookup::Plain(text) => Some(text.into_owned()),
            _ => None,
        }
    }

    fn instance(item: Value, index: usize) -> Scope {
        let mut scope = Scope::new();
        scope.set_instance(item, index);
        scope
    }

    #[test]
    fn item_fields_and_index_are_in_scope() {
        let scope = instance(
            json!({"lr": 0.7, "name": "a b", "on": true, "none": null, "list": [1, "x"], "a.b": 1, "": 2}),
            12,
        );
        assert_eq!(text(&scope, "index").as_deref(), Some("12"));
        assert_eq!(text(&scope, "item.lr").as_deref(), Some("0.7"));
        assert_eq!(text(&scope, "item.name").as_deref(), Some("a b"));
        assert_eq!(text(&scope, "item.on").as_deref(), Some("true"));
        assert_eq!(text(&scope, "item.none").as_deref(), Some(""));
        assert_eq!(text(&scope, "item.list").as_deref(), Some(r#"[1,"x"]"#));
        assert_eq!(text(&scope, "item.a.b").as_deref(), Some("1"));
        assert_eq!(text(&scope, "item.").as_deref(), Some("2"));
        assert_eq!(text(&scope, "item.absent"), None);
        assert!(text(&scope, "item").unwrap().starts_with(r#"{"":2,"a.b":1,"list":[1,"x"],"lr":0.7,"name":"a b""#));
    }

    #[test]
    fn scalar_items_have_no_fields_and_other_steps_have_no_item() {
        assert_eq!(text(&instance(json!("x"), 0), "item").as_deref(), Some("x"));
        assert_eq!(text(&instance(json!("x"), 0), "item.a"), None);
        assert_eq!(text(&instance(json!([1]), 0), "item.0"), None);
        for name in ["item", "item.a", "index"] {
            assert_eq!(Scope::new().lookup(name), Lookup::Unresolved);
        }
    }

    #[test]
    fn a_later_binding_wins() {
        let mut scope = Scope::new();
        assert!(scope.is_empty());
        scope.bind("a", "flow");
        scope.bind("a", "step");
        assert_eq!(text(&scope, "a").as_deref(), Some("step"));
        assert!(!scope.is_empty());
        assert!(!instance(json!(1), 0).is_empty());
    }

    #[test]
    fn debug_forms_hold_no_values() {
        let mut scope = Scope::new();
        scope.bind("token", "hunter2");
        scope.set_instance(json!("hunter3"), 1);
        let shown = format!("{scope:?} {:?} {:?}", scope.lookup("token"), scope.lookup("item"));
        assert!(!shown.contains("hunter"), "{shown}");
        assert!(shown.contains("token"), "{shown}");
    }
}
