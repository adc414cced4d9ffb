//! What a scripted attempt does and which attempts do it. Owns the script's words; never plays it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::attempt::{AttemptKey, EndResult, FileTrouble};
use crate::error::{Class, Problem};
use crate::name::sha256_hex;
use crate::spec::status::ArtifactLocation;

/// Which attempts a play is for; what is not narrowed matches all.
///
/// ```
/// use orlop_core::testing::substrate::When;
/// let second_try = When::step("build").attempt(2);
/// let one_instance = When::step("shard").item(7);
/// # let _ = (second_try, one_instance);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct When {
    flow: Option<String>,
    step: Option<String>,
    item: Option<u32>,
    attempt: Option<u32>,
}

impl When {
    /// Every attempt.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Attempts of a step, all instances of it.
    #[must_use]
    pub fn step(name: impl Into<String>) -> Self {
        Self { step: Some(name.into()), ..Self::default() }
    }

    /// Exactly this attempt.
    #[must_use]
    pub fn key(key: &AttemptKey) -> Self {
        let step = Self::step(&*key.step).flow(&*key.flow).attempt(key.attempt);
        Self { item: key.item, ..step }
    }

    /// Narrowed to a flow, by uid.
    #[must_use]
    pub fn flow(mut self, uid: impl Into<String>) -> Self {
        self.flow = Some(uid.into());
        self
    }

    /// Narrowed to an instance of a fan-out.
    #[must_use]
    pub fn item(mut self, item: u32) -> Self {
        self.item = Some(item);
        self
    }

    /// Narrowed to an attempt by its number, from 1.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = Some(attempt);
        self
    }

    pub(super) fn matches(&self, key: &AttemptKey) -> bool {
        self.flow.as_deref().is_none_or(|flow| flow == &*key.flow)
            && self.step.as_deref().is_none_or(|step| step == &*key.step)
            && self.item.is_none_or(|item| key.item == Some(item))
            && self.attempt.is_none_or(|attempt| attempt == key.attempt)
    }
}

/// What an attempt does: how its start is answered, how long it takes, how it ends and what it leaves.
#[derive(Clone, Debug)]
#[must_use]
pub struct Play {
    pub(super) refusals: Vec<Refusal>,
    pub(super) after: Option<Duration>,
    pub(super) end: EndResult,
    pub(super) exit_code: Option<i32>,
    pub(super) termination: String,
    pub(super) files: BTreeMap<String, Result<String, FileTrouble>>,
    pub(super) artifacts: BTreeMap<String, ArtifactLocation>,
    pub(super) missing: BTreeSet<String>,
    pub(super) fill: bool,
    pub(super) cancel: OnCancel,
    pub(super) suspendable: bool,
}

/// How a cancelled attempt behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnCancel {
    /// It is gone after this long, unless it ends by itself before.
    EndsAfter(Duration),
    /// It comes to its own end.
    Ignores,
}

/// An answer to a start that creates nothing.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) class: Class,
    pub(super) reason: Option<&'static str>,
    pub(super) message: String,
    pub(super) retry_after: Option<Duration>,
    /// How many starts are answered so; none for all.
    pub(super) times: Option<u32>,
}

impl Refusal {
    pub(super) fn error(&self) -> Problem {
        let mut error = Problem::new(self.class, self.message.clone());
        error.reason = self.reason;
        error.retry_after = self.retry_after;
        error
    }
}

impl Default for Play {
    fn default() -> Self {
        Self::success()
    }
}

impl Play {
    fn ending(end: EndResult) -> Self {
        Self {
            refusals: Vec::new(),
            after: Some(Duration::ZERO),
            end,
            exit_code: None,
            termination: String::new(),
            files: BTreeMap::new(),
            artifacts: BTreeMap::new(),
            missing: BTreeSet::new(),
            fill: false,
            cancel: OnCancel::EndsAfter(Duration::ZERO),
            suspendable: true,
        }
    }

    /// Succeeds at once with exit code 0 and leaves every output its spec declares: files hold `<step>/<output>`.
    pub fn success() -> Self {
        Self { exit_code: Some(0), fill: true, ..Self::ending(EndResult::Succeeded) }
    }

    /// Ends with an exit code: 0 as [`Play::success`], else Failed with reason NonZeroExit and one failed pod.
    pub fn exit(code: i32) -> Self {
        if code == 0 {
            return Self::success();
        }
        let failed = Self::failed("NonZeroExit", format!("exit code {code}"));
        Self { exit_code: Some(code), ..failed }
    }

    /// Fails with a reason and a message, without an exit code.
    pub fn failed(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::ending(EndResult::Failed { reason: reason.into(), message: message.into() })
    }

    /// Never ends by itself.
    pub fn forever() -> Self {
        Self { after: None, ..Self::success() }
    }

    /// Is lost with its host.
    pub fn lost() -> Self {
        Self::ending(EndResult::Lost)
    }

    /// Is deleted by somebody else.
    pub fn gone() -> Self {
        Self::ending(EndResult::Gone)
    }

    /// Can never be created: every start is answered with this error.
    pub fn refused(class: Class, reason: &'static str, message: impl Into<String>) -> Self {
        let refusal = Refusal { class, reason: Some(reason), message: message.into(), retry_after: None, times: None };
        Self { refusals: vec![refusal], ..Self::success() }
    }

    /// The same, but the first `times` starts are answered with an error: Transient, Capacity or what else.
    pub fn delayed(mut self, times: u32, class: Class, reason: &'static str) -> Self {
        let message = format!("not created yet: {reason}");
        self.refusals.push(Refusal { class, reason: Some(reason), message, retry_after: None, times: Some(times) });
        self
    }

    /// The same, but the delays asked for so far name how long to wait.
    pub fn retry_after(mut self, wait: Duration) -> Self {
        for refusal in &mut self.refusals {
            refusal.retry_after = Some(wait);
        }
        self
    }

    /// The same, ending this much virtual time after its start.
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// The same with the text of an output file.
    pub fn file(mut self, output: impl Into<String>, text: impl Into<String>) -> Self {
        self.files.insert(output.into(), Ok(text.into()));
        self
    }

    /// The same with an output file that cannot be a value.
    pub fn bad_file(mut self, output: impl Into<String>, trouble: FileTrouble) -> Self {
        self.files.insert(output.into(), Err(trouble));
        self
    }

    /// The same with the location of an output artifact.
    pub fn artifact(mut self, output: impl Into<String>, location: ArtifactLocation) -> Self {
        self.artifacts.insert(output.into(), location);
        self
    }

    /// The same without an output file or artifact that would be filled in otherwise.
    pub fn without(mut self, output: impl Into<String>) -> Self {
        self.missing.insert(output.into());
        self
    }

    /// The same with a termination message.
    pub fn termination(mut self, message: impl Into<String>) -> Self {
        self.termination = message.into();
        self
    }

    /// The same, but it takes this long to go when cancelled.
    pub fn cancel_takes(mut self, wait: Duration) -> Self {
        self.cancel = OnCancel::EndsAfter(wait);
        self
    }

    /// The same, but it comes to its own end when cancelled.
    pub fn ignores_cancel(mut self) -> Self {
        self.cancel = OnCancel::Ignores;
        self
    }

    /// The same, but it cannot be suspended.
    pub fn not_suspendable(mut self) -> Self {
        self.suspendable = false;
        self
    }

    /// The location an artifact is given where the script names none.
    pub(super) fn default_location(key: &AttemptKey, output: &str) -> ArtifactLocation {
        let sha256 = sha256_hex(format!("{key}/{output}").as_bytes(), 64);
        ArtifactLocation { kind: "memory".to_owned(), reference: format!("sha256/{sha256}"), size_bytes: 1, sha256 }
    }
}
