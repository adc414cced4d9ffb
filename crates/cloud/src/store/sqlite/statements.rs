//! What each call of the port does to the tables. Owns the statements; transactions are the caller's.

use std::path::Path;

use orlop_core::error::{Class, Problem};
use orlop_core::exact;
use orlop_core::ports::journal::{FlowRecord, FlowRecordSummary, FlowSummary, JournalEntry, StoredFlow};
use orlop_core::time::Time;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::CallError;

/// A call that writes.
#[derive(Debug)]
pub(super) enum Write {
    Create(Box<NewFlow>),
    Append { uid: String, after: u64, entries: Vec<JournalEntry> },
    Snapshot { uid: String, through: u64, state: Vec<u8> },
    Summarize { uid: String, summary: String },
    Delete { uid: String },
}

/// A flow as its row holds it.
#[derive(Debug)]
pub(super) struct NewFlow {
    uid: String,
    namespace: String,
    name: String,
    created_at: i64,
    object: String,
    options: String,
    summary: String,
}

impl NewFlow {
    pub(super) fn of(record: &FlowRecord) -> Result<Self, Problem> {
        Ok(Self {
            uid: record.uid.clone(),
            namespace: record.namespace().to_owned(),
            name: record.flow.metadata.name.clone(),
            created_at: record.created_at.millis(),
            object: json("flow", &record.flow)?,
            options: json("options", &record.options)?,
            summary: json("summary", &FlowSummary::default())?,
        })
    }
}

/// A value as JSON.
pub(super) fn json(what: &str, value: &impl Serialize) -> Result<String, Problem> {
    serde_json::to_string(value)
        .map_err(|error| Problem::new(Class::Invalid, format!("the {what} cannot be written as JSON")).because(error))
}

/// Carries out a call that writes.
pub(super) fn apply(connection: &Connection, write: &Write) -> Result<(), CallError> {
    match write {
        Write::Create(flow) => create(connection, flow),
        Write::Append { uid, after, entries } => append(connection, uid, *after, entries),
        Write::Snapshot { uid, through, state } => snapshot(connection, uid, *through, state),
        Write::Summarize { uid, summary } => {
            let flow = row_of(connection, uid)?;
            let mut update = connection.prepare_cached("UPDATE summary SET summary = ?2 WHERE flow = ?1")?;
            update.execute(params![flow, summary])?;
            Ok(())
        }
        Write::Delete { uid } => {
            connection.prepare_cached("DELETE FROM flow WHERE uid = ?1")?.execute([uid])?;
            Ok(())
        }
    }
}

fn create(connection: &Connection, flow: &NewFlow) -> Result<(), CallError> {
    let mut taken = connection.prepare_cached(
        "SELECT uid, namespace, name FROM flow WHERE uid = ?1 OR (namespace = ?2 AND name = ?3) ORDER BY uid <> ?1",
    )?;
    let holder = taken
        .query_row(params![flow.uid, flow.namespace, flow.name], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
        })
        .optional()?;
    if let Some((uid, namespace, name)) = holder {
        let message = if uid == flow.uid {
            format!("a flow with uid `{uid}` already exists: `{namespace}/{name}`")
        } else {
            format!("flow `{namespace}/{name}` already exists, with uid `{uid}`; delete it or take another name")
        };
        return Err(Problem::new(Class::Exists, message).into());
    }
    let mut insert = connection.prepare_cached(
        "INSERT INTO flow (uid, namespace, name, created_at, object, options) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let row =
        insert.insert(params![flow.uid, flow.namespace, flow.name, flow.created_at, flow.object, flow.options])?;
    let mut insert = connection.prepare_cached("INSERT INTO summary (flow, summary) VALUES (?1, ?2)")?;
    insert.execute(params![row, flow.summary])?;
    Ok(())
}

fn append(connection: &Connection, uid: &str, after: u64, entries: &[JournalEntry]) -> Result<(), CallError> {
    let flow = row_of(connection, uid)?;
    let last = last(connection, flow)?;
    if u64::try_from(last) != Ok(after) {
        let message =
            format!("flow `{uid}` has {last} entries, not {after}: it was changed by another writer; load it again");
        return Err(Problem::new(Class::Conflict, message).into());
    }
    let mut insert =
        connection.prepare_cached("INSERT INTO entry (flow, number, now, event) VALUES (?1, ?2, ?3, ?4)")?;
    for (entry, number) in entries.iter().zip(last + 1..) {
        insert.execute(params![flow, number, entry.now.millis(), entry.event])?;
    }
    Ok(())
}

fn snapshot(connection: &Connection, uid: &str, through: u64, state: &[u8]) -> Result<(), CallError> {
    let flow = row_of(connection, uid)?;
    let last = last(connection, flow)?;
    let through = i64::try_from(through).ok().filter(|through| *through <= last).ok_or_else(|| {
        Problem::new(Class::Invalid, format!("flow `{uid}` has {last} entries, none with number {through}"))
    })?;
    let covered = covered(connection, flow)?;
    if through < covered {
        let message = format!("flow `{uid}` has a snapshot through {covered}, later than {through}; load it again");
        return Err(Problem::new(Class::Conflict, message).into());
    }
    let mut replace =
        connection.prepare_cached("INSERT OR REPLACE INTO snapshot (flow, through, state) VALUES (?1, ?2, ?3)")?;
    replace.execute(params![flow, through, state])?;
    connection.prepare_cached("DELETE FROM entry WHERE flow = ?1 AND number <= ?2")?.execute([flow, through])?;
    Ok(())
}

/// Key of a flow's row.
fn row_of(connection: &Connection, uid: &str) -> Result<i64, CallError> {
    let mut select = connection.prepare_cached("SELECT id FROM flow WHERE uid = ?1")?;
    let row = select.query_row([uid], |row| row.get(0)).optional()?;
    row.ok_or_else(|| not_found(uid).into())
}

fn not_found(uid: &str) -> Problem {
    Problem::new(Class::NotFound, format!("there is no flow with uid `{uid}` in the journal"))
}

/// Number the snapshot covers; 0 without one.
fn covered(connection: &Connection, flow: i64) -> rusqlite::Result<i64> {
    let mut select = connection.prepare_cached("SELECT through FROM snapshot WHERE flow = ?1")?;
    Ok(select.query_row([flow], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// Number of the last entry ever appended.
fn last(connection: &Connection, flow: i64) -> rusqlite::Result<i64> {
    let mut select = connection.prepare_cached("SELECT max(number) FROM entry WHERE flow = ?1")?;
    let last: Option<i64> = select.query_row([flow], |row| row.get(0))?;
    last.map_or_else(|| covered(connection, flow), Ok)
}

/// Reads a flow as of one moment.
pub(super) fn load(path: &Path, connection: &Connection, uid: &str) -> Result<StoredFlow, CallError> {
    let moment = connection.unchecked_transaction()?;
    let mut select = moment.prepare_cached("SELECT id, created_at, object, options FROM flow WHERE uid = ?1")?;
    let found = select
        .query_row([uid], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?, row.get::<_, String>(3)?))
        })
        .optional()?;
    let (flow, created_at, object, options) = found.ok_or_else(|| not_found(uid))?;
    let record = FlowRecord {
        uid: uid.to_owned(),
        flow: parse(path, uid, "object", &object)?,
        created_at: Time::from_millis(created_at),
        options: parse(path, uid, "options", &options)?,
    };
    let mut select = moment.prepare_cached("SELECT through, state FROM snapshot WHERE flow = ?1")?;
    let snapshot = select.query_row([flow], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?))).optional()?;
    let mut select = moment.prepare_cached("SELECT now, event FROM entry WHERE flow = ?1 ORDER BY number")?;
    let entry = |row: &Row<'_>| Ok(JournalEntry { now: Time::from_millis(row.get(0)?), event: row.get(1)? });
    let entries = select.query_map([flow], entry)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let last = number(path, uid, last(&moment, flow)?)?;
    let snapshot = match snapshot {
        Some((through, state)) => Some((number(path, uid, through)?, state)),
        None => None,
    };
    let covered = snapshot.as_ref().map_or(0, |(through, _)| *through);
    if last.checked_sub(covered) != Some(entries.len() as u64) {
        let message = format!(
            "journal {} is damaged: flow `{uid}` has {} entries between {covered} and {last}; restore a backup",
            path.display(),
            entries.len()
        );
        return Err(Problem::new(Class::Fatal, message).into());
    }
    Ok(StoredFlow { record, snapshot, entries, last })
}

/// Reads the list.
pub(super) fn list(path: &Path, connection: &Connection) -> Result<Vec<FlowRecordSummary>, CallError> {
    let mut select = connection.prepare_cached(
        "SELECT uid, namespace, name, created_at, summary FROM flow JOIN summary ON flow = id ORDER BY created_at, uid",
    )?;
    let mut rows = select.query([])?;
    let mut flows = Vec::new();
    while let Some(row) = rows.next()? {
        let uid: String = row.get(0)?;
        let summary = parse(path, &uid, "summary", &row.get::<_, String>(4)?)?;
        let created_at = Time::from_millis(row.get(3)?);
        flows.push(FlowRecordSummary { namespace: row.get(1)?, name: row.get(2)?, created_at, summary, uid });
    }
    Ok(flows)
}

fn parse<T: DeserializeOwned>(path: &Path, uid: &str, what: &str, text: &str) -> Result<T, Problem> {
    exact::from_str(text).map_err(|error| {
        let message = format!(
            "the {what} of flow `{uid}` in journal {} cannot be read; use the Orlop that wrote it, or delete the flow",
            path.display()
        );
        Problem::new(Class::Fatal, message).because(error)
    })
}

fn number(path: &Path, uid: &str, number: i64) -> Result<u64, Problem> {
    u64::try_from(number).map_err(|error| {
        let message = format!(
            "journal {} is damaged: flow `{uid}` has an entry with number {number}; restore a backup",
            path.display()
        );
        Problem::new(Class::Fatal, message).because(error)
    })
}
