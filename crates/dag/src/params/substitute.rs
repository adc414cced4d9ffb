//! Substitution of placeholders in texts and JSON trees, and which names a tree uses. Owns the single
//! pass without re-scan; never changes keys, shape or a text without placeholders. Secrets are refused here: see
//! `secret` for the one place where they may stand.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use super::placeholder::scan;
use super::scope::{Lookup, Scope};
use super::tree::{DEPTH_MAX, FieldPath, depth_within, for_each_text, rewrite};

/// The most bytes that substitution puts into one text or tree: more than any Job may hold, less than hurts.
pub const INSERTED_MAX: usize = 16 * 1024 * 1024;

/// Why a placeholder cannot be substituted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The name stands for nothing.
    #[error("parameter `{name}` has no value; declare it as a flow parameter or an input of the step")]
    Unresolved {
        /// The name.
        name: String,
    },
    /// The name stands for a secret, where a secret may not stand.
    #[error(
        "parameter `{name}` is a secret and is not allowed here; \
         use it in a variable of a container (`env`)"
    )]
    Secret {
        /// The name.
        name: String,
    },
    /// More inserted text than fits.
    #[error(
        "the values of its parameters are longer than {INSERTED_MAX} bytes together; pass files as artifacts instead"
    )]
    TooLarge,
    /// A tree deeper than any Job.
    #[error("it is deeper than {DEPTH_MAX} levels; flatten it")]
    TooDeep,
    /// A member of a container does not have the form that a secret needs there.
    #[error("it must be {wanted}, because the container uses a secret parameter")]
    Malformed {
        /// The form.
        wanted: &'static str,
    },
}

/// Why a tree cannot be substituted, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{fault}", if field.is_empty() { String::new() } else { format!("{field}: ") })]
pub struct SubstituteError {
    /// Field path of the text in the tree; empty for the tree itself.
    pub field: String,
    /// What is wrong there.
    pub fault: Fault,
}

impl SubstituteError {
    pub(super) fn at(place: &[super::tree::Segment<'_>], fault: Fault) -> Self {
        Self { field: FieldPath(place).to_string(), fault }
    }
}

/// A use of a parameter in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use<'t> {
    /// Name of the parameter.
    pub name: &'t str,
    /// Field path of the text in the tree.
    pub field: String,
}

/// Counts what substitution inserts.
pub(super) struct Meter(usize);

impl Meter {
    pub(super) const fn new() -> Self {
        Self(INSERTED_MAX)
    }

    pub(super) fn take(&mut self, text: &str) -> Result<(), Fault> {
        self.0 = self.0.checked_sub(text.len()).ok_or(Fault::TooLarge)?;
        Ok(())
    }
}

impl Scope {
    /// Substitutes the placeholders of one text, left to right, without scanning what was inserted.
    ///
    /// # Errors
    /// When a name stands for nothing or for a secret, or the result is too large.
    pub fn fill<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, Fault> {
        Ok(fill(text, self, &mut Meter::new())?.map_or(Cow::Borrowed(text), Cow::Owned))
    }

    /// A copy of a tree with the placeholders of all its texts (never keys) substituted. The tree as it is where no
    /// parameter is in scope.
    ///
    /// # Errors
    /// The first text that cannot be substituted, with its place.
    pub fn fill_tree(&self, tree: &Value) -> Result<Value, SubstituteError> {
        guard_depth(tree)?;
        let mut meter = Meter::new();
        rewrite(tree, &mut Vec::new(), &mut |place, text| {
            fill(text, self, &mut meter).map_err(|fault| SubstituteError::at(place, fault))
        })
    }
}

/// Refuses trees that cannot be copied safely.
pub(super) fn guard_depth(tree: &Value) -> Result<(), SubstituteError> {
    if depth_within(tree, DEPTH_MAX) { Ok(()) } else { Err(SubstituteError::at(&[], Fault::TooDeep)) }
}

/// The text with its placeholders substituted; none when it has none.
fn fill(text: &str, scope: &Scope, meter: &mut Meter) -> Result<Option<String>, Fault> {
    if scope.is_empty() {
        return Ok(None);
    }
    let placeholders = scan(text);
    if placeholders.is_empty() {
        return Ok(None);
    }
    let mut out = String::new();
    let mut from = 0;
    for placeholder in placeholders {
        out.push_str(text.get(from..placeholder.range.start).unwrap_or_default());
        from = placeholder.range.end;
        match scope.lookup(placeholder.name) {
            Lookup::Plain(value) => {
                meter.take(&value)?;
                out.push_str(&value);
            }
            Lookup::Secret(_) => return Err(Fault::Secret { name: placeholder.name.to_owned() }),
            Lookup::Unresolved => return Err(Fault::Unresolved { name: placeholder.name.to_owned() }),
        }
    }
    out.push_str(text.get(from..).unwrap_or_default());
    Ok(Some(out))
}

/// All uses of parameters in a tree, whatever its depth: items of lists in their order, members by name.
#[must_use]
pub fn uses_in(tree: &Value) -> Vec<Use<'_>> {
    let mut uses = Vec::new();
    for_each_text(tree, |place, text| {
        for placeholder in scan(text) {
            uses.push(Use { name: placeholder.name, field: FieldPath(place).to_string() });
        }
    });
    uses
}

/// The texts of a tree that have a mark, with their fields: items of lists in their order, members by name.
pub(crate) fn texts_with<'t>(tree: &'t Value, marks: &[char]) -> Vec<(String, &'t str)> {
    let mut texts = Vec::new();
    for_each_text(tree, |place, text| {
        if text.contains(marks) {
            texts.push((FieldPath(place).to_string(), text));
        }
    });
    texts
}

/// The names a tree uses.
#[must_use]
pub fn names_in(tree: &Value) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for_each_text(tree, |_, text| names.extend(names_in_text(text)));
    names
}

/// The names a text uses.
#[must_use]
pub fn names_in_text(text: &str) -> BTreeSet<&str> {
    scan(text).into_iter().map(|placeholder| placeholder.name).collect()
}

#[cfg(test)]
mod tests {
    use orlop_core::spec::meta::KeyRef;
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::tree::testing::{nested, trees};
    use super::*;

    fn scope(bindings: &[(&str, &str)]) -> Scope {
        let mut scope = Scope::new();
        for (name, text) in bindings {
            scope.bind(*name, *text);
        }
        scope
    }

    #[test]
    fn all_texts_of_a_tree_are_substituted_keys_are_not() {
        let tree = json!({
            "${parameters.a}": "${parameters.a}",
            "list": ["x{{.parameters.a}}y", {"deep": "{{parameters.a}}"}],
            "number": 1, "null": null, "other": "{{ .parameters.a }}"
        });
        let got = scope(&[("a", "1")]).fill_tree(&tree).unwrap();
        let want = json!({
            "${parameters.a}": "1",
            "list": ["x1y", {"deep": "1"}],
            "number": 1, "null": null, "other": "{{ .parameters.a }}"
        });
        assert_eq!(serde_json::to_string(&got).unwrap(), serde_json::to_string(&want).unwrap());
    }

    #[test]
    fn values_arrive_byte_exact_and_are_not_scanned_again() {
        let nasty = "\"}], \\n\n\t'$(x)' ${parameters.b} {{.parameters.b}} {{ ü \u{0} }}";
        let scope = scope(&[("a", nasty), ("b", "B"), ("open", "${parameters."), ("close", "b}")]);
        assert_eq!(scope.fill("<${parameters.a}>").unwrap(), format!("<{nasty}>"));
        assert_eq!(scope.fill("${parameters.open}b}").unwrap(), "${parameters.b}");
        assert_eq!(scope.fill("${parameters.open}${parameters.close}").unwrap(), "${parameters.b}");
        assert_eq!(scope.fill("$${parameters.b}").unwrap(), "$B");
        assert_eq!(scope.fill("{{{parameters.b}}}").unwrap(), "{B}");
    }

    #[test]
    fn without_parameters_the_tree_is_untouched() {
        let tree = json!({"a": "${parameters.x} {{.parameters.y}}"});
        assert_eq!(Scope::new().fill_tree(&tree).unwrap(), tree);
        assert_eq!(Scope::new().fill("${parameters.x}").unwrap(), "${parameters.x}");
    }

    #[test]
    fn an_empty_value_is_a_value() {
        assert_eq!(scope(&[("a", "")]).fill("<${parameters.a}>").unwrap(), "<>");
    }

    #[test]
    fn unresolved_names_the_parameter_and_its_place() {
        let tree = json!({"spec": {"containers": [{"env": [{"name": "A", "value": "${parameters.gone}"}]}]}});
        let error = scope(&[("a", "1")]).fill_tree(&tree).unwrap_err();
        assert_eq!(error.fault, Fault::Unresolved { name: "gone".into() });
        insta::assert_snapshot!(error, @"spec.containers[0].env[0].value: parameter `gone` has no value; declare it as a flow parameter or an input of the step");
        insta::assert_snapshot!(scope(&[("a", "1")]).fill("{{parameters.gone}}").unwrap_err(), @"parameter `gone` has no value; declare it as a flow parameter or an input of the step");
    }

    #[test]
    fn secrets_are_refused_in_plain_texts() {
        let mut scope = Scope::new();
        scope.bind_secret("token", KeyRef { name: "s".into(), key: "k".into(), optional: None });
        let error = scope.fill_tree(&json!({"labels": {"a.b/c": "x-${parameters.token}"}})).unwrap_err();
        insta::assert_snapshot!(error, @r#"labels["a.b/c"]: parameter `token` is a secret and is not allowed here; use it in a variable of a container (`env`)"#);
    }

    #[test]
    fn growth_and_depth_are_bounded() {
        let scope = scope(&[("a", &"x".repeat(1024 * 1024))]);
        let text = "${parameters.a}".repeat(17);
        insta::assert_snapshot!(scope.fill(&text).unwrap_err(), @"the values of its parameters are longer than 16777216 bytes together; pass files as artifacts instead");
        assert_eq!(scope.fill_tree(&json!([text])).unwrap_err().fault, Fault::TooLarge);
        assert_eq!(scope.fill_tree(&json!(vec!["${parameters.a}"; 17])).unwrap_err().fault, Fault::TooLarge);
        assert!(scope.fill_tree(&nested(DEPTH_MAX, "${parameters.a}")).is_ok());
        insta::assert_snapshot!(scope.fill_tree(&nested(DEPTH_MAX + 1, "x")).unwrap_err(), @"it is deeper than 128 levels; flatten it");
    }

    #[test]
    fn uses_are_listed_with_their_fields() {
        let tree =
            json!({"b": ["${parameters.x}${parameters.y}"], "a": {"c/d": "{{.parameters.x}}"}, "${parameters.z}": 1});
        let uses: Vec<_> = uses_in(&tree).into_iter().map(|used| format!("{}@{}", used.name, used.field)).collect();
        assert_eq!(uses, ["x@a[\"c/d\"]", "x@b[0]", "y@b[0]"]);
        assert_eq!(names_in(&tree).into_iter().collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(names_in_text("${parameters.q} ${parameters.p}").into_iter().collect::<Vec<_>>(), ["p", "q"]);
    }

    /// The tree with every text replaced by the same one.
    fn shape(tree: &Value) -> Value {
        rewrite(tree, &mut Vec::new(), &mut |_, _| Ok::<_, ()>(Some(String::new()))).unwrap()
    }

    fn texts_with_placeholders() -> BoxedStrategy<String> {
        proptest::collection::vec(
            prop_oneof![
                Just("${parameters.a}".to_owned()),
                Just("{{.parameters.b}}".to_owned()),
                Just("{{parameters.a}}".to_owned()),
                "[{}$.ab\"\\\\]{0,5}",
            ],
            0..4,
        )
        .prop_map(|parts| parts.concat())
        .boxed()
    }

    proptest! {
        #[test]
        fn substitution_never_changes_structure(
            tree in trees(texts_with_placeholders()), a in any::<String>(), b in any::<String>(),
        ) {
            let scope = scope(&[("a", &a), ("b", &b)]);
            let got = scope.fill_tree(&tree).unwrap();
            prop_assert_eq!(shape(&got).to_string(), shape(&tree).to_string());
        }

        #[test]
        fn any_value_arrives_byte_exact(a in any::<String>(), before in "[a-z ]{0,5}", after in "[a-z ]{0,5}") {
            for notation in ["{{.parameters.a}}", "{{parameters.a}}", "${parameters.a}"] {
                let got = scope(&[("a", &a)]).fill_tree(&json!([format!("{before}{notation}{after}")])).unwrap();
                prop_assert_eq!(got, json!([format!("{before}{a}{after}")]));
            }
        }

        #[test]
        fn trees_without_placeholders_stay_as_they_are(tree in trees("[a-z{} ]{0,8}".boxed())) {
            prop_assert!(names_in(&tree).is_empty());
            prop_assert_eq!(scope(&[("a", "x")]).fill_tree(&tree).unwrap(), tree);
        }

        #[test]
        fn one_pass_equals_concatenation(parts in proptest::collection::vec((".{0,4}", any::<bool>()), 0..6), value in any::<String>()) {
            let mut text = String::new();
            let mut want = String::new();
            for (literal, placeholder) in &parts {
                let literal: String = literal.chars().filter(|ch| !matches!(ch, '{' | '}' | '$')).collect();
                text.push_str(&literal);
                want.push_str(&literal);
                if *placeholder {
                    text.push_str("${parameters.a}");
                    want.push_str(&value);
                }
            }
            prop_assert_eq!(scope(&[("a", &value)]).fill(&text).unwrap(), want);
        }
    }
}
