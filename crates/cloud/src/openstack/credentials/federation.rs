//! Signing in with an identity provider elsewhere. Owns what its
//! settings come to.

use secrecy::SecretString;

use super::{CredentialsError, Settings};
use crate::private_url::private_url;

/// An identity provider, and how one proves to it who one is.
#[derive(Clone, Debug)]
pub struct Federation {
    /// The provider's name in the identity service.
    pub provider: String,
    /// The name of the way there, such as `openid`.
    pub protocol: String,
    /// How one gets what the provider says of one.
    pub grant: Grant,
}

/// How one gets an access token of an identity provider.
#[derive(Clone, Debug)]
pub enum Grant {
    /// By a password that the provider knows.
    Password {
        /// Where the provider says where its tokens are had.
        discovery: String,
        /// Who one is there.
        username: String,
        /// The password.
        password: SecretString,
        /// Under which name this program is known there.
        client: String,
        /// What proves that it is this program, where the provider wants that.
        client_secret: Option<SecretString>,
    },
    /// One has one.
    Token(SecretString),
}

/// What settings say of an identity provider.
///
/// # Errors
/// Something is missing, or an address is not usable.
pub(super) fn federation(settings: &Settings, by_token: bool) -> Result<Federation, CredentialsError> {
    let needed = |what: &'static str, name: &'static str| {
        settings.get(name).map(str::to_owned).ok_or(CredentialsError::Missing { what, names: name })
    };
    let provider = name(needed("the identity provider", "OS_IDENTITY_PROVIDER")?, "OS_IDENTITY_PROVIDER")?;
    let protocol = name(needed("the protocol of the identity provider", "OS_PROTOCOL")?, "OS_PROTOCOL")?;
    let grant = if by_token {
        Grant::Token(needed("the access token", "OS_ACCESS_TOKEN")?.into())
    } else {
        const DISCOVERY: &str = "OS_DISCOVERY_ENDPOINT";
        let discovery = needed("the address of the identity provider", DISCOVERY)?;
        let discovery =
            private_url(&discovery).map_err(|why| CredentialsError::Address { name: DISCOVERY, why })?.to_string();
        Grant::Password {
            discovery,
            username: needed("the user", "OS_USERNAME")?,
            password: needed("the password", "OS_PASSWORD")?.into(),
            client: needed("the name of the client", "OS_CLIENT_ID")?,
            client_secret: settings.get("OS_CLIENT_SECRET").map(|secret| secret.to_owned().into()),
        }
    };
    Ok(Federation { provider, protocol, grant })
}

/// A name that becomes part of a path.
fn name(given: String, setting: &'static str) -> Result<String, CredentialsError> {
    let good = |ch: char| ch.is_ascii_alphanumeric() || matches!(ch, '-' | '_' | '.' | '@');
    if given.len() <= 64 && given.chars().all(good) && given.chars().any(|ch| ch.is_ascii_alphanumeric()) {
        return Ok(given);
    }
    Err(CredentialsError::Name { name: setting })
}
