//! An API server that is asked at a pace. Owns the wait before a request, in the order in which requests came, so that many of
//! one flow do not hold up those of others for longer than they take; never repeats a request.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::rate::Rate;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::Pace;
use crate::api::{Api, ApiError, Request};

/// How long a request waits for its turn before it is refused as if the server had (429).
const PATIENCE: Duration = Duration::from_secs(5);

/// An API server that is asked at a pace. Clones keep to the same one. Not for leases: a renewal must not wait behind work.
#[derive(Clone, Debug)]
pub struct Limited<A> {
    api: A,
    start: Instant,
    pace: Arc<std::sync::Mutex<Pace>>,
    /// Who holds it is next.
    turn: Arc<Mutex<()>>,
}

impl<A> Limited<A> {
    /// So many requests a second, and at once.
    #[must_use]
    pub fn new(api: A, rate: Rate) -> Self {
        let pace = Arc::new(std::sync::Mutex::new(Pace::new(rate)));
        Self { api, start: Instant::now(), pace, turn: Arc::default() }
    }

    /// Another way to the same server, at the same pace.
    #[must_use]
    pub fn over<B>(&self, api: B) -> Limited<B> {
        Limited { api, start: self.start, pace: Arc::clone(&self.pace), turn: Arc::clone(&self.turn) }
    }

    /// What is asked at most now.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.with(|pace| pace.rate())
    }

    fn with<T>(&self, look: impl FnOnce(&mut Pace) -> T) -> T {
        look(&mut self.pace.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn take(&self) -> Result<(), Duration> {
        self.with(|pace| pace.take(self.start.elapsed()))
    }

    /// Waits for a turn.
    async fn admitted(&self) {
        let _turn = self.turn.lock().await;
        while let Err(wait) = self.take() {
            sleep(wait).await;
        }
    }
}

#[async_trait]
impl<A: Api> Api for Limited<A> {
    async fn send(&self, request: &Request) -> Result<Value, ApiError> {
        if timeout(PATIENCE, self.admitted()).await.is_err() {
            return Err(ApiError {
                code: Some(429),
                reason: "TooManyRequests".to_owned(),
                message: "the request limit of this process (--kube-qps) is reached; the request was not sent"
                    .to_owned(),
                causes: Vec::new(),
                retry_after: None,
            });
        }
        let answer = self.api.send(request).await;
        if let Err(error) = &answer
            && error.code == Some(429)
        {
            self.with(|pace| pace.refused(self.start.elapsed(), error.retry_after));
        }
        answer
    }
}
