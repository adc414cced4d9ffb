//! Settings by name: an explicit file, then the environment, then `./.env`.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use orlop_cloud::openstack::credentials::{MAX_FILE, Settings as CloudSettings, read_assignments};

use super::failure::Failure;

/// Settings.
#[derive(Default)]
pub(super) struct Settings {
    strong: BTreeMap<String, String>,
    weak: BTreeMap<String, String>,
    /// What people should know about the files.
    pub(super) warnings: Vec<String>,
}

impl Settings {
    /// Reads the explicit file, or `./.env` if there is one.
    ///
    /// # Errors
    /// The explicit file cannot be read.
    pub(super) fn read(explicit: Option<&Path>) -> Result<Self, Failure> {
        let mut settings = Self::default();
        let (path, found) = match explicit {
            Some(path) => {
                let found =
                    text(path).map_err(|error| Failure::usage(format!("--env-file {}: {error}", path.display())))?;
                (path, found)
            }
            None => match text(Path::new(".env")) {
                Ok(found) => (Path::new(".env"), found),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(settings),
                Err(error) => {
                    settings.warnings.push(format!(".env cannot be read: {error}"));
                    return Ok(settings);
                }
            },
        };
        let assigned = read_assignments(&found);
        for line in assigned.ignored.iter().take(10) {
            settings.warnings.push(format!("{}:{line}: not an assignment, left out", path.display()));
        }
        if explicit.is_some() {
            settings.strong = assigned.values;
        } else {
            settings.weak = assigned.values;
        }
        Ok(settings)
    }

    /// The value of a name, if it is not empty.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        let set = |value: &String| !value.is_empty();
        let strong = self.strong.get(name).cloned();
        let value = strong.or_else(|| std::env::var(name).ok().filter(set)).or_else(|| self.weak.get(name).cloned());
        value.filter(set)
    }

    /// The path in a setting, if it is not empty.
    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(|path| self.at_home(Path::new(&path)))
    }

    /// A path without the tilde that a shell would have taken for the home, where one was there to read it.
    pub(super) fn at_home(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), self.get("HOME")) {
            (Ok(rest), Some(home)) => Path::new(&home).join(rest),
            _ => path.to_owned(),
        }
    }

    /// Settings of a cloud, the strongest source first. What says who one is is taken from one source as a whole.
    pub(super) fn of_cloud(&self) -> CloudSettings {
        let environment = CloudSettings::of(
            std::env::vars_os().filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?))),
        );
        CloudSettings::of(self.strong.clone()).over(&environment).over(&CloudSettings::of(self.weak.clone()))
    }

    /// A number.
    ///
    /// # Errors
    /// It is set and is none.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Failure> {
        let parsed = self
            .get(name)
            .map(|text| text.trim().parse().map_err(|_| Failure::usage(format!("{name} must be a number"))));
        parsed.transpose()
    }

    /// Where state is kept: a folder that is there and that nobody else may read.
    ///
    /// # Errors
    /// There is no home, or the folder cannot be made.
    pub(super) fn state_dir(&self, flag: Option<&Path>) -> Result<PathBuf, Failure> {
        let below = |base: String, rest: &str| Path::new(&base).join(rest);
        let path = flag
            .map(Path::to_owned)
            .or_else(|| self.path("ORLOP_STATE_DIR"))
            .or_else(|| self.get("XDG_STATE_HOME").map(|base| below(base, "orlop/provisioner")))
            .or_else(|| self.get("HOME").map(|base| below(base, ".local/state/orlop/provisioner")))
            .ok_or_else(|| Failure::usage("cannot determine the state directory: give --state-dir"))?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path).and_then(|()| fs::canonicalize(&path));
        made.map_err(|error| Failure::usage(format!("the state directory {} cannot be used: {error}", path.display())))
    }
}

/// The text of a file, as far as one of settings may go.
pub(super) fn text(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
