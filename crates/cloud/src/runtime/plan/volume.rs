//! Volumes and mounts as a template gives them. Owns their fields and the refusal of kinds that need a cluster; makes
//! nothing on disk.

use std::path::{Component, Path, PathBuf};

use orlop_core::error::Problem;

use super::TemplatePolicy;
use super::downward::{FieldPath, ResourceRef};
use super::env::EnvSource;
use super::field::Field;
use super::source::Store;

/// Mode of projected files where nothing is said.
const FILE_MODE: u32 = 0o644;

/// A volume of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeTemplate {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: VolumeKind,
    /// Path of the field, for error texts.
    pub path: String,
}

/// What a volume holds.
#[derive(Clone, Debug, PartialEq)]
pub enum VolumeKind {
    /// Nothing at first; gone with the pod.
    Empty {
        /// Whether it is to be kept in memory.
        memory: bool,
    },
    /// Files made from ConfigMaps, Secrets and fields of the pod; read-only.
    Projected(Vec<Projection>),
    /// A claim.
    Claim {
        /// Name of the claim.
        claim: String,
        /// Whether no mount of it may write.
        read_only: bool,
    },
    /// A path of this machine.
    Host {
        /// Where.
        path: PathBuf,
        /// What must be there, or is to be made.
        kind: HostKind,
    },
}

/// Files of a projected volume.
#[derive(Clone, Debug, PartialEq)]
pub enum Projection {
    /// Keys of a ConfigMap or Secret.
    Keys {
        /// ConfigMap or Secret.
        store: Store,
        /// Its name.
        name: String,
        /// The keys to show; none: all, under their own names.
        items: Option<Vec<KeyItem>>,
        /// Whether it, or one of its keys, may be missing.
        optional: bool,
        /// Mode of files without their own.
        mode: u32,
    },
    /// Fields of the pod: relative path, value, mode.
    Downward(Vec<(PathBuf, EnvSource, u32)>),
}

/// A key that is shown as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyItem {
    /// The key.
    pub key: String,
    /// Relative path of the file.
    pub path: PathBuf,
    /// Its mode.
    pub mode: Option<u32>,
}

/// What must be at a path of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// Anything.
    Any,
    /// A directory, made if there is nothing.
    DirectoryOrCreate,
    /// A directory.
    Directory,
    /// A file, made if there is nothing.
    FileOrCreate,
    /// A file.
    File,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// A mount of a volume into a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountTemplate {
    /// Name of the volume.
    pub volume: String,
    /// Where the container sees it; absolute, without `.` and `..`.
    pub target: String,
    /// Relative path inside the volume.
    pub sub_path: SubPath,
    /// Whether the container may not write to it.
    pub read_only: bool,
    /// Path of the field, for error texts.
    pub path: String,
}

/// Which part of a volume is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubPath {
    /// All of it.
    Whole,
    /// What is at a path.
    Fixed(String),
    /// What is at a path with `$(VAR)` in it.
    Expanded(String),
}

impl VolumeTemplate {
    pub(super) fn read_all(field: &Field<'_>, policy: &TemplatePolicy) -> Result<Vec<Self>, Problem> {
        let mut volumes: Vec<Self> = Vec::new();
        for item in field.items()? {
            let name = item.get("name");
            let text = name.required()?;
            if !is_component(text) {
                return Err(name.invalid("must be a name without slashes"));
            }
            if volumes.iter().any(|volume| volume.name == text) {
                return Err(name.invalid(&format!("is given twice: {text}")));
            }
            let kind = VolumeKind::read(&item, policy)?;
            volumes.push(Self { name: text.to_owned(), kind, path: item.path().to_owned() });
        }
        Ok(volumes)
    }
}

impl VolumeKind {
    fn read(field: &Field<'_>, policy: &TemplatePolicy) -> Result<Self, Problem> {
        let mut kinds = field.members()?.into_iter().filter(|(name, value)| *name != "name" && value.is_present());
        // A volume of no kind is an empty directory, as in Kubernetes.
        let Some((kind, _)) = kinds.next() else { return Ok(Self::Empty { memory: false }) };
        if kinds.next().is_some() {
            return Err(field.invalid("must be of one kind"));
        }
        let source = field.get(kind);
        match kind {
            "emptyDir" => Ok(Self::Empty { memory: source.get("medium").text()? == Some("Memory") }),
            "configMap" => Ok(Self::Projected(vec![keys(&source, Store::ConfigMap, "name", default_mode(&source)?)?])),
            "secret" => Ok(Self::Projected(vec![keys(&source, Store::Secret, "secretName", default_mode(&source)?)?])),
            "downwardAPI" => Ok(Self::Projected(vec![downward(&source, default_mode(&source)?)?])),
            "projected" => projected(&source),
            "persistentVolumeClaim" => Ok(Self::Claim {
                claim: source.get("claimName").required()?.to_owned(),
                read_only: source.get("readOnly").flag()?,
            }),
            "hostPath" => host(&source, policy),
            _ => Err(source.invalid("cannot be used off Kubernetes: such volumes need a cluster")),
        }
    }
}

fn default_mode(field: &Field<'_>) -> Result<u32, Problem> {
    Ok(mode(&field.get("defaultMode"))?.unwrap_or(FILE_MODE))
}

fn mode(field: &Field<'_>) -> Result<Option<u32>, Problem> {
    match field.number::<u32>()? {
        Some(mode) if mode > 0o777 => Err(field.invalid("must be a mode of at most 0777, which is 511")),
        mode => Ok(mode),
    }
}

fn keys(field: &Field<'_>, store: Store, name: &str, mode_: u32) -> Result<Projection, Problem> {
    let list = field.get("items");
    let mut items = Vec::new();
    for item in list.items()? {
        let key = item.get("key").required()?.to_owned();
        items.push(KeyItem { key, path: relative(&item.get("path"))?, mode: mode(&item.get("mode"))? });
    }
    Ok(Projection::Keys {
        store,
        name: field.get(name).required()?.to_owned(),
        items: if items.is_empty() { None } else { Some(items) },
        optional: field.get("optional").flag()?,
        mode: mode_,
    })
}

fn downward(field: &Field<'_>, default: u32) -> Result<Projection, Problem> {
    let mut files = Vec::new();
    for item in field.get("items").items()? {
        let (of_pod, of_resources) = (item.get("fieldRef"), item.get("resourceFieldRef"));
        let source = if of_pod.is_present() {
            EnvSource::Field(FieldPath::read(&of_pod)?)
        } else if of_resources.is_present() {
            of_resources.get("containerName").required()?;
            EnvSource::Resource(ResourceRef::read(&of_resources)?)
        } else {
            return Err(item.invalid("needs one of fieldRef and resourceFieldRef"));
        };
        files.push((relative(&item.get("path"))?, source, mode(&item.get("mode"))?.unwrap_or(default)));
    }
    Ok(Projection::Downward(files))
}

fn projected(field: &Field<'_>) -> Result<VolumeKind, Problem> {
    let mode = default_mode(field)?;
    let mut projections = Vec::new();
    for source in field.get("sources").items()? {
        for (kind, value) in source.members()? {
            projections.push(match kind {
                "configMap" => keys(&source.get(kind), Store::ConfigMap, "name", mode)?,
                "secret" => keys(&source.get(kind), Store::Secret, "name", mode)?,
                "downwardAPI" => downward(&source.get(kind), mode)?,
                _ if !value.is_present() => continue,
                _ => {
                    let why = "cannot be used off Kubernetes: such sources need a cluster";
                    return Err(source.get(kind).invalid(why));
                }
            });
        }
    }
    Ok(VolumeKind::Projected(projections))
}

fn host(field: &Field<'_>, policy: &TemplatePolicy) -> Result<VolumeKind, Problem> {
    let path = field.get("path");
    let text = path.required()?;
    let whole = match &policy.folder {
        Some(folder) if !text.starts_with('/') => format!("{}/{text}", folder.display()),
        _ => text.to_owned(),
    };
    let plain = normal(&whole).ok_or_else(|| path.invalid("must be absolute and without `..`"))?;
    let plain = PathBuf::from(plain);
    if !policy.allow_host_path.iter().any(|allowed| plain.starts_with(allowed)) {
        let why = "lies outside of what this machine allows; name a directory above it with --allow-host-path";
        return Err(path.invalid(why));
    }
    let kind = field.get("type");
    let kind = match kind.text()? {
        None | Some("") => HostKind::Any,
        Some("DirectoryOrCreate") => HostKind::DirectoryOrCreate,
        Some("Directory") => HostKind::Directory,
        Some("FileOrCreate") => HostKind::FileOrCreate,
        Some("File") => HostKind::File,
        Some("Socket") => HostKind::Socket,
        Some("CharDevice") => HostKind::CharDevice,
        Some("BlockDevice") => HostKind::BlockDevice,
        Some(_) => return Err(kind.invalid("names no kind of path")),
    };
    Ok(VolumeKind::Host { path: plain, kind })
}

impl MountTemplate {
    pub(super) fn read_all(field: &Field<'_>) -> Result<Vec<Self>, Problem> {
        let mut mounts: Vec<Self> = Vec::new();
        for item in field.items()? {
            let target = item.get("mountPath");
            let plain = normal(target.required()?).filter(|plain| plain != "/");
            let plain = plain.ok_or_else(|| target.invalid("must be an absolute path below `/` without `..`"))?;
            if mounts.iter().any(|mount| mount.target == plain) {
                return Err(target.invalid(&format!("is mounted twice: {plain}")));
            }
            mounts.push(Self {
                volume: item.get("name").required()?.to_owned(),
                target: plain,
                sub_path: sub_path(&item)?,
                read_only: item.get("readOnly").flag()?,
                path: item.path().to_owned(),
            });
        }
        Ok(mounts)
    }
}

fn sub_path(field: &Field<'_>) -> Result<SubPath, Problem> {
    let (fixed, expanded) = (field.get("subPath"), field.get("subPathExpr"));
    let text = |field: &Field<'_>| -> Result<Option<String>, Problem> {
        Ok(field.text()?.filter(|text| !text.is_empty()).map(str::to_owned))
    };
    match (text(&fixed)?, text(&expanded)?) {
        (None, None) => Ok(SubPath::Whole),
        (Some(path), None) if inside(&path).is_some() => Ok(SubPath::Fixed(path)),
        (None, Some(path)) => Ok(SubPath::Expanded(path)),
        (Some(_), None) => Err(fixed.invalid("must be a relative path without `..`")),
        (Some(_), Some(_)) => Err(expanded.invalid("cannot be used together with subPath")),
    }
}

/// Whether a name is one component of a path and nothing special.
#[must_use]
pub(crate) fn is_component(name: &str) -> bool {
    inside(name).is_some_and(|path| path.components().count() == 1 && path.as_os_str().len() == name.len())
}

/// A relative path that stays inside: without root, `..` and NUL, `.` left out, not empty.
#[must_use]
pub fn inside(text: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for component in Path::new(text).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!text.contains('\0') && !path.as_os_str().is_empty()).then_some(path)
}

/// An absolute path of a container without `.`, doubled slashes and a slash at its end; none with `..`, NUL or when it
/// is not absolute.
#[must_use]
pub fn normal(text: &str) -> Option<String> {
    let rest = text.strip_prefix('/')?;
    if rest.split('/').all(|part| part.is_empty() || part == ".") {
        return Some("/".to_owned());
    }
    let plain = inside(rest.trim_start_matches('/'))?;
    Some(format!("/{}", plain.to_str()?))
}

fn relative(field: &Field<'_>) -> Result<PathBuf, Problem> {
    inside(field.required()?).ok_or_else(|| field.invalid("must be a relative path without `..`"))
}
