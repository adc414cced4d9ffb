//! Asking again: where the server says when, and where it was away for a moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::super::failure::{Exit, Failure};
use super::super::output;

/// How long one request waits in all where requests come too fast.
const LONGEST: Duration = Duration::from_secs(60);
/// How long a server may be away where something goes on.
const AWAY: Duration = Duration::from_secs(60);
/// The first and the longest pause where the server is away.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// Asks until the server takes the request, where it refuses because requests come too fast: when it says, and for a while.
/// `said`: that was reported before.
///
/// # Errors
/// Those of the request.
pub(super) async fn as_allowed<T>(
    said: &AtomicBool,
    mut ask: impl AsyncFnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let begun = Instant::now();
    loop {
        let failure = match ask().await {
            Err(failure) => failure,
            good => return good,
        };
        match failure.retry_after {
            Some(wait) if begun.elapsed().saturating_add(wait) <= LONGEST => {
                if !said.swap(true, Ordering::Relaxed) {
                    output::tell(&format!("{failure}; waiting as the server asks"));
                }
                tokio::time::sleep(wait).await;
            }
            _ => return Err(failure),
        }
    }
}

/// Asks again while the server is away or has no room, for a while.
///
/// # Errors
/// Those of the request, where asking again does not help or the while is over.
pub(super) async fn patiently<T>(mut ask: impl AsyncFnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    let mut away = Away::default();
    loop {
        match ask().await {
            Err(failure) if failure.is_passing() || failure.exit == Exit::Quota => away.wait(failure).await?,
            other => return other,
        }
    }
}

/// A server that is away for a while.
#[derive(Debug, Default)]
pub(super) struct Away(Option<Instant>);

impl Away {
    /// Some time passes before it is asked again; what is wrong is said at first.
    ///
    /// # Errors
    /// The failure, once it is away for too long.
    pub(super) async fn wait(&mut self, failure: Failure) -> Result<(), Failure> {
        match self.0 {
            None => {
                output::tell(&format!("{failure}; trying again for {} s", AWAY.as_secs()));
                self.0 = Some(Instant::now());
            }
            Some(since) if since.elapsed() > AWAY => return Err(failure),
            Some(_) => {}
        }
        tokio::time::sleep(PAUSES.0).await;
        Ok(())
    }
}

/// Looks at something again and again. A server that is away for a while is waited for once it has answered.
#[derive(Debug, Default)]
pub(super) struct Looks {
    answered: bool,
    pause: Option<Duration>,
}

impl Looks {
    /// What a look gave; none where the server is away: then some time has passed, and the next look is due.
    ///
    /// # Errors
    /// The failure, where looking again does not help, or nothing was ever seen.
    pub(super) async fn see<T>(&mut self, look: Result<T, Failure>) -> Result<Option<T>, Failure> {
        match look {
            Ok(seen) => {
                self.answered = true;
                if self.pause.take().is_some() {
                    output::tell("the server answers again");
                }
                Ok(Some(seen))
            }
            Err(failure) if self.answered && (failure.is_passing() || failure.retry_after.is_some()) => {
                let pause = match self.pause {
                    Some(pause) => (pause * 2).min(PAUSES.1),
                    None => {
                        output::tell(&format!("{failure}; trying again"));
                        PAUSES.0
                    }
                };
                self.pause = Some(pause);
                tokio::time::sleep(pause).await;
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fast(wait: u64) -> Failure {
        Failure { retry_after: Some(Duration::from_secs(wait)), ..Failure::new(Exit::Quota, "too fast") }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_comes_too_fast_is_made_again_when_the_server_says() {
        let (begun, mut times, said) = (Instant::now(), 0, AtomicBool::default());
        let done = as_allowed(&said, async || {
            times += 1;
            if times < 3 { Err(fast(7)) } else { Ok(times) }
        });
        assert_eq!((done.await.unwrap(), begun.elapsed().as_secs()), (3, 14));
        let refused = as_allowed(&AtomicBool::default(), async || Err::<(), _>(fast(50))).await.unwrap_err();
        assert_eq!((refused.exit, begun.elapsed().as_secs()), (Exit::Quota, 64), "not for ever");
        let denied = as_allowed(&AtomicBool::default(), async || Err::<(), _>(Failure::new(Exit::Denied, "no"))).await;
        assert_eq!(denied.unwrap_err().exit, Exit::Denied);
    }

    #[tokio::test(start_paused = true)]
    async fn looks_go_on_over_a_server_that_is_away_once_it_has_answered() {
        let away = || Err::<u8, _>(Failure::unreachable("away"));
        let mut looks = Looks::default();
        assert!(looks.see(away()).await.is_err(), "nothing was seen yet");
        assert_eq!(looks.see(Ok(1)).await.unwrap(), Some(1));
        let begun = Instant::now();
        for _ in 0..3 {
            assert_eq!(looks.see(away()).await.unwrap(), None);
        }
        assert_eq!(begun.elapsed(), Duration::from_millis(500 + 1000 + 2000));
        assert_eq!(looks.see(Ok(2)).await.unwrap(), Some(2));
        assert!(looks.see(Err::<u8, _>(Failure::new(Exit::Denied, "no"))).await.is_err());
    }
}
