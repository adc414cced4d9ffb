//! Trying again: what went wrong with files, whether another try may help, and when it is made.

use std::io;
use std::time::Duration;

use orlop_core::error::{Code, Problem};
use tokio::sync::watch;

use crate::host::worker::link::LinkError;

/// How often something is fetched or stored, as far as the server answers.
pub(super) const TRIES: u32 = 5;
/// The longest pause while it does not answer: a takeover takes some seconds, and an outage as long as it does.
pub(super) const AWAY: Duration = Duration::from_secs(5);
/// The first pause between two tries; each is twice the one before.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// Why files are not where they should be.
pub(super) enum TransferError {
    /// No server answers that could say anything about it: it comes again.
    Away(String),
    /// Another try may help.
    Passing(String),
    /// None does.
    Final(String),
}

impl From<Problem> for TransferError {
    fn from(refusal: Problem) -> Self {
        match refusal.code {
            Code::NotFound | Code::InvalidSpec | Code::TooLarge | Code::Forbidden | Code::QuotaExceeded => {
                Self::Final(refusal.to_string())
            }
            // No answer; one that does not lead; one that does not know the session yet that the last one knew.
            Code::StoreUnavailable | Code::NotLeader | Code::Deadline | Code::Unauthenticated | Code::RateLimited => {
                Self::Away(refusal.to_string())
            }
            _ => Self::Passing(refusal.to_string()),
        }
    }
}

impl From<LinkError> for TransferError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Unreachable(_) | LinkError::Later(..) | LinkError::SessionOver(_) => {
                Self::Away(error.to_string())
            }
            LinkError::Refused(_) | LinkError::ShutOut(_) => Self::Passing(error.to_string()),
        }
    }
}

impl TransferError {
    pub(super) fn why(&self) -> &str {
        match self {
            Self::Away(why) | Self::Passing(why) | Self::Final(why) => why,
        }
    }
}

impl From<io::Error> for TransferError {
    fn from(error: io::Error) -> Self {
        Self::Passing(error.to_string())
    }
}

/// Several tries of one thing, with longer and longer pauses between. A server that is away uses none of them up.
pub(super) struct Tries {
    left: u32,
    pause: Duration,
    away: Duration,
    leaving: watch::Receiver<bool>,
}

impl Tries {
    pub(super) fn new(leaving: watch::Receiver<bool>) -> Self {
        Self { left: TRIES - 1, pause: PAUSE, away: PAUSE, leaving }
    }

    /// Waits for the next try; or gives the error back, where another would not help.
    pub(super) async fn again(&mut self, error: TransferError) -> Result<(), TransferError> {
        match &error {
            TransferError::Final(_) => Err(error),
            TransferError::Passing(_) if self.left == 0 => Err(error),
            TransferError::Passing(why) => {
                tracing::debug!(why, "files of an attempt: trying again");
                tokio::time::sleep(self.pause).await;
                (self.left, self.pause, self.away) = (self.left - 1, self.pause * 2, PAUSE);
                Ok(())
            }
            TransferError::Away(why) => {
                tracing::debug!(why, "files of an attempt wait for the server");
                let leaves = tokio::time::timeout(self.away, self.leaving.wait_for(|leaving| *leaving)).await;
                self.away = (self.away * 2).min(AWAY);
                // Over the time it is tried again.
                if leaves.is_ok() { Err(error) } else { Ok(()) }
            }
        }
    }
}
