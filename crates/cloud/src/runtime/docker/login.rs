//! Logins to registries, as the `docker` command keeps them. Owns the reading of its configuration and the call of its
//! credential helpers; never writes any, and never shows a password.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use bollard::auth::DockerCredentials;
use orlop_core::error::{Class, Problem};
use serde::Deserialize;
use tokio::io::AsyncWriteExt as _;

use super::image::Reference;
use crate::runtime::pod::PullSecret;

/// How long a credential helper may take; some ask the user.
const HELPER: Duration = Duration::from_secs(60);

/// The address under which logins to Docker Hub are kept.
const HUB: &str = "https://index.docker.io/v1/";

/// Where logins come from.
#[derive(Clone, Debug, Default)]
pub(in crate::runtime) struct Logins {
    config: Option<PathBuf>,
}

/// What of the configuration matters here.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Config {
    auths: BTreeMap<String, Auth>,
    creds_store: Option<String>,
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

/// What a credential helper prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Helped {
    username: String,
    secret: String,
}

impl Logins {
    /// Logins of the configuration file at `config`; where that does not exist there are none.
    pub(in crate::runtime) fn new(config: Option<PathBuf>) -> Self {
        Self { config }
    }

    /// The file the `docker` command keeps them in.
    pub(in crate::runtime) fn default_config() -> Option<PathBuf> {
        let directory = std::env::var_os("DOCKER_CONFIG").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".docker"));
        directory.or_else(home).map(|directory| directory.join("config.json"))
    }

    /// The login for a registry. Read anew each time: people log in while a flow runs.
    pub(in crate::runtime) async fn of(&self, registry: &str) -> Result<Option<DockerCredentials>, Problem> {
        let Some(path) = &self.config else { return Ok(None) };
        let text = match tokio::fs::read_to_string(path).await {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let class = Problem::from(std::io::Error::from(error.kind())).class;
                return Err(Problem::new(class, format!("reading {} failed", path.display())).because(error));
            }
        };
        let config: Config = serde_json::from_str(&text).map_err(|error| {
            let place = format!("line {} column {}", error.line(), error.column());
            Problem::new(Class::Invalid, format!("{} is not valid JSON at {place}", path.display()))
        })?;
        login(&config, registry).await
    }
}

async fn login(config: &Config, registry: &str) -> Result<Option<DockerCredentials>, Problem> {
    let names = spellings(registry);
    if let Some((name, helper)) = names.iter().find_map(|name| config.cred_helpers.get_key_value(name)) {
        return helped(helper, name).await;
    }
    let known = names.iter().find_map(|name| config.auths.get_key_value(name));
    if let Some((name, auth)) = known
        && let Some(found) = direct(auth, name)
    {
        return Ok(Some(found));
    }
    match &config.creds_store {
        Some(store) => {
            helped(store, known.map_or(names.first().map_or(registry, String::as_str), |(name, _)| name)).await
        }
        None => Ok(None),
    }
}

/// How configurations spell a registry.
fn spellings(registry: &str) -> Vec<String> {
    let mut names = Vec::new();
    if registry == "docker.io" {
        names.push(HUB.to_owned());
        names.push("index.docker.io".to_owned());
    }
    names.push(registry.to_owned());
    names.push(format!("https://{registry}"));
    names.push(format!("https://{registry}/"));
    names
}

/// Logins for an image from the pod's own Secrets, those for the longest part of its name first. Only what stands in the
/// Secrets counts: a program that one of them names is never run.
///
/// # Errors
/// NotFound with reason ParameterUnresolved for the first Secret that is missing; Invalid for one of another form.
pub(in crate::runtime) fn of_secrets(
    secrets: &[PullSecret],
    image: Reference<'_>,
) -> Result<Vec<DockerCredentials>, Problem> {
    let mut found: Vec<(usize, DockerCredentials)> = Vec::new();
    for secret in secrets {
        let text = secret.config.as_deref().map_err(|why| {
            let message = format!("{why}; image `{}` may need its login", image.name);
            Problem::new(Class::NotFound, message).with_reason("ParameterUnresolved")
        })?;
        let config: Config = serde_json::from_str(text).map_err(|error| {
            let place = format!("line {} column {}", error.line(), error.column());
            let message =
                format!("Secret {} of imagePullSecrets holds no logins: it is not valid at {place}", secret.name);
            Problem::new(Class::Invalid, message)
        })?;
        let logins = config.auths.iter().filter_map(|(key, auth)| Some((covered(key, image)?, direct(auth, key)?)));
        found.extend(logins);
    }
    found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    Ok(found.into_iter().map(|(_, login)| login).collect())
}

/// How much of an image's repository a key of logins names; none when it is for others. A key is a host, whose parts may
/// hold a `*`, and may go on with the beginning of a repository.
fn covered(key: &str, image: Reference<'_>) -> Option<usize> {
    let key = ["https://", "http://"].iter().find_map(|scheme| key.strip_prefix(scheme)).unwrap_or(key);
    let key = key.trim_end_matches('/');
    let key = ["/v1", "/v2"].iter().find_map(|version| key.strip_suffix(version)).unwrap_or(key);
    let (host, path) = key.split_once('/').unwrap_or((key, ""));
    let host = if host == "index.docker.io" { "docker.io" } else { host };
    let (registry, repository) = image.split();
    let parts = host.split('.').count() == registry.split('.').count();
    if !parts || !host.split('.').zip(registry.split('.')).all(|(pattern, part)| fits(pattern, part)) {
        return None;
    }
    let rest = repository.strip_prefix(path)?;
    (path.is_empty() || rest.is_empty() || rest.starts_with('/')).then_some(path.len())
}

/// Whether a part of a host fits a pattern with at most one `*`.
fn fits(pattern: &str, part: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == part,
        Some((before, after)) => {
            part.strip_prefix(before).is_some_and(|rest| rest.len() >= after.len() && rest.ends_with(after))
        }
    }
}

/// A login that stands in the configuration itself.
fn direct(auth: &Auth, server: &str) -> Option<DockerCredentials> {
    let decoded = auth.auth.as_deref().and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok());
    let pair = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    let pair = pair.as_deref().map(|pair| pair.trim_end_matches('\0')).and_then(|pair| pair.split_once(':'));
    let (username, password) = match pair {
        Some((user, password)) => (Some(user.to_owned()), Some(password.to_owned())),
        None => (auth.username.clone(), auth.password.clone()),
    };
    if username.is_none() && auth.identitytoken.is_none() {
        return None;
    }
    Some(DockerCredentials {
        username,
        password,
        identitytoken: auth.identitytoken.clone(),
        serveraddress: Some(server.to_owned()),
        ..Default::default()
    })
}

/// Asks `docker-credential-<helper>`; a helper that knows no login fails, and the pull goes on without one.
async fn helped(helper: &str, server: &str) -> Result<Option<DockerCredentials>, Problem> {
    let program = format!("docker-credential-{helper}");
    let fail = |error: std::io::Error| {
        Problem::new(Class::Denied, format!("the credential helper {program} cannot be run")).because(error)
    };
    let mut command = tokio::process::Command::new(&program);
    command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().map_err(fail)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(server.as_bytes()).await.map_err(fail)?;
    }
    let output = match tokio::time::timeout(HELPER, child.wait_with_output()).await {
        Ok(output) => output.map_err(fail)?,
        Err(_) => {
            return Err(Problem::new(Class::Transient, format!("the credential helper {program} takes too long")));
        }
    };
    let Ok(helped) = serde_json::from_slice::<Helped>(&output.stdout) else { return Ok(None) };
    let mut login = DockerCredentials { serveraddress: Some(server.to_owned()), ..Default::default() };
    // The helpers' way to say that the secret is a token.
    if helped.username == "<token>" {
        login.identitytoken = Some(helped.secret);
    } else {
        (login.username, login.password) = (Some(helped.username), Some(helped.secret));
    }
    Ok(Some(login))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn of(config: &str, registry: &str) -> Option<DockerCredentials> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        std::fs::write(&path, config).unwrap();
        Logins::new(Some(path)).of(registry).await.unwrap()
    }

    #[tokio::test]
    async fn logins_are_found_under_every_spelling() {
        let auth = base64::engine::general_purpose::STANDARD.encode("user:pa:ss");
        for (name, registry) in
            [(HUB, "docker.io"), ("https://r.example", "r.example"), ("r.example:5000", "r.example:5000")]
        {
            let config = format!(r#"{{"auths": {{"{name}": {{"auth": "{auth}"}}}}}}"#);
            let login = of(&config, registry).await.unwrap();
            assert_eq!((login.username.as_deref(), login.password.as_deref()), (Some("user"), Some("pa:ss")));
            assert_eq!(login.serveraddress.as_deref(), Some(name));
            assert_eq!(of(&config, "other.example").await, None);
        }
        let token = of(r#"{"auths": {"r.example": {"identitytoken": "t"}}}"#, "r.example").await.unwrap();
        assert_eq!(token.identitytoken.as_deref(), Some("t"));
    }

    #[tokio::test]
    async fn without_a_configuration_there_is_no_login() {
        assert_eq!(Logins::new(Some("/does/not/exist.json".into())).of("r").await.unwrap(), None);
        assert_eq!(Logins::default().of("r").await.unwrap(), None);
        assert_eq!(of("{}", "r").await, None);
    }

    #[tokio::test]
    async fn a_broken_configuration_is_named_without_its_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        std::fs::write(&path, r#"{"auths": {"r": hunter2}}"#).unwrap();
        let error = Logins::new(Some(path)).of("r").await.unwrap_err();
        assert!(error.to_string().ends_with("config.json is not valid JSON at line 1 column 17"), "{error}");
        assert!(!error.chain().contains("hunter2"));
    }

    fn secret(config: &str) -> PullSecret {
        PullSecret { name: "regcred".to_owned(), config: Ok(config.to_owned()) }
    }

    #[test]
    fn image_pull_secrets_give_the_login_for_the_longest_part_of_the_name() {
        let config = r#"{"auths": {
            "reg.example:5000": {"username": "host", "password": "p"},
            "https://reg.example:5000/team": {"username": "team", "password": "p"},
            "*.wild.example": {"username": "wild", "password": "p"},
            "https://index.docker.io/v1/": {"username": "hub", "password": "p"}},
            "credsStore": "does-not-exist"}"#;
        let users = |image: &str| -> Vec<String> {
            let found = of_secrets(&[secret("{}"), secret(config)], super::super::image::reference(image)).unwrap();
            found.into_iter().filter_map(|login| login.username).collect()
        };
        assert_eq!(users("reg.example:5000/team/app:1"), ["team", "host"]);
        assert_eq!(users("reg.example:5000/teams/app"), ["host"]);
        assert_eq!(users("a.wild.example/x"), ["wild"]);
        assert_eq!(users("busybox"), ["hub"]);
        assert_eq!(users("other.example/x"), Vec::<String>::new());
        assert_eq!(users("a.b.wild.example/x"), Vec::<String>::new());
    }

    #[test]
    fn image_pull_secrets_that_cannot_be_used_are_named_without_their_text() {
        let image = super::super::image::reference("reg.example/a");
        let broken = of_secrets(&[secret("{\"auths\": {\"r\": hunter2}}")], image).unwrap_err();
        insta::assert_snapshot!(broken.chain(), @"Secret regcred of imagePullSecrets holds no logins: it is not valid at line 1 column 17");
        let gone = PullSecret { name: "regcred".to_owned(), config: Err("there is no Secret regcred".to_owned()) };
        let error = of_secrets(&[gone], image).unwrap_err();
        assert_eq!((error.class, error.reason), (Class::NotFound, Some("ParameterUnresolved")));
        insta::assert_snapshot!(error, @"there is no Secret regcred; image `reg.example/a` may need its login");
        assert_eq!(format!("{:?}", secret("hunter2")), "PullSecret { name: \"regcred\", .. }");
    }

    #[tokio::test]
    async fn a_missing_helper_is_named() {
        let config = Config { creds_store: Some("does-not-exist".to_owned()), ..Default::default() };
        let error = login(&config, "r.example").await.unwrap_err();
        insta::assert_snapshot!(error, @"the credential helper docker-credential-does-not-exist cannot be run");
    }
}
