//! The structures of built-in kinds, from the types of `k8s-openapi`: made once a process.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use k8s_openapi::api::{apps, batch, coordination, core, events, node, policy, rbac, resource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::{Structure, Type};

/// Types nested deeper than this are left open.
const DEPTH: usize = 24;

type All = BTreeMap<(&'static str, &'static str), Arc<Structure>>;

/// The structure of a built-in kind; `None` for kinds whose type contains itself.
pub(crate) fn of(group: &str, kind: &str) -> Option<Arc<Structure>> {
    static ALL: OnceLock<All> = OnceLock::new();
    ALL.get_or_init(all)
        .iter()
        .find(|((known, name), _)| *known == group && *name == kind)
        .map(|(_, found)| Arc::clone(found))
}

/// The structure of the metadata of all objects.
pub(crate) fn metadata() -> &'static Structure {
    static METADATA: OnceLock<Structure> = OnceLock::new();
    METADATA.get_or_init(structure::<ObjectMeta>)
}

fn all() -> All {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let mut all = All::new();
    let mut add = |group, kind, structure| all.insert((group, kind), Arc::new(structure));
    add("", "ConfigMap", structure::<core::v1::ConfigMap>());
    add("", "Event", structure::<core::v1::Event>());
    add("", "Namespace", structure::<core::v1::Namespace>());
    add("", "Node", structure::<core::v1::Node>());
    add("", "PersistentVolumeClaim", structure::<core::v1::PersistentVolumeClaim>());
    add("", "Pod", structure::<core::v1::Pod>());
    add("", "ResourceQuota", structure::<core::v1::ResourceQuota>());
    add("", "Secret", structure::<core::v1::Secret>());
    add("", "Service", structure::<core::v1::Service>());
    add("", "ServiceAccount", structure::<core::v1::ServiceAccount>());
    add("apps", "ControllerRevision", structure::<apps::v1::ControllerRevision>());
    add("apps", "Deployment", structure::<apps::v1::Deployment>());
    add("batch", "Job", structure::<batch::v1::Job>());
    add("coordination.k8s.io", "Lease", structure::<coordination::v1::Lease>());
    add("events.k8s.io", "Event", structure::<events::v1::Event>());
    add("node.k8s.io", "RuntimeClass", structure::<node::v1::RuntimeClass>());
    add("policy", "PodDisruptionBudget", structure::<policy::v1::PodDisruptionBudget>());
    add("resource.k8s.io", "DeviceClass", structure::<resource::v1::DeviceClass>());
    add("resource.k8s.io", "ResourceClaimTemplate", structure::<resource::v1::ResourceClaimTemplate>());
    add("resource.k8s.io", "ResourceSlice", structure::<resource::v1::ResourceSlice>());
    add(RBAC, "Role", structure::<rbac::v1::Role>());
    add(RBAC, "RoleBinding", structure::<rbac::v1::RoleBinding>());
    add(RBAC, "ClusterRole", structure::<rbac::v1::ClusterRole>());
    add(RBAC, "ClusterRoleBinding", structure::<rbac::v1::ClusterRoleBinding>());
    all
}

fn structure<T: JsonSchema>() -> Structure {
    let schema = SchemaGenerator::default().root_schema_for::<T>().to_value();
    let definitions = schema.get("$defs").cloned().unwrap_or_default();
    let name = T::schema_name();
    read(&schema, &definitions, name.rsplit('.').next().unwrap_or_default(), 0)
}

fn read(schema: &Value, definitions: &Value, name: &str, depth: usize) -> Structure {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let full = reference.trim_start_matches("#/$defs/");
        let short = full.rsplit('.').next().unwrap_or_default();
        return match (short, definitions.get(full)) {
            ("Quantity" | "IntOrString", _) => Structure { int_or_string: true, ..Structure::default() },
            (_, Some(found)) if depth < DEPTH => read(found, definitions, short, depth + 1),
            _ => Structure { preserve: true, ..Structure::default() },
        };
    }
    let inner = |schema: &Value| read(schema, definitions, name, depth + 1);
    let words = |name: &str| -> Vec<String> {
        schema
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let mut out = Structure { name: name.to_owned(), required: words("required"), ..Structure::default() };
    out.kind = match schema.get("type").and_then(Value::as_str) {
        Some("object") => Some(Type::Object),
        Some("array") => Some(Type::Array),
        Some("string") => Some(Type::String),
        Some("integer") => Some(Type::Integer),
        Some("number") => Some(Type::Number),
        Some("boolean") => Some(Type::Boolean),
        _ => None,
    };
    schema.get("format").and_then(Value::as_str).unwrap_or_default().clone_into(&mut out.limits.format);
    for (name, member) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        out.properties.insert(name.clone(), inner(member));
    }
    if let Some(members) = schema.get("additionalProperties").filter(|members| members.is_object()) {
        out.additional = Some(Box::new(inner(members)));
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        out.items = Some(Box::new(inner(items)));
    }
    out.preserve = out.kind != Some(Type::Array) && out.properties.is_empty() && out.additional.is_none();
    out
}
