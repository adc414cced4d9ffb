//! Waking the thread that drains: it parks when nothing is left, and anyone who brings something wakes it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// Where the draining thread sleeps.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    thread: OnceLock<Thread>,
    asleep: AtomicBool,
}

impl Wake {
    /// Makes the calling thread the one that is woken.
    pub(crate) fn enlist(&self) {
        self.thread.get_or_init(std::thread::current);
    }

    /// Wakes the thread if it sleeps or is about to.
    pub(crate) fn wake(&self) {
        if self.asleep.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Sleeps until woken, at most for `patience`, unless `idle` says that something has come.
    pub(crate) fn sleep(&self, patience: Option<Duration>, idle: impl Fn() -> bool) {
        self.asleep.store(true, Ordering::SeqCst);
        // What came before the flag was raised is seen here; what comes after it unparks.
        if idle() {
            match patience {
                Some(patience) => std::thread::park_timeout(patience),
                None => std::thread::park(),
            }
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn no_wake_up_is_lost() {
        let (wake, work) = (Arc::new(Wake::default()), Arc::new(AtomicU64::new(0)));
        let sleeper = std::thread::spawn({
            let (wake, work) = (Arc::clone(&wake), Arc::clone(&work));
            move || {
                wake.enlist();
                let mut done = 0;
                while done < 20_000 {
                    match work.swap(0, Ordering::SeqCst) {
                        0 => wake.sleep(None, || work.load(Ordering::SeqCst) == 0),
                        some => done += some,
                    }
                }
                done
            }
        });
        for _ in 0..20_000 {
            work.fetch_add(1, Ordering::SeqCst);
            wake.wake();
        }
        assert_eq!(sleeper.join().unwrap(), 20_000);
    }

    #[test]
    fn patience_ends_the_sleep() {
        let wake = Wake::default();
        wake.enlist();
        wake.sleep(Some(Duration::from_millis(1)), || true);
        wake.sleep(None, || false);
    }
}
