//! Specs by their hashes. Owns the index of hashes: new ones are remembered, and sorted into the table by the thousand.
//!
//! Hashes have no order, so that each insertion into an index of a million of them would write a separate page. Sorted
//! batches write each page once.

use std::collections::HashMap;

use orlop_core::ports::fleet_store::{NewSpec, SpecHash};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use crate::store::fleet::batch::missing;
use crate::store::fleet::column::integer;
use crate::store::sqlite::error::CallError;

/// Specs that are remembered before they are sorted into the table.
const TAIL: usize = 16_384;
/// More specs than this that were looked up are forgotten together.
const REMEMBERED: usize = 65_536;

/// What the table of hashes is ordered by.
fn short(hash: &SpecHash) -> i64 {
    hash.0.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// Numbers of specs: of all that are not in the table of hashes yet, and of those that were looked up lately.
#[derive(Debug, Default)]
pub(super) struct SpecNumbers {
    /// None before it was read, and after a transaction was taken back.
    tail: Option<HashMap<SpecHash, i64>>,
    known: HashMap<SpecHash, i64>,
}

/// The statement that finds a number in the table of hashes.
const FIND: &str = "SELECT specs.id FROM spec_hashes JOIN specs ON specs.id = spec_hashes.id
                    WHERE spec_hashes.hash = ?1 AND specs.hash = ?2";

impl SpecNumbers {
    /// What is stored may be another than is known here.
    pub(super) fn forget(&mut self) {
        self.tail = None;
        self.known.clear();
    }

    /// Stores specs of a commit, and counts the uses of those it needs.
    pub(super) fn write(
        &mut self,
        connection: &Connection,
        specs: &[(NewSpec, u64)],
        needed: &HashMap<SpecHash, u64>,
    ) -> Result<(), CallError> {
        if specs.is_empty() && needed.is_empty() {
            return Ok(());
        }
        if self.tail.is_none() {
            self.tail = Some(read_tail(connection)?);
        }
        if self.known.len() > REMEMBERED {
            self.known.clear();
        }
        let mut find = connection.prepare_cached(FIND)?;
        let mut count = connection.prepare_cached("UPDATE specs SET refs = refs + ?2 WHERE id = ?1")?;
        for (hash, uses) in needed {
            let found = self.look_up(&mut find, hash)?;
            let number = found.ok_or_else(|| missing(format_args!("spec {hash} of a new job")))?;
            count.execute(params![number, integer(*uses)])?;
        }
        let mut insert = connection.prepare_cached("INSERT INTO specs (hash, body, refs) VALUES (?1, ?2, ?3)")?;
        for (spec, uses) in specs {
            if let Some(number) = self.look_up(&mut find, &spec.hash)? {
                count.execute(params![number, integer(*uses)])?;
                continue;
            }
            insert.execute(params![spec.hash.0.as_slice(), &*spec.body, integer(*uses)])?;
            let number = connection.last_insert_rowid();
            self.tail.get_or_insert_default().insert(spec.hash, number);
        }
        if self.tail.as_ref().is_some_and(|tail| tail.len() >= TAIL) {
            self.sort_in(connection)?;
        }
        Ok(())
    }

    /// The number of a spec that a commit uses.
    pub(super) fn number(&self, hash: &SpecHash) -> Result<i64, CallError> {
        self.remembered(hash).ok_or_else(|| missing(format_args!("spec {hash}")).into())
    }

    fn remembered(&self, hash: &SpecHash) -> Option<i64> {
        let tail = self.tail.as_ref().and_then(|tail| tail.get(hash));
        tail.or_else(|| self.known.get(hash)).copied()
    }

    fn look_up(&mut self, find: &mut CachedStatement<'_>, hash: &SpecHash) -> Result<Option<i64>, CallError> {
        if let Some(number) = self.remembered(hash) {
            return Ok(Some(number));
        }
        let found = find.query_row(params![short(hash), hash.0.as_slice()], |row| row.get(0)).optional()?;
        if let Some(number) = found {
            self.known.insert(*hash, number);
        }
        Ok(found)
    }

    /// Sorts what is remembered into the table of hashes.
    fn sort_in(&mut self, connection: &Connection) -> Result<(), CallError> {
        let tail = self.tail.take().unwrap_or_default();
        let mut sorted: Vec<(i64, i64)> = tail.iter().map(|(hash, number)| (short(hash), *number)).collect();
        sorted.sort_unstable();
        let mut insert = connection.prepare_cached("INSERT INTO spec_hashes (hash, id) VALUES (?1, ?2)")?;
        for (hash, number) in &sorted {
            insert.execute([hash, number])?;
        }
        let last = sorted.iter().map(|(_, number)| *number).max().unwrap_or(0);
        connection.prepare_cached("UPDATE spec_tail SET after = max(after, ?1)")?.execute([last])?;
        // The commit under way may still use them.
        self.known.extend(tail);
        self.tail = Some(HashMap::new());
        Ok(())
    }
}

fn read_tail(connection: &Connection) -> Result<HashMap<SpecHash, i64>, CallError> {
    let mut statement =
        connection.prepare_cached("SELECT hash, id FROM specs WHERE id > (SELECT after FROM spec_tail)")?;
    let mut rows = statement.query([])?;
    let mut tail = HashMap::new();
    while let Some(row) = rows.next()? {
        let hash: [u8; 32] = row.get(0)?;
        tail.insert(SpecHash(hash), row.get(1)?);
    }
    Ok(tail)
}

/// A spec by its hash.
pub(super) fn find(connection: &Connection, hash: &SpecHash) -> Result<Option<NewSpec>, CallError> {
    let mut sorted = connection.prepare_cached(
        "SELECT body FROM spec_hashes JOIN specs ON specs.id = spec_hashes.id
         WHERE spec_hashes.hash = ?1 AND specs.hash = ?2",
    )?;
    let key = hash.0.as_slice();
    let mut body: Option<String> = sorted.query_row(params![short(hash), key], |row| row.get(0)).optional()?;
    if body.is_none() {
        let mut tail = connection
            .prepare_cached("SELECT body FROM specs WHERE id > (SELECT after FROM spec_tail) AND hash = ?1")?;
        body = tail.query_row([key], |row| row.get(0)).optional()?;
    }
    Ok(body.map(|body| NewSpec { hash: *hash, body: body.into() }))
}

/// Deletes specs that no job uses, so many at most.
pub(super) fn forget_unused(connection: &Connection, batch: i64) -> Result<usize, CallError> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM specs WHERE id IN (SELECT id FROM specs WHERE refs = 0 LIMIT ?1) RETURNING hash, id",
    )?;
    let mut rows = statement.query([batch])?;
    let mut gone = Vec::new();
    while let Some(row) = rows.next()? {
        let (hash, number): ([u8; 32], i64) = (row.get(0)?, row.get(1)?);
        gone.push((short(&SpecHash(hash)), number));
    }
    let mut unsort = connection.prepare_cached("DELETE FROM spec_hashes WHERE hash = ?1 AND id = ?2")?;
    for (hash, number) in &gone {
        unsort.execute([hash, number])?;
    }
    // The next number is one above the greatest that is left: it must count as not sorted in.
    let lower = "UPDATE spec_tail SET after = min(after, (SELECT coalesce(max(id), 0) FROM specs))";
    connection.prepare_cached(lower)?.execute([])?;
    Ok(gone.len())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::store::sqlite::fleet::schema::FLEET;

    #[test]
    fn specs_are_found_before_and_after_they_are_sorted_in() {
        let mut connection = Connection::open_in_memory().unwrap();
        FLEET.migrate(Path::new("fleet.db"), &mut connection).unwrap();
        let mut numbers = SpecNumbers::default();
        let specs: Vec<(NewSpec, u64)> = (0..TAIL + 100).map(|number| (NewSpec::new(number.to_string()), 1)).collect();
        let none = HashMap::new();
        numbers.write(&connection, &specs[..50], &none).unwrap();
        let first = numbers.number(&specs[7].0.hash).unwrap();
        numbers.write(&connection, &specs[40..TAIL], &none).unwrap();
        numbers.write(&connection, &specs[TAIL..], &none).unwrap();
        for _ in 0..2 {
            for (spec, _) in specs.iter().step_by(97) {
                assert_eq!(find(&connection, &spec.hash).unwrap().as_ref(), Some(spec));
            }
            // What is not remembered is found again.
            numbers.forget();
            numbers.write(&connection, &specs, &none).unwrap();
            assert_eq!(numbers.number(&specs[7].0.hash).unwrap(), first);
        }
        let count = |table: &str| -> i64 {
            connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
        };
        assert_eq!(count("specs"), i64::try_from(specs.len()).unwrap());
        assert_eq!(count("spec_hashes"), i64::try_from(TAIL).unwrap());
        assert_eq!(find(&connection, &SpecHash::of("other")).unwrap(), None);
        connection.execute_batch("UPDATE specs SET refs = 0").unwrap();
        assert_eq!(forget_unused(&connection, 1 << 20).unwrap(), specs.len());
        assert_eq!((count("specs"), count("spec_hashes")), (0, 0));
        numbers.forget();
        numbers.write(&connection, &specs[..1], &none).unwrap();
        assert_eq!(find(&connection, &specs[0].0.hash).unwrap().as_ref(), Some(&specs[0].0));
    }
}
