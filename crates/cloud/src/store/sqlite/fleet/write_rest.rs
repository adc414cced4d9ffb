//! Writing documents, answers, audit lines, events, and leadership. Owns the statements; transactions are the caller's.

use orlop_core::error::{Class, Problem};
use orlop_core::id::{Epoch, JobId, TenantName};
use orlop_core::ports::fleet_store::{AuditEntry, Entry, FENCED, Holder, IdempotencyRecord, Kind, Leader, OutboxEvent};
use orlop_core::time::Time;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::store::fleet::column::{integer, natural};
use crate::store::sqlite::error::CallError;

/// Stores documents, or deletes those that go.
pub(super) fn write_entries(
    connection: &Connection,
    entries: &[(Kind, String, Option<Entry>)],
) -> Result<(), CallError> {
    for (kind, key, entry) in entries {
        match entry {
            Some(entry) => {
                let mut statement = connection.prepare_cached(&format!(
                    "INSERT OR REPLACE INTO {kind} (key, tenant, ended_at, body) VALUES (?1, ?2, ?3, ?4)"
                ))?;
                let tenant = entry.tenant.as_ref().map(TenantName::as_str);
                statement.execute(params![key, tenant, entry.ended_at.map(Time::millis), &*entry.body])?;
            }
            None => {
                connection.prepare_cached(&format!("DELETE FROM {kind} WHERE key = ?1"))?.execute([key])?;
            }
        }
    }
    Ok(())
}

/// Stores answers under their keys.
pub(super) fn write_keys(connection: &Connection, keys: &[IdempotencyRecord]) -> Result<(), CallError> {
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO idempotency (tenant, key, body_hash, status, response, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for record in keys {
        let (tenant, hash) = (record.key.tenant.as_str(), record.body_hash.as_slice());
        let expires = record.expires_at.millis();
        statement.execute(params![tenant, record.key.key, hash, record.status, &*record.response, expires])?;
    }
    Ok(())
}

/// Stores lines of the audit trail.
pub(super) fn insert_audit(connection: &Connection, lines: &[AuditEntry]) -> Result<(), CallError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO audit (time, actor, tenant, action, target, outcome, request_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for line in lines {
        let tenant = line.tenant.as_ref().map(TenantName::as_str);
        let (time, action, outcome) = (line.time.millis(), &*line.action, &*line.outcome);
        statement.execute(params![time, line.actor, tenant, action, line.target, outcome, line.request_id])?;
    }
    Ok(())
}

/// Stores events.
pub(super) fn insert_events(connection: &Connection, events: &[OutboxEvent]) -> Result<(), CallError> {
    let mut statement = connection.prepare_cached("INSERT INTO outbox (subject, body) VALUES (?1, ?2)")?;
    for event in events {
        statement.execute(params![&*event.subject, &*event.body])?;
    }
    Ok(())
}

/// Deletes events.
pub(super) fn confirm(connection: &Connection, ids: &[u64]) -> Result<(), CallError> {
    let mut statement = connection.prepare_cached("DELETE FROM outbox WHERE id = ?1")?;
    for id in ids {
        statement.execute([integer(*id)])?;
    }
    Ok(())
}

/// Who leads or led last.
pub(super) fn leader(connection: &Connection) -> Result<Option<Leader>, CallError> {
    let mut statement = connection.prepare_cached("SELECT holder, url, epoch FROM leader")?;
    let row = statement.query_row([], |row| {
        let epoch = Epoch(natural(row.get(2)?));
        Ok(Leader { holder: row.get(0)?, url: row.get(1)?, epoch, remaining: None })
    });
    Ok(row.optional()?)
}

/// Refuses an epoch that does not lead.
pub(super) fn fence(connection: &Connection, epoch: Epoch) -> Result<(), CallError> {
    let leader = leader(connection)?;
    let newest = leader.as_ref().map_or(Epoch(0), |leader| leader.epoch);
    if leader.is_some_and(|leader| leader.epoch == epoch && !leader.holder.is_empty()) {
        return Ok(());
    }
    let message = format!("epoch {epoch} does not lead, the newest is {newest}; take leadership and restore");
    Err(Problem::new(Class::Denied, message).with_reason(FENCED).into())
}

/// Takes leadership: the file's lock keeps other servers out.
pub(super) fn acquire(connection: &Connection, holder: &Holder) -> Result<Epoch, CallError> {
    let newest = leader(connection)?.map_or(Epoch(0), |leader| leader.epoch).next();
    // Ids of jobs carry the epoch, and must stay below 2^63.
    if newest.0 > JobId::MAX_EPOCH.0 / 2 {
        return Err(Problem::new(Class::Fatal, "the epochs of the fleet store are used up; start a new one").into());
    }
    let name = if holder.name.is_empty() { "server" } else { holder.name.as_str() };
    let mut statement =
        connection.prepare_cached("INSERT OR REPLACE INTO leader (id, holder, url, epoch) VALUES (1, ?1, ?2, ?3)")?;
    statement.execute(params![name, holder.url, integer(newest.0)])?;
    Ok(newest)
}

/// Gives leadership up.
pub(super) fn release(connection: &Connection, epoch: Epoch) -> Result<(), CallError> {
    let mut statement = connection.prepare_cached("UPDATE leader SET holder = '', url = '' WHERE epoch = ?1")?;
    statement.execute([integer(epoch.0)])?;
    Ok(())
}
