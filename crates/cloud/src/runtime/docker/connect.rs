//! The way to a container engine. Owns which sockets are tried in which order, the check that an engine answers and is
//! new enough, and what it can do; never starts an engine.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, Docker};
use orlop_core::error::{Class, Problem};

use super::engine::{Engine, Facts};
use super::error;

/// How long an engine may take to answer the first question.
const PING: Duration = Duration::from_secs(5);

/// How long it may take to begin its answer to any other one; those that last longer say so themselves.
const ANSWER: Duration = Duration::from_secs(120);

/// The oldest API with everything a pod needs (device requests): Docker 19.03, Podman 3.
const OLDEST: (u32, u32) = (1, 40);

/// Where an engine may listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Endpoint {
    /// A socket of this machine.
    Unix(PathBuf),
    /// Host and port on the loopback interface, without encryption.
    Http(String),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Http(address) => write!(f, "http://{address}"),
        }
    }
}

/// Reads an address as `DOCKER_HOST` has it.
pub(in crate::runtime) fn parse(text: &str) -> Result<Endpoint, Problem> {
    let invalid = |why: &str| {
        let message = format!(
            "`{text}` is not the address of a container engine that can be used: {why}; \
             write unix:///path/to/docker.sock, or tcp://127.0.0.1:2375"
        );
        Err(Problem::new(Class::Invalid, message))
    };
    let (scheme, rest) = text.split_once("://").unwrap_or(("unix", text));
    match scheme {
        "unix" if rest.starts_with('/') => Ok(Endpoint::Unix(PathBuf::from(rest))),
        "unix" => invalid("the path of a socket begins with `/`"),
        "tcp" | "http" => {
            let rest = rest.trim_end_matches('/');
            if is_loopback(rest) {
                Ok(Endpoint::Http(rest.to_owned()))
            } else {
                invalid("pods mount files of this machine, so the engine must be on it (a loopback address and a port)")
            }
        }
        "https" => invalid("encrypted connections are not supported"),
        "ssh" => invalid("pods mount files of this machine, so the engine must be on it"),
        _ => invalid("only unix, tcp and http are known"),
    }
}

fn is_loopback(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    port.parse::<u16>().is_ok() && (host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()))
}

/// Where engines of this machine listen by default: Docker, Docker without root, Docker Desktop, Podman, Podman without
/// root.
fn default_sockets(runtime_dir: Option<&Path>, home: Option<&Path>) -> Vec<PathBuf> {
    let mut sockets = vec![PathBuf::from("/var/run/docker.sock")];
    sockets.extend(runtime_dir.map(|dir| dir.join("docker.sock")));
    sockets.extend(home.map(|home| home.join(".docker/run/docker.sock")));
    sockets.extend(home.map(|home| home.join(".docker/desktop/docker.sock")));
    sockets.push(PathBuf::from("/run/podman/podman.sock"));
    sockets.extend(runtime_dir.map(|dir| dir.join("podman/podman.sock")));
    sockets
}

/// Where an engine is looked for: at `address`, else at `ORLOP_DOCKER_HOST`, else at `DOCKER_HOST`, else at the default
/// sockets.
///
/// # Errors
/// Invalid when the address cannot be used.
pub(in crate::runtime) fn candidates(address: Option<&str>) -> Result<Vec<Endpoint>, Problem> {
    let named =
        address.map(str::to_owned).or_else(|| variable("ORLOP_DOCKER_HOST")).or_else(|| variable("DOCKER_HOST"));
    if let Some(address) = named {
        return Ok(vec![parse(&address)?]);
    }
    let path = |name| variable(name).map(PathBuf::from);
    let sockets = default_sockets(path("XDG_RUNTIME_DIR").as_deref(), path("HOME").as_deref());
    Ok(sockets.into_iter().map(Endpoint::Unix).collect())
}

/// Connects to the engine at `address`, else at `ORLOP_DOCKER_HOST`, else at `DOCKER_HOST`, else to the first one that
/// answers at a default socket.
pub(in crate::runtime) async fn connect(address: Option<&str>, network: Option<&str>) -> Result<Engine, Problem> {
    first(&candidates(address)?, network).await
}

/// Connects to the first engine that answers.
pub(in crate::runtime) async fn first(all: &[Endpoint], network: Option<&str>) -> Result<Engine, Problem> {
    if let [only] = all {
        return open(only, network).await;
    }
    let there = |endpoint: &&Endpoint| !matches!(endpoint, Endpoint::Unix(path) if !path.exists());
    let mut tried = Vec::new();
    for endpoint in all.iter().filter(there) {
        match open(endpoint, network).await {
            Ok(engine) => return Ok(engine),
            Err(error) => tried.push(error),
        }
    }
    // The class of an engine that is there but does not answer says more than that of an empty list.
    let class = tried.first().map_or(Class::NotFound, |error| error.class);
    let reasons: Vec<String> = tried.iter().map(ToString::to_string).collect();
    let seen = if reasons.is_empty() { "no socket of one exists".to_owned() } else { reasons.join("; ") };
    let message = format!("no container engine: {seen}; start Docker or Podman, or set DOCKER_HOST");
    Err(Problem::new(class, message))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

async fn open(endpoint: &Endpoint, network: Option<&str>) -> Result<Engine, Problem> {
    let doing = format!("connecting to the container engine at {endpoint}");
    let fail = |error| error::engine(error, &doing);
    let docker = match endpoint {
        Endpoint::Unix(path) if !path.exists() => {
            let message = format!("there is no container engine at {endpoint}: no such socket");
            return Err(Problem::new(Class::NotFound, message));
        }
        Endpoint::Unix(path) => {
            let path = path.to_str().ok_or_else(|| Problem::new(Class::Invalid, format!("{doing}: not UTF-8")))?;
            Docker::connect_with_unix(path, ANSWER.as_secs(), API_DEFAULT_VERSION).map_err(fail)?
        }
        Endpoint::Http(address) => {
            Docker::connect_with_http(address, ANSWER.as_secs(), API_DEFAULT_VERSION).map_err(fail)?
        }
    };
    docker.clone().with_timeout(PING).ping().await.map_err(fail)?;
    let version = docker.version().await.map_err(fail)?;
    new_enough(endpoint, version.api_version.as_deref().unwrap_or_default())?;
    let info = docker.info().await.map_err(fail)?;
    let networks = docker.list_networks(None).await.map_err(fail)?;
    let networks: Vec<String> = networks.into_iter().filter_map(|network| network.name).collect();
    let facts = Facts::new(&info, network, &networks);
    tracing::debug!(%endpoint, version = version.version, network = facts.network, "connected to a container engine");
    Ok(Engine::new(docker, facts))
}

fn new_enough(endpoint: &Endpoint, version: &str) -> Result<(), Problem> {
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u32>().ok());
    let mut parts = version.split('.');
    match (number(parts.next()), number(parts.next())) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Ok(()),
        _ => {
            let (major, minor) = OLDEST;
            let message = format!(
                "the container engine at {endpoint} speaks version `{version}` of the Engine API; \
                 at least {major}.{minor} is needed (Docker 19.03 or Podman 3)"
            );
            Err(Problem::new(Class::Invalid, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_sockets_or_loopback_ports() {
        assert_eq!(parse("unix:///a/b.sock").unwrap(), Endpoint::Unix("/a/b.sock".into()));
        assert_eq!(parse("/a/b.sock").unwrap(), Endpoint::Unix("/a/b.sock".into()));
        for good in ["tcp://127.0.0.1:2375", "http://localhost:80/", "tcp://[::1]:1"] {
            assert!(matches!(parse(good), Ok(Endpoint::Http(_))), "{good}");
        }
        for bad in
            ["tcp://10.0.0.1:2375", "tcp://127.0.0.1", "ssh://host", "unix://a", "npipe:////./x", "https://localhost:1"]
        {
            assert_eq!(parse(bad).unwrap_err().class, Class::Invalid, "{bad}");
        }
        insta::assert_snapshot!(parse("tcp://10.0.0.1:2375").unwrap_err(), @"`tcp://10.0.0.1:2375` is not the address of a container engine that can be used: pods mount files of this machine, so the engine must be on it (a loopback address and a port); write unix:///path/to/docker.sock, or tcp://127.0.0.1:2375");
    }

    #[test]
    fn default_sockets_cover_docker_and_podman_with_and_without_root() {
        let sockets = default_sockets(Some(Path::new("/run/user/1")), Some(Path::new("/home/u")));
        let sockets: Vec<&str> = sockets.iter().filter_map(|socket| socket.to_str()).collect();
        insta::assert_snapshot!(sockets.join("\n"), @r"
        /var/run/docker.sock
        /run/user/1/docker.sock
        /home/u/.docker/run/docker.sock
        /home/u/.docker/desktop/docker.sock
        /run/podman/podman.sock
        /run/user/1/podman/podman.sock
        ");
        assert_eq!(default_sockets(None, None).len(), 2);
    }

    #[test]
    fn old_engines_are_refused() {
        let at = Endpoint::Unix("/x".into());
        assert!(new_enough(&at, "1.41").is_ok() && new_enough(&at, "2.0").is_ok());
        insta::assert_snapshot!(new_enough(&at, "1.24").unwrap_err(), @"the container engine at unix:///x speaks version `1.24` of the Engine API; at least 1.40 is needed (Docker 19.03 or Podman 3)");
        assert!(new_enough(&at, "").is_err());
    }

    #[tokio::test]
    async fn a_missing_socket_is_named() {
        let error = connect(Some("unix:///does/not/exist.sock"), None).await.unwrap_err();
        assert_eq!(error.class, Class::NotFound);
        insta::assert_snapshot!(error, @"there is no container engine at unix:///does/not/exist.sock: no such socket");
    }

    #[tokio::test]
    async fn an_engine_that_never_answers_is_not_waited_for_long() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("silent.sock");
        let _silent = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let address = format!("unix://{}", socket.display());
        tokio::time::pause();
        let error = connect(Some(&address), None).await.unwrap_err();
        assert_eq!(error.class, Class::Transient);
    }
}
