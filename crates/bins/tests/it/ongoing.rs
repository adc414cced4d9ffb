//! A program that goes on beside a test, and not longer than that. Owns its end.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before a test fails. A worker that lost its server waits for up to a minute before it asks again, and may
/// ask the one of two that is gone.
const PATIENCE: Duration = Duration::from_secs(150);

/// Waits for something to come true.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A program that goes on beside the test. After a failed assertion nobody waits for it: it ends with this value.
pub(crate) struct Ongoing(Option<Child>);

impl Ongoing {
    /// Starts a program whose output is kept for the end.
    pub(crate) fn begin(command: &mut Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Self(Some(child.expect("the program starts")))
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.try_wait().expect("it is a child").is_some()
    }

    /// Waits until something is so while it goes on, but not for ever; whether that came before its end.
    pub(crate) fn until(&mut self, what: &str, mut holds: impl FnMut() -> bool) -> bool {
        let began = Instant::now();
        loop {
            let ended = self.has_ended();
            if holds() {
                return true;
            }
            if ended {
                return false;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{what} does not come");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for its end, and gives what it said.
    pub(crate) fn output(mut self) -> Output {
        let child = self.0.take().expect("it is taken only where it goes");
        child.wait_with_output().expect("the program ends")
    }
}

impl Deref for Ongoing {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it is taken only where it goes")
    }
}

impl DerefMut for Ongoing {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it is taken only where it goes")
    }
}

impl Drop for Ongoing {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
