//! Times in which an engine does not answer. Owns how long they are borne, and which ends of containers they explain;
//! never asks the engine anything.

use std::time::Duration;

use orlop_core::backoff::{Backoff, Growth};
use orlop_core::error::{Class, Problem};
use orlop_core::time::Time;

use super::error;
use super::pod::now;

/// How long an engine that does not answer is tried before it is reported.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long an engine that is shut down takes to end its containers before it stops to answer.
const SHUTDOWN: Duration = Duration::from_secs(15);

/// The latest outage of an engine.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Outage {
    failures: u32,
    waited: Duration,
    began: Option<Time>,
    over: Option<Time>,
}

impl Outage {
    /// Waits before the next try; gives up with the error when waiting is of no use, or has been long enough.
    pub(in crate::runtime) async fn wait(&mut self, error: Problem) -> Result<(), Problem> {
        // What was not found any more is looked at again.
        let retryable = error.class.is_retryable() || error.class == Class::NotFound;
        if !retryable || self.waited >= PATIENCE {
            return Err(error);
        }
        tracing::debug!(error = %error.chain(), failures = self.failures, "a pod cannot be seen to");
        self.note(&error);
        let backoff = Backoff {
            growth: Growth::Exponential,
            base: Duration::from_millis(100),
            ceiling: Some(Duration::from_secs(5)),
            ..Backoff::default()
        };
        let delay = error.retry_after.unwrap_or_else(|| backoff.delay(self.failures, 0.0));
        self.failures = self.failures.saturating_add(1);
        self.waited = self.waited.saturating_add(delay);
        tokio::time::sleep(delay).await;
        Ok(())
    }

    /// Notes a call that failed: with the first that is not answered an outage begins.
    pub(in crate::runtime) fn note(&mut self, error: &Problem) {
        if is_lost_connection(error) && (self.began.is_none() || self.over.is_some()) {
            (self.began, self.over) = (Some(now()), None);
        }
    }

    /// Something worked.
    pub(in crate::runtime) fn end(&mut self) {
        (self.failures, self.waited) = (0, Duration::ZERO);
        if self.began.is_some() && self.over.is_none() {
            self.over = Some(now());
        }
    }

    /// Whether a container that was killed at that time was killed by the end of its engine: shortly before the engine
    /// fell silent, or while it was.
    pub(in crate::runtime) fn explains(&self, killed_at: Time) -> bool {
        let after_begin = self.began.is_some_and(|began| killed_at.plus(SHUTDOWN) >= began);
        after_begin && self.over.is_none_or(|over| killed_at <= over)
    }
}

fn is_lost_connection(error: &Problem) -> bool {
    let source = error.source.as_ref().and_then(|source| source.downcast_ref::<bollard::errors::Error>());
    source.is_some_and(|source| error::status(source).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> Problem {
        let source = bollard::errors::Error::IOError { err: std::io::ErrorKind::ConnectionRefused.into() };
        Problem::new(Class::Transient, "connection lost").because(source)
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_borne_for_a_minute() {
        let mut outage = Outage::default();
        let begun = tokio::time::Instant::now();
        let error = loop {
            if let Err(error) = outage.wait(lost()).await {
                break error;
            }
        };
        assert_eq!(error.class, Class::Transient);
        assert!((60..70).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        outage.end();
        assert!(outage.wait(lost()).await.is_ok());
        let denied = outage.wait(Problem::new(Class::Denied, "no")).await;
        assert_eq!(denied.unwrap_err().class, Class::Denied);
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_was_killed_about_an_outage_is_explained_by_it() {
        let mut outage = Outage::default();
        assert!(!outage.explains(now()));
        outage.wait(Problem::new(Class::Transient, "answered 500")).await.unwrap();
        assert!(!outage.explains(now()));
        outage.wait(lost()).await.unwrap();
        let began = outage.began.unwrap();
        assert!(outage.explains(began) && outage.explains(Time::from_millis(began.millis() - 15_000)));
        assert!(!outage.explains(Time::from_millis(began.millis() - 15_001)));
        outage.end();
        let over = outage.over.unwrap();
        assert!(outage.explains(over) && !outage.explains(over.plus(Duration::from_millis(1))));
        outage.end();
        assert_eq!(outage.over, Some(over));
    }
}
