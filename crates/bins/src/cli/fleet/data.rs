//! Where a server on this machine keeps its data. Owns the place and its rights; what stands in it is the store's.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::exit::Trouble;

/// The directory of a server; one for the moment goes with this value.
#[derive(Debug)]
pub(super) struct Data {
    path: PathBuf,
    passing: bool,
}

impl Data {
    /// The directory asked for, or the user's.
    ///
    /// # Errors
    /// There is none, or it cannot be made.
    pub(super) fn at(asked: Option<PathBuf>) -> Result<Self, Trouble> {
        let path =
            asked.or_else(of_user).ok_or_else(|| Trouble::usage("there is no home directory; say --data DIR"))?;
        // What is started from here runs elsewhere: it must find its files all the same.
        let absolute = std::path::absolute(&path);
        let path = absolute.map_err(|error| Trouble::usage(format!("{} is no place: {error}", path.display())))?;
        make(&path)?;
        Ok(Self { path, passing: false })
    }

    /// One that is gone afterwards: in memory where the system has a place for that.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn passing() -> Result<Self, Trouble> {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let path = base.join(format!("orlop-{}", uuid::Uuid::new_v4().simple()));
        make(&path)?;
        Ok(Self { path, passing: true })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if self.passing
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!(target: "orlop::up", %error, path = %self.path.display(), "the data is left behind");
        }
    }
}

fn make(path: &Path) -> Result<(), Trouble> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| Trouble::usage(format!("{} cannot be used as the data directory: {error}", path.display())))
}

fn of_user() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")))?;
    Some(data.join("orlop"))
}
