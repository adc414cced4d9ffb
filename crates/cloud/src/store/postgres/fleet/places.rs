//! Where the logs and artifacts of the fleet are, as all its servers are to see it: in the database, or in one folder that all
//! of them have. Owns the agreement about it; without it a server that takes over would find nothing of what was before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use orlop_core::error::{Class, PortError};

use super::PostgresFleet;
use super::connection::Param;
use super::read::get;

/// What stands for the database itself.
const DATABASE: &str = "database";
/// The file that names a folder.
const NAME: &str = ".orlop-folder";

/// What is kept somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Logs of attempts.
    Logs,
    /// Artifacts.
    Artifacts,
}

impl Contents {
    fn word(self) -> &'static str {
        match self {
            Self::Logs => "logs",
            Self::Artifacts => "artifacts",
        }
    }
}

/// The name of a folder, which it gets when it has none.
fn name_of(folder: &Path) -> io::Result<String> {
    fs::create_dir_all(folder)?;
    let path = folder.join(NAME);
    let new = format!("{:016x}{:016x}", random()?, random()?);
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(mut file) => {
            file.write_all(new.as_bytes())?;
            file.sync_all()?;
            return Ok(new);
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let mut name = String::new();
    File::open(&path)?.take(64).read_to_string(&mut name)?;
    Ok(name.trim().to_owned())
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let filled = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
    filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(u64::from_ne_bytes(bytes))
}

impl PostgresFleet {
    /// Makes sure that this server keeps something where the others of the fleet do: in the database, or in this folder. The first
    /// server settles it; `accept` settles it anew.
    ///
    /// # Errors
    /// Conflict when it is elsewhere; Denied or Capacity when the folder cannot be used; as of the database.
    pub async fn settle(&self, contents: Contents, folder: Option<&Path>, accept: bool) -> Result<(), PortError> {
        let what = contents.word();
        let here = match folder {
            None => DATABASE.to_owned(),
            Some(folder) => name_of(folder).map_err(|error| {
                let class = PortError::from(io::Error::from(error.kind())).class;
                let message = format!("the folder {} of {what} cannot be used", folder.display());
                PortError::new(class, message).because(error)
            })?,
        };
        let settle = if accept {
            "INSERT INTO meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value RETURNING value"
        } else {
            // The row that is there is given back as it is.
            "INSERT INTO meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = meta.value RETURNING value"
        };
        let params: Vec<Param> = vec![Box::new(format!("place.{what}")), Box::new(here.clone())];
        let rows = self.reader().await?.query(settle, &params).await?;
        let settled = rows.first().map_or(Ok(here.clone()), |row| get::<String>(row, 0))?;
        if settled == here {
            return Ok(());
        }
        let message = match (folder, settled.as_str()) {
            (Some(folder), DATABASE) => format!(
                "the {what} of this fleet are kept in its database, not in {}; leave `store.{what}` out on all servers",
                folder.display()
            ),
            (Some(folder), _) => format!(
                "{} is not the folder in which the other servers of this fleet keep {what}; a server that takes over would find \
                 none of them. Give all servers one folder that they share, or leave `store.{what}` out on all of them to keep \
                 {what} in the database",
                folder.display()
            ),
            (None, _) => format!(
                "the {what} of this fleet are kept in a folder that its servers share; name it in `store.{what}` on this one too"
            ),
        };
        let advice = "; to begin anew here and leave what is there, start one server with --store-accept=true";
        Err(PortError::new(Class::Conflict, message + advice))
    }
}
