//! What `orlop-scheduler` can be configured with.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory, Parser, ValueEnum};
use orlop_cloud::exit;
use orlop_cloud::store::sqlite::fleet::Durability;
use orlop_core::error::{Class, Problem};
use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::Holder;
use serde::Serialize;

use super::super::{Disks, Frequent, Options, SecretPlace};
use super::background::{BusConfig, RetainConfig};
use super::console::ConsoleConfig;
use super::engine::{EngineConfig, milliseconds, path};
use super::logging::{self, LogConfig};
use super::security::{AuthConfig, DefaultsConfig, RateConfig, TenantsConfig, TlsConfig, TlsMode};
use super::store::StorePlace;
use super::trace::TraceConfig;
use super::whole::Plan;
use crate::host::program::{ProgramError, wrong_setting};
use crate::host::settings::{self, Scope, Settings, Source};

/// Settings outside the command line.
const SCOPE: Scope = Scope { prefix: "ORLOP_", file: "ORLOP_SCHEDULER_CONFIG", others: &[] };

/// Serves the scheduler of a fleet.
#[derive(Parser, Clone, Debug, Default, PartialEq, Serialize)]
#[command(
    name = "orlop-scheduler",
    version,
    after_help = exit::help("Examples:
  orlop scheduler --store-path /var/lib/orlop/fleet.db
  orlop scheduler --config /etc/orlop/scheduler.yaml --log-level debug
  ORLOP_STORE_URL=postgres://orlop@db/orlop orlop scheduler --server-listen 0.0.0.0:7070

Every setting is also a key of its section in the file and a variable, in rising precedence file, variable, flag; --print-config
shows them all. Times are milliseconds, or written as 15s. SIGHUP reads the file again, SIGTERM and SIGINT end the server.")
)]
pub(super) struct Config {
    #[command(flatten)]
    pub(super) server: ServerConfig,
    #[command(flatten)]
    pub(super) store: StoreConfig,
    #[command(flatten)]
    pub(super) secrets: SecretsConfig,
    #[command(flatten)]
    pub(super) bus: BusConfig,
    #[command(flatten)]
    pub(super) retain: RetainConfig,
    #[command(flatten)]
    pub(super) tls: TlsConfig,
    #[command(flatten)]
    pub(super) auth: AuthConfig,
    #[command(flatten)]
    pub(super) rate: RateConfig,
    #[command(flatten)]
    pub(super) console: ConsoleConfig,
    #[command(flatten)]
    pub(super) defaults: DefaultsConfig,
    #[command(flatten)]
    pub(super) tenants: TenantsConfig,
    #[command(flatten)]
    pub(super) scheduler: EngineConfig,
    #[command(flatten)]
    pub(super) log: LogConfig,
    #[command(flatten)]
    pub(super) trace: TraceConfig,
}

/// The arguments of the program.
pub(crate) fn command() -> Command {
    let defaults = serde_json::to_value(Config::default()).unwrap_or_default();
    settings::command(<Config as CommandFactory>::command(), &SCOPE, &defaults)
}

/// Reads arguments, file and variables, and checks what they say together.
pub(super) fn read(
    arguments: Vec<OsString>,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Settings<Config>, ProgramError> {
    let settings = settings::read::<Config>(&command(), &SCOPE, arguments, variables)?;
    for key in settings.value.secret_keys() {
        if let Source::Flag(flag) = settings.sources.of(key) {
            let variable = key.replace('.', "_").to_uppercase();
            let why = format!(
                "is a secret, and anyone on this machine can read the arguments of a process; write it into a \
                 private file and name that in the variable ORLOP_{variable}_FILE, or set `{key}` in the \
                 configuration file"
            );
            return Err(wrong_setting(flag, why).into());
        }
    }
    settings.value.check().map_err(|error| {
        let source = error.split_whitespace().next().map(|key| settings.sources.of(key.trim_end_matches(':')));
        let place = source.filter(|source| **source != Source::Default).map(|source| format!(" (from {source})"));
        Problem::new(Class::Invalid, format!("{error}{}", place.unwrap_or_default()))
    })?;
    Ok(settings)
}

/// How the server is reached, and how it is called.
#[derive(Clone, Debug, PartialEq, Serialize, Args)]
pub(super) struct ServerConfig {
    /// Address of the REST interface; port 0 = any that is free.
    #[arg(id = "server.listen")]
    pub(super) listen: String,
    /// Address of the gRPC services; the same.
    #[arg(id = "server.grpc_listen")]
    pub(super) grpc_listen: String,
    /// A file that both addresses are written to once they are known; empty = none.
    #[arg(id = "server.address_file")]
    pub(super) address_file: String,
    /// Name of this server, unique among those that share a store; empty = its host's with the number of its process.
    #[arg(id = "server.name")]
    pub(super) name: String,
    /// Where clients find its REST interface; empty = its address.
    #[arg(id = "server.url")]
    pub(super) url: String,
    /// Where workers and clients find its gRPC services; empty = their address.
    #[arg(id = "server.grpc_url")]
    pub(super) grpc_url: String,
    /// Origins whose pages may use the REST interface, such as `https://console.example`; empty = none but its own.
    #[arg(id = "server.origins")]
    pub(super) origins: Vec<String>,
    /// The tenant of jobs that name none.
    #[arg(id = "server.tenant")]
    pub(super) tenant: String,
    /// How many inputs each of its queues holds.
    #[arg(id = "server.queue")]
    pub(super) queue: usize,
    /// Orders workers of equal rank.
    #[arg(id = "server.seed")]
    pub(super) seed: u64,
    /// Time between the heartbeats of an agent.
    #[arg(id = "server.heartbeat", value_parser = milliseconds::<u32>)]
    pub(super) heartbeat: u32,
}

impl Default for ServerConfig {
    fn default() -> Self {
        let options = Options::default();
        Self {
            listen: "127.0.0.1:7070".to_owned(),
            grpc_listen: "127.0.0.1:7071".to_owned(),
            address_file: String::new(),
            name: String::new(),
            url: String::new(),
            grpc_url: String::new(),
            origins: Vec::new(),
            tenant: "default".to_owned(),
            queue: options.queue,
            seed: options.seed,
            heartbeat: options.heartbeat_ms,
        }
    }
}

/// Where the fleet is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Args)]
pub(super) struct StoreConfig {
    /// A database that several servers share, such as `postgres://orlop@db/orlop`; empty = the file below.
    #[arg(id = "store.url")]
    pub(super) url: String,
    /// The schema of the tables in the database.
    #[arg(id = "store.schema")]
    pub(super) schema: String,
    /// The SQLite file.
    #[arg(id = "store.path", value_parser = path)]
    pub(super) path: PathBuf,
    /// Accepts the file even if it is not the store that was here before: an empty one, another, an older copy.
    /// For one start.
    #[arg(id = "store.accept")]
    pub(super) accept: bool,
    /// When a commit to the file counts as written.
    #[arg(id = "store.synchronous", value_enum, ignore_case = true)]
    pub(super) synchronous: Synchronous,
    /// The folder of the logs of jobs, one that all servers of a database share; empty = `orlop-logs`, or the database.
    #[arg(id = "store.logs", value_parser = path)]
    pub(super) logs: PathBuf,
    /// The folder of artifacts, one that all servers of a database share; empty = `orlop-artifacts`, or the database.
    #[arg(id = "store.artifacts", value_parser = path)]
    pub(super) artifacts: PathBuf,
    /// With fewer free bytes on the disk of the file no work is taken, on that of logs none are kept, on that of artifacts
    /// no upload is taken.
    #[arg(id = "store.min_free")]
    pub(super) min_free: u64,
    /// Bytes that are set aside beside the file, for results when nothing else is left; 0 = none.
    #[arg(id = "store.reserve")]
    pub(super) reserve: u64,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            schema: "orlop".to_owned(),
            path: PathBuf::from("orlop-fleet.db"),
            accept: false,
            synchronous: Synchronous::default(),
            logs: PathBuf::new(),
            artifacts: PathBuf::new(),
            min_free: 1 << 30,
            reserve: 256 << 20,
        }
    }
}

impl StoreConfig {
    /// Where the store is.
    ///
    /// # Errors
    /// A database is named, and this program was built without them.
    pub(super) fn place(&self) -> Result<StorePlace, String> {
        if self.url.is_empty() {
            let (path, durability) = (self.path.clone(), self.synchronous.into());
            return Ok(StorePlace::Sqlite { path, durability, accept: self.accept });
        }
        self.database()
    }

    /// The folder of logs; none where they are in the database.
    pub(super) fn logs(&self) -> Option<PathBuf> {
        self.folder(&self.logs, "orlop-logs")
    }

    /// The folder of artifacts; none where they are in the database.
    pub(super) fn artifacts(&self) -> Option<PathBuf> {
        self.folder(&self.artifacts, "orlop-artifacts")
    }

    fn folder(&self, given: &Path, default: &str) -> Option<PathBuf> {
        match given.as_os_str().is_empty() {
            true => self.url.is_empty().then(|| default.into()),
            false => Some(given.to_owned()),
        }
    }

    /// Whose free room is looked after.
    fn disks(&self) -> Disks {
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let store = self.url.is_empty().then_some(folder);
        let (logs, artifacts) = (self.logs(), self.artifacts());
        Disks { store, logs, artifacts, least: self.min_free, reserve: self.reserve }
    }

    #[cfg(feature = "postgres")]
    fn database(&self) -> Result<StorePlace, String> {
        use orlop_cloud::store::postgres::fleet::PostgresOptions;
        Ok(StorePlace::Postgres(PostgresOptions::new(&self.url).schema(&self.schema)))
    }

    #[cfg(not(feature = "postgres"))]
    fn database(&self) -> Result<StorePlace, String> {
        Err(crate::features::lacking("`store.url`: PostgreSQL", "postgres"))
    }
}

/// Where secrets of tenants are; the first that is given.
#[derive(Clone, Default, PartialEq, Serialize, Args)]
pub(super) struct SecretsConfig {
    /// A folder with files `<tenant>/<name>`, which others fill; empty = secrets are sealed in the store.
    #[arg(id = "secrets.folder", value_parser = path)]
    pub(super) folder: PathBuf,
    /// The key they are sealed with, 64 hexadecimal digits, best in the variable ORLOP_SECRETS_KEY; empty = that of the file.
    /// Servers that share a store have the same.
    #[arg(id = "secrets.key")]
    pub(super) key: String,
    /// The file of the key, which is made when it is not there; empty = beside the SQLite file, or none with a database.
    #[arg(id = "secrets.key_file", value_parser = path)]
    pub(super) key_file: PathBuf,
}

impl std::fmt::Debug for SecretsConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (folder, file) = (&self.folder, &self.key_file);
        f.debug_struct("SecretsConfig").field("folder", folder).field("key_file", file).finish_non_exhaustive()
    }
}

impl SecretsConfig {
    /// Where they are.
    pub(super) fn place(&self, store: &StoreConfig) -> SecretPlace {
        if !self.folder.as_os_str().is_empty() {
            return SecretPlace::Folder(self.folder.clone());
        }
        if !self.key.is_empty() {
            return SecretPlace::Key(self.key.clone());
        }
        match (self.key_file.as_os_str().is_empty(), store.url.is_empty()) {
            (false, _) => SecretPlace::KeyFile(self.key_file.clone()),
            (true, true) => SecretPlace::KeyFile(store.path.with_extension("key")),
            (true, false) => SecretPlace::Nowhere,
        }
    }
}

/// When a commit counts as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Synchronous {
    /// When it is on disk.
    #[default]
    Full,
    /// When the system has it.
    Normal,
}

impl From<Synchronous> for Durability {
    fn from(synchronous: Synchronous) -> Self {
        match synchronous {
            Synchronous::Full => Self::Full,
            Synchronous::Normal => Self::Normal,
        }
    }
}

fn address(key: &str, text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("{key} is `{text}`; use an address with its port, such as 127.0.0.1:7070"))
}

/// An origin as browsers send it: scheme, host, and a port other than the scheme's.
fn origin(text: &str) -> Result<String, String> {
    let plain = text.split_once("://").filter(|(scheme, host)| {
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | ':' | '[' | ']');
        matches!(*scheme, "http" | "https") && !host.is_empty() && host.chars().all(good)
    });
    let wrong = || {
        format!(
            "server.origins holds `{text}`; use scheme and host as browsers send them: https://host or https://host:8443"
        )
    };
    plain.map(|_| text.to_owned()).ok_or_else(wrong)
}

impl Config {
    /// What keys say together: the first contradiction.
    pub(super) fn check(&self) -> Result<(), String> {
        let least = (self.scheduler.0.lease + 5000) * 11 / 10;
        if self.scheduler.0.reassign_after < least {
            let given = self.scheduler.0.reassign_after;
            return Err(format!(
                "scheduler.reassign_after is {given} ms; use at least {least}, which is 1.1 × (scheduler.lease + 5 s)"
            ));
        }
        // One heartbeat may be late or lost before a worker counts as silent, or its attempts are ended.
        let (beat, silent, lease) =
            (u64::from(self.server.heartbeat), self.scheduler.0.heartbeat_timeout, self.scheduler.0.lease);
        if beat < 100 || beat * 2 > silent.min(lease) {
            return Err(format!(
                "server.heartbeat is {beat} ms; use at least 100, and at most half of scheduler.heartbeat_timeout \
                 ({silent} ms) and of scheduler.lease ({lease} ms)"
            ));
        }
        self.scheduler.0.check().map_err(|error| error.to_string())?;
        if self.server.queue == 0 {
            return Err("server.queue is 0; use 1 or more".to_owned());
        }
        self.rate.check()?;
        logging::check(&self.log)?;
        self.trace.plan("")?;
        self.plan().and_then(|_| self.store.place()).map(|_| ())
    }

    /// What only the server's user may look into.
    pub(super) fn private(&self) -> Vec<PathBuf> {
        let beside = |end: &str| PathBuf::from(format!("{}{end}", self.store.path.display()));
        let store = ["", "-wal", "-shm"].map(beside).into_iter().filter(|_| self.store.url.is_empty());
        let folders = [self.store.logs(), self.store.artifacts(), Some(self.tls.directory.clone())];
        store.chain(folders.into_iter().flatten()).filter(|path| !path.as_os_str().is_empty()).collect()
    }

    /// What the server is started with.
    ///
    /// # Errors
    /// An address or a name is none.
    pub(super) fn plan(&self) -> Result<Plan, String> {
        let server = &self.server;
        let (rest, grpc) =
            (address("server.listen", &server.listen)?, address("server.grpc_listen", &server.grpc_listen)?);
        let tenant: TenantName = server.tenant.parse().map_err(|error| format!("server.tenant: {error}"))?;
        let first = &self.auth.first_token_file;
        let store = if self.store.url.is_empty() { self.store.path.as_path() } else { Path::new("") };
        Ok(Plan {
            options: Options { default_tenant: Some(TenantName::clone(&tenant)), ..self.options() },
            rest,
            grpc,
            tenant,
            tls: self.tls.plan()?,
            always: self.tls.mode == TlsMode::Always,
            client_token: self.auth.client_token(store),
            first_token: (!first.as_os_str().is_empty()).then(|| first.clone()),
            limits: self.retain.limits()?,
            rates: self.rate.rates(),
            console: self.console.plan()?,
            origins: server.origins.iter().map(|text| origin(text)).collect::<Result<_, _>>()?,
            bus: self.bus.place()?,
            urls: [&server.url, &server.grpc_url].map(|url| (!url.is_empty()).then(|| url.clone())),
        })
    }

    fn options(&self) -> Options {
        let host = || nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
        let server = &self.server;
        let name = match server.name.as_str() {
            "" => format!("{}/{}", host(), std::process::id()),
            given => given.to_owned(),
        };
        Options {
            core: self.scheduler.0.clone(),
            seed: server.seed,
            // Its addresses are known once it listens.
            holder: Holder { name, url: String::new() },
            queue: server.queue,
            disks: Some(self.store.disks()),
            create_tenants: self.tenants.create,
            timeout_ms: self.defaults.timeout,
            heartbeat_ms: server.heartbeat,
            frequent: Frequent { heartbeats: self.bus.heartbeats, chunks: self.bus.chunks },
            ..Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_not_given_up_before_their_lease_is_over() {
        assert_eq!(Config::default().check(), Ok(()));
        let mut config = Config::default();
        config.scheduler.0.lease = 30_000;
        insta::assert_snapshot!(config.check().unwrap_err(), @"scheduler.reassign_after is 30000 ms; use at least 38500, which is 1.1 × (scheduler.lease + 5 s)");
        let options = config.options();
        assert_eq!(u64::from(options.lease_ms()), options.core.lease, "agents are told what the core counts with");
    }

    #[test]
    fn heartbeats_come_often_enough_for_what_waits_for_them() {
        for heartbeat in [99, 7501] {
            let server = ServerConfig { heartbeat, ..ServerConfig::default() };
            let reported = Config { server, ..Config::default() }.check().unwrap_err();
            assert!(
                reported
                    .starts_with(&format!("server.heartbeat is {heartbeat} ms; use at least 100, and at most half"))
            );
        }
    }

    #[test]
    fn what_is_printed_reads_back() {
        let name = OsString::from("orlop-scheduler");
        let settings =
            read(vec![name.clone(), "--server-origins=https://a,https://b".into()], std::iter::empty()).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let printed = settings.sources.show(&settings.value).unwrap();
        std::fs::write(file.path(), &printed).unwrap();
        let variables = [("ORLOP_SCHEDULER_CONFIG".to_owned(), file.path().to_str().unwrap().to_owned())];
        assert_eq!(read(vec![name], variables.into_iter()).unwrap().value, settings.value, "{printed}");
        for line in ["  origins:  # --server-origins", "  queue: ", "  lease: 20000  # default"] {
            assert!(printed.contains(line), "{line}: {printed}");
        }
    }

    #[test]
    fn the_key_of_secrets_is_found_and_not_shown() {
        let mut config = Config::default();
        assert_eq!(config.secrets.place(&config.store), SecretPlace::KeyFile("orlop-fleet.key".into()));
        config.store.url = "postgres://db/orlop".to_owned();
        assert_eq!(config.secrets.place(&config.store), SecretPlace::Nowhere, "servers would have different ones");
        config.secrets.key = "hush".to_owned();
        assert_eq!(config.secrets.place(&config.store), SecretPlace::Key("hush".to_owned()));
        assert!(!format!("{config:?}").contains("hush"));
        assert_eq!(config.masked().secrets.key, "***");
    }

    #[test]
    fn an_address_that_is_none_is_reported() {
        let server = ServerConfig { listen: "here".to_owned(), ..ServerConfig::default() };
        insta::assert_snapshot!(Config { server, ..Config::default() }.check().unwrap_err(), @"server.listen is `here`; use an address with its port, such as 127.0.0.1:7070");
    }
}
