//! How workers are taken in over TLS: with a join token the first time, then with their certificate, and with what the token
//! allowed for as long as the worker has its id.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orlop_core::error::{Code, Problem};
use orlop_core::hardware::fleet::is_derived;
use orlop_core::id::{TenantName, WorkerId};
use orlop_core::ports::fleet_store::{Document as _, Record, Token};
use tokio::sync::MutexGuard;

use crate::api::{Api, JOIN, Origin, WORKER, knows, stored_token, worker_record};
use crate::wire::grpc::Caller;
use crate::wire::identity::{Authority, JoinToken, PeerCertificate};
use crate::wire::worker::Registration;

/// What a worker hears whose name was taken from it.
const REVOKED: &str = "this worker was revoked; it can join again with a new join token";

/// A worker that may register, and what is kept of that once the loop has taken it. Until it is dropped no token changes.
pub(super) struct Admission<'a> {
    /// The join token, used once more.
    used: Option<Token>,
    /// What is kept of the worker.
    allowed: Option<Token>,
    /// The fingerprint of the certificate that it showed.
    shown: Option<[u8; 32]>,
    _turn: Option<MutexGuard<'a, ()>>,
}

/// Takes workers in.
#[derive(Debug)]
pub(super) struct Entrance {
    api: Arc<Api>,
    /// The listener speaks TLS: workers prove who they are.
    tls: bool,
    exposed: bool,
}

/// A token by its id, if there is one of this kind.
async fn token(api: &Api, kind: &str, id: &str) -> Result<Option<Token>, Problem> {
    let found = api.handle().store().entry(Token::KIND, id).await?;
    let Some(entry) = found else { return Ok(None) };
    // What cannot be read does not count as what was never there: it may have been revoked.
    let token = stored_token(&entry).ok_or_else(|| {
        let text = format!("the record of `{id}` cannot be read; create another join token, or restore a backup");
        Problem::coded(Code::Internal, text)
    })?;
    Ok(Some(token).filter(|token| token.kind == kind))
}

/// Whether labels and tenants are among those that are allowed; none allowed = all are.
fn check(allowed: &Token, labels: &BTreeMap<String, String>, tenants: &BTreeSet<TenantName>) -> Result<(), Problem> {
    let passes = |key: &str, value: &str| {
        allowed.labels.iter().any(|label| match label.split_once('=') {
            Some((name, wanted)) => (name, wanted) == (key, value),
            None => label == key,
        })
    };
    // What follows from hardware no token grants.
    let mut given = labels.iter().filter(|(key, _)| !is_derived(key));
    if !allowed.labels.is_empty()
        && let Some((key, value)) = given.find(|(key, value)| !passes(key, value))
    {
        let text =
            format!("the join token does not allow the label {key}={value}; make one with `--label {key}={value}`");
        return Err(Problem::coded(Code::Forbidden, text));
    }
    let all = allowed.tenants.is_empty() || allowed.tenants.iter().any(|name| name == "*");
    let foreign = tenants.iter().find(|tenant| !allowed.tenants.iter().any(|name| name == tenant.as_str()));
    match foreign {
        Some(tenant) if !all => {
            let text = format!("the join token does not allow the tenant `{tenant}`");
            Err(Problem::coded(Code::Forbidden, text))
        }
        _ if !all && tenants.is_empty() => {
            let names = allowed.tenants.join(",");
            let text =
                format!("the join token is for jobs of some tenants only; start the worker with `--tenant {names}`");
            Err(Problem::coded(Code::Forbidden, text))
        }
        _ => Ok(()),
    }
}

impl Entrance {
    pub(super) fn new(api: Arc<Api>, tls: bool, exposed: bool) -> Self {
        Self { api, tls, exposed }
    }

    /// Says whether a worker may register, and what is to be kept of that once it has. Changes nothing.
    pub(super) async fn admit(&self, caller: &Caller, asked: &Registration) -> Result<Admission<'_>, Problem> {
        let writes = !asked.csr.is_empty() || !asked.join_token.is_empty();
        let turn = if writes { Some(self.api.tokens().lock().await) } else { None };
        let before = token(&self.api, WORKER, &worker_record(&asked.worker)).await?;
        if !asked.join_token.is_empty() && caller.certificate.is_none() {
            let (used, allowed) = self.join(caller, asked, before).await?;
            return Ok(Admission { used, allowed: Some(allowed), shown: None, _turn: turn });
        }
        if let Some(certificate) = &caller.certificate {
            if !certificate.is_of(&asked.worker) {
                let text = format!("the certificate is not that of worker `{}`", asked.worker);
                return Err(Problem::coded(Code::Forbidden, text));
            }
        } else if self.tls {
            return Err(self.stranger(caller, "give a join token, or show the worker's certificate"));
        }
        let allowed = self.known(caller, asked, before)?;
        let shown = caller.certificate.as_ref().map(PeerCertificate::fingerprint);
        Ok(Admission { used: None, allowed: allowed.filter(|_| writes), shown, _turn: turn })
    }

    /// Keeps what a registration that was taken changes: the join token is used once more, and the name is bound to the
    /// certificate that the worker gets.
    pub(super) async fn keep(&self, admission: Admission<'_>, certificate: &[u8]) -> Result<(), Problem> {
        let Admission { used, allowed, shown, _turn } = admission;
        let mut records = Vec::new();
        let put = |token: &Token| Record::put(token);
        if let Some(used) = used {
            records.push(put(&used)?);
        }
        if let Some(mut allowed) = allowed {
            if !certificate.is_empty() {
                let prints = shown.into_iter().chain([PeerCertificate::new(certificate.to_vec()).fingerprint()]);
                allowed.hash = prints.flatten().collect();
            }
            records.push(put(&allowed)?);
        }
        if records.is_empty() { Ok(()) } else { self.api.write(records).await }
    }

    fn stranger(&self, caller: &Caller, detail: &str) -> Problem {
        let unknown = std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        let address = caller.address.map_or(unknown, |address| address.ip());
        self.api.guard().stranger(Origin { address, exposed: self.exposed }, detail)
    }

    /// A worker that was here before: what it was allowed still holds, unless it was revoked.
    fn known(&self, caller: &Caller, asked: &Registration, before: Option<Token>) -> Result<Option<Token>, Problem> {
        let offer = &asked.capabilities;
        let good = |allowed: &Token| caller.certificate.as_ref().is_none_or(|shown| knows(allowed, shown));
        match before {
            Some(allowed) if allowed.revoked_at.is_some() => Err(Problem::coded(Code::Unauthenticated, REVOKED)),
            Some(allowed) if !good(&allowed) => {
                let text = "this certificate is no longer valid: a newer one was issued to the worker";
                Err(Problem::coded(Code::Unauthenticated, text))
            }
            Some(allowed) => check(&allowed, &offer.labels, &offer.tenants).map(|()| Some(allowed)),
            None if caller.certificate.is_some() && self.api.authority().is_some() => {
                Err(Problem::coded(Code::Unauthenticated, REVOKED))
            }
            // Its certificate is of an outside authority, which decides who is a worker; or it is on this machine.
            None => Ok(None),
        }
    }

    /// A worker that joins: its token is good, and the name is nobody else's. Gives the token as it is after this use, if this
    /// is one, and what is kept of the worker.
    async fn join(
        &self,
        caller: &Caller,
        asked: &Registration,
        before: Option<Token>,
    ) -> Result<(Option<Token>, Token), Problem> {
        const UNKNOWN: &str = "this join token is unknown, has expired, is used up, or was revoked";
        let shown: JoinToken = asked
            .join_token
            .parse()
            .map_err(|wrong: crate::wire::identity::JoinTokenError| self.stranger(caller, &wrong.to_string()))?;
        let found = token(&self.api, JOIN, shown.id()).await?;
        let now = self.api.now();
        let good = found.filter(|token| {
            let hash: Option<[u8; 32]> = token.hash.as_slice().try_into().ok();
            let over = token.revoked_at.is_some() || token.expires_at.is_some_and(|at| at <= now);
            hash.is_some_and(|hash| shown.matches(&hash)) && !over
        });
        let mut good = good.ok_or_else(|| self.stranger(caller, UNKNOWN))?;
        let offer = &asked.capabilities;
        check(&good, &offer.labels, &offer.tenants)?;
        let by = format!("{} {}", good.id, asked.state_id);
        if before.as_ref().is_some_and(|before| before.revoked_at.is_some_and(|at| good.created_at <= at)) {
            return Err(Problem::coded(Code::Unauthenticated, REVOKED));
        }
        if let Some(before) = before.filter(|before| before.revoked_at.is_none()) {
            let state = before.note.split_once(' ').map_or("", |(_, state)| state);
            if state != asked.state_id {
                let text = format!(
                    "the name `{worker}` belongs to another worker; give this one another id, or release the name with \
                     `orlop workers revoke {worker}`",
                    worker = asked.worker
                );
                return Err(Problem::coded(Code::Conflict, text));
            }
            // Who joined with it and asks again, for an answer was lost, uses nothing up.
            if before.note == by {
                return Ok((None, before));
            }
        }
        match good.uses_left.as_mut() {
            Some(0) => return Err(self.stranger(caller, UNKNOWN)),
            Some(left) => *left -= 1,
            None => {}
        }
        let allowed = Token {
            id: worker_record(&asked.worker),
            hash: Vec::new(),
            kind: WORKER.to_owned(),
            note: by,
            created_at: now,
            expires_at: None,
            uses_left: None,
            ..good.clone()
        };
        Ok((Some(good), allowed))
    }

    /// The worker's certificate and the authority's, if one is asked for and this fleet signs its own.
    pub(super) fn sign(&self, asked_csr: &[u8], worker: &WorkerId) -> Result<(Vec<u8>, Vec<u8>), Problem> {
        let authority: Option<&Authority> = self.api.authority();
        let Some(authority) = authority.filter(|_| self.tls && !asked_csr.is_empty()) else {
            return Ok((Vec::new(), Vec::new()));
        };
        let signed = authority.sign(asked_csr, worker, self.api.now());
        let signed = signed.map_err(|wrong| Problem::coded(Code::InvalidSpec, wrong.to_string()))?;
        Ok((signed, authority.certificate().to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::time::Time;

    use super::*;

    fn allowed(labels: &[&str], tenants: &[&str]) -> Token {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        Token {
            id: "a".to_owned(),
            hash: Vec::new(),
            kind: JOIN.to_owned(),
            role: "worker".to_owned(),
            tenants: texts(tenants),
            labels: texts(labels),
            note: String::new(),
            created_at: Time::EPOCH,
            expires_at: None,
            uses_left: None,
            revoked_at: None,
        }
    }

    #[test]
    fn a_join_token_is_bound_to_labels_and_tenants() {
        let passes = |token: &Token, labels: &[(&str, &str)], tenants: &[&str]| {
            let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            check(token, &labels, &tenants.iter().map(|name| name.parse().unwrap()).collect()).is_ok()
        };
        let open = allowed(&[], &[]);
        assert!(passes(&open, &[("zone", "b")], &["physics"]) && passes(&open, &[], &[]));
        let bound = allowed(&["zone=a", "gpu"], &["physics"]);
        assert!(passes(&bound, &[("zone", "a"), ("gpu", "4")], &["physics"]));
        assert!(!passes(&bound, &[("zone", "b")], &["physics"]) && !passes(&bound, &[("rack", "1")], &["physics"]));
        assert!(!passes(&bound, &[], &["physics", "art"]) && !passes(&bound, &[], &[]), "it takes everybody's jobs");
        assert!(passes(&bound, &[("zone", "a"), ("orlop/arch", "amd64")], &["physics"]), "that is no matter of tokens");
        assert!(passes(&allowed(&[], &["*"]), &[], &[]));
    }
}
