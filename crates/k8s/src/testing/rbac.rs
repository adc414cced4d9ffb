//! Whether a user may do what it asks, by the Roles and bindings that are stored. Users without name may do everything.

use serde_json::Value;

use super::kind::Kind;
use super::object::{Object, list, meta, text};
use super::refusal::{Refusal, Result};
use super::request::{Call, Verb};
use super::state::State;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Refuses what no rule allows.
pub(crate) fn check(state: &State, user: &str, call: &Call, kind: &Kind) -> Result<()> {
    let namespace = call.path.namespace.as_deref().unwrap_or_default();
    let own = if kind.plural == "namespaces" { call.path.name.as_deref().unwrap_or_default() } else { namespace };
    let everywhere = state
        .table_named(GROUP, "clusterrolebindings")
        .and_then(|table| state.tables.get(table))
        .is_some_and(|table| table.all().any(|binding| grants(state, &binding.object, "", user, call, kind)));
    let prefix = format!("{own}/");
    let here = !own.is_empty()
        && state.table_named(GROUP, "rolebindings").and_then(|table| state.tables.get(table)).is_some_and(|table| {
            table.within(&prefix).any(|(_, binding)| grants(state, &binding.object, own, user, call, kind))
        });
    if everywhere || here { Ok(()) } else { Err(refusal(user, call, kind)) }
}

/// Refuses an object that names an owner which must not go before it, where the user may not set finalizers of that owner.
pub(crate) fn check_owners(state: &State, call: &Call, kind: &Kind, object: &Object) -> Result<()> {
    let Some(user) = call.user.as_deref().filter(|_| state.guards_owners) else { return Ok(()) };
    for owner in list(object, &["metadata", "ownerReferences"]) {
        if owner.get("blockOwnerDeletion").and_then(Value::as_bool) != Some(true) {
            continue;
        }
        let member = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        let group = member("apiVersion").split_once('/').map_or("", |(group, _)| group);
        let mut kinds = state.tables.iter().map(|table| &*table.kind);
        let owned_by = kinds.find(|known| known.group == group && known.kind == member("kind"));
        let Some(owned_by) = owned_by else { continue };
        let mut asked = call.clone();
        asked.verb = Verb::Update;
        asked.path.group.clone_from(&owned_by.group);
        asked.path.resource.clone_from(&owned_by.plural);
        asked.path.name = Some(member("name").to_owned());
        "finalizers".clone_into(&mut asked.path.subresource);
        if check(state, user, &asked, owned_by).is_err() {
            let why = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>";
            return Err(Refusal::forbidden(kind, meta(object, "name"), why));
        }
    }
    Ok(())
}

fn resource(call: &Call, kind: &Kind) -> String {
    if call.path.subresource.is_empty() {
        kind.plural.clone()
    } else {
        format!("{}/{}", kind.plural, call.path.subresource)
    }
}

fn refusal(user: &str, call: &Call, kind: &Kind) -> Box<Refusal> {
    let scope = match &call.path.namespace {
        Some(namespace) => format!("in the namespace \"{namespace}\""),
        None => "at the cluster scope".to_owned(),
    };
    let why = format!(
        "User \"{user}\" cannot {} resource \"{}\" in API group \"{}\" {scope}",
        call.verb.as_str(),
        resource(call, kind),
        kind.group
    );
    let name = if call.verb == Verb::Create { "" } else { call.path.name.as_deref().unwrap_or_default() };
    Refusal::forbidden(kind, name, &why)
}

fn grants(state: &State, binding: &Object, namespace: &str, user: &str, call: &Call, kind: &Kind) -> bool {
    if !list(binding, &["subjects"]).iter().any(|subject| is(subject, meta(binding, "namespace"), user)) {
        return false;
    }
    let name = text(binding, &["roleRef", "name"]);
    let (plural, key) = if text(binding, &["roleRef", "kind"]) == "ClusterRole" {
        ("clusterroles", name.to_owned())
    } else {
        ("roles", format!("{namespace}/{name}"))
    };
    let Some(role) = state.table_named(GROUP, plural).and_then(|table| state.get(table, &key)) else { return false };
    list(&role.object, &["rules"]).iter().any(|rule| allows(rule, call, kind))
}

/// Whether a subject is that user, or a group of it.
fn is(subject: &Value, namespace: &str, user: &str) -> bool {
    let member = |name: &str| subject.get(name).and_then(Value::as_str).unwrap_or_default();
    let account = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    match member("kind") {
        "User" => member("name") == user,
        "ServiceAccount" => {
            let place = if member("namespace").is_empty() { namespace } else { member("namespace") };
            account == Some((place, member("name")))
        }
        "Group" => match member("name") {
            "system:authenticated" => true,
            "system:serviceaccounts" => account.is_some(),
            other => account.is_some_and(|(place, _)| other.strip_prefix("system:serviceaccounts:") == Some(place)),
        },
        _ => false,
    }
}

fn allows(rule: &Value, call: &Call, kind: &Kind) -> bool {
    let words = |name: &str| -> Vec<&str> {
        rule.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let has = |name: &str, wanted: &str| words(name).iter().any(|word| *word == "*" || *word == wanted);
    let resource = resource(call, kind);
    let any_sub = format!("*/{}", call.path.subresource);
    let resources = words("resources");
    let named = resources
        .iter()
        .any(|word| *word == "*" || *word == resource || !call.path.subresource.is_empty() && *word == any_sub);
    let names = words("resourceNames");
    let object = call.path.name.as_deref().unwrap_or_default();
    has("verbs", call.verb.as_str())
        && has("apiGroups", &kind.group)
        && named
        && (names.is_empty() || !object.is_empty() && names.contains(&object))
}
