//! Making the volumes of a pod. Owns where each kind lies, its permissions and its contents before the pod starts.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use orlop_core::error::{Class, Problem};

use super::VolumeRoot;
use crate::runtime::plan::downward::PodFacts;
use crate::runtime::plan::env::EnvSource;
use crate::runtime::plan::source::{Sources, Store};
use crate::runtime::plan::volume::{HostKind, KeyItem, Projection, VolumeKind, VolumeTemplate, is_component};

/// Where volumes of a pod lie.
#[derive(Clone, Debug, Default)]
pub struct VolumePlaces {
    /// Directory of the pod's own volumes.
    pub pod: PathBuf,
    /// Directory in memory for secrets and `medium: Memory`; where there is none they lie with the others.
    pub memory: Option<PathBuf>,
    /// Directories of claims, the flow's own first.
    pub claims: Vec<PathBuf>,
    /// Directories below which `hostPath` volumes may lie.
    pub allow_host_path: Vec<PathBuf>,
}

/// Whom a pod runs as, as far as its volumes must let it in. Takes effect where this process may give files away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeOwner {
    /// User of the main container.
    pub user: Option<u32>,
    /// `fsGroup`.
    pub group: Option<u32>,
}

/// Where each volume is; nothing is made.
///
/// # Errors
/// Invalid with reason Unschedulable for a claim that does not exist; Invalid with reason TemplateInvalid for a
/// `hostPath` that leads out of what is allowed.
pub fn roots(volumes: &[VolumeTemplate], places: &VolumePlaces) -> Result<BTreeMap<String, VolumeRoot>, Problem> {
    let memory = places.memory.as_ref().unwrap_or(&places.pod);
    let mut roots = BTreeMap::new();
    for volume in volumes {
        let root = match &volume.kind {
            VolumeKind::Empty { memory: true } => VolumeRoot { path: memory.join(&volume.name), read_only: false },
            VolumeKind::Empty { memory: false } => VolumeRoot { path: places.pod.join(&volume.name), read_only: false },
            VolumeKind::Projected(projections) => {
                let place = if projections.iter().any(holds_secrets) { memory } else { &places.pod };
                VolumeRoot { path: place.join(&volume.name), read_only: true }
            }
            VolumeKind::Claim { claim, read_only } => {
                VolumeRoot { path: claimed(claim, volume, places)?, read_only: *read_only }
            }
            VolumeKind::Host { path, .. } => VolumeRoot { path: on_host(path, volume, places)?, read_only: false },
        };
        roots.insert(volume.name.clone(), root);
    }
    Ok(roots)
}

fn holds_secrets(projection: &Projection) -> bool {
    matches!(projection, Projection::Keys { store: Store::Secret, .. })
}

fn claimed(claim: &str, volume: &VolumeTemplate, places: &VolumePlaces) -> Result<PathBuf, Problem> {
    let mut claims = places.claims.iter().map(|place| place.join(claim)).filter(|_| is_component(claim));
    claims.find(|path| path.is_dir()).ok_or_else(|| {
        let message = format!(
            "{}.persistentVolumeClaim.claimName: there is no claim {claim}; add a volumeClaimTemplate or a directory of \
             that name below the one given by --volumes-dir",
            volume.path
        );
        Problem::new(Class::Invalid, message).with_reason("Unschedulable")
    })
}

/// A path of this machine with its links resolved, below what is allowed.
fn on_host(path: &Path, volume: &VolumeTemplate, places: &VolumePlaces) -> Result<PathBuf, Problem> {
    let existing = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    let rest = path.strip_prefix(existing).unwrap_or(Path::new(""));
    let real = fs::canonicalize(existing)?.join(rest);
    let real = if rest.as_os_str().is_empty() { fs::canonicalize(existing)? } else { real };
    let allowed = places.allow_host_path.iter().filter_map(|allowed| fs::canonicalize(allowed).ok());
    if allowed.into_iter().any(|allowed| real.starts_with(allowed)) {
        return Ok(real);
    }
    let message = format!("{}.hostPath.path: leads to {}, outside of what is allowed", volume.path, real.display());
    Err(Problem::new(Class::Invalid, message).with_reason("TemplateInvalid"))
}

/// Makes the volumes of a pod anew; what an earlier try left is removed first. The pod must not have started.
///
/// # Errors
/// NotFound with reason ParameterUnresolved for missing ConfigMaps, Secrets and keys; Invalid for a `hostPath` of the
/// wrong kind; Capacity, Denied or Transient as the file system says.
pub fn prepare(
    volumes: &[VolumeTemplate],
    places: &VolumePlaces,
    owner: VolumeOwner,
    facts: &PodFacts<'_>,
    sources: &Sources,
) -> Result<BTreeMap<String, VolumeRoot>, Problem> {
    let roots = roots(volumes, places)?;
    discard(places)?;
    let in_memory = places.memory.iter().filter(|_| volumes.iter().any(lies_in_memory));
    for directory in [&places.pod].into_iter().chain(in_memory) {
        private_directory(directory, owner)?;
    }
    for volume in volumes {
        let Some(root) = roots.get(&volume.name) else { continue };
        match &volume.kind {
            VolumeKind::Empty { .. } => {
                fs::create_dir(&root.path)?;
                fs::set_permissions(&root.path, Permissions::from_mode(0o777))?;
                if let (Some(group), true) = (owner.group, geteuid().is_root()) {
                    chown(&root.path, None, Some(group))?;
                    fs::set_permissions(&root.path, Permissions::from_mode(0o2777))?;
                }
            }
            VolumeKind::Projected(projections) => {
                fs::create_dir(&root.path)?;
                fs::set_permissions(&root.path, Permissions::from_mode(0o755))?;
                for projection in projections {
                    project(projection, &root.path, owner, facts, sources, &volume.path)?;
                }
            }
            VolumeKind::Host { kind, .. } => make_on_host(&root.path, *kind, volume)?,
            VolumeKind::Claim { .. } => {}
        }
    }
    Ok(roots)
}

/// The files of prepared volumes that are keys of Secrets.
///
/// # Errors
/// As of [`Sources::keys`].
pub fn secret_files(
    volumes: &[VolumeTemplate],
    roots: &BTreeMap<String, VolumeRoot>,
    sources: &Sources,
) -> Result<Vec<PathBuf>, Problem> {
    let mut files = Vec::new();
    for volume in volumes {
        let (VolumeKind::Projected(projections), Some(root)) = (&volume.kind, roots.get(&volume.name)) else {
            continue;
        };
        for projection in projections {
            match projection {
                Projection::Keys { store: Store::Secret, items: Some(items), .. } => {
                    files.extend(items.iter().map(|item| root.path.join(&item.path)));
                }
                Projection::Keys { store: Store::Secret, name, items: None, .. } => {
                    let keys = sources.keys(Store::Secret, name)?.unwrap_or_default();
                    files.extend(keys.keys().map(|key| root.path.join(key)));
                }
                Projection::Keys { .. } | Projection::Downward(_) => {}
            }
        }
    }
    Ok(files)
}

fn lies_in_memory(volume: &VolumeTemplate) -> bool {
    match &volume.kind {
        VolumeKind::Empty { memory } => *memory,
        VolumeKind::Projected(projections) => projections.iter().any(holds_secrets),
        VolumeKind::Claim { .. } | VolumeKind::Host { .. } => false,
    }
}

/// Removes the pod's own volumes, those in memory and those on disk. None are fine.
///
/// # Errors
/// What the file system says.
pub fn discard(places: &VolumePlaces) -> Result<(), Problem> {
    for directory in [&places.pod].into_iter().chain(&places.memory) {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(undeletable(directory, error)),
            _ => {}
        }
    }
    Ok(())
}

/// The error for a directory that cannot be deleted: containers of an engine that runs as root leave files of root.
pub(crate) fn undeletable(path: &Path, error: io::Error) -> Problem {
    let mut message = format!("{} cannot be deleted", path.display());
    if error.kind() == io::ErrorKind::PermissionDenied && !geteuid().is_root() {
        message.push_str("; files in it belong to another user, so delete it as root");
    }
    Problem::new(Problem::from(io::Error::from(error.kind())).class, message).because(error)
}

/// A directory only its owner may enter: this process's user, or the pod's where this process may give it away.
fn private_directory(path: &Path, owner: VolumeOwner) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o711).create(parent)?;
    }
    DirBuilder::new().mode(0o700).create(path)?;
    match owner.user {
        Some(user) if geteuid().is_root() => chown(path, Some(user), None),
        _ => Ok(()),
    }
}

fn project(
    projection: &Projection,
    root: &Path,
    owner: VolumeOwner,
    facts: &PodFacts<'_>,
    sources: &Sources,
    path: &str,
) -> Result<(), Problem> {
    match projection {
        Projection::Downward(files) => {
            for (file, source, mode) in files {
                let text = match source {
                    EnvSource::Field(field) => facts.field(field),
                    EnvSource::Resource(resource) => facts.resource(resource, path)?,
                    EnvSource::Value(_) | EnvSource::Key(..) => continue,
                };
                write_file(root, file, text.as_bytes(), *mode, owner)?;
            }
            Ok(())
        }
        Projection::Keys { store, name, items, optional, mode } => {
            let Some(keys) = sources.keys(*store, name)? else {
                return if *optional { Ok(()) } else { Err(sources.unresolved(*store, name, None, path)) };
            };
            let all: Vec<KeyItem> = match items {
                Some(items) => items.clone(),
                None => keys.keys().map(|key| KeyItem { key: key.clone(), path: key.into(), mode: None }).collect(),
            };
            for item in all {
                match keys.get(&item.key) {
                    Some(bytes) => write_file(root, &item.path, bytes, item.mode.unwrap_or(*mode), owner)?,
                    None if *optional => {}
                    None => return Err(sources.unresolved(*store, name, Some(&item.key), path)),
                }
            }
            Ok(())
        }
    }
}

/// Writes a file of a projected volume; of two at one path the later one stays, as in Kubernetes.
fn write_file(root: &Path, relative: &Path, bytes: &[u8], mode: u32, owner: VolumeOwner) -> io::Result<()> {
    let path = root.join(relative);
    let mut folder = root.to_owned();
    for name in relative.parent().into_iter().flat_map(Path::components) {
        folder.push(name);
        if !folder.exists() {
            fs::create_dir(&folder)?;
            // Independent of the umask of this program.
            fs::set_permissions(&folder, Permissions::from_mode(0o755))?;
        }
    }
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(bytes)?;
    // Members of the volume's group read it, whatever its mode.
    let mode = if owner.group.is_some() { mode | 0o440 } else { mode };
    file.set_permissions(Permissions::from_mode(mode))?;
    match owner.group {
        Some(group) if geteuid().is_root() => chown(&path, None, Some(group)),
        _ => Ok(()),
    }
}

fn make_on_host(path: &Path, kind: HostKind, volume: &VolumeTemplate) -> Result<(), Problem> {
    match kind {
        HostKind::DirectoryOrCreate => fs::create_dir_all(path)?,
        HostKind::FileOrCreate if !path.exists() => drop(OpenOptions::new().write(true).create_new(true).open(path)?),
        _ => {}
    }
    let right = match fs::metadata(path).map(|metadata| metadata.file_type()) {
        Ok(found) => match kind {
            HostKind::Any => true,
            HostKind::DirectoryOrCreate | HostKind::Directory => found.is_dir(),
            HostKind::FileOrCreate | HostKind::File => found.is_file(),
            HostKind::Socket => found.is_socket(),
            HostKind::CharDevice => found.is_char_device(),
            HostKind::BlockDevice => found.is_block_device(),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error.into()),
    };
    if right {
        return Ok(());
    }
    let message = format!("{}.hostPath: at {} is not what type {kind:?} asks for", volume.path, path.display());
    Err(Problem::new(Class::Invalid, message).with_reason("TemplateInvalid"))
}
