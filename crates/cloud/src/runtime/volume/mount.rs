//! Mounts of a container: from volume names to paths of this machine. Owns `subPath`, write protection and order.

use std::collections::BTreeMap;
use std::path::PathBuf;

use orlop_core::error::{Class, Problem};

use super::VolumeRoot;
use super::beneath::{make_directories, walk};
use crate::runtime::plan::env::Missing;
use crate::runtime::plan::volume::{MountTemplate, SubPath, inside};
use crate::runtime::pod::Mount;

/// The mounts of a container, parents before children. Directories of `subPath` that are missing are made while the pod
/// is about to start.
///
/// # Errors
/// Invalid with reason TemplateInvalid when a `subPath` leads out of its volume or is missing in a read-only one.
pub fn mounts(
    templates: &[MountTemplate],
    volumes: &BTreeMap<String, VolumeRoot>,
    missing: Missing,
    expand: impl Fn(&str) -> String,
) -> Result<Vec<Mount>, Problem> {
    let mut mounts = Vec::new();
    for template in templates {
        // The template was checked: every mount has its volume.
        let Some(volume) = volumes.get(&template.volume) else { continue };
        mounts.push(Mount {
            source: source(template, volume, missing, &expand)?,
            target: template.target.clone(),
            read_only: template.read_only || volume.read_only,
        });
    }
    in_order(&mut mounts);
    Ok(mounts)
}

/// Sorts mounts so that a parent stands before what is below it.
pub fn in_order(mounts: &mut [Mount]) {
    mounts.sort_by(|a, b| {
        let depth = |mount: &Mount| mount.target.split('/').count();
        depth(a).cmp(&depth(b)).then_with(|| a.target.cmp(&b.target))
    });
}

fn source(
    template: &MountTemplate,
    volume: &VolumeRoot,
    missing: Missing,
    expand: &impl Fn(&str) -> String,
) -> Result<PathBuf, Problem> {
    let invalid = |why: String| {
        let message = format!("{}: subPath {why}", template.path);
        Problem::new(Class::Invalid, message).with_reason("TemplateInvalid")
    };
    let text = match &template.sub_path {
        SubPath::Whole => return Ok(volume.path.clone()),
        SubPath::Fixed(path) => path.clone(),
        SubPath::Expanded(path) => expand(path),
    };
    let relative = inside(&text).ok_or_else(|| invalid(format!("must be relative and without `..`: {text}")))?;
    if missing == Missing::Skipped || volume.read_only {
        let found = walk(&volume.path, &relative).map_err(|error| invalid(error.to_string()))?;
        if missing == Missing::Refused && !found.missing.as_os_str().is_empty() {
            return Err(invalid(format!("does not exist in volume {}: {text}", template.volume)));
        }
        return Ok(found.path);
    }
    make_directories(&volume.path, &relative).map_err(|error| {
        if error.kind() == std::io::ErrorKind::PermissionDenied { invalid(error.to_string()) } else { error.into() }
    })
}
