//! `clouds.yaml` and `secure.yaml`. Owns their keys; aliases and nesting are bounded by the
//! parser, and no message quotes the file.

use serde_json::{Map, Value};

use super::{CredentialsError, MAX_FILE, Settings};

/// Keys below `auth`, and the names that the environment has for them.
const AUTH: [(&str, &str); 22] = [
    ("auth_url", "OS_AUTH_URL"),
    ("username", "OS_USERNAME"),
    ("user_id", "OS_USER_ID"),
    ("password", "OS_PASSWORD"),
    ("project_name", "OS_PROJECT_NAME"),
    ("project_id", "OS_PROJECT_ID"),
    ("user_domain_name", "OS_USER_DOMAIN_NAME"),
    ("user_domain_id", "OS_USER_DOMAIN_ID"),
    ("project_domain_name", "OS_PROJECT_DOMAIN_NAME"),
    ("project_domain_id", "OS_PROJECT_DOMAIN_ID"),
    ("domain_name", "OS_USER_DOMAIN_NAME"),
    ("application_credential_id", "OS_APPLICATION_CREDENTIAL_ID"),
    ("application_credential_name", "OS_APPLICATION_CREDENTIAL_NAME"),
    ("application_credential_secret", "OS_APPLICATION_CREDENTIAL_SECRET"),
    ("token", "OS_TOKEN"),
    ("tenant_name", "OS_PROJECT_NAME"),
    ("identity_provider", "OS_IDENTITY_PROVIDER"),
    ("protocol", "OS_PROTOCOL"),
    ("discovery_endpoint", "OS_DISCOVERY_ENDPOINT"),
    ("client_id", "OS_CLIENT_ID"),
    ("client_secret", "OS_CLIENT_SECRET"),
    ("access_token", "OS_ACCESS_TOKEN"),
];
/// Keys of a cloud itself, of two for the same the stronger first.
const CLOUD: [(&str, &str); 5] = [
    ("auth_type", "OS_AUTH_TYPE"),
    ("region_name", "OS_REGION_NAME"),
    ("interface", "OS_INTERFACE"),
    ("endpoint_type", "OS_INTERFACE"),
    ("cacert", "OS_CACERT"),
];
/// Keys that name the profile which the rest is taken from.
const PROFILE: [&str; 2] = ["profile", "cloud"];
/// Keys of one cloud that are not used and reported.
const MAX_TOLD: usize = 20;

/// Reads one cloud of a `clouds.yaml`; `file` names it in messages.
///
/// # Errors
/// The text is too long or no file of clouds, or has no cloud of this name.
pub fn read_clouds(file: &str, text: &str, name: &str) -> Result<Settings, CredentialsError> {
    let document = parse(file, text)?;
    let wrong = |what: &str| CredentialsError::File { file: file.to_owned(), line: None, what: what.to_owned() };
    let clouds = document.get("clouds").and_then(Value::as_object).ok_or_else(|| wrong("it has no map `clouds`"))?;
    match clouds.get(name) {
        Some(cloud) => Ok(Entry { file, name, cloud }.settings()),
        None => {
            let mut known = named(clouds);
            known.truncate(50);
            let (name, file) = (name.chars().take(64).collect(), file.to_owned());
            Err(CredentialsError::UnknownCloud { name, file, known: known.join(", ") })
        }
    }
}

/// Reads a profile of a `clouds-public.yaml`; nothing if it has no such profile.
///
/// # Errors
/// The text is too long or no file of clouds.
pub fn read_profile(file: &str, text: &str, name: &str) -> Result<Option<Settings>, CredentialsError> {
    let document = parse(file, text)?;
    let profile = document.get("public-clouds").and_then(|profiles| profiles.get(name));
    Ok(profile.map(|cloud| Entry { file, name, cloud }.settings()))
}

/// Names of the clouds of a `clouds.yaml`.
///
/// # Errors
/// The text is too long or no file of clouds.
pub fn cloud_names(file: &str, text: &str) -> Result<Vec<String>, CredentialsError> {
    let document = parse(file, text)?;
    let clouds = document.get("clouds").and_then(Value::as_object);
    Ok(clouds.map(|clouds| named(clouds).into_iter().map(str::to_owned).collect()).unwrap_or_default())
}

/// Names of what are clouds, in order. A key with another value is none: it may be a secret in the wrong place.
fn named(clouds: &Map<String, Value>) -> Vec<&str> {
    let mut names: Vec<&str> =
        clouds.iter().filter(|(_, cloud)| cloud.is_object()).map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names
}

/// Reads what a `secure.yaml` adds to a cloud; nothing if it has no such cloud.
///
/// # Errors
/// The text is too long or no file of clouds.
pub fn read_secure(file: &str, text: &str, name: &str) -> Result<Settings, CredentialsError> {
    let document = parse(file, text)?;
    let cloud = document.get("clouds").and_then(|clouds| clouds.get(name));
    Ok(cloud.map(|cloud| Entry { file, name, cloud }.settings()).unwrap_or_default())
}

fn parse(file: &str, text: &str) -> Result<Value, CredentialsError> {
    let wrong = |line, what: &str| CredentialsError::File { file: file.to_owned(), line, what: what.to_owned() };
    if text.len() > MAX_FILE {
        return Err(wrong(None, "it is longer than 1 MiB"));
    }
    serde_saphyr::from_str(text).map_err(|error| {
        // The parser's own words may quote a password.
        wrong(error.location().map(|place| place.line()), "it is not YAML as clouds.yaml has it")
    })
}

/// A cloud of a file.
struct Entry<'a> {
    file: &'a str,
    name: &'a str,
    cloud: &'a Value,
}

impl Entry<'_> {
    fn settings(&self) -> Settings {
        let auth = self.cloud.get("auth").unwrap_or(&Value::Null);
        let of = |part: &Value, keys: &[(&str, &'static str)]| {
            // Of two keys for the same the first wins.
            let found = keys.iter().rev().filter_map(|(key, name)| Some((*name, scalar(part.get(*key)?)?)));
            found.collect::<Vec<_>>()
        };
        let region = self.cloud.get("regions").and_then(only).map(|region| ("OS_REGION_NAME", region));
        let mut settings = Settings::of(region.into_iter().chain(of(auth, &AUTH)).chain(of(self.cloud, &CLOUD)));
        settings.entry_url = settings.get("OS_AUTH_URL").map(str::to_owned);
        settings.profile = PROFILE.iter().find_map(|key| scalar(self.cloud.get(*key)?));
        settings.ignored = self.ignored(auth);
        settings
    }

    /// Keys that are not used, a sentence each.
    fn ignored(&self, auth: &Value) -> Vec<String> {
        let is_known =
            |key: &str, value: &Value| scalar(value).is_some() && AUTH.iter().any(|(known, _)| *known == key);
        let outer = members(self.cloud).filter(|(key, value)| !is_used(key, value)).map(|(key, _)| ("", key));
        let inner = members(auth).filter(|(key, value)| !value.is_null() && !is_known(key, value));
        let reported = |(front, key): (&str, &String)| {
            let name: String = self.name.chars().take(64).collect();
            format!("{}: {} of cloud `{name}` is not used{}", self.file, shown(front, key), why(key))
        };
        outer.chain(inner.map(|(key, _)| ("auth.", key))).take(MAX_TOLD).map(reported).collect()
    }
}

fn members(part: &Value) -> impl Iterator<Item = (&String, &Value)> {
    part.as_object().into_iter().flatten()
}

/// Whether a key of a cloud does what its value says.
fn is_used(key: &str, value: &Value) -> bool {
    let is_text = scalar(value).is_some();
    match key {
        _ if value.is_null() => true,
        "auth" => value.is_object(),
        "verify" => *value == Value::Bool(true),
        "insecure" => *value == Value::Bool(false),
        "identity_api_version" => scalar(value).is_some_and(|version| version.trim_start_matches('v') == "3"),
        "regions" => only(value).is_some(),
        _ => is_text && (PROFILE.contains(&key) || CLOUD.iter().any(|(known, _)| *known == key)),
    }
}

/// The one element of a list, by its name where it has more.
fn only(list: &Value) -> Option<String> {
    match list.as_array()?.as_slice() {
        [one] => scalar(one.get("name").unwrap_or(one)),
        _ => None,
    }
}

/// A key, unless it may be a secret in the wrong place.
fn shown(front: &str, key: &str) -> String {
    let is_name = key.len() <= 40 && key.chars().all(|ch| ch.is_ascii_lowercase() || ch == '_');
    if is_name { format!("`{front}{key}`") } else { "a key".to_owned() }
}

/// What a key would do, and what does so here.
fn why(key: &str) -> &'static str {
    match key {
        "verify" | "insecure" => ": certificates are always checked; name the authority to trust by `cacert`",
        "regions" => ": choose one by `region_name`",
        _ if key.ends_with("_endpoint_override") || key.ends_with("_endpoint") => {
            ": services are asked where the catalogue of the cloud has them"
        }
        _ if key.ends_with("_interface") => ": `interface` is for all services",
        _ => "",
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
