//! The tables of the fleet's store and the steps from each version of them to the next.

use crate::store::sqlite::schema::Layout;

/// A fleet's store: `ORLF`.
pub(super) const FLEET: Layout = Layout { noun: "fleet store", application_id: 0x4f52_4c46, steps: MIGRATIONS };

/// Times count milliseconds since the Unix epoch. States and kinds are their texts. `flags`: 1 = the newest attempt is
/// answered, 2 = it is lost, 4 = its command is on its second try. Job ids sort like the order of submission, so that order needs no index of its own; an index of
/// live jobs holds only jobs without an end, and no update but that of the end touches it. Hashes of specs are found in
/// `spec_hashes` by their first 8 bytes, those with numbers above `spec_tail` in `specs` itself: hashes have no order, and a
/// unique index would write a page for each. Documents are JSON under a key.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE leader (
        id      INTEGER PRIMARY KEY CHECK (id = 1),
        holder  TEXT    NOT NULL,
        url     TEXT    NOT NULL,
        epoch   INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE specs (
        id      INTEGER PRIMARY KEY,
        hash    BLOB    NOT NULL,
        body    TEXT    NOT NULL,
        refs    INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX specs_unused ON specs (id) WHERE refs = 0;
    CREATE TABLE spec_hashes (
        hash    INTEGER NOT NULL,
        id      INTEGER NOT NULL,
        PRIMARY KEY (hash, id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE spec_tail (id INTEGER PRIMARY KEY CHECK (id = 1), after INTEGER NOT NULL) STRICT;
    INSERT INTO spec_tail VALUES (1, 0);
    CREATE TABLE jobs (
        id             INTEGER PRIMARY KEY,
        tenant         TEXT    NOT NULL,
        spec_id        INTEGER NOT NULL,
        kind           TEXT    NOT NULL,
        count          INTEGER NOT NULL,
        indices        TEXT,
        priority       INTEGER NOT NULL,
        name           TEXT,
        labels         TEXT,
        not_before     INTEGER,
        expires_at     INTEGER,
        submitted_at   INTEGER NOT NULL,
        flow_id        TEXT,
        step           TEXT,
        retry_of       INTEGER,
        correlation_id TEXT,
        traceparent    TEXT,
        revision       INTEGER NOT NULL,
        state          TEXT    NOT NULL,
        reason         TEXT,
        attempt        INTEGER NOT NULL,
        epoch          INTEGER NOT NULL,
        flags          INTEGER NOT NULL,
        retries        INTEGER NOT NULL,
        infra          INTEGER NOT NULL,
        worker         TEXT,
        avoid          TEXT,
        due_at         INTEGER,
        queued_at      INTEGER,
        started_at     INTEGER,
        finished_at    INTEGER,
        exit_code      INTEGER
    ) STRICT;
    CREATE INDEX jobs_live ON jobs (id) WHERE finished_at IS NULL;
    CREATE INDEX jobs_by_tenant ON jobs (tenant, id);
    CREATE INDEX jobs_by_flow ON jobs (flow_id, id) WHERE flow_id IS NOT NULL;
    CREATE TABLE array_ranges (
        job_id  INTEGER NOT NULL,
        number  INTEGER NOT NULL,
        first   INTEGER NOT NULL,
        last    INTEGER NOT NULL,
        state   TEXT    NOT NULL,
        reason  TEXT,
        at      INTEGER NOT NULL,
        PRIMARY KEY (job_id, number)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE elements (
        job_id      INTEGER NOT NULL,
        idx         INTEGER NOT NULL,
        state       TEXT    NOT NULL,
        reason      TEXT,
        attempt     INTEGER NOT NULL,
        epoch       INTEGER NOT NULL,
        flags       INTEGER NOT NULL,
        retries     INTEGER NOT NULL,
        infra       INTEGER NOT NULL,
        worker      TEXT,
        avoid       TEXT,
        due_at      INTEGER,
        queued_at   INTEGER,
        started_at  INTEGER,
        finished_at INTEGER,
        exit_code   INTEGER,
        PRIMARY KEY (job_id, idx)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE attempts (
        job_id      INTEGER NOT NULL,
        idx         INTEGER NOT NULL,
        attempt     INTEGER NOT NULL,
        member      INTEGER NOT NULL,
        epoch       INTEGER NOT NULL,
        worker      TEXT    NOT NULL,
        incarnation INTEGER NOT NULL,
        mode        TEXT    NOT NULL,
        assigned_at INTEGER NOT NULL,
        state       TEXT    NOT NULL,
        accepted_at INTEGER,
        started_at  INTEGER,
        finished_at INTEGER,
        final       INTEGER,
        exit_code   INTEGER,
        signal      INTEGER,
        reason      TEXT,
        cpu_ms      INTEGER,
        max_rss     INTEGER,
        io_read     INTEGER,
        io_write    INTEGER,
        PRIMARY KEY (job_id, idx, attempt, member, epoch)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX attempts_final ON attempts (job_id, idx) WHERE final = 1;
    CREATE TABLE attempt_details (
        job_id  INTEGER NOT NULL,
        idx     INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        member  INTEGER NOT NULL,
        epoch   INTEGER NOT NULL,
        body    TEXT    NOT NULL,
        tail    BLOB    NOT NULL,
        PRIMARY KEY (job_id, idx, attempt, member, epoch)
    ) STRICT;
    CREATE TABLE idempotency (
        tenant     TEXT    NOT NULL,
        key        TEXT    NOT NULL,
        body_hash  BLOB    NOT NULL,
        status     INTEGER NOT NULL,
        response   TEXT    NOT NULL,
        expires_at INTEGER NOT NULL,
        PRIMARY KEY (tenant, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX idempotency_by_age ON idempotency (expires_at);
    CREATE TABLE audit (
        number     INTEGER PRIMARY KEY AUTOINCREMENT,
        time       INTEGER NOT NULL,
        actor      TEXT    NOT NULL,
        tenant     TEXT,
        action     TEXT    NOT NULL,
        target     TEXT    NOT NULL,
        outcome    TEXT    NOT NULL,
        request_id TEXT
    ) STRICT;
    CREATE TABLE outbox (
        id      INTEGER PRIMARY KEY AUTOINCREMENT,
        subject TEXT    NOT NULL,
        body    TEXT    NOT NULL
    ) STRICT;
    CREATE TABLE workers (key TEXT PRIMARY KEY, tenant TEXT, ended_at INTEGER, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE tenants (key TEXT PRIMARY KEY, tenant TEXT, ended_at INTEGER, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE tokens (key TEXT PRIMARY KEY, tenant TEXT, ended_at INTEGER, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE secrets (key TEXT PRIMARY KEY, tenant TEXT, ended_at INTEGER, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE pipelines (key TEXT PRIMARY KEY, tenant TEXT, ended_at INTEGER, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE flows (key TEXT PRIMARY KEY, tenant TEXT, ended_at INTEGER, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE flow_steps (key TEXT PRIMARY KEY, tenant TEXT, ended_at INTEGER, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE approvals (key TEXT PRIMARY KEY, tenant TEXT, ended_at INTEGER, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE artifacts (key TEXT PRIMARY KEY, tenant TEXT, ended_at INTEGER, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE artifact_links (key TEXT PRIMARY KEY, tenant TEXT, ended_at INTEGER, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE uploads (key TEXT PRIMARY KEY, tenant TEXT, ended_at INTEGER, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
", "
    CREATE TABLE flow_entries (key TEXT PRIMARY KEY, tenant TEXT, ended_at INTEGER, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
", "
    ALTER TABLE attempts ADD COLUMN gpu TEXT;
", "
    CREATE TABLE sessions (key TEXT PRIMARY KEY, tenant TEXT, ended_at INTEGER, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE session_links (key TEXT PRIMARY KEY, tenant TEXT, ended_at INTEGER, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
"];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use orlop_core::named::Named as _;
    use orlop_core::ports::fleet_store::Kind;
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn every_kind_of_document_has_its_table() {
        let mut connection = Connection::open_in_memory().unwrap();
        FLEET.migrate(Path::new("fleet.db"), &mut connection).unwrap();
        for kind in Kind::ALL {
            connection.prepare(&format!("SELECT key, tenant, ended_at, body FROM {kind}")).unwrap();
        }
    }
}
