//! `resourceTemplates`: claims and ConfigMaps a flow creates before its first step.

use std::collections::BTreeMap;

use orlop_core::id::dns1123_subdomain;
use orlop_core::quantity::Quantity;
use orlop_core::spec::flow::template_name;
use serde_json::Value;

use super::context::Context;
use super::template::quantity;
use crate::code::Code;
use crate::manifest::path::Path;
use crate::manifest::schema::{Expected, Walk};
use crate::manifest::violation::{Note, Violations, shown};

pub(super) fn check(context: &Context<'_>, spec: &Path<'_>, found: &mut Violations) {
    let Some(templates) = &context.flow.spec.resource_templates else { return };
    let path = spec.field("resourceTemplates");
    let claims = path.field("volumeClaimTemplates");
    check_list(context, &templates.volume_claim_templates, "PersistentVolumeClaim", &claims, found);
    for (index, claim) in templates.volume_claim_templates.iter().enumerate() {
        check_claim(claim, &claims.index(index), found);
    }
    check_list(context, &templates.config_map_templates, "ConfigMap", &path.field("configMapTemplates"), found);
}

fn check_list(context: &Context<'_>, list: &[Value], kind: &'static str, path: &Path<'_>, found: &mut Violations) {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, template) in list.iter().enumerate() {
        let path = path.index(index);
        let form = Expected { code: Code::Value, unknown: context.limits.lenient(), aliases: &[], hints: &[] };
        Walk::new(form, found).check(template, kind, &path);
        for (field, wanted) in [("apiVersion", "v1"), ("kind", kind)] {
            if let Some(given) = template.get(field).and_then(Value::as_str).filter(|given| *given != wanted) {
                found.error(Code::Value, &path.field(field), || {
                    (format!("`{field}` is {}", shown(given)), format!("write {field}: {wanted}, or leave it out"))
                });
            }
        }
        let metadata = path.field("metadata");
        let at = metadata.field("name");
        match template_name(template) {
            None | Some("") => found.error(Code::Value, &at, || {
                ("the template has no name", "give it a `metadata.name`; the object will be called <flow>-<name>")
            }),
            Some(name) => {
                if let Err(error) = dns1123_subdomain(name) {
                    found.error(Code::Value, &at, || Note::of(&error.about("template name")));
                }
                if let Some(first) = names.get(name) {
                    found.error(Code::Value, &at, || {
                        format!("the name {} is that of template {first} already", shown(name))
                    });
                } else {
                    names.insert(name, index);
                }
            }
        }
    }
}

fn check_claim(claim: &Value, path: &Path<'_>, found: &mut Violations) {
    let path = path.field("spec");
    let spec = claim.get("spec");
    let modes = spec.and_then(|spec| spec.get("accessModes"));
    if modes.is_none_or(|modes| modes.as_array().is_some_and(Vec::is_empty) || modes.is_null()) {
        found.error(Code::Value, &path.field("accessModes"), || {
            ("the claim has no access mode", "list one, such as ReadWriteOnce")
        });
    }
    let resources = path.field("resources");
    let requests = resources.field("requests");
    let given = spec.and_then(|spec| spec.get("resources")).and_then(|resources| resources.get("requests"));
    let storage = given.and_then(|requests| requests.get("storage")).filter(|storage| !storage.is_null());
    match storage {
        None => found.error(Code::Value, &requests.field("storage"), || {
            ("the claim does not say how large it is", "add resources.requests.storage, such as 1Gi")
        }),
        Some(storage) => {
            if let Some(Ok(size)) =
                quantity(storage).filter(|size| size.as_ref().is_ok_and(|size| *size <= Quantity::ZERO))
            {
                found.error(Code::Value, &requests.field("storage"), || {
                    (format!("a claim of {size} holds nothing"), "ask for more than 0")
                });
            }
        }
    }
}
