//! Resource templates as directories: claims and ConfigMaps of a flow. Owns their creation, once, and the
//! check that they are this flow's.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_core::error::{Class, Problem};
use orlop_core::name::{Parts, bounded};
use orlop_core::ports::substrate::FlowOwner;
use orlop_core::spec::flow::{ResourceTemplates, template_name};
use orlop_core::spec::meta::ObjectReference;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::layout::Layout;
use super::records::{read, write};
use crate::durable::sync_directory;
use crate::runtime::plan::volume::is_component;

/// The longest name of an object.
const NAME_MAX: usize = 253;

/// Whose a claim or ConfigMap is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerRecord {
    flow: String,
    name: String,
}

/// Creates claims and ConfigMaps, or verifies that they are the owner's.
///
/// # Errors
/// Exists with reason ResourceConflict when one is somebody else's; Invalid for templates without plain names or with
/// data that is none.
pub(super) fn ensure(
    layout: &Layout,
    owner: &FlowOwner,
    templates: &ResourceTemplates,
) -> Result<Vec<ObjectReference>, Problem> {
    let mut refs = Vec::new();
    for template in &templates.volume_claim_templates {
        let reference = reference("PersistentVolumeClaim", template, owner)?;
        let path = layout.volumes().join(&reference.name);
        create(layout, owner, &reference, &path, |path| {
            DirBuilder::new().mode(0o777).create(path)?;
            // Steps may run as any user, as on a cluster whose volumes let all in.
            Ok(fs::set_permissions(path, Permissions::from_mode(0o777))?)
        })?;
        refs.push(reference);
    }
    for template in &templates.config_map_templates {
        let reference = reference("ConfigMap", template, owner)?;
        let keys = keys(template)?;
        let path = layout.config_maps().join(&reference.name);
        create(layout, owner, &reference, &path, |path| {
            fs::create_dir(path)?;
            for (key, bytes) in &keys {
                let mut file = File::create_new(path.join(key))?;
                file.write_all(bytes)?;
                file.sync_all()?;
            }
            // After a loss of power it has its name only with all that is in it.
            Ok(sync_directory(path)?)
        })?;
        refs.push(reference);
    }
    Ok(refs)
}

fn reference(kind: &str, template: &Value, owner: &FlowOwner) -> Result<ObjectReference, Problem> {
    let short = template_name(template).unwrap_or_default();
    let name = bounded(Parts { flow: &owner.name, part: short, suffix: "" }, NAME_MAX);
    if short.is_empty() || !is_component(&name) {
        let message = format!("metadata.name of a {kind} template must be a plain name: `{short}`");
        return Err(Problem::new(Class::Invalid, message).with_reason("TemplateInvalid"));
    }
    Ok(ObjectReference {
        api_version: "v1".into(),
        kind: kind.into(),
        uid: format!("{}/{kind}/{name}", owner.uid),
        name,
        namespace: owner.namespace.clone(),
    })
}

/// Makes a directory whole under its name, after its owner was written down.
fn create(
    layout: &Layout,
    owner: &FlowOwner,
    reference: &ObjectReference,
    path: &Path,
    make: impl FnOnce(&Path) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let record = layout.resource(&reference.kind, &reference.name);
    let known = read::<OwnerRecord>(&record)?;
    let is_there = path.symlink_metadata().is_ok();
    match known {
        Some(known) if known.flow != owner.uid => return Err(conflict(reference, &known.name)),
        None if is_there => return Err(conflict(reference, "somebody else")),
        Some(_) if is_there => return Ok(()),
        Some(_) => {}
        None => write(&record, &OwnerRecord { flow: owner.uid.clone(), name: owner.name.clone() })?,
    }
    let half = half_path(path);
    match fs::remove_dir_all(&half) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => make(&half)?,
    }
    fs::rename(&half, path)?;
    path.parent().map_or(Ok(()), sync_directory)?;
    Ok(())
}

/// Where a directory is made before it gets its name; no object can have this one.
fn half_path(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from("..half-");
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}

fn conflict(reference: &ObjectReference, owner: &str) -> Problem {
    let message =
        format!("{} {} exists and belongs to {owner}; name the flow otherwise", reference.kind, reference.name);
    Problem::new(Class::Exists, message).with_reason("ResourceConflict")
}

/// Text and binary data of a ConfigMap.
fn keys(template: &Value) -> Result<BTreeMap<String, Vec<u8>>, Problem> {
    let name = template_name(template).unwrap_or_default();
    let invalid = |key: &str, why: &str| {
        let message = format!("ConfigMap template {name}, key `{key}`: {why}");
        Problem::new(Class::Invalid, message).with_reason("TemplateInvalid")
    };
    let mut keys = BTreeMap::new();
    for (member, binary) in [("binaryData", true), ("data", false)] {
        let entries = template.get(member).and_then(Value::as_object);
        for (key, value) in entries.into_iter().flatten() {
            if !is_component(key) || key.starts_with("..") {
                return Err(invalid(key, "is not a valid file name"));
            }
            let text = value.as_str().ok_or_else(|| invalid(key, "must be a text"))?;
            let bytes = if binary {
                STANDARD.decode(text).map_err(|error| invalid(key, &format!("is not base64: {error}")))?
            } else {
                text.as_bytes().to_vec()
            };
            keys.insert(key.clone(), bytes);
        }
    }
    Ok(keys)
}
