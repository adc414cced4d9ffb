//! `clouds.yaml` and `secure.yaml` (provisioner contract, chapter 1). Owns their keys; aliases and nesting are bounded by the
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
/// Keys of a cloud itself.
const CLOUD: [(&str, &str); 4] = [
    ("auth_type", "OS_AUTH_TYPE"),
    ("region_name", "OS_REGION_NAME"),
    ("interface", "OS_INTERFACE"),
    ("cacert", "OS_CACERT"),
];

/// Reads one cloud of a `clouds.yaml`; `file` names it in messages.
///
/// # Errors
/// The text is too long or no file of clouds, or has no cloud of this name.
pub fn read_clouds(file: &str, text: &str, name: &str) -> Result<Settings, CredentialsError> {
    let document = parse(file, text)?;
    let wrong = |what: &str| CredentialsError::File { file: file.to_owned(), line: None, what: what.to_owned() };
    let clouds = document.get("clouds").and_then(Value::as_object).ok_or_else(|| wrong("it has no map `clouds`"))?;
    let Some(cloud) = clouds.get(name) else {
        let mut known = named(clouds);
        known.truncate(50);
        return Err(CredentialsError::UnknownCloud {
            name: name.chars().take(64).collect(),
            file: file.to_owned(),
            known: known.join(", "),
        });
    };
    Ok(settings(cloud))
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
    Ok(cloud.map(settings).unwrap_or_default())
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

fn settings(cloud: &Value) -> Settings {
    let auth = cloud.get("auth").unwrap_or(&Value::Null);
    let of = |part: &Value, keys: &[(&str, &'static str)]| {
        keys.iter().filter_map(|(key, name)| Some((*name, scalar(part.get(*key)?)?))).collect::<Vec<_>>()
    };
    Settings::of(of(auth, &AUTH).into_iter().chain(of(cloud, &CLOUD)))
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
