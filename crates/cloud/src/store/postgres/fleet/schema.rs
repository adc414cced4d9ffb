//! The tables of the fleet's store in PostgreSQL and the steps from each version of them to the next.

use orlop_core::error::{Class, Problem};
use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::Kind;
use tokio_postgres::Client;

use super::error::classify;

/// Names the advisory lock under which one server at a time brings a schema up to date.
const LOCK: i64 = 0x4f52_4c46;

/// Each step brings a schema from the version of its index to the next. Steps are never changed, only added. Texts that are
/// compared byte by byte have the collation `C`. Times count milliseconds since the Unix epoch, but for the leader's term,
/// which runs by the clock of the database. `$documents` stands for one table for each kind of document.
const MIGRATIONS: &[&str] = &[
    r#"
    CREATE TABLE leader (
        id         INT         PRIMARY KEY CHECK (id = 1),
        holder     TEXT        NOT NULL,
        url        TEXT        NOT NULL,
        epoch      BIGINT      NOT NULL,
        expires_at TIMESTAMPTZ NOT NULL
    );
    INSERT INTO leader VALUES (1, '', '', 0, to_timestamp(0));
    CREATE TABLE specs (
        id    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        hash  BYTEA  NOT NULL UNIQUE,
        body  TEXT   NOT NULL,
        refs  BIGINT NOT NULL
    );
    CREATE INDEX specs_unused ON specs (id) WHERE refs = 0;
    CREATE TABLE jobs (
        id BIGINT PRIMARY KEY, tenant TEXT COLLATE "C" NOT NULL, spec_id BIGINT NOT NULL, kind TEXT NOT NULL,
        count BIGINT NOT NULL, indices TEXT, priority BIGINT NOT NULL, name TEXT, labels TEXT, not_before BIGINT,
        expires_at BIGINT, submitted_at BIGINT NOT NULL, flow_id TEXT COLLATE "C", step TEXT, retry_of BIGINT,
        correlation_id TEXT, traceparent TEXT, revision BIGINT NOT NULL,
        state TEXT NOT NULL, reason TEXT, attempt BIGINT NOT NULL, epoch BIGINT NOT NULL, flags BIGINT NOT NULL,
        retries BIGINT NOT NULL, infra BIGINT NOT NULL, worker TEXT, avoid TEXT, due_at BIGINT, queued_at BIGINT,
        started_at BIGINT, finished_at BIGINT, exit_code BIGINT
    );
    CREATE INDEX jobs_live ON jobs (id) WHERE finished_at IS NULL;
    CREATE INDEX jobs_finished ON jobs (finished_at) WHERE finished_at IS NOT NULL;
    CREATE INDEX jobs_by_tenant ON jobs (tenant, id);
    CREATE INDEX jobs_by_flow ON jobs (flow_id, id) WHERE flow_id IS NOT NULL;
    CREATE TABLE array_ranges (
        job_id BIGINT NOT NULL, number BIGINT GENERATED ALWAYS AS IDENTITY, first BIGINT NOT NULL, last BIGINT NOT NULL,
        state TEXT NOT NULL, reason TEXT, at BIGINT NOT NULL, PRIMARY KEY (job_id, number)
    );
    CREATE TABLE elements (
        job_id BIGINT NOT NULL, idx BIGINT NOT NULL,
        state TEXT NOT NULL, reason TEXT, attempt BIGINT NOT NULL, epoch BIGINT NOT NULL, flags BIGINT NOT NULL,
        retries BIGINT NOT NULL, infra BIGINT NOT NULL, worker TEXT, avoid TEXT, due_at BIGINT, queued_at BIGINT,
        started_at BIGINT, finished_at BIGINT, exit_code BIGINT,
        PRIMARY KEY (job_id, idx)
    );
    CREATE TABLE attempts (
        job_id BIGINT NOT NULL, idx BIGINT NOT NULL, attempt BIGINT NOT NULL, member BIGINT NOT NULL,
        epoch BIGINT NOT NULL, worker TEXT NOT NULL, incarnation BIGINT NOT NULL, mode TEXT NOT NULL,
        assigned_at BIGINT NOT NULL, state TEXT NOT NULL, accepted_at BIGINT, started_at BIGINT, finished_at BIGINT,
        final BOOLEAN, exit_code BIGINT, signal BIGINT, reason TEXT, cpu_ms BIGINT, max_rss BIGINT, io_read BIGINT,
        io_write BIGINT,
        PRIMARY KEY (job_id, idx, attempt, member, epoch)
    );
    CREATE UNIQUE INDEX attempts_final ON attempts (job_id, idx) WHERE final;
    CREATE TABLE attempt_details (
        job_id BIGINT NOT NULL, idx BIGINT NOT NULL, attempt BIGINT NOT NULL, member BIGINT NOT NULL,
        epoch BIGINT NOT NULL, body TEXT NOT NULL, tail BYTEA NOT NULL,
        PRIMARY KEY (job_id, idx, attempt, member, epoch)
    );
    CREATE TABLE idempotency (
        tenant TEXT COLLATE "C" NOT NULL, key TEXT COLLATE "C" NOT NULL, body_hash BYTEA NOT NULL, status BIGINT NOT NULL,
        response TEXT NOT NULL, expires_at BIGINT NOT NULL, PRIMARY KEY (tenant, key)
    );
    CREATE INDEX idempotency_by_age ON idempotency (expires_at);
    CREATE TABLE audit (
        number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, time BIGINT NOT NULL, actor TEXT NOT NULL,
        tenant TEXT COLLATE "C", action TEXT NOT NULL, target TEXT NOT NULL, outcome TEXT NOT NULL, request_id TEXT
    );
    CREATE TABLE outbox (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, subject TEXT NOT NULL, body TEXT NOT NULL
    );
    $documents
"#,
    r#"
    CREATE TABLE IF NOT EXISTS flow_entries (
        key TEXT COLLATE "C" PRIMARY KEY, tenant TEXT COLLATE "C", ended_at BIGINT, body TEXT NOT NULL
    );
"#,
    "ALTER TABLE attempts ADD COLUMN gpu TEXT",
    r#"
    CREATE TABLE logs (
        job_id BIGINT NOT NULL, idx BIGINT NOT NULL, member BIGINT NOT NULL, attempt BIGINT NOT NULL,
        bytes BIGINT NOT NULL, chunks BIGINT NOT NULL, dropped BIGINT NOT NULL, last_seq BIGINT NOT NULL,
        newest BIGINT NOT NULL,
        PRIMARY KEY (job_id, idx, member, attempt)
    );
    CREATE INDEX logs_by_age ON logs (newest);
    CREATE TABLE log_chunks (
        job_id BIGINT NOT NULL, idx BIGINT NOT NULL, member BIGINT NOT NULL, attempt BIGINT NOT NULL, seq BIGINT NOT NULL,
        stream TEXT NOT NULL, time BIGINT NOT NULL, gap_chunks BIGINT NOT NULL, gap_bytes BIGINT NOT NULL,
        data BYTEA NOT NULL,
        PRIMARY KEY (job_id, idx, member, attempt, seq)
    );
    CREATE TABLE artifact_contents (
        upload TEXT COLLATE "C" PRIMARY KEY, bytes BIGINT NOT NULL, sha256 TEXT COLLATE "C" UNIQUE
    );
    CREATE TABLE artifact_pieces (
        upload TEXT COLLATE "C" NOT NULL, at BIGINT NOT NULL, data BYTEA NOT NULL, PRIMARY KEY (upload, at)
    );
    ALTER TABLE artifact_pieces ALTER COLUMN data SET STORAGE EXTERNAL;
"#,
    r#"
    CREATE TABLE IF NOT EXISTS sessions (
        key TEXT COLLATE "C" PRIMARY KEY, tenant TEXT COLLATE "C", ended_at BIGINT, body TEXT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS session_links (
        key TEXT COLLATE "C" PRIMARY KEY, tenant TEXT COLLATE "C", ended_at BIGINT, body TEXT NOT NULL
    );
"#,
];

fn documents() -> String {
    let table = |kind: &Kind| {
        format!(
            "CREATE TABLE {kind} (key TEXT COLLATE \"C\" PRIMARY KEY, tenant TEXT COLLATE \"C\", ended_at BIGINT, \
             body TEXT NOT NULL);"
        )
    };
    Kind::ALL.iter().map(table).collect()
}

/// Brings the schema that the connection looks into up to date, in one transaction.
pub(super) async fn migrate(client: &mut Client, schema: &str) -> Result<(), Problem> {
    let failed = |error: tokio_postgres::Error| classify("preparing", &error);
    let transaction = client.transaction().await.map_err(failed)?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await.map_err(failed)?;
    let prepare = format!(
        "CREATE SCHEMA IF NOT EXISTS {schema};
         CREATE TABLE IF NOT EXISTS {schema}.meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);"
    );
    transaction.batch_execute(&prepare).await.map_err(failed)?;
    let row = transaction.query_opt("SELECT value FROM meta WHERE key = 'version'", &[]).await.map_err(failed)?;
    let known = MIGRATIONS.len();
    let version = row.map_or(Ok(0), |row| row.get::<_, String>(0).parse::<usize>());
    let done = version.ok().filter(|version| *version <= known).ok_or_else(|| {
        let message = format!("schema `{schema}` of the fleet store is of a version this Orlop does not know: it knows 1 to {known}; use a newer Orlop");
        Problem::new(Class::Fatal, message)
    })?;
    for step in MIGRATIONS.iter().skip(done) {
        transaction.batch_execute(&step.replace("$documents", &documents())).await.map_err(failed)?;
    }
    if done < known {
        let set = "INSERT INTO meta VALUES ('version', $1) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        transaction.execute(set, &[&known.to_string()]).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}
