//! The tables of the journal and the steps from each version of them to the next.

use std::path::Path;

use orlop_core::error::{Class, Problem};
use rusqlite::{Connection, TransactionBehavior};

use super::error::classify_of;

/// What a file holds and how it came to its layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// What people call it.
    pub(super) noun: &'static str,
    /// What marks the file as one.
    pub(super) application_id: i32,
    /// Each step brings a file from the version of its index to the next. Steps are never changed, only added.
    pub(super) steps: &'static [&'static str],
}

/// A journal of flows: `ORLP`.
const JOURNAL: Layout = Layout { noun: "journal", application_id: 0x4f52_4c50, steps: MIGRATIONS };

/// The steps of the journal.
///
/// Sequence numbers and times are 64-bit integers; times count milliseconds since the Unix epoch. Objects, options and
/// summaries are JSON. What changes often (entries, snapshot) is kept out of the row with the large object.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE flow (
        id         INTEGER PRIMARY KEY,
        uid        TEXT    NOT NULL UNIQUE,
        namespace  TEXT    NOT NULL,
        name       TEXT    NOT NULL,
        created_at INTEGER NOT NULL,
        object     TEXT    NOT NULL,
        options    TEXT    NOT NULL,
        UNIQUE (namespace, name)
    ) STRICT;
    CREATE INDEX flow_by_creation ON flow (created_at, uid);
    CREATE TABLE summary (
        flow       INTEGER PRIMARY KEY REFERENCES flow (id) ON DELETE CASCADE,
        summary    TEXT    NOT NULL
    ) STRICT;
    CREATE TABLE snapshot (
        flow       INTEGER PRIMARY KEY REFERENCES flow (id) ON DELETE CASCADE,
        through    INTEGER NOT NULL,
        state      BLOB    NOT NULL
    ) STRICT;
    CREATE TABLE entry (
        flow       INTEGER NOT NULL REFERENCES flow (id) ON DELETE CASCADE,
        number     INTEGER NOT NULL,
        now        INTEGER NOT NULL,
        event      TEXT    NOT NULL,
        PRIMARY KEY (flow, number)
    ) STRICT, WITHOUT ROWID;
"];

/// What a file holds, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SchemaState {
    /// Nothing yet.
    Empty,
    /// A journal of this version.
    Version(usize),
}

/// Brings the file up to date in one transaction.
pub(super) fn migrate(path: &Path, connection: &mut Connection) -> Result<(), Problem> {
    JOURNAL.migrate(path, connection)
}

/// Holds when a viewer can read the file as it is.
pub(super) fn check(path: &Path, connection: &Connection) -> Result<(), Problem> {
    JOURNAL.check(path, connection)
}

impl Layout {
    /// Brings the file up to date in one transaction.
    pub(super) fn migrate(&self, path: &Path, connection: &mut Connection) -> Result<(), Problem> {
        let sqlite = |error: rusqlite::Error| classify_of(self.noun, path, "preparing", &error);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sqlite)?;
        let done = match self.find(path, &transaction)? {
            SchemaState::Empty => 0,
            SchemaState::Version(version) => version,
        };
        for step in self.steps.iter().skip(done) {
            transaction.execute_batch(step).map_err(sqlite)?;
        }
        if done < self.steps.len() {
            transaction.pragma_update(None, "application_id", self.application_id).map_err(sqlite)?;
            let version = i64::try_from(self.steps.len()).unwrap_or(i64::MAX);
            transaction.pragma_update(None, "user_version", version).map_err(sqlite)?;
        }
        transaction.commit().map_err(sqlite)
    }

    /// Holds when a viewer can read the file as it is.
    fn check(&self, path: &Path, connection: &Connection) -> Result<(), Problem> {
        let noun = self.noun;
        match self.find(path, connection)? {
            SchemaState::Version(version) if version == self.steps.len() => Ok(()),
            SchemaState::Version(version) => {
                let message = format!(
                    "{noun} {} has version {version}, older than {}; let a host open it once to bring it up to date",
                    path.display(),
                    self.steps.len()
                );
                Err(Problem::new(Class::Invalid, message))
            }
            SchemaState::Empty => {
                let message = format!("{noun} {} is still being created; try again", path.display());
                Err(Problem::new(Class::Transient, message))
            }
        }
    }

    /// What the file holds; refuses files of other programs and newer versions.
    fn find(&self, path: &Path, connection: &Connection) -> Result<SchemaState, Problem> {
        let (noun, known) = (self.noun, self.steps.len());
        let sqlite = |error: rusqlite::Error| classify_of(noun, path, "reading", &error);
        let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(sqlite);
        let (id, version) = (number("application_id")?, number("user_version")?);
        if id == i64::from(self.application_id) {
            return match usize::try_from(version) {
                Ok(version) if (1..=known).contains(&version) => Ok(SchemaState::Version(version)),
                _ => {
                    let message = format!(
                        "{noun} {} has version {version}, this Orlop knows versions 1 to {known}; use a newer Orlop",
                        path.display()
                    );
                    Err(Problem::new(Class::Fatal, message))
                }
            };
        }
        let tables: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(sqlite)?;
        if id == 0 && version == 0 && tables == 0 {
            return Ok(SchemaState::Empty);
        }
        let message = format!("{} is a database of another program; name another file", path.display());
        Err(Problem::new(Class::Fatal, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[&str] = &["CREATE TABLE a (x INTEGER) STRICT;", "ALTER TABLE a ADD COLUMN y INTEGER;"];

    fn memory() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    fn by(connection: &mut Connection, steps: &'static [&'static str]) -> Result<(), Problem> {
        Layout { steps, ..JOURNAL }.migrate(Path::new("flows.db"), connection)
    }

    #[test]
    fn each_step_is_done_once() {
        let mut connection = memory();
        by(&mut connection, &TWO[..1]).unwrap();
        connection.execute_batch("INSERT INTO a VALUES (1)").unwrap();
        by(&mut connection, TWO).unwrap();
        by(&mut connection, TWO).unwrap();
        let row = connection.query_row("SELECT x, y FROM a", [], |row| Ok((row.get(0)?, row.get(1)?)));
        assert_eq!(row.unwrap(), (1_i64, None::<i64>));
    }

    #[test]
    fn a_failed_step_changes_nothing() {
        let mut connection = memory();
        by(&mut connection, &TWO[..1]).unwrap();
        const BAD: &[&str] = &[TWO[0], TWO[1], "CREATE NONSENSE;"];
        assert_eq!(by(&mut connection, BAD).unwrap_err().class, Class::Fatal);
        assert!(connection.prepare("SELECT y FROM a").is_err());
        by(&mut connection, TWO).unwrap();
    }

    #[test]
    fn a_newer_version_is_refused() {
        let mut connection = memory();
        by(&mut connection, TWO).unwrap();
        let error = by(&mut connection, &TWO[..1]).unwrap_err();
        assert_eq!(error.class, Class::Fatal);
        insta::assert_snapshot!(error, @"journal flows.db has version 2, this Orlop knows versions 1 to 1; use a newer Orlop");
    }

    #[test]
    fn a_database_of_another_program_is_refused() {
        let mut connection = memory();
        connection.execute_batch("CREATE TABLE bookmarks (url TEXT)").unwrap();
        let error = by(&mut connection, TWO).unwrap_err();
        insta::assert_snapshot!(error, @"flows.db is a database of another program; name another file");
        let mut connection = memory();
        connection.pragma_update(None, "application_id", 7).unwrap();
        assert_eq!(by(&mut connection, TWO).unwrap_err().class, Class::Fatal);
    }

    #[test]
    fn a_viewer_waits_for_the_host_to_migrate() {
        let mut connection = memory();
        let path = Path::new("flows.db");
        assert_eq!(check(path, &connection).unwrap_err().class, Class::Transient);
        migrate(path, &mut connection).unwrap();
        check(path, &connection).unwrap();
    }
}
