//! Arguments and environment of the Git program: no shell, nothing of the user's or the system's configuration, one protocol, a
//! process group of its own that is killed at the limit.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};
use tokio::time::Instant;
use url::Host;

use super::route::{Route, base};
use super::{Options, Request};
use crate::repository::error::FetchError;
use crate::repository::source::Source;

/// Bytes of an error message that are kept.
const MAX_WORDS: u64 = 4096;
/// How often the size of what was received is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// The Git program with its surroundings.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    search: std::ffi::OsString,
    /// The home of nobody.
    home: PathBuf,
    repository: PathBuf,
    settings: Vec<(&'static str, String)>,
    ssh: Option<String>,
    shown: String,
    is_https: bool,
    /// Seconds that one fetch may take.
    seconds: u64,
}

/// A process whose group ends with it.
pub(super) struct Group {
    pub(super) child: Child,
    id: Option<Pid>,
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            // A group that is gone already is what is wanted.
            let _gone = killpg(id, Signal::SIGKILL);
        }
    }
}

impl Program {
    /// Prepares the folders within `place`.
    pub(super) fn new(place: &Path, route: &Route, request: &Request, options: &Options) -> Result<Self, FetchError> {
        let search = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&search).map(|folder| folder.join("git")).find(|path| path.is_file());
        let path = found.ok_or(FetchError::NoProgram)?;
        let (home, hooks) = (place.join("home"), place.join("hooks"));
        for folder in [&home, &hooks] {
            std::fs::create_dir(folder).map_err(FetchError::io("make a folder for the repository"))?;
        }
        let is_https = matches!(request.source, Source::Https(_));
        let ssh = if is_https { None } else { Some(ssh_command(&home, route)?) };
        let settings = settings(is_https, &hooks, route, options);
        let shown = request.source.to_string();
        Ok(Self {
            path,
            search,
            home,
            repository: place.join("bare"),
            settings,
            ssh,
            shown,
            is_https,
            seconds: options.time.as_secs(),
        })
    }

    /// A command, not started yet.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command
            .args(arguments)
            .current_dir(&self.home)
            .env_clear()
            .env("PATH", &self.search)
            .env("HOME", &self.home)
            .env("LC_ALL", "C")
            .env("GIT_DIR", &self.repository)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_PROTOCOL_FROM_USER", "0")
            .env("GIT_CONFIG_COUNT", self.settings.len().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        for (index, (key, value)) in self.settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{index}"), key).env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        if let Some(ssh) = &self.ssh {
            command.env("GIT_SSH_COMMAND", ssh).env("GIT_SSH_VARIANT", "ssh");
            if let Some(agent) = std::env::var_os("SSH_AUTH_SOCK") {
                command.env("SSH_AUTH_SOCK", agent);
            }
        }
        command
    }

    /// Starts a command in its own process group.
    pub(super) fn start(&self, command: &mut Command) -> Result<Group, FetchError> {
        let child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => FetchError::NoProgram,
            _ => FetchError::Io { what: "start git", source: error },
        })?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        Ok(Group { child, id })
    }

    /// Makes the bare repository, without templates.
    pub(super) async fn init(&self, deadline: Instant) -> Result<(), FetchError> {
        let path = self.repository.to_string_lossy();
        self.run(&["init", "--quiet", "--bare", "--template=", "--initial-branch=none", "--", &path], deadline, None)
            .await?;
        Ok(())
    }

    /// Fetches one commit.
    pub(super) async fn fetch(
        &self,
        route: &Route,
        reference: &str,
        deadline: Instant,
        max_bytes: u64,
    ) -> Result<(), FetchError> {
        let url = if self.is_https { base(&route.url) } else { route.url.as_str() };
        let arguments = [
            "fetch",
            "--quiet",
            "--depth=1",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
            "--no-progress",
            "--",
            url,
            reference,
        ];
        self.run(&arguments, deadline, Some(max_bytes)).await?;
        Ok(())
    }

    /// The commit that was fetched.
    pub(super) async fn commit(&self, deadline: Instant) -> Result<String, FetchError> {
        let out = self
            .run(&["rev-parse", "--verify", "--quiet", "--end-of-options", "FETCH_HEAD^{commit}"], deadline, None)
            .await?;
        let id = String::from_utf8_lossy(&out).trim().to_owned();
        let is_id = (40..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_hexdigit());
        if is_id { Ok(id) } else { Err(self.failed("no commit was fetched")) }
    }

    /// Runs a command to its end; its output is short.
    async fn run(&self, arguments: &[&str], deadline: Instant, max_bytes: Option<u64>) -> Result<Vec<u8>, FetchError> {
        let mut group = self.start(&mut self.command(arguments))?;
        let mut words = Vec::new();
        let mut out = Vec::new();
        let (stdout, stderr) = (group.child.stdout.take(), group.child.stderr.take());
        let reading = async {
            let out_of = async {
                if let Some(stream) = stdout {
                    drop(stream.take(MAX_WORDS).read_to_end(&mut out).await);
                }
            };
            let words_of = async {
                if let Some(mut stream) = stderr {
                    drop((&mut stream).take(MAX_WORDS).read_to_end(&mut words).await);
                    // The rest is thrown away, so that the process does not wait for a reader.
                    drop(tokio::io::copy(&mut stream, &mut tokio::io::sink()).await);
                }
            };
            tokio::join!(out_of, words_of);
            group.child.wait().await
        };
        let ended = tokio::select! {
            ended = tokio::time::timeout_at(deadline, reading) => ended,
            () = self.outgrown(max_bytes) => {
                return Err(FetchError::TooLarge { url: self.shown.clone(), mib: max_bytes.unwrap_or(0) / 1024 / 1024 });
            }
        };
        let status = ended
            .map_err(|_| FetchError::TooSlow { url: self.shown.clone(), seconds: self.seconds })?
            .map_err(FetchError::io("wait for git"))?;
        if status.success() { Ok(out) } else { Err(self.failed(&String::from_utf8_lossy(&words))) }
    }

    /// Ends when more was received than allowed; never without a limit.
    async fn outgrown(&self, max_bytes: Option<u64>) {
        let Some(max_bytes) = max_bytes else { return std::future::pending().await };
        loop {
            tokio::time::sleep(LOOK).await;
            let folder = self.repository.clone();
            let size = tokio::task::spawn_blocking(move || size_of(&folder)).await.unwrap_or(0);
            if size > max_bytes {
                return;
            }
        }
    }

    /// What Git says, in one line without anything that could be a secret or steer a terminal.
    fn failed(&self, words: &str) -> FetchError {
        let line = words.lines().map(str::trim).rfind(|line| line.starts_with("fatal:") || line.starts_with("error:"));
        let line = line.or(words.lines().next()).unwrap_or("git failed");
        let line: String = line.chars().filter(|ch| !ch.is_control()).take(300).collect();
        let why = line.trim_start_matches("fatal:").trim_start_matches("error:").trim().to_owned();
        let url = self.shown.clone();
        let small = why.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| small.contains(word));
        if has(&["couldn't find remote ref", "not our ref", "could not find remote ref", "invalid refspec"]) {
            FetchError::Missing { what: why }
        } else if has(&[
            "not found",
            "authentication",
            "could not read username",
            "permission denied",
            "403",
            "401",
            "dumb http",
            "does not appear",
        ]) {
            FetchError::Denied { url, why }
        } else {
            FetchError::Network { url, why }
        }
    }
}

/// Bytes of all files below a folder of Git's, which is flat.
fn size_of(folder: &Path) -> u64 {
    let mut open = vec![folder.to_owned()];
    let mut size = 0_u64;
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => open.push(entry.path()),
                Ok(metadata) => size = size.saturating_add(metadata.len()),
                // It was moved to its place in between.
                Err(_) => {}
            }
        }
    }
    size
}

/// What takes the place of every configuration. Passed by the environment, where other users do not see it.
fn settings(is_https: bool, hooks: &Path, route: &Route, options: &Options) -> Vec<(&'static str, String)> {
    let text = str::to_owned;
    let mut settings = vec![
        ("protocol.allow", text("never")),
        (if is_https { "protocol.https.allow" } else { "protocol.ssh.allow" }, text("always")),
        ("core.hooksPath", hooks.to_string_lossy().into_owned()),
        ("core.askPass", String::new()),
        ("core.fsmonitor", text("false")),
        ("core.bigFileThreshold", text("1m")),
        ("credential.helper", String::new()),
        ("fetch.recurseSubmodules", text("false")),
        ("fetch.bundleURI", String::new()),
        ("transfer.bundleURI", text("false")),
        ("transfer.credentialsInUrl", text("die")),
        ("gc.auto", text("0")),
        ("maintenance.auto", text("false")),
        ("pack.threads", text("1")),
        ("http.followRedirects", text("false")),
        ("http.proxy", route.proxy.as_ref().map(ToString::to_string).unwrap_or_default()),
        ("http.sslVerify", text("true")),
        ("http.lowSpeedLimit", text("1000")),
        ("http.lowSpeedTime", text("30")),
    ];
    if is_https
        && route.proxy.is_none()
        && let Some(Host::Domain(name)) = route.url.host()
    {
        let addresses = route.addresses.iter().map(|address| match address {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        });
        let port = route.url.port_or_known_default().unwrap_or(443);
        settings.push(("http.curloptResolve", format!("{name}:{port}:{}", addresses.collect::<Vec<_>>().join(","))));
    }
    if let Some(file) = &options.ca_file {
        settings.push(("http.sslCAInfo", file.to_string_lossy().into_owned()));
        if route.proxy.as_ref().is_some_and(|proxy| proxy.scheme() == "https") {
            settings.push(("http.proxySSLCAInfo", file.to_string_lossy().into_owned()));
        }
    }
    if let Some(authorization) = &route.authorization {
        settings.push(("http.extraHeader", format!("Authorization: {authorization}")));
    }
    settings
}

/// How ssh is called: nobody is asked, nothing of the user's configuration, and to the checked address.
fn ssh_command(home: &Path, route: &Route) -> Result<String, FetchError> {
    let home = home.to_string_lossy();
    let host = route.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let address = route.addresses.first().map(|address| address.ip().to_string()).unwrap_or_default();
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:/+@=,%".contains(&b));
    if !plain(&home) || !plain(host) {
        let source = std::io::Error::other("the path of the state directory has characters that ssh cannot be given");
        return Err(FetchError::Io { what: "prepare ssh", source });
    }
    Ok(format!(
        "ssh -F none -oBatchMode=yes -oStrictHostKeyChecking=accept-new -oUserKnownHostsFile={home}/known_hosts \
         -oHostName={address} -oHostKeyAlias={host} -oConnectTimeout=10 -oPermitLocalCommand=no -oForwardAgent=no"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_asks_nobody_and_goes_to_the_checked_address() {
        let url = url::Url::parse("ssh://git@github.com/a/b").unwrap();
        let route = Route { url, addresses: vec!["8.8.8.8:22".parse().unwrap()], proxy: None, authorization: None };
        let command = ssh_command(Path::new("/state/home"), &route).unwrap();
        insta::assert_snapshot!(command, @"ssh -F none -oBatchMode=yes -oStrictHostKeyChecking=accept-new -oUserKnownHostsFile=/state/home/known_hosts -oHostName=8.8.8.8 -oHostKeyAlias=github.com -oConnectTimeout=10 -oPermitLocalCommand=no -oForwardAgent=no");
        assert!(ssh_command(Path::new("/state $(id)/home"), &route).is_err());
    }

    #[test]
    fn one_protocol_is_allowed_and_names_go_to_checked_addresses() {
        let url = url::Url::parse("https://h.example:8443/a").unwrap();
        let addresses = vec!["8.8.8.8:8443".parse().unwrap(), "[2606:4700::1]:8443".parse().unwrap()];
        let route = Route { url, addresses, proxy: None, authorization: Some("Basic x".into()) };
        let options = Options { ca_file: Some("/ca.pem".into()), ..Options::new("/state".into()) };
        let all = settings(true, Path::new("/hooks"), &route, &options);
        let reported = all.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(reported, @r"
        protocol.allow=never
        protocol.https.allow=always
        core.hooksPath=/hooks
        core.askPass=
        core.fsmonitor=false
        core.bigFileThreshold=1m
        credential.helper=
        fetch.recurseSubmodules=false
        fetch.bundleURI=
        transfer.bundleURI=false
        transfer.credentialsInUrl=die
        gc.auto=0
        maintenance.auto=false
        pack.threads=1
        http.followRedirects=false
        http.proxy=
        http.sslVerify=true
        http.lowSpeedLimit=1000
        http.lowSpeedTime=30
        http.curloptResolve=h.example:8443:8.8.8.8,[2606:4700::1]
        http.sslCAInfo=/ca.pem
        http.extraHeader=Authorization: Basic x
        ");
    }
}
