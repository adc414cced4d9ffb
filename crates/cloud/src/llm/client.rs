//! The exchange with an endpoint over HTTP. Owns times, repetitions and the size of what is read; redirects are refused, and
//! the key goes into a header that no log shows.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use orlop_core::ports::advisor::{Advisor, Question, Reply};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use tokio::time::Instant;

use super::request::{Meaning, Shape, body, meaning};
use super::settings::Settings;
use crate::http::{ClientOptions, ProxyChoice};
use crate::private_url::is_here;

/// How long a connection may take.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Repetitions after a failure that may pass.
const REPETITIONS: u32 = 2;
/// Bytes of an answer that are read, with all that stands around the model's words.
const MAX_BODY: usize = 1 << 20;

/// A client of one endpoint and model.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    http: crate::http::Client,
    headers: HeaderMap,
    /// What the endpoint was found to know; it stays so for the run.
    shape: Mutex<Shape>,
    pub(super) pause: Duration,
}

impl Client {
    /// A client with these settings.
    ///
    /// # Errors
    /// Fatal when TLS cannot be set up; Invalid when the key cannot be sent.
    pub fn new(settings: Settings) -> Result<Self, Problem> {
        let proxy = if is_here(&settings.base_url) { ProxyChoice::None } else { ProxyChoice::Environment };
        let (connect_timeout, timeout) = (CONNECT_TIME, Some(settings.timeout));
        let http = ClientOptions { proxy, connect_timeout, timeout, ..ClientOptions::default() }.build()?;
        let headers = headers(&settings)?;
        Ok(Self { settings, http, headers, shape: Mutex::default(), pause: Duration::from_secs(1) })
    }

    /// What an endpoint says, without the key that it may repeat.
    fn without_key(&self, text: String) -> String {
        let key = self.settings.key.as_ref().and_then(|key| std::str::from_utf8(key.expose()).ok());
        match key.filter(|key| !key.is_empty() && text.contains(key)) {
            Some(key) => text.replace(key, "[scrubbed:key]"),
            None => text,
        }
    }

    fn shape(&self) -> Shape {
        *self.shape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks until there is an answer or no use in asking. `requests` counts also what came to nothing.
    async fn exchange(&self, question: &Question) -> Result<Reply, Problem> {
        let (mut requests, mut failures) = (0, 0);
        loop {
            let shape = self.shape();
            requests += 1;
            let (why, wait) = match self.once(question, shape).await {
                Ok(Meaning::Said { text, tokens }) => return Ok(Reply { text, tokens, requests }),
                Ok(Meaning::StepDown(next)) => {
                    *self.shape.lock().unwrap_or_else(PoisonError::into_inner) = next;
                    continue;
                }
                Ok(Meaning::Failed(error)) => return Err(error),
                Ok(Meaning::Later { why, wait }) => (why, wait),
                Err(error) if error.class == Class::Transient => (error.message, None),
                Err(error) => return Err(error),
            };
            failures += 1;
            if failures > REPETITIONS {
                return Err(Problem::new(Class::Transient, why));
            }
            tokio::time::sleep(wait.unwrap_or(self.pause * failures)).await;
        }
    }

    async fn once(&self, question: &Question, shape: Shape) -> Result<Meaning, Problem> {
        let text = body(&self.settings, shape, question).to_string();
        let request = self.http.post(self.settings.url()).headers(self.headers.clone()).body(text);
        let mut answer = request.send().await.map_err(|error| failed(&error))?;
        let status = answer.status().as_u16();
        let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| failed(&error))? {
            if bytes.len() + chunk.len() > MAX_BODY {
                return Err(Problem::new(Class::Invalid, "the answer of the endpoint is longer than 1 MiB"));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(meaning(status, retry_after.as_deref(), &bytes, shape))
    }
}

fn headers(settings: &Settings) -> Result<HeaderMap, Problem> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let unfit = |name: &str| Problem::new(Class::Invalid, format!("{name} cannot be sent in a header"));
    if let Some(key) = &settings.key {
        let bearer = [b"Bearer ", key.expose()].concat();
        let mut value = HeaderValue::from_bytes(&bearer).map_err(|_| unfit("OPENAI_API_KEY"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    if let Some(organisation) = &settings.organisation {
        let value = HeaderValue::try_from(organisation.as_str()).map_err(|_| unfit("OPENAI_ORG_ID"))?;
        headers.insert("openai-organization", value);
    }
    Ok(headers)
}

/// What went wrong on the way, in few words: the library's own may hold the address.
fn failed(error: &reqwest::Error) -> Problem {
    let words = if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "the endpoint cannot be reached"
    } else {
        "the connection to the endpoint was interrupted"
    };
    Problem::new(Class::Transient, words)
}

#[async_trait]
impl Advisor for Client {
    async fn ask(&self, question: &Question, patience: Duration) -> Result<Reply, Problem> {
        let until = Instant::now() + patience;
        match tokio::time::timeout_at(until, self.exchange(question)).await {
            Ok(Ok(reply)) => Ok(Reply { text: self.without_key(reply.text), ..reply }),
            Ok(Err(error)) => Err(Problem { message: self.without_key(error.message.clone()), ..error }),
            Err(_) => Err(Problem::new(Class::Transient, "no answer in time")),
        }
    }
}
