//! The identity service: signing in, and where the services are.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::time::Time;
use secrecy::SecretString;
use serde_json::Value;

use super::session::{Session, Ticket};
use crate::openstack::classify::{Call, Meaning, Service};
use crate::openstack::credentials::Credentials;
use crate::openstack::port::{Account, Answered, CloudError, Identity};
use crate::openstack::read::time;
use crate::openstack::wire::{Method, Request, Token};

/// Types under which a service may stand in the catalogue, its own name first.
fn kinds(service: Service) -> &'static [&'static str] {
    match service {
        Service::Identity => &["identity"],
        Service::Image => &["image"],
        Service::Compute => &["compute"],
        Service::Network => &["network"],
        Service::Reservation => &["reservation", "lease"],
    }
}

/// What the address of a service must end with.
const fn suffix(service: Service) -> Option<&'static str> {
    match service {
        Service::Identity | Service::Compute => None,
        Service::Image => Some("/v2"),
        Service::Network => Some("/v2.0"),
        Service::Reservation => Some("/v1"),
    }
}

pub(super) fn sign_in(credentials: &Credentials, federated: Option<&SecretString>) -> Request {
    Request::with(Service::Identity, Call::SignIn, Method::Post, "/auth/tokens", credentials.document(federated))
}

fn own(message: impl Into<String>) -> CloudError {
    CloudError::own(Service::Identity, "POST /auth/tokens", Meaning::Invalid, message)
}

/// Reads what signing in gave.
pub(super) fn ticket(
    credentials: &Credentials,
    token: Option<Token>,
    document: &Value,
    generation: u64,
    began: Time,
) -> Answered<Ticket> {
    let body = document.get("token").ok_or_else(|| own("the answer has no token"))?;
    let token = token.filter(|token| !token.0.is_empty()).ok_or_else(|| own("the answer has no X-Subject-Token"))?;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let id_of = |key: &str| text(body.get(key).and_then(|part| part.get("id")));
    let credential = body.get("application_credential");
    let roles = body.get("roles").and_then(Value::as_array).into_iter().flatten();
    let (region, endpoints) = endpoints(credentials, body.get("catalog").unwrap_or(&Value::Null))?;
    let expires = time(&text(body.get("expires_at")));
    let account = Account {
        project_id: id_of("project"),
        user_id: id_of("user"),
        application_credential: credentials.is_application_credential(),
        restricted: credential.and_then(|part| part.get("restricted")).and_then(Value::as_bool).unwrap_or(false),
        roles: roles.map(|role| text(role.get("name"))).collect(),
        expires,
        region,
    };
    let whole = expires.map_or(Duration::MAX, |end| end.since(began));
    Ok(Ticket { token, generation, account, endpoints, whole })
}

/// Addresses by type of service in one region.
fn endpoints(credentials: &Credentials, catalog: &Value) -> Answered<(String, BTreeMap<String, String>)> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut found: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for service in catalog.as_array().into_iter().flatten().take(200) {
        for endpoint in service.get("endpoints").and_then(Value::as_array).into_iter().flatten().take(200) {
            if text(endpoint, "interface") == credentials.interface {
                let region = Some(text(endpoint, "region_id")).filter(|id| !id.is_empty());
                let region = region.unwrap_or_else(|| text(endpoint, "region"));
                let url = text(endpoint, "url").trim_end_matches('/').to_owned();
                found.entry(region).or_default().entry(text(service, "type")).or_insert(url);
            }
        }
    }
    let known = found.keys().cloned().collect::<Vec<_>>().join(", ");
    match &credentials.region {
        Some(region) => match found.remove(region) {
            Some(endpoints) => Ok((region.clone(), endpoints)),
            None => Err(own(format!("region `{region}` is unknown; there are: {known}; set OS_REGION_NAME"))),
        },
        None if found.len() > 1 => {
            Err(own(format!("there are several regions: {known}; choose one by OS_REGION_NAME")))
        }
        None => Ok(found.pop_first().unwrap_or_default()),
    }
}

/// The address of a service, as its requests take it.
pub(super) fn endpoint(ticket: &Ticket, service: Service, request: &str) -> Answered<String> {
    let found = kinds(service).iter().find_map(|kind| ticket.endpoints.get(*kind));
    let base = found.ok_or_else(|| {
        let region = &ticket.account.region;
        let words = format!("there is no {service} service in region `{region}`");
        CloudError::own(service, request, Meaning::Absent, words)
    })?;
    Ok(match suffix(service) {
        Some(suffix) if !base.ends_with(suffix) => format!("{base}{suffix}"),
        _ => base.clone(),
    })
}

#[async_trait]
impl Identity for Session {
    async fn authenticate(&self) -> Answered<Account> {
        Ok(self.ticket(None, Duration::ZERO).await?.account.clone())
    }

    async fn renew(&self, lasting: Duration) -> Answered<()> {
        self.ticket(None, lasting.max(super::session::MARGIN)).await.map(|_| ())
    }

    async fn endpoint(&self, service: &str) -> Answered<String> {
        let ticket = self.ticket(None, Duration::ZERO).await?;
        let wanted = Service::ALL.into_iter().find(|known| known.kind() == service);
        match wanted {
            Some(wanted) => endpoint(&ticket, wanted, "GET /"),
            None => Err(own(format!("there is no service `{}`", service.chars().take(64).collect::<String>()))),
        }
    }

    fn clock_ahead(&self) -> Option<i64> {
        self.ahead()
    }
}
