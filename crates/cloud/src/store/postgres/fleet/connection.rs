//! A connection that comes back: opened when it is needed, with the statements prepared on it. Owns reconnecting, and how long
//! somebody who only reads waits for a database that says nothing; retries no statement.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use orlop_core::error::{Class, Problem};
use tokio::sync::Mutex;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

use super::error::classify;
use super::schema;
use super::tls::Tls;

/// A value of a statement.
pub(super) type Param = Box<dyn ToSql + Sync + Send>;

/// A live connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    statements: Mutex<HashMap<String, Statement>>,
    /// How long rows may take to come.
    bound: Option<Duration>,
}

/// Waits for something of the database, if there is a bound no longer than that.
async fn within<T>(bound: Option<Duration>, work: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    let Some(bound) = bound else { return work.await };
    tokio::time::timeout(bound, work).await.unwrap_or_else(|_| {
        let message = format!(
            "the fleet store has not answered for {} s; check that PostgreSQL runs, is reachable and holds no lock",
            bound.as_secs_f64()
        );
        Err(Problem::new(Class::Transient, message))
    })
}

/// Statements kept prepared; more are forgotten together.
const STATEMENTS: usize = 256;

impl Session {
    async fn statement(&self, text: &str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.statements.lock().await.get(text) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(text).await?;
        let mut statements = self.statements.lock().await;
        if statements.len() >= STATEMENTS {
            statements.clear();
        }
        statements.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Prepares statements, those that are not yet.
    pub(super) async fn prepare(&self, text: &str) -> Result<Statement, Problem> {
        self.statement(text).await.map_err(|error| classify("preparing a statement of", &error))
    }

    /// Rows of a statement.
    pub(super) async fn query(&self, text: &str, params: &[Param]) -> Result<Vec<Row>, Problem> {
        let failed = |error: tokio_postgres::Error| classify("reading", &error);
        let reading = async {
            let statement = self.statement(text).await.map_err(failed)?;
            self.client.query(&statement, &borrowed(params)).await.map_err(failed)
        };
        within(self.bound, reading).await
    }

    /// Carries a statement out and gives the number of rows it touched.
    pub(super) async fn execute(&self, text: &str, params: &[Param]) -> Result<u64, Problem> {
        let failed = |error: tokio_postgres::Error| classify("writing", &error);
        let statement = self.statement(text).await.map_err(failed)?;
        self.client.execute(&statement, &borrowed(params)).await.map_err(failed)
    }
}

/// Values as the client takes them.
pub(super) fn borrowed(params: &[Param]) -> Vec<&(dyn ToSql + Sync)> {
    params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect()
}

/// Carries a connection until it ends. The client itself answers callers that wait.
async fn run(connection: impl Future<Output = Result<(), tokio_postgres::Error>>) {
    if let Err(error) = connection.await {
        tracing::warn!(%error, "a connection to the fleet store broke");
    }
}

/// A place for one connection.
#[derive(Debug)]
pub(super) struct Connection {
    config: Config,
    tls: Option<Tls>,
    schema: String,
    /// How long the database lets a transaction wait for its client.
    patience: Duration,
    /// How long opening it, and rows, may take.
    bound: Option<Duration>,
    session: Mutex<Option<Arc<Session>>>,
}

impl Connection {
    /// A place for a connection of a server whose term is so long.
    pub(super) fn new(config: Config, tls: Option<Tls>, schema: String, term: Duration) -> Self {
        let patience = (term / 2).max(Duration::from_secs(1));
        Self { config, tls, schema, patience, bound: None, session: Mutex::new(None) }
    }

    /// The same for somebody who only reads, and waits no longer than this for a database that says nothing.
    pub(super) fn bounded(mut self, bound: Duration) -> Self {
        self.bound = Some(bound);
        self
    }

    /// The connection, opened anew when there is none that lives.
    pub(super) async fn session(&self) -> Result<Arc<Session>, Problem> {
        within(self.bound, self.opened()).await
    }

    async fn opened(&self) -> Result<Arc<Session>, Problem> {
        let mut place = self.session.lock().await;
        if let Some(session) = place.as_ref().filter(|session| !session.client.is_closed()) {
            return Ok(Arc::clone(session));
        }
        let session = Arc::new(self.open().await?);
        *place = Some(Arc::clone(&session));
        Ok(session)
    }

    async fn open(&self) -> Result<Session, Problem> {
        let failed = |error: tokio_postgres::Error| classify("connecting to", &error);
        let mut client = match self.tls.clone() {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls).await.map_err(failed)?;
                tokio::spawn(run(connection));
                client
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await.map_err(failed)?;
                tokio::spawn(run(connection));
                client
            }
        };
        // The name was checked when the store was opened.
        let place = format!("SET search_path TO {}", self.schema);
        // A server that stands still within a transaction keeps the row of the leader locked: nobody could follow it.
        let patience = format!("SET idle_in_transaction_session_timeout = {}", self.patience.as_millis());
        client.batch_execute(&format!("{place}; {patience}")).await.map_err(failed)?;
        schema::migrate(&mut client, &self.schema).await?;
        Ok(Session { client, statements: Mutex::default(), bound: self.bound })
    }
}

/// Checks the name of a schema, which cannot be a parameter.
pub(super) fn schema_name(name: &str) -> Result<String, Problem> {
    let good = !name.is_empty()
        && name.len() <= 63
        && !name.starts_with(|ch: char| ch.is_ascii_digit())
        && name.chars().all(|ch| ch.is_ascii_lowercase() || ch.is_ascii_digit() || ch == '_');
    if good {
        return Ok(name.to_owned());
    }
    let message = format!(
        "`{name}` is not a valid schema name; use lowercase letters, digits and `_`, not starting with a digit"
    );
    Err(Problem::new(Class::Invalid, message))
}
