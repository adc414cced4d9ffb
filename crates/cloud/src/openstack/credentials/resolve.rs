//! What settings come to: an address, a way to sign in, a project. Owns the rules; secrets are wiped when they are dropped.

use secrecy::SecretString;
use serde_json::{Value, json};

use super::federation::{Federation, federation};
use super::{CredentialsError, Settings};
use crate::private_url::{is_readable, web_url};

/// Somebody or something by id, or by name within a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// By id.
    Id(String),
    /// By name and domain.
    Name {
        /// The name.
        name: String,
        /// The domain as its kind (`id` or `name`) and value.
        domain: (&'static str, String),
    },
}

impl Who {
    fn document(&self) -> Value {
        match self {
            Self::Id(id) => json!({"id": id}),
            Self::Name { name, domain: (kind, domain) } => {
                let mut of = serde_json::Map::new();
                of.insert((*kind).to_owned(), json!(domain));
                json!({"name": name, "domain": of})
            }
        }
    }
}

/// The project one works in.
pub type Project = Who;

/// How one proves who one is.
#[derive(Clone, Debug)]
pub enum Method {
    /// A password.
    Password {
        /// Who.
        user: Who,
        /// The password.
        password: SecretString,
    },
    /// An application credential; it carries no scope.
    ApplicationCredential {
        /// Its id, or its name with whose it is.
        credential: (Who, Option<Who>),
        /// Its secret.
        secret: SecretString,
    },
    /// A token of before.
    Token {
        /// The token.
        token: SecretString,
    },
    /// What an identity provider elsewhere says of one; it comes to a token first.
    Federated(Federation),
}

/// All that signing in needs.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// Where, up to `/v3`.
    pub auth_url: String,
    /// Whether others can read what is sent there: an entry of a file of clouds names an address of http.
    pub is_readable: bool,
    /// How.
    pub method: Method,
    /// For which project; an application credential has its own.
    pub project: Option<Project>,
    /// The region, if one was chosen.
    pub region: Option<String>,
    /// `public`, `internal` or `admin`.
    pub interface: String,
    /// A file of authorities.
    pub ca_file: Option<String>,
}

/// What settings come to.
///
/// # Errors
/// Something is missing or unknown, or the address is not usable.
pub fn resolve(settings: &Settings) -> Result<Credentials, CredentialsError> {
    let get = |name: &str| settings.get(name).map(str::to_owned);
    let Address { auth_url, is_readable } = address(settings)?;
    let kind = settings.get("OS_AUTH_TYPE").map(|kind| kind.trim_start_matches("v3").to_ascii_lowercase());
    let kind = match kind.as_deref() {
        Some("applicationcredential") => "application_credential",
        Some("password") => "password",
        Some("token") => "token",
        Some("oidcpassword") => "oidcpassword",
        Some("oidcaccesstoken") => "oidcaccesstoken",
        Some(_) => return Err(CredentialsError::UnknownType { kind: get("OS_AUTH_TYPE").unwrap_or_default() }),
        None if settings.get("OS_APPLICATION_CREDENTIAL_SECRET").is_some() => "application_credential",
        None if settings.get("OS_TOKEN").is_some() && settings.get("OS_PASSWORD").is_none() => "token",
        None => "password",
    };
    let method = match kind {
        "application_credential" => application_credential(settings)?,
        "oidcpassword" | "oidcaccesstoken" => Method::Federated(federation(settings, kind == "oidcaccesstoken")?),
        "token" => {
            let token = get("OS_TOKEN").ok_or(CredentialsError::Missing { what: "the token", names: "OS_TOKEN" })?;
            Method::Token { token: token.into() }
        }
        _ => {
            let missing = CredentialsError::Missing { what: "the user", names: "OS_USERNAME or OS_USER_ID" };
            let user = who(settings, ["OS_USER_ID", "OS_USERNAME"], ["OS_USER_DOMAIN_ID", "OS_USER_DOMAIN_NAME"]);
            let user = user.ok_or(missing)?;
            let password =
                get("OS_PASSWORD").ok_or(CredentialsError::Missing { what: "the password", names: "OS_PASSWORD" })?;
            Method::Password { user, password: password.into() }
        }
    };
    let project =
        who(settings, ["OS_PROJECT_ID", "OS_PROJECT_NAME"], ["OS_PROJECT_DOMAIN_ID", "OS_PROJECT_DOMAIN_NAME"]);
    let has_own_scope = matches!(method, Method::ApplicationCredential { .. });
    if project.is_none() && !has_own_scope {
        return Err(CredentialsError::Missing { what: "the project", names: "OS_PROJECT_ID or OS_PROJECT_NAME" });
    }
    Ok(Credentials {
        auth_url,
        is_readable,
        method,
        project: project.filter(|_| !has_own_scope),
        region: get("OS_REGION_NAME"),
        interface: interface(settings.get("OS_INTERFACE")),
        ca_file: get("OS_CACERT"),
    })
}

fn application_credential(settings: &Settings) -> Result<Method, CredentialsError> {
    let missing = |what, names| CredentialsError::Missing { what, names };
    let secret = settings.get("OS_APPLICATION_CREDENTIAL_SECRET");
    let secret = secret.ok_or(missing("the secret", "OS_APPLICATION_CREDENTIAL_SECRET"))?;
    let credential =
        match (settings.get("OS_APPLICATION_CREDENTIAL_ID"), settings.get("OS_APPLICATION_CREDENTIAL_NAME")) {
            (Some(id), _) => (Who::Id(id.to_owned()), None),
            (None, Some(name)) => {
                let user = who(settings, ["OS_USER_ID", "OS_USERNAME"], ["OS_USER_DOMAIN_ID", "OS_USER_DOMAIN_NAME"]);
                let user =
                    user.ok_or(missing("the user of the application credential", "OS_USER_ID or OS_USERNAME"))?;
                (Who::Name { name: name.to_owned(), domain: ("id", String::new()) }, Some(user))
            }
            (None, None) => {
                return Err(missing(
                    "the application credential",
                    "OS_APPLICATION_CREDENTIAL_ID or OS_APPLICATION_CREDENTIAL_NAME",
                ));
            }
        };
    Ok(Method::ApplicationCredential { credential, secret: secret.into() })
}

fn who(settings: &Settings, [id, name]: [&str; 2], [domain_id, domain_name]: [&str; 2]) -> Option<Who> {
    if let Some(id) = settings.get(id) {
        return Some(Who::Id(id.to_owned()));
    }
    let domain = match (settings.get(domain_id), settings.get(domain_name)) {
        (Some(id), _) => ("id", id.to_owned()),
        (None, Some(name)) => ("name", name.to_owned()),
        (None, None) => ("id", "default".to_owned()),
    };
    Some(Who::Name { name: settings.get(name)?.to_owned(), domain })
}

fn interface(given: Option<&str>) -> String {
    given.unwrap_or("public").trim_end_matches("URL").to_ascii_lowercase()
}

/// Where one signs in.
struct Address {
    auth_url: String,
    is_readable: bool,
}

/// The address with `/v3` at its end: https, or http to this machine, or http as an entry of a file of clouds names it.
fn address(settings: &Settings) -> Result<Address, CredentialsError> {
    const NAME: &str = "OS_AUTH_URL";
    const READABLE: &str = "http would expose secrets; use https, or name the address in an entry of clouds.yaml";
    let given = settings.get(NAME);
    let given = given.ok_or(CredentialsError::Missing { what: "the address to sign in", names: NAME })?;
    let refused = |why| CredentialsError::Address { name: NAME, why };
    let url = web_url(given).map_err(refused)?;
    let is_readable = is_readable(&url);
    if is_readable && settings.entry_url.as_deref() != Some(given) {
        return Err(refused(READABLE));
    }
    let text = url.as_str().split(['?', '#']).next().unwrap_or_default().trim_end_matches('/').to_owned();
    let auth_url = if text.ends_with("/v3") { text } else { format!("{text}/v3") };
    Ok(Address { auth_url, is_readable })
}

impl Credentials {
    /// The document that signs in, with the token of an identity provider where there is one. It holds secrets.
    #[must_use]
    pub fn document(&self, federated: Option<&SecretString>) -> Value {
        use secrecy::ExposeSecret as _;
        let by_token = |token: &SecretString| json!({"methods": ["token"], "token": {"id": token.expose_secret()}});
        let identity = match &self.method {
            Method::Password { user, password } => {
                let mut user = user.document();
                user["password"] = json!(password.expose_secret());
                json!({"methods": ["password"], "password": {"user": user}})
            }
            Method::ApplicationCredential { credential: (credential, user), secret } => {
                let mut document = match credential {
                    Who::Id(id) => json!({"id": id}),
                    Who::Name { name, .. } => json!({"name": name}),
                };
                document["secret"] = json!(secret.expose_secret());
                if let Some(user) = user {
                    document["user"] = user.document();
                }
                json!({"methods": ["application_credential"], "application_credential": document})
            }
            Method::Token { token } => by_token(token),
            // Without a token nobody has proved anything yet, which the service says in its own words.
            Method::Federated(_) => federated.map_or_else(|| json!({"methods": []}), by_token),
        };
        match &self.project {
            Some(project) => json!({"auth": {"identity": identity, "scope": {"project": project.document()}}}),
            None => json!({"auth": {"identity": identity}}),
        }
    }

    /// Whether it is an application credential, which may not be able to make leases.
    #[must_use]
    pub const fn is_application_credential(&self) -> bool {
        matches!(self.method, Method::ApplicationCredential { .. })
    }
}
