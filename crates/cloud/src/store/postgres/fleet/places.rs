//! Where the logs and artifacts of the fleet are, as all its servers are to see it: in the database, or in one folder that all
//! of them have. Owns the agreement about it; without it a server that takes over would find nothing of what was before.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use orlop_core::error::{Class, Problem};
use orlop_core::ports::fleet_store::{FleetReads as _, Kind};

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
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    write!(new, "{:016x}{:016x}", random()?, random()?)?;
    new.as_file().sync_all()?;
    match new.persist_noclobber(&path) {
        Err(there) if there.error.kind() != io::ErrorKind::AlreadyExists => return Err(there.error),
        _ => {}
    }
    let mut name = String::new();
    File::open(&path)?.take(64).read_to_string(&mut name)?;
    match name.trim() {
        "" => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is empty; remove it", path.display()))),
        name => Ok(name.to_owned()),
    }
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let filled = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
    filled.map_err(|_| io::Error::other("the system provides no random numbers"))?;
    Ok(u64::from_ne_bytes(bytes))
}

impl PostgresFleet {
    /// Whether artifacts were kept before servers agreed on a place: in a folder, for there was nothing else.
    async fn has_artifacts_elsewhere(&self) -> Result<bool, Problem> {
        let known = format!(
            "SELECT EXISTS (SELECT 1 FROM {}) AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'place.artifacts')",
            Kind::Artifact
        );
        let rows = self.reader().await?.query(&known, &[]).await?;
        rows.first().map_or(Ok(false), |row| get(row, 0))
    }

    async fn is_settled(&self, contents: Contents, here: &str) -> Result<bool, Problem> {
        let params: Vec<Param> = vec![Box::new(format!("place.{}", contents.word())), Box::new(here.to_owned())];
        let known = "SELECT EXISTS (SELECT 1 FROM meta WHERE key = $1 AND value = $2)";
        let rows = self.reader().await?.query(known, &params).await?;
        rows.first().map_or(Ok(false), |row| get(row, 0))
    }

    /// Makes sure that this server keeps something where the others of the fleet do: in the database, or in this folder. The first
    /// server settles it; `accept` settles it anew.
    ///
    /// # Errors
    /// Conflict when it is elsewhere; Denied or Capacity when the folder cannot be used; as of the database.
    pub async fn settle(&self, contents: Contents, folder: Option<&Path>, accept: bool) -> Result<(), Problem> {
        let what = contents.word();
        let here = match folder {
            None => DATABASE.to_owned(),
            Some(folder) => name_of(folder).map_err(|error| {
                let class = Problem::from(io::Error::from(error.kind())).class;
                let message = format!("the folder {} of {what} cannot be used", folder.display());
                Problem::new(class, message).because(error)
            })?,
        };
        if contents == Contents::Artifacts && folder.is_none() && !accept && self.has_artifacts_elsewhere().await? {
            let message = "this fleet has artifacts, and they are not in its database: name their folder in `store.artifacts`, \
                           on all servers; to begin anew without them, start one server with --store-accept=true";
            return Err(Problem::new(Class::Conflict, message));
        }
        let accept = accept
            && {
                // Where a server leads it goes on where it is, and the next one would find nothing of that.
                let leader = self.leader().await?.filter(|leader| !leader.holder.is_empty());
                match leader.filter(|leader| leader.remaining.is_some_and(|left| !left.is_zero())) {
                    None => true,
                    Some(_) if self.is_settled(contents, &here).await? => false,
                    Some(leader) => {
                        let message = format!(
                            "server `{}` at {} leads; {what} move where no server does: end all of them, wait for 10 s, and start one",
                            leader.holder, leader.url
                        );
                        return Err(Problem::new(Class::Conflict, message));
                    }
                }
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
        Err(Problem::new(Class::Conflict, message + advice))
    }
}
