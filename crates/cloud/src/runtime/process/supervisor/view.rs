//! The file system as a container sees it. Owns the rule what is the machine's, what is the pod's, and that nothing made
//! for the one is seen from the other.
//!
//! * `/` is a directory of the pod in which everything at the top of the machine's file system appears; what the
//!   container makes there is the pod's.
//! * `/tmp` is the pod's.
//! * Mounts of the plan appear at their targets. A mount point that is missing is made: in the pod's own places, in a
//!   mount of the plan around it (as container runtimes do), and never in the machine's own directories: such a
//!   directory is first *replaced* by one of the pod in which all its entries appear. What the container then adds to
//!   it is the pod's.
//! * A file for output outside of mounts lies in a directory of the pod's in the same way, and an entry of that name on
//!   the machine does not appear. A directory that is missing for it is the container's to make.
//! * A working directory that is missing is made likewise.

use std::collections::BTreeMap;
use std::fs::{self, File, FileType};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use nix::unistd::pivot_root;
use sha2::{Digest, Sha256};

use super::mounts::{PathHandle, StandIn, bind, cover, layer, mount_point, protect, separate, show, stand_in, uncover};
use crate::runtime::process::failure::{During, Failure};
use crate::runtime::process::layout::{Kind, Layout, clean, is_within};
use crate::runtime::process::paths::{below, is_device};
use crate::runtime::process::wire::View;

/// Entries of a directory that can be replaced, at most: each is a mount.
const ENTRIES_MAX: usize = 4096;
/// Where the pod's root is while it is made; the machine's own is not seen by containers.
const SCAFFOLD: &str = "/tmp";

/// Directory of the pod for what replaces directories of the machine, made where one is replaced.
const PLACES: &str = "places";

/// Directory that the kernel works in where the pod's root has layers; a new one for every container.
pub(super) const WORK: &str = "work";

/// Enters the view; this process sees nothing else from then on.
pub(super) fn enter(view: &View, working_dir: &str) -> Result<Layout, Failure> {
    separate(view.user_namespace)?;
    let hold = |name: &str| PathHandle::open(&view.directory.join(name));
    let (root, tmp) = (hold("top")?, hold("tmp")?);
    // Others than root could not remove what the kernel leaves in it.
    let work = if view.user_namespace { None } else { Some(hold(WORK)?) };
    let sources: Vec<PathHandle> =
        view.mounts.iter().map(|mount| PathHandle::open(&mount.source)).collect::<Result<_, _>>()?;
    let own = PathHandle::open(&view.directory)?;
    let mut builder = Builder { layout: Layout::default(), has_layers: false, own, directory: view.directory.clone() };
    builder.root(&root, work.as_ref())?;
    // The old root is above the new one until it is unmounted: paths below `/proc/self/fd` lead there as before.
    std::env::set_current_dir(SCAFFOLD).during(|| format!("entering `{SCAFFOLD}`"))?;
    pivot_root(".", ".").during(|| "changing the root directory".to_owned())?;
    builder.mount(&tmp, "/tmp", view.directory.join("tmp"), Kind::Private)?;
    for (source, mount) in sources.iter().zip(&view.mounts) {
        builder.mount(source, &mount.target, mount.source.clone(), Kind::Mount)?;
    }
    for output in view.outputs.iter().map(|output| clean(output)).filter(|output| !is_device(output)) {
        builder.output(&output)?;
    }
    builder.place(&clean(working_dir), true)?;
    uncover(Path::new(".")).during(|| "letting the machine's root go".to_owned())?;
    std::env::set_current_dir("/").during(|| "entering `/`".to_owned())?;
    for mount in view.mounts.iter().filter(|mount| mount.read_only) {
        protect(Path::new(&mount.target)).during(|| format!("making `{}` read-only", mount.target))?;
    }
    Ok(builder.layout)
}

/// Makes the pod's root of two layers at the scaffold: below, in memory, the places where the machine's directories are to appear, and
/// above the pod's own directory. So none of these places is made on the disk, and removed again, for every pod. Gives what it made; none
/// where the kernel cannot do that.
fn layer_root(root: &PathHandle, work: &PathHandle, names: &[Entry]) -> Option<BTreeMap<PathBuf, StandIn>> {
    let scaffold = Path::new(SCAFFOLD);
    cover(scaffold).ok()?;
    // What cannot be made here is tried again, and reported, where it is mounted.
    let make = |name: &PathBuf| Some((name.clone(), stand_in(&Path::new("/").join(name), &scaffold.join(name)).ok()?));
    let made = names.iter().filter_map(|entry| make(&entry.name)).collect();
    let below = PathHandle::open(scaffold).map_err(|failure| failure.source);
    match below.and_then(|below| layer(&below.path(), &root.path(), &work.path(), scaffold)) {
        Ok(()) => Some(made),
        Err(_) => {
            drop(uncover(scaffold));
            None
        }
    }
}

/// Covers the devices of the machine with a layer in memory, which is empty; `here` is a file system in memory already. Says whether the
/// kernel can do that.
fn layer_devices(devices: &PathHandle, here: &Path) -> bool {
    let (upper, work) = (here.join("upper"), here.join("work"));
    let make = || -> io::Result<()> {
        fs::create_dir(&upper)?;
        like(&devices.path(), &upper)?;
        fs::create_dir(&work)?;
        layer(&devices.path(), &upper, &work, here)
    };
    // Some file systems let no device be opened in a layer.
    let opens = |name: &str| devices.has_mount(Path::new(name)) || File::open(here.join(name)).is_ok();
    let is_made = make().is_ok();
    if is_made && opens("null") {
        return true;
    }
    if is_made {
        drop(uncover(here));
    }
    // What cannot be removed is seen in the `/dev` of this pod alone.
    drop(fs::remove_dir_all(&upper));
    drop(fs::remove_dir_all(&work));
    false
}

struct Builder {
    layout: Layout,
    /// Whether the kernel puts layers of directories together for this process.
    has_layers: bool,
    /// The pod's directory for the view, held and by its path on the machine.
    own: PathHandle,
    directory: PathBuf,
}

impl Builder {
    /// Makes the pod's root at the scaffold.
    fn root(&mut self, root: &PathHandle, work: Option<&PathHandle>) -> Result<(), Failure> {
        let scaffold = Path::new(SCAFFOLD);
        let names = entries(Path::new("/"), "/")?;
        let made = work.and_then(|work| layer_root(root, work, &names));
        if made.is_none() {
            bind(&root.path(), scaffold).during(|| format!("mounting the pod's root at `{SCAFFOLD}`"))?;
        }
        self.has_layers = made.is_some();
        let made = made.unwrap_or_default();
        self.layout.add("/", Some(self.directory.join("top")), Kind::Private);
        for Entry { name, .. } in names {
            let source = Path::new("/").join(&name);
            if source != scaffold {
                let target = scaffold.join(&name);
                let shown = match made.get(&name) {
                    Some(made) => made.show(&source, &target),
                    None => show(&source, &target),
                };
                self.appear(shown, &source.to_string_lossy(), &source)?;
            }
        }
        let tmp = scaffold.join("tmp");
        mount_point(&tmp, true).during(|| format!("making `{}`", tmp.display()))
    }

    /// Notes that an entry of a directory of the machine appears in the view at `inside`, if it does.
    fn appear(&mut self, shown: io::Result<()>, inside: &str, machine: &Path) -> Result<(), Failure> {
        match shown {
            Ok(()) => {}
            // Gone since it was listed, or not this user's to see.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
                return Ok(());
            }
            Err(error) => return Err(error).during(|| format!("mounting `{inside}`")),
        }
        let outside = Some(machine.to_owned());
        self.layout.put(inside, outside, Kind::Machine);
        Ok(())
    }

    /// Mounts something held at a path inside.
    fn mount(&mut self, source: &PathHandle, target: &str, outside: PathBuf, kind: Kind) -> Result<(), Failure> {
        let path = source.path();
        let is_dir = fs::metadata(&path).during(|| format!("looking at the source of `{target}`"))?.is_dir();
        let place = self.place(&clean(target), is_dir)?;
        let at = if place.is_empty() { "/" } else { &place };
        bind(&path, Path::new(at)).during(|| format!("mounting `{}` at `{target}`", outside.display()))?;
        self.layout.add(&place, Some(outside), kind);
        Ok(())
    }

    /// Makes a path inside, unless it is there; returns it without symbolic links.
    fn place(&mut self, wanted: &str, directory: bool) -> Result<String, Failure> {
        let (there, missing) = nearest(wanted).during(|| format!("looking for `{wanted}`"))?;
        let Some((last, between)) = missing.split_last() else { return Ok(there) };
        if self.kind(&there) == Kind::Machine {
            self.replace(&there, None)?;
        }
        let mut path = there;
        for part in between {
            path = format!("{path}/{part}");
            fs::create_dir(&path).during(|| format!("making `{path}`"))?;
        }
        path = format!("{path}/{last}");
        mount_point(Path::new(&path), directory).during(|| format!("making `{path}`"))?;
        Ok(path)
    }

    /// Makes a file for output the pod's own.
    fn output(&mut self, output: &str) -> Result<(), Failure> {
        if self.kind(output) == Kind::Mount {
            return Ok(());
        }
        let (parent, name) = output.rsplit_once('/').unwrap_or(("", output));
        let (parent, missing) = nearest(parent).during(|| format!("looking for `{parent}`"))?;
        if !missing.is_empty() {
            // The container makes it, as in an image that lacks it; what it makes is the pod's.
            return if self.kind(&parent) == Kind::Machine { self.replace(&parent, None) } else { Ok(()) };
        }
        let path = format!("{parent}/{name}");
        match (self.kind(&parent), self.kind(&path)) {
            (Kind::Machine, _) => self.replace(&parent, Some(name)),
            (Kind::Private, Kind::Machine) => self.hide(&path),
            _ => Ok(()),
        }
    }

    /// Takes an entry of the machine out of a directory of the pod.
    fn hide(&mut self, path: &str) -> Result<(), Failure> {
        let hide = || {
            if fs::symlink_metadata(path)?.file_type().is_symlink() {
                return fs::remove_file(path);
            }
            uncover(Path::new(path))?;
            if fs::metadata(path)?.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) }
        };
        hide().during(|| format!("hiding the machine's `{path}`"))?;
        self.layout.take(path);
        Ok(())
    }

    /// Replaces a directory of the machine by one of the pod in which all its entries appear, but for one.
    fn replace(&mut self, path: &str, without: Option<&str>) -> Result<(), Failure> {
        if is_device(path) && !is_within(path, "/dev") {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "nothing can be made there");
            return Err(error).during(|| format!("making a place in `{path}`"));
        }
        let here = Path::new(path);
        let machine = self.layout.outside(path).unwrap_or_else(|| here.to_owned());
        let original = PathHandle::open(here)?;
        let mut names = entries(&original.path(), path)?;
        let outside = if is_within(path, "/dev") {
            cover(here).during(|| format!("covering `{path}`"))?;
            if self.has_layers && layer_devices(&original, here) {
                names.retain(|entry| entry.is_mounted_in_dev(&original));
            }
            None
        } else {
            let digest = Sha256::digest(path.as_bytes());
            let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            let places = self.own.path().join(PLACES);
            let place = places.join(&name);
            mount_point(&places, true)
                .and_then(|()| mount_point(&place, true))
                .during(|| format!("making a place for `{path}`"))?;
            like(&original.path(), &place).during(|| format!("making a place for `{path}`"))?;
            bind(&place, here).during(|| format!("replacing `{path}`"))?;
            Some(below(&self.directory.join(PLACES), &name))
        };
        self.layout.add(path, outside, Kind::Private);
        let without = without.unwrap_or_default().as_bytes();
        for Entry { name, .. } in names.iter().filter(|entry| entry.name.as_os_str().as_bytes() != without) {
            if !(path == "/dev" && is_console(name)) {
                let inside = format!("{path}/{}", name.display());
                self.appear(show(&original.path().join(name), &here.join(name)), &inside, &machine.join(name))?;
            }
        }
        Ok(())
    }

    fn kind(&self, inside: &str) -> Kind {
        self.layout.area(inside).map_or(Kind::Machine, |area| area.kind)
    }
}

/// An entry of a directory.
struct Entry {
    name: PathBuf,
    kind: FileType,
}

impl Entry {
    /// Whether an entry of `/dev` is mounted though there is a layer over all of it. Devices and links show through the layer, where nothing
    /// is mounted on them. Others do not: what is written to files, pipes and below directories is the machine's.
    fn is_mounted_in_dev(&self, dev: &PathHandle) -> bool {
        let shows = self.kind.is_char_device() || self.kind.is_block_device() || self.kind.is_symlink();
        !shows || dev.has_mount(&self.name)
    }
}

/// The entries of a directory that `inside` shows.
fn entries(path: &Path, inside: &str) -> Result<Vec<Entry>, Failure> {
    let read = || -> io::Result<Vec<Entry>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            if names.len() >= ENTRIES_MAX {
                let why = format!("it has more than {ENTRIES_MAX} entries; declare a volume instead");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            let entry = entry?;
            names.push(Entry { name: PathBuf::from(entry.file_name()), kind: entry.file_type()? });
        }
        Ok(names)
    };
    read().during(|| format!("replacing `{inside}`"))
}

/// The longest beginning of a clean path that exists, without symbolic links, and the components that are missing.
fn nearest(wanted: &str) -> io::Result<(String, Vec<String>)> {
    let mut missing = Vec::new();
    let mut rest = wanted;
    loop {
        match fs::canonicalize(if rest.is_empty() { "/" } else { rest }) {
            Ok(there) => {
                missing.reverse();
                return Ok((clean(&there.to_string_lossy()), missing));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && !rest.is_empty() => {
                let (before, last) = rest.rsplit_once('/').unwrap_or(("", rest));
                missing.push(last.to_owned());
                rest = before;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Gives a directory the owner and mode of another, as far as this user may.
fn like(original: &Path, place: &Path) -> io::Result<()> {
    let found = fs::metadata(original)?;
    if nix::unistd::Uid::effective().is_root() {
        use std::os::unix::fs::MetadataExt;
        // A user namespace knows few owners; then it stays this user's.
        drop(std::os::unix::fs::chown(place, Some(found.uid()), Some(found.gid())));
    }
    fs::set_permissions(place, found.permissions())
}

/// Whether an entry of `/dev` is a screen or serial line: many, and of no use to a job.
fn is_console(name: &Path) -> bool {
    let name = name.to_string_lossy();
    let numbered =
        |prefix| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    numbered("tty") || name.starts_with("ttyS") || name.starts_with("vcs")
}

/// Tries what [`enter`] needs: namespaces, a mount in memory, a bind mount and another root.
pub(super) fn attempt(user_namespace: bool) -> Result<(), Failure> {
    separate(user_namespace)?;
    let scaffold = Path::new(SCAFFOLD);
    cover(scaffold).during(|| "mounting a file system in memory".to_owned())?;
    let proc = scaffold.join("proc");
    let show = mount_point(&proc, true).and_then(|()| bind(Path::new("/proc"), &proc));
    show.during(|| "mounting a directory twice".to_owned())?;
    std::env::set_current_dir(scaffold).during(|| format!("entering `{SCAFFOLD}`"))?;
    pivot_root(".", ".").during(|| "changing the root directory".to_owned())?;
    uncover(Path::new(".")).during(|| "letting the machine's root go".to_owned())
}
