//! What a conformance suite is made of: named checks, their verdicts and the report of all failures. Owns no rule of any
//! port.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use crate::error::{Class, Problem};

/// What a check says: nothing, or what does not hold.
pub(super) type CheckResult = Result<(), Broken>;

/// A check that runs beside others.
pub(super) type Check<'a> = Pin<Box<dyn Future<Output = CheckResult> + 'a>>;

/// Why a check does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(String);

impl Broken {
    /// With a sentence.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Problem> for Broken {
    fn from(error: Problem) -> Self {
        Self(format!("the call failed ({}): {}", error.class, error.chain()))
    }
}

/// The checks of a port that an implementation does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuiteFailure {
    /// The port.
    pub port: &'static str,
    /// Number of checks that passed.
    pub passed: usize,
    /// Names of the checks that did not, and why.
    pub broken: Vec<(&'static str, Broken)>,
}

impl fmt::Display for SuiteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.passed + self.broken.len();
        write!(f, "{} of {all} checks of the {} port do not hold", self.broken.len(), self.port)?;
        for (name, why) in &self.broken {
            write!(f, "\n  {name}: {why}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SuiteFailure {}

/// Verdicts as they are gathered.
#[derive(Debug)]
pub(super) struct Suite {
    port: &'static str,
    passed: Vec<&'static str>,
    broken: Vec<(&'static str, Broken)>,
}

impl Suite {
    pub(super) fn new(port: &'static str) -> Self {
        Self { port, passed: Vec::new(), broken: Vec::new() }
    }

    /// Number of checks so far; the next check's subject is opened under it.
    pub(super) fn next(&self) -> u32 {
        u32::try_from(self.passed.len() + self.broken.len()).unwrap_or(u32::MAX)
    }

    /// Runs a check and keeps its verdict.
    pub(super) async fn check(&mut self, name: &'static str, check: impl Future<Output = CheckResult>) {
        match check.await {
            Ok(()) => self.passed.push(name),
            Err(why) => self.broken.push((name, why)),
        }
    }

    /// Runs checks, so many at once, and keeps their verdicts in the order of the checks.
    pub(super) async fn check_all(&mut self, at_once: usize, checks: Vec<(&'static str, Check<'_>)>) {
        let mut waiting = checks.into_iter().enumerate();
        let (mut running, mut verdicts) = (Vec::new(), BTreeMap::new());
        poll_fn(|context| {
            loop {
                running.extend(waiting.by_ref().take(at_once.max(1).saturating_sub(running.len())));
                let before = verdicts.len();
                running.retain_mut(|(number, (name, check))| match check.as_mut().poll(context) {
                    Poll::Ready(verdict) => {
                        verdicts.insert(*number, (*name, verdict));
                        false
                    }
                    Poll::Pending => true,
                });
                match (verdicts.len() > before, running.is_empty()) {
                    (true, _) => {}
                    (false, true) => return Poll::Ready(()),
                    (false, false) => return Poll::Pending,
                }
            }
        })
        .await;
        for (name, verdict) in verdicts.into_values() {
            self.check(name, async { verdict }).await;
        }
    }

    pub(super) fn finish(self) -> Result<Vec<&'static str>, SuiteFailure> {
        if self.broken.is_empty() {
            return Ok(self.passed);
        }
        Err(SuiteFailure { port: self.port, passed: self.passed.len(), broken: self.broken })
    }
}

/// Holds when both sides are equal.
pub(super) fn same<T: PartialEq + fmt::Debug>(what: &str, found: &T, wanted: &T) -> CheckResult {
    if found == wanted {
        return Ok(());
    }
    Err(Broken(format!("{what} is {}, not {}", short(found), short(wanted))))
}

/// Holds when the condition does.
pub(super) fn holds(what: &str, condition: bool) -> CheckResult {
    if condition { Ok(()) } else { Err(Broken(format!("it does not hold that {what}"))) }
}

/// Holds when a call failed with an error of this class whose message says something.
pub(super) fn fails<T: fmt::Debug>(what: &str, result: Result<T, Problem>, class: Class) -> CheckResult {
    match result {
        Ok(value) => Err(Broken(format!("{what} gave {}, not the error {class}", short(&value)))),
        Err(error) if error.class != class => {
            Err(Broken(format!("{what} failed as {} instead of {class}: {}", error.class, error.chain())))
        }
        Err(error) => holds("the error has a message", !error.message.trim().is_empty()),
    }
}

/// Holds when a call went well.
pub(super) fn fails_not<T>(what: &str, result: Result<T, Problem>) -> CheckResult {
    match result {
        Ok(_) => Ok(()),
        Err(error) => Err(Broken(format!("{what} failed as {}: {}", error.class, error.chain()))),
    }
}

/// The debug form, cut where it would flood a report.
fn short(value: &impl fmt::Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(300) {
        None => text,
        Some((at, _)) => format!("{}\u{2026}", text.get(..at).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_every_broken_check() {
        let failure = SuiteFailure {
            port: "journal",
            passed: 3,
            broken: vec![("order_is_kept", Broken::new("it is not")), ("names_are_free", Broken::new("they are not"))],
        };
        insta::assert_snapshot!(failure, @r"
        2 of 5 checks of the journal port do not hold
          order_is_kept: it is not
          names_are_free: they are not
        ");
    }

    #[tokio::test]
    async fn checks_run_beside_one_another_and_are_reported_in_their_order() {
        for at_once in 0..4 {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let first: Check<'_> = Box::pin(async { receiver.await.map_err(|_| Broken::new("never")) });
            let second: Check<'_> = Box::pin(async {
                tokio::task::yield_now().await;
                Err(Broken::new("bad"))
            });
            let third: Check<'_> = Box::pin(async {
                sender.send(()).map_err(|()| Broken::new("nobody waits"))?;
                Ok(())
            });
            let mut checks = vec![("first", first), ("second", second), ("third", third)];
            // Where fewer than three run at once, the first waits for nobody.
            if at_once < 2 {
                checks.rotate_left(1);
            }
            let mut suite = Suite::new("port");
            suite.check_all(at_once, checks).await;
            let names = suite.passed.clone();
            assert_eq!(names, if at_once < 2 { ["third", "first"] } else { ["first", "third"] });
            assert_eq!(suite.finish().unwrap_err().broken, [("second", Broken::new("bad"))]);
        }
    }

    #[test]
    fn helpers_tell_right_from_wrong() {
        assert!(same("it", &1, &1).is_ok());
        insta::assert_snapshot!(same("it", &1, &2).unwrap_err(), @"it is 1, not 2");
        insta::assert_snapshot!(holds("pigs fly", false).unwrap_err(), @"it does not hold that pigs fly");
        let invalid = || Err::<(), _>(Problem::new(Class::Invalid, "bad"));
        assert!(fails("asking", invalid(), Class::Invalid).is_ok());
        insta::assert_snapshot!(fails("asking", invalid(), Class::NotFound).unwrap_err(), @"asking failed as invalid instead of not found: bad");
        insta::assert_snapshot!(fails("asking", Ok(7), Class::NotFound).unwrap_err(), @"asking gave 7, not the error not found");
        assert!(fails("asking", Err::<(), _>(Problem::new(Class::Invalid, " ")), Class::Invalid).is_err());
        let flood = same("it", &"x".repeat(1000), &String::new()).unwrap_err();
        assert!(flood.to_string().chars().count() < 400);
    }
}
