//! Signing in with an identity provider elsewhere: from a password to its access token, and from that to a token of the identity
//! service, which is then signed in with. Owns these requests and what may come back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use super::session::Session;
use crate::openstack::classify::{Call, Meaning, Service};
use crate::openstack::credentials::{Federation, Grant};
use crate::openstack::port::{Answered, CloudError};
use crate::openstack::wire::{Method, Request, Sent};
use crate::private_url::private_url;

/// What the access token is to say of one.
const SCOPE: &str = "openid profile email";

fn own(request: &Request, message: impl Into<String>) -> CloudError {
    CloudError::own(Service::Identity, &request.name(), Meaning::Invalid, message)
}

impl Session {
    /// A token that says who one is, and that is for no project yet.
    pub(super) async fn federated(&self, federation: &Federation) -> Answered<SecretString> {
        let access = match &federation.grant {
            Grant::Token(token) => token.clone(),
            Grant::Password { discovery, .. } => {
                let endpoint = self.token_endpoint(discovery).await?;
                self.access_token(&endpoint, &federation.grant).await?
            }
        };
        let path =
            format!("/OS-FEDERATION/identity_providers/{}/protocols/{}/auth", federation.provider, federation.protocol);
        let request =
            Request { body: None, ..Request::with(Service::Identity, Call::SignIn, Method::Post, path, json!(null)) };
        let url = format!("{}{}", self.credentials.auth_url, request.path);
        let headers = vec![("authorization", format!("Bearer {}", access.expose_secret()))];
        let missing = own(&request, "the answer has no X-Subject-Token");
        let (_, token) = self.exchange(Sent { request, url, headers }).await?;
        token.filter(|token| !token.0.is_empty()).map(|token| token.0.into()).ok_or(missing)
    }

    /// Where the provider says that its tokens are had.
    async fn token_endpoint(&self, discovery: &str) -> Answered<url::Url> {
        let path = url::Url::parse(discovery).map(|url| url.path().to_owned()).unwrap_or_default();
        let request = Request { call: Call::SignIn, ..Request::get(Service::Identity, path) };
        let error = |why: &str| own(&request, format!("the identity provider of OS_DISCOVERY_ENDPOINT {why}"));
        let sent = Sent { request: request.clone(), url: discovery.to_owned(), headers: Vec::new() };
        let (document, _) = self.exchange(sent).await?;
        let endpoint = document.get("token_endpoint").and_then(serde_json::Value::as_str);
        let endpoint = endpoint.ok_or_else(|| error("does not say where to obtain its tokens"))?;
        // The answer must not be able to send the password over the open network.
        private_url(endpoint).map_err(|why| error(&format!("has an unusable token address: {why}")))
    }

    async fn access_token(&self, endpoint: &url::Url, grant: &Grant) -> Answered<SecretString> {
        let Grant::Password { username, password, client, client_secret, .. } = grant else {
            return Err(CloudError::own(Service::Identity, "POST", Meaning::Invalid, "no password is to be given"));
        };
        let mut form = json!({
            "grant_type": "password", "username": username, "password": password.expose_secret(), "scope": SCOPE,
        });
        let mut headers = Vec::new();
        match client_secret {
            Some(secret) => {
                let proof = STANDARD.encode(format!("{client}:{}", secret.expose_secret()));
                headers.push(("authorization", format!("Basic {proof}")));
            }
            None => form["client_id"] = json!(client),
        }
        let request = Request {
            form: true,
            ..Request::with(Service::Identity, Call::SignIn, Method::Post, endpoint.path(), form)
        };
        let missing = own(&request, "the answer of the identity provider has no access token");
        let sent = Sent { request, url: endpoint.to_string(), headers };
        let (document, _) = self.exchange(sent).await.map_err(refused)?;
        let token = document.get("access_token").and_then(serde_json::Value::as_str);
        token.filter(|token| !token.is_empty()).map(|token| token.to_owned().into()).ok_or(missing)
    }
}

/// A provider says with 400 that it does not believe one.
fn refused(error: CloudError) -> CloudError {
    if error.status == Some(400) {
        return CloudError { meaning: Meaning::Auth, ..error };
    }
    error
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use async_trait::async_trait;

    use crate::openstack::classify::Meaning;
    use crate::openstack::client::{SystemClock, open};
    use crate::openstack::credentials::{Settings, resolve};
    use crate::openstack::wire::{Lost, Response, Sent, Token, Transport};

    /// A provider that names an address of tokens, gives one for a client, and a service that believes it.
    struct Provider {
        endpoint: &'static str,
        granted: (u16, &'static str),
        sent: Mutex<Vec<Sent>>,
    }

    #[async_trait]
    impl Transport for Provider {
        async fn send(&self, sent: &Sent) -> Result<Response, Lost> {
            self.sent.lock().unwrap().push(sent.clone());
            let answer = |status, body: String| Response { status, body, ..Response::default() };
            let token = |id: &str| Some(Token(id.to_owned()));
            Ok(match sent.url.as_str() {
                "https://login.test/start" => answer(200, format!("{{\"token_endpoint\": \"{}\"}}", self.endpoint)),
                url if url == self.endpoint => answer(self.granted.0, self.granted.1.to_owned()),
                "https://cloud.test/v3/OS-FEDERATION/identity_providers/campus/protocols/openid/auth" => {
                    Response { subject_token: token("planted-unscoped"), ..answer(201, "{}".to_owned()) }
                }
                "https://cloud.test/v3/auth/tokens" => {
                    let body = "{\"token\": {\"project\": {\"id\": \"P\"}, \"user\": {\"id\": \"U\"}}}".to_owned();
                    Response { subject_token: token("planted-scoped"), ..answer(201, body) }
                }
                _ => return Err(Lost::Refused("nobody listens".to_owned())),
            })
        }
    }

    /// Signs in by a password at a provider; the requests, and how it ended.
    async fn sign_in(
        endpoint: &'static str,
        granted: (u16, &'static str),
        more: &[(&str, &str)],
    ) -> (Vec<Sent>, Result<String, crate::openstack::port::CloudError>) {
        let provider = Arc::new(Provider { endpoint, granted, sent: Mutex::default() });
        let mut settings = Settings::of([
            ("OS_AUTH_TYPE", "v3oidcpassword"),
            ("OS_AUTH_URL", "https://cloud.test/v3"),
            ("OS_IDENTITY_PROVIDER", "campus"),
            ("OS_PROTOCOL", "openid"),
            ("OS_DISCOVERY_ENDPOINT", "https://login.test/start"),
            ("OS_CLIENT_ID", "orlop"),
            ("OS_USERNAME", "me"),
            ("OS_PASSWORD", "planted & password"),
            ("OS_PROJECT_ID", "P"),
        ]);
        for (name, value) in more {
            settings.set(name, *value);
        }
        let (cloud, _) = open(resolve(&settings).unwrap(), Arc::clone(&provider) as _, Arc::new(SystemClock));
        let account = cloud.identity.authenticate().await.map(|account| account.project_id);
        (provider.sent.lock().unwrap().clone(), account)
    }

    const GRANTED: (u16, &str) = (200, "{\"access_token\": \"planted-access\"}");

    #[tokio::test]
    async fn a_password_becomes_an_access_token_an_unscoped_one_and_one_of_the_project() {
        let (sent, account) = sign_in("https://login.test/token", GRANTED, &[]).await;
        assert_eq!(account.unwrap(), "P");
        let [discovery, grant, federated, scoped] = sent.as_slice() else { panic!("{sent:?}") };
        assert!(discovery.request.body.is_none() && discovery.headers.is_empty());
        let form = grant.request.body.as_ref().unwrap();
        assert!(grant.request.form && grant.headers.is_empty());
        assert_eq!(form["password"], "planted & password");
        assert_eq!(form["client_id"], "orlop");
        assert_eq!(form["scope"], "openid profile email");
        assert_eq!(federated.headers, [("authorization", "Bearer planted-access".to_owned())]);
        let document = scoped.request.body.as_ref().unwrap();
        assert_eq!(document["auth"]["identity"]["token"]["id"], "planted-unscoped");
        assert_eq!(document["auth"]["scope"]["project"]["id"], "P");
        let (sent, _) = sign_in("https://login.test/token", GRANTED, &[("OS_CLIENT_SECRET", "planted-client")]).await;
        assert_eq!(sent[1].headers, [("authorization", "Basic b3Jsb3A6cGxhbnRlZC1jbGllbnQ=".to_owned())]);
        assert!(sent[1].request.body.as_ref().unwrap().get("client_id").is_none());
        let own = [("OS_AUTH_TYPE", "v3oidcaccesstoken"), ("OS_ACCESS_TOKEN", "planted-own")];
        let (sent, account) = sign_in("https://login.test/token", GRANTED, &own).await;
        assert_eq!((sent.len(), account.unwrap().as_str()), (2, "P"), "nobody is asked for what one has");
        assert_eq!(sent[0].headers, [("authorization", "Bearer planted-own".to_owned())]);
    }

    #[tokio::test]
    async fn a_password_goes_to_no_address_where_others_could_read_it() {
        for endpoint in ["http://login.test/token", "https://me:x@login.test/token", "file:///token", ""] {
            let (sent, account) = sign_in(endpoint, GRANTED, &[]).await;
            let error = account.unwrap_err();
            assert_eq!((sent.len(), error.meaning), (1, Meaning::Invalid), "{endpoint}: {error}");
            assert!(error.to_string().contains("OS_DISCOVERY_ENDPOINT"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_password_that_is_not_believed_is_reported_as_such_and_not_repeated() {
        let no = "{\"error\": \"invalid_grant\", \"error_description\": \"Invalid user credentials\"}";
        for status in [400, 401] {
            let (sent, account) = sign_in("https://login.test/token", (status, no), &[]).await;
            let error = account.unwrap_err();
            assert_eq!((sent.len(), error.meaning), (2, Meaning::Auth), "{error}");
            assert!(error.to_string().contains("Invalid user credentials"), "{error}");
            assert!(!format!("{error} {error:?} {sent:?}").contains("planted"), "{error:?}");
        }
        let (_, account) = sign_in("https://login.test/token", (200, "{}"), &[]).await;
        assert!(account.unwrap_err().to_string().contains("no access token"));
    }
}
