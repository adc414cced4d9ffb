//! Doing again what may come to work for as long as somebody can wait, however often that is: who is asked to come again soon comes
//! often.

use std::time::Duration;

use orlop_core::error::Problem;

use crate::retry::delay;

/// The longest pause that another side may ask for where somebody waits for the end.
const LONGEST: Duration = Duration::from_secs(60);

/// Does it for so long, as long as its errors are worth it.
///
/// # Errors
/// The last one.
pub(crate) async fn attempt_for<T, F: Future<Output = Result<T, Problem>>>(
    patience: Duration,
    mut work: impl FnMut() -> F,
) -> Result<T, Problem> {
    let (began, mut tries) = (tokio::time::Instant::now(), 0);
    loop {
        match work().await {
            Err(error) if error.class.is_retryable() && began.elapsed() < patience => {
                tokio::time::sleep(delay(tries, &error).min(LONGEST)).await;
                tries += 1;
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::error::Class;

    use super::*;

    fn busy(seconds: u64) -> Problem {
        let mut error = Problem::new(Class::Transient, "come again");
        error.retry_after = Some(Duration::from_secs(seconds));
        error
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_asked_to_come_again_soon_does_so_for_as_long_as_it_takes() {
        let (mut tries, began) = (0, tokio::time::Instant::now());
        let done = attempt_for(Duration::from_secs(360), || {
            tries += 1;
            let done = if tries > 100 { Ok(()) } else { Err(busy(3)) };
            async { done }
        });
        assert!(done.await.is_ok());
        assert_eq!((tries, began.elapsed().as_secs()), (101, 300));
    }

    #[tokio::test(start_paused = true)]
    async fn patience_has_an_end_and_so_has_a_pause() {
        let began = tokio::time::Instant::now();
        let done = attempt_for(Duration::from_secs(360), || async { Err::<(), _>(busy(86_400)) });
        assert_eq!(done.await.unwrap_err().class, Class::Transient);
        assert_eq!(began.elapsed().as_secs(), 360);
        let wrong =
            attempt_for(Duration::from_secs(360), || async { Err::<(), _>(Problem::new(Class::Invalid, "no")) });
        assert_eq!(wrong.await.unwrap_err().class, Class::Invalid, "what is wrong stays so");
    }
}
