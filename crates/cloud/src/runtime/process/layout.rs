//! Where a container's paths are on this machine. Owns the translation, symbolic links included; never mounts and never
//! reads the content of a file.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Symbolic links followed at most.
const LINKS_MAX: u32 = 40;

/// What a part of a container's file system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// The machine's own, at the same path.
    Machine,
    /// A place of the pod's own.
    Private,
    /// A mount of the plan.
    Mount,
}

/// A part of a container's file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Area {
    /// Path inside: absolute, without `.`, `..` and trailing `/`; empty for the root.
    pub(crate) inside: String,
    /// Path on this machine; none when nothing outlives the container.
    pub(crate) outside: Option<PathBuf>,
    /// What it is.
    pub(crate) kind: Kind,
}

/// What a container sees where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layout {
    areas: Vec<Area>,
}

/// A path inside as its clean components: no empty ones, no `.`, and `..` taken back.
pub(crate) fn clean(inside: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in inside.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.iter().flat_map(|part| ["/", part]).collect()
}

/// Whether a clean path is below another or the same.
pub(crate) fn is_within(path: &str, area: &str) -> bool {
    path.strip_prefix(area).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Layout {
    /// Adds an area beside those that are there, or instead of the one of the same path.
    pub(crate) fn put(&mut self, inside: &str, outside: Option<PathBuf>, kind: Kind) {
        let inside = clean(inside);
        self.areas.retain(|area| area.inside != inside);
        self.areas.push(Area { inside, outside, kind });
    }

    /// Adds an area over all that was there.
    pub(crate) fn add(&mut self, inside: &str, outside: Option<PathBuf>, kind: Kind) {
        let inside = clean(inside);
        self.areas.retain(|area| !is_within(&area.inside, &inside));
        self.areas.push(Area { inside, outside, kind });
    }

    /// Takes an area out.
    pub(crate) fn take(&mut self, inside: &str) {
        self.areas.retain(|area| area.inside != inside);
    }

    /// The area a clean path is in.
    pub(crate) fn area(&self, inside: &str) -> Option<&Area> {
        self.areas.iter().filter(|area| is_within(inside, &area.inside)).max_by_key(|area| area.inside.len())
    }

    /// All areas.
    pub(crate) fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// Where a clean path is on this machine, symbolic links left alone.
    pub(crate) fn outside(&self, inside: &str) -> Option<PathBuf> {
        let area = self.area(inside)?;
        let rest = inside.strip_prefix(area.inside.as_str())?;
        let outside = area.outside.as_ref()?;
        Some(if rest.is_empty() { outside.clone() } else { outside.join(rest.trim_start_matches('/')) })
    }

    /// Where a path is on this machine, symbolic links followed as the container would. Links that the pod may have made do not lead
    /// to the machine's own files: those are no outputs of it.
    ///
    /// # Errors
    /// NotFound; InvalidData for such links, and for too many.
    pub(crate) fn resolve(&self, inside: &str) -> io::Result<PathBuf> {
        let mut ahead: VecDeque<String> = parts(inside);
        let (mut at, mut links, mut linked) = (String::new(), 0, false);
        while let Some(part) = ahead.pop_front() {
            if part == ".." {
                at.truncate(at.rfind('/').unwrap_or(0));
                continue;
            }
            let here = format!("{at}/{part}");
            let outside = self.outside(&here).ok_or(io::ErrorKind::NotFound)?;
            // A mount point need not exist below the area around it, so only real entries can be links.
            let is_root = self.areas.iter().any(|area| area.inside == here);
            let link = if is_root { None } else { read_link(&outside)? };
            let Some(target) = link else {
                at = here;
                continue;
            };
            links += 1;
            if links > LINKS_MAX {
                let message = format!("too many symbolic links in `{inside}`");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            linked |= self.area(&here).is_some_and(|area| area.kind != Kind::Machine);
            if target.starts_with('/') {
                at.clear();
            }
            for part in parts(&target).into_iter().rev() {
                ahead.push_front(part);
            }
        }
        if linked && self.area(&at).is_none_or(|area| area.kind == Kind::Machine) {
            let what = format!(
                "`{inside}` is a symbolic link that leads out of the directories of the step, to `{at}` of the machine; copy what is \
                 to be kept"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let outside = self.outside(&at).ok_or(io::ErrorKind::NotFound)?;
        let found = fs::symlink_metadata(&outside)?;
        // What layers leave of an entry that was removed.
        if found.file_type().is_char_device() && found.rdev() == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(outside)
    }
}

fn parts(path: &str) -> VecDeque<String> {
    path.split('/').filter(|part| !matches!(*part, "" | ".")).map(str::to_owned).collect()
}

fn read_link(path: &Path) -> io::Result<Option<String>> {
    match fs::read_link(path) {
        Ok(target) => match target.into_os_string().into_string() {
            Ok(target) => Ok(Some(target)),
            Err(_) => Err(io::ErrorKind::NotFound.into()),
        },
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        // Below a file there is nothing.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(io::ErrorKind::NotFound.into()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    fn pod() -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        for name in ["top/out", "tmp", "volume"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let mut layout = Layout::default();
        layout.add("/", Some(dir.path().join("top")), Kind::Private);
        layout.add("/etc", Some("/etc".into()), Kind::Machine);
        layout.add("/tmp", Some(dir.path().join("tmp")), Kind::Private);
        layout.add("/tmp/data/", Some(dir.path().join("volume")), Kind::Mount);
        (dir, layout)
    }

    #[test]
    fn the_innermost_area_counts() {
        let (dir, layout) = pod();
        let outside = |inside| layout.outside(inside).unwrap();
        assert_eq!(outside("/out/x"), dir.path().join("top/out/x"));
        assert_eq!(outside("/etc/hosts"), Path::new("/etc/hosts"));
        assert_eq!(outside("/etcetera"), dir.path().join("top/etcetera"));
        assert_eq!(outside("/tmp/data/a"), dir.path().join("volume/a"));
        assert_eq!(outside("/tmp/database"), dir.path().join("tmp/database"));
    }

    #[test]
    fn links_are_the_container_s() {
        let (dir, layout) = pod();
        fs::write(dir.path().join("volume/real"), "x").unwrap();
        symlink("/tmp/data/real", dir.path().join("top/out/absolute")).unwrap();
        symlink("../tmp/./data/real", dir.path().join("top/out/relative")).unwrap();
        symlink("/tmp", dir.path().join("top/t")).unwrap();
        symlink("self", dir.path().join("tmp/self")).unwrap();
        let real = dir.path().join("volume/real");
        assert_eq!(layout.resolve("/out/absolute").unwrap(), real);
        assert_eq!(layout.resolve("/out/relative").unwrap(), real);
        assert_eq!(layout.resolve("/t/data/real").unwrap(), real);
        // No later try finds what is not there.
        assert_eq!(layout.resolve("/tmp/self").unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(layout.resolve("/tmp/data/real/v").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(layout.resolve("/nothing").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn links_to_the_machine_s_files_lead_to_nothing_of_the_pod() {
        let (dir, layout) = pod();
        symlink("/etc/hosts", dir.path().join("tmp/hosts")).unwrap();
        let error = layout.resolve("/tmp/hosts").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("leads out of the directories of the step, to `/etc/hosts`"), "{error}");
        assert!(layout.resolve("/etc/hosts").is_ok());
    }

    proptest! {
        #[test]
        fn clean_paths_stay_clean(path in "[a./]{0,12}") {
            let once = clean(&path);
            prop_assert_eq!(&clean(&once), &once);
            prop_assert!(once.is_empty() || (once.starts_with('/') && !once.ends_with('/') && !once.contains("//")));
        }
    }
}
