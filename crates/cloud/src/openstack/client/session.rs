//! A session with a site: the token, who renews it and when, repeats of what may be repeated, and the words of errors. Owns
//! the rule that one refused token is renewed once, by one, while the others wait.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as Lock, OnceLock, PoisonError};
use std::time::Duration;

use orlop_core::backoff::{Backoff, fraction};
use orlop_core::time::Time;
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};

use super::identity;
use crate::openstack::classify::{Answer, Meaning, Service, classify, message};
use crate::openstack::credentials::{Credentials, Method};
use crate::openstack::port::{Account, Answered, CloudError, Reached, Timer};
use crate::openstack::wire::{Lost, Request, Response, Sent, Token, Transport};
use crate::scrub::scrubbed;

/// Times that something is asked again after the first.
const REPEATS: u32 = 5;
/// The same where the other side's certificate is not trusted: half of its machines may have the new one.
const UNTRUSTED_REPEATS: u32 = 2;
/// The longest wait that a service can ask for.
const LONGEST_WAIT: u64 = 120;
/// A token is renewed when less than this remains of it.
pub(super) const MARGIN: Duration = Duration::from_secs(300);
/// An answer within this time is quick.
const QUICK: Duration = Duration::from_secs(10);
/// Answers that tell how far the clock of the services is ahead: those of the first step, and few more.
const DATED: usize = 15;

/// How often a request that ended so is asked again. What found no trust was never sent, so that a create is asked again too.
const fn repeats(error: &CloudError, may_pass: bool) -> u32 {
    match error.meaning {
        Meaning::Untrusted => UNTRUSTED_REPEATS,
        _ if may_pass => REPEATS,
        _ => 0,
    }
}

/// What one got for signing in.
pub(super) struct Ticket {
    pub(super) token: Token,
    pub(super) generation: u64,
    pub(super) account: Account,
    pub(super) endpoints: BTreeMap<String, String>,
    /// How long it lasted when it was new.
    pub(super) whole: Duration,
}

/// What was asked so far.
#[derive(Debug, Default)]
pub struct Meter {
    /// Requests sent.
    pub calls: AtomicU64,
    /// Those among them that repeated one.
    pub repeats: AtomicU64,
    /// Times signed in.
    pub sign_ins: AtomicU64,
}

/// A session with a site.
pub struct Session {
    transport: Arc<dyn Transport>,
    pub(super) clock: Arc<dyn Timer>,
    pub(super) credentials: Credentials,
    ticket: Mutex<Option<Arc<Ticket>>>,
    /// How far the clock of the services was ahead at the first answers, in seconds.
    ahead: Lock<Vec<i64>>,
    pub(super) microversion: OnceCell<Microversion>,
    /// The version that is spoken since the compute service refused a newer one.
    pub(super) lowered: OnceLock<Microversion>,
    meter: Meter,
}

/// The version of the compute service that is spoken, as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Microversion(pub(super) u32, pub(super) u32);

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({})", self.credentials.auth_url)
    }
}

impl Session {
    /// A session that signs in when it has to.
    #[must_use]
    pub fn new(credentials: Credentials, transport: Arc<dyn Transport>, clock: Arc<dyn Timer>) -> Self {
        Self {
            transport,
            clock,
            credentials,
            ticket: Mutex::new(None),
            ahead: Lock::default(),
            microversion: OnceCell::new(),
            lowered: OnceLock::new(),
            meter: Meter::default(),
        }
    }

    /// What one signs in with.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// What was asked so far.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// How far the clock of the services is ahead, in seconds: the median of the first answers.
    pub(super) fn ahead(&self) -> Option<i64> {
        let mut reported = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).clone();
        reported.sort_unstable();
        reported.get(reported.len() / 2).copied()
    }

    /// What an answer tells of the clock. One that refuses a date counts alone: what was believed is wrong.
    pub(crate) fn hear_date(&self, date: i64, refuses: bool) {
        let ahead = (date - self.clock.now().millis()).div_euclid(1000);
        let mut reported = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if refuses {
            reported.clear();
        }
        if reported.len() < DATED {
            reported.push(ahead);
        }
    }

    /// A token that lasts. `refused` is the generation of one that a service did not take any more.
    ///
    /// A caller that comes while another signs in waits for that one and takes its token.
    pub(super) async fn ticket(&self, refused: Option<u64>, lasting: Duration) -> Answered<Arc<Ticket>> {
        let mut place = self.ticket.lock().await;
        if let Some(ticket) = place.as_ref().filter(|ticket| Some(ticket.generation) != refused) {
            let left = ticket.account.expires.map_or(Duration::MAX, |end| end.since(self.clock.now()));
            // One that never lasts so long is not renewed for ever.
            if left >= lasting.min(ticket.whole / 2) {
                return Ok(Arc::clone(ticket));
            }
        }
        let generation = place.as_ref().map_or(1, |ticket| ticket.generation + 1);
        let ticket = Arc::new(self.sign_in(generation).await?);
        *place = Some(Arc::clone(&ticket));
        Ok(ticket)
    }

    async fn sign_in(&self, generation: u64) -> Answered<Ticket> {
        self.meter.sign_ins.fetch_add(1, Ordering::Relaxed);
        let federated = match &self.credentials.method {
            Method::Federated(federation) => Some(Box::pin(self.federated(federation)).await?),
            _ => None,
        };
        let request = identity::sign_in(&self.credentials, federated.as_ref());
        let url = format!("{}{}", self.credentials.auth_url, request.path);
        let began = self.clock.now();
        let (document, token) = self.exchange(Sent { request, url, headers: Vec::new() }).await?;
        identity::ticket(&self.credentials, token, &document, generation, began)
    }

    /// Asks on the way to a token, and again what may pass: a document, and a token if one came with it.
    pub(super) async fn exchange(&self, sent: Sent) -> Answered<(Value, Option<Token>)> {
        let mut repeat = 0;
        loop {
            let began = self.clock.now();
            let outcome = self.send(&sent).await;
            let token = outcome.as_ref().ok().and_then(|response| response.subject_token.clone());
            let error = match self.judge(&sent.request, outcome, began) {
                Ok(document) => return Ok((document, token)),
                Err(error) => error,
            };
            if repeat >= repeats(&error, error.is_passing()) {
                return Err(error);
            }
            self.wait(&sent.request, &error, repeat).await;
            repeat += 1;
        }
    }

    /// Asks a service, renewing the token once if it is refused, and repeating what may be repeated.
    pub(super) async fn call(&self, request: Request) -> Answered<Value> {
        let (mut refused, mut repeat) = (None, 0);
        loop {
            // What could not be signed in for was not sent.
            let ticket = self
                .ticket(refused, MARGIN)
                .await
                .map_err(|error| CloudError { reached: Reached::NotSent, ..error })?;
            let is_newest = self.lowered.get().is_none();
            let sent = self.address(&ticket, &request).await?;
            let began = self.clock.now();
            let error = match self.send(&sent).await {
                Ok(response) if response.status == 401 && refused.is_none() => {
                    refused = Some(ticket.generation);
                    continue;
                }
                outcome => match self.judge(&request, outcome, began) {
                    Ok(document) => return Ok(document),
                    // Nothing was done: the same is asked in an older version, once.
                    Err(error)
                        if error.meaning == Meaning::Microversion && is_newest && self.lower(&error, &request) =>
                    {
                        continue;
                    }
                    Err(error) => error,
                },
            };
            let may_pass = request.is_repeatable() && error.meaning == Meaning::Transient;
            if repeat >= repeats(&error, may_pass) {
                return Err(error);
            }
            self.wait(&request, &error, repeat).await;
            repeat += 1;
        }
    }

    async fn send(&self, sent: &Sent) -> Result<Response, Lost> {
        self.meter.calls.fetch_add(1, Ordering::Relaxed);
        let began = self.clock.now();
        let outcome = self.transport.send(sent).await;
        self.log(sent, &outcome, began);
        let response = outcome?;
        if let Some(date) = response.date {
            let call = &sent.request;
            let answer = Answer {
                service: call.service,
                call: call.call,
                status: Some(response.status),
                body: &response.body,
                application_credential: false,
                quick: false,
            };
            self.hear_date(date, response.status == 400 && classify(&answer) == Meaning::Clock);
        }
        Ok(response)
    }

    /// What was asked and what came of it, for the log: neither headers nor bodies, and of the address only its path. It reads as a
    /// sentence, since what stands after a colon or an equals sign may be taken for a secret there.
    fn log(&self, sent: &Sent, outcome: &Result<Response, Lost>, began: Time) {
        let (service, asked) = (sent.request.service, sent.request.name());
        let took = self.clock.now().since(began).as_millis();
        match outcome {
            Ok(response) => {
                let id = response.request_id.as_ref().map_or_else(String::new, |id| format!(" as {id}"));
                tracing::debug!("{service} {asked} answered {} in {took} ms{id}", response.status);
            }
            Err(lost) => tracing::debug!("{service} {asked} failed after {took} ms, {lost}"),
        }
    }

    async fn address(&self, ticket: &Ticket, request: &Request) -> Answered<Sent> {
        let base = identity::endpoint(ticket, request.service, &request.name())?;
        let mut headers = vec![("x-auth-token", ticket.token.0.clone())];
        // The question for the version itself carries none.
        if request.service == Service::Compute && !request.path.is_empty() {
            let Microversion(major, minor) = Box::pin(self.microversion()).await?;
            headers.push(("openstack-api-version", format!("compute {major}.{minor}")));
            headers.push(("x-openstack-nova-api-version", format!("{major}.{minor}")));
        }
        Ok(Sent { request: request.clone(), url: format!("{base}{}", request.path), headers })
    }

    async fn wait(&self, request: &Request, error: &CloudError, repeat: u32) {
        self.meter.repeats.fetch_add(1, Ordering::Relaxed);
        let backoff = Backoff { ceiling: Some(Duration::from_secs(30)), jitter: 0.3, ..Backoff::default() };
        let now = self.clock.now();
        let part = fraction(&[&request.path, &repeat.to_string(), &now.millis().to_string()]);
        let wait = backoff.delay(repeat, part).max(error.retry_after.unwrap_or_default());
        let (service, asked, wait_ms) = (request.service, request.name(), wait.as_millis());
        // Once may be chance; a longer wait is reported with its reason.
        if repeat == 0 {
            tracing::debug!("{service} {asked} is asked again in {wait_ms} ms");
        } else {
            let why: String = error.message.chars().filter(|ch| !ch.is_control()).take(200).collect();
            tracing::warn!("{service} {asked} failed ({why}) and is asked again in {wait_ms} ms");
        }
        self.clock.sleep_until(now.plus(wait)).await;
    }

    /// The document of an answer, or what it means that there is none.
    fn judge(&self, request: &Request, outcome: Result<Response, Lost>, began: Time) -> Answered<Value> {
        let error = |meaning, reached, status, words: String| CloudError {
            service: request.service,
            request: request.name(),
            meaning,
            reached,
            status,
            message: words,
            request_id: None,
            retry_after: None,
        };
        let mut answer = Answer {
            service: request.service,
            call: request.call,
            status: None,
            body: "",
            application_credential: self.credentials.is_application_credential(),
            quick: self.clock.now().since(began) <= QUICK,
        };
        let response = match outcome {
            Ok(response) => response,
            Err(lost) => {
                let (meaning, reached) = match lost {
                    Lost::Tls => (Meaning::Untrusted, Reached::NotSent),
                    Lost::Refused(_) => (Meaning::Transient, Reached::NotSent),
                    _ => (classify(&answer), Reached::Lost),
                };
                return Err(error(meaning, reached, None, lost.to_string()));
            }
        };
        answer.status = Some(response.status);
        answer.body = &response.body;
        let meaning = classify(&answer);
        if meaning == Meaning::Done {
            return Ok(serde_json::from_str(&response.body).unwrap_or(Value::Null));
        }
        let is_success = (200..300).contains(&response.status);
        let words = if is_success { "the answer is not JSON".to_owned() } else { scrubbed(&message(&response.body)) };
        let reached = if is_success { Reached::Lost } else { Reached::Answered };
        let mut error = error(meaning, reached, Some(response.status), words);
        error.request_id = response.request_id;
        error.retry_after = response.retry_after.map(|seconds| Duration::from_secs(seconds.min(LONGEST_WAIT)));
        Err(error)
    }
}
