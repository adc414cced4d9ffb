//! What a worker is to run: a plain value with every decision taken. Owns the values, the rules of placeholders and which
//! paths stay beneath an attempt's directory; never looks at a machine.

use std::borrow::Cow;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orlop_core::spec::job::placeholder::{Filling, fill};
use orlop_core::spec::job::{SecretAs, extra_variable};
use orlop_core::task::{Run, TaskRef};
use serde::{Deserialize, Serialize};

/// A secret of an attempt. Its value is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    /// Name, for messages.
    pub name: String,
    /// Value.
    pub value: String,
    /// How the job gets it.
    pub given_as: SecretAs,
    /// Name of the variable, or of the file beneath the directory of secrets.
    pub target: String,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).field("as", &self.given_as).finish_non_exhaustive()
    }
}

/// A GPU of this machine, or a slice of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GpuDevice {
    /// Vendor, lower case: `nvidia`, `amd`, `intel`.
    pub vendor: String,
    /// Number by which the vendor's tools know it; of a slice, that of its device.
    pub index: u32,
    /// The UUID by which it is given where its number does not do: slices have none, and CUDA numbers whole devices beside them anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

impl GpuDevice {
    /// A device that is given by its number.
    #[must_use]
    pub fn numbered(vendor: &str, index: u32) -> Self {
        Self { vendor: vendor.to_owned(), index, uuid: None }
    }

    /// The id by which the vendor's variables name it.
    #[must_use]
    pub fn id(&self) -> String {
        self.uuid.clone().unwrap_or_else(|| self.index.to_string())
    }

    /// Whether it is a slice.
    #[must_use]
    pub fn is_slice(&self) -> bool {
        self.uuid.as_deref().is_some_and(|uuid| uuid.starts_with("MIG-"))
    }
}

/// What an attempt holds of a counter of its worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraUnits {
    /// Name of the counter.
    pub name: String,
    /// How much it holds.
    pub count: u64,
    /// Which units, from 0; empty where the counter is too large for numbers.
    pub units: Vec<u32>,
}

impl ExtraUnits {
    /// The variable that says how much an attempt holds. The one that says which units ends with `_UNITS`.
    #[must_use]
    pub fn variable(&self) -> String {
        extra_variable(&self.name)
    }
}

/// A user of this machine, and the only group it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct User {
    /// Number of the user.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
}

/// One attempt to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttemptPlan {
    /// Which attempt.
    pub id: TaskRef,
    /// What it shares with others of its spec.
    pub run: Arc<Run>,
    /// Wall limit from the start of the process; none for no limit.
    pub timeout: Option<Duration>,
    /// From asking to killing.
    pub grace: Duration,
    /// Its secrets.
    pub secrets: Vec<Secret>,
    /// Its GPUs.
    pub gpus: Vec<GpuDevice>,
    /// What it holds of the worker's counters.
    #[serde(default)]
    pub extras: Vec<ExtraUnits>,
    /// What the client calls the work.
    pub correlation_id: String,
    /// Where its input artifacts are; none when it has none.
    pub artifacts: Option<PathBuf>,
    /// As whom a process of it runs; none: as this program's user.
    #[serde(default)]
    pub user: Option<User>,
}

impl AttemptPlan {
    /// An attempt without limits, secrets, devices or artifacts.
    #[must_use]
    pub fn new(id: TaskRef, run: Arc<Run>) -> Self {
        Self {
            id,
            run,
            timeout: None,
            grace: Duration::from_secs(10),
            secrets: Vec::new(),
            gpus: Vec::new(),
            extras: Vec::new(),
            correlation_id: String::new(),
            artifacts: None,
            user: None,
        }
    }

    /// A text of its spec with placeholders filled.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let TaskRef { index, job, attempt, .. } = self.id;
        if self.run.literal { Cow::Borrowed(text) } else { fill(text, &Filling { index, job, attempt }) }
    }

    /// Whether it needs its own supervisor: it goes on without the agent, or must end without it.
    #[must_use]
    pub fn supervised(&self) -> bool {
        self.run.survive || self.run.forbid_overlap
    }
}

/// The path as one that stays beneath the directory it is joined to; none when it leaves it.
#[must_use]
pub fn beneath(path: &str) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(clean)
}

#[cfg(test)]
mod tests {
    use orlop_core::id::{Epoch, JobId};

    use super::*;

    const ID: TaskRef = TaskRef { job: JobId::from_u64(7), index: 12, member: 0, attempt: 2, epoch: Epoch(3) };

    #[test]
    fn placeholders_are_filled_unless_texts_are_taken_as_they_are() {
        let mut plan = AttemptPlan::new(ID, Arc::default());
        assert_eq!(plan.text("a{{index}}b{{ attempt }} {{job}} {{other}} {{"), "a12b2 j0000000000007 {{other}} {{");
        plan.run = Arc::new(Run { literal: true, ..Run::default() });
        assert_eq!(plan.text("{{index}}"), "{{index}}");
    }

    #[test]
    fn paths_stay_beneath_their_directory() {
        assert_eq!(beneath("a/./b"), Some("a/b".into()));
        for bad in ["/a", "..", "a/../../b"] {
            assert_eq!(beneath(bad), None, "{bad}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let given_as = SecretAs::Env;
        let secret = Secret { name: "n".to_owned(), value: "hunter22".to_owned(), given_as, target: "T".to_owned() };
        let mut plan = AttemptPlan::new(ID, Arc::default());
        plan.secrets.push(secret);
        assert!(!format!("{plan:?}").contains("hunter22"));
    }
}
