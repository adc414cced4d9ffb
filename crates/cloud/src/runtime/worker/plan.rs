//! What a worker is to run: a plain value with every decision taken. Owns the values, the rules of placeholders and which
//! paths stay beneath an attempt's directory; never looks at a machine.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::attempt::AttemptId;

/// What all attempts of one spec have in common. Made once, shared by all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkSpec {
    /// Program and arguments. May hold placeholders.
    pub argv: Vec<String>,
    /// Environment. Values may hold placeholders.
    pub env: Vec<(String, String)>,
    /// Where the command runs, beneath the attempt's directory; none: in it.
    pub working_dir: Option<String>,
    /// CPU in millicores.
    pub cpu_m: u64,
    /// Memory in bytes; 0 is unlimited.
    pub memory_bytes: u64,
    /// Exit codes that mean success.
    pub success_codes: Vec<i32>,
    /// What happens to output.
    pub log: LogPolicy,
    /// Container image; none for a process.
    pub image: Option<String>,
    /// When the image is pulled.
    pub pull: Pull,
    /// Whether the attempt goes on when the agent dies.
    pub survive: bool,
    /// Whether it ends when the lease runs out, with or without the agent (`overlap: forbid`).
    pub forbid_overlap: bool,
    /// Whether its directory stays after the end until it is removed, for its artifacts.
    pub keep: bool,
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pull {
    /// When the engine does not have it.
    #[default]
    IfMissing,
    /// Before every attempt.
    Always,
    /// Never: an image that is not there fails the start.
    Never,
}

/// What happens to output beyond limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPolicy {
    /// Bytes of output kept, both streams together.
    pub limit: u64,
    /// What happens beyond.
    pub on_full: OnFull,
}

impl Default for LogPolicy {
    fn default() -> Self {
        Self { limit: 64 << 20, on_full: OnFull::Drop }
    }
}

/// What happens to output for which there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFull {
    /// It is dropped and counted.
    #[default]
    Drop,
    /// The pipes are not read, so that the job waits.
    Block,
    /// The attempt fails.
    Fail,
}

/// A secret of an attempt. Its value is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    /// Name, for messages.
    pub name: String,
    /// Value.
    pub value: String,
    /// How the job gets it.
    pub form: SecretForm,
    /// Name of the variable, or of the file beneath the directory of secrets.
    pub target: String,
}

/// How a job gets a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretForm {
    /// As a file in memory.
    File,
    /// As a variable.
    Env,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).field("form", &self.form).finish_non_exhaustive()
    }
}

/// A whole GPU of this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GpuDevice {
    /// Vendor, lower case: `nvidia`, `amd`, `intel`.
    pub vendor: String,
    /// Number by which the vendor's tools know it.
    pub index: u32,
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
    pub id: AttemptId,
    /// What it shares with others of its spec.
    pub spec: Arc<WorkSpec>,
    /// Wall limit from the start of the process; none for no limit.
    pub timeout: Option<Duration>,
    /// From asking to killing.
    pub grace: Duration,
    /// Its secrets.
    pub secrets: Vec<Secret>,
    /// Its GPUs.
    pub gpus: Vec<GpuDevice>,
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
    pub fn new(id: AttemptId, spec: Arc<WorkSpec>) -> Self {
        Self {
            id,
            spec,
            timeout: None,
            grace: Duration::from_secs(10),
            secrets: Vec::new(),
            gpus: Vec::new(),
            correlation_id: String::new(),
            artifacts: None,
            user: None,
        }
    }

    /// Whether it needs a supervisor of its own: it goes on without the agent, or must end without it.
    #[must_use]
    pub fn supervised(&self) -> bool {
        self.spec.survive || self.spec.forbid_overlap
    }
}

/// Replaces `{{index}}`, `{{job}}` and `{{attempt}}` in a text. Others stay: whoever took the spec refused them.
#[must_use]
pub fn expand(text: &str, id: &AttemptId) -> String {
    if !text.contains("{{") {
        return text.to_owned();
    }
    let known: BTreeMap<&str, String> = BTreeMap::from([
        ("index", id.index.to_string()),
        ("job", id.job.to_string()),
        ("attempt", id.attempt.to_string()),
    ]);
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let value = after.split_once("}}").and_then(|(name, tail)| Some((known.get(name.trim())?, tail)));
        if let Some((value, tail)) = value {
            out.push_str(value);
            rest = tail;
        } else {
            out.push_str("{{");
            rest = after;
        }
    }
    out.push_str(rest);
    out
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

    const ID: AttemptId = AttemptId { job: JobId::from_u64(7), index: 12, member: 0, attempt: 2, epoch: Epoch(3) };

    #[test]
    fn the_three_placeholders_are_replaced_and_no_others() {
        assert_eq!(expand("a{{index}}b{{ attempt }}", &ID), "a12b2");
        assert_eq!(expand("{{job}}", &ID), "j0000000000007");
        assert_eq!(expand("{{other}} {{ {{index}}", &ID), "{{other}} {{ 12");
        assert_eq!(expand("{{", &ID), "{{");
    }

    #[test]
    fn paths_stay_beneath_their_directory() {
        assert_eq!(beneath("a/./b"), Some("a/b".into()));
        for bad in ["/a", "..", "a/../../b"] {
            assert_eq!(beneath(bad), None, "{bad}");
        }
    }

    #[test]
    fn s9_debug_shows_no_secret() {
        let form = SecretForm::Env;
        let secret = Secret { name: "n".to_owned(), value: "hunter22".to_owned(), form, target: "T".to_owned() };
        let mut plan = AttemptPlan::new(ID, Arc::default());
        plan.secrets.push(secret);
        assert!(!format!("{plan:?}").contains("hunter22"));
    }
}
