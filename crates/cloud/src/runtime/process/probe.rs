//! What this machine allows. Owns trying it in its own process, so that a trial changes nothing for this one.

use std::io::{self, Write};

use nix::unistd::Uid;
use serde::{Deserialize, Serialize};

use super::cgroup::Limits;
use super::paths::Paths;

/// What a [`ProcessRuntime`](super::ProcessRuntime) can do on this machine, for warnings to users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// How absolute paths become real.
    pub paths: Paths,
    /// Why not better, where paths are rewritten.
    pub why: Option<String>,
    /// Which limits are enforced.
    pub limits: Limits,
}

impl Capabilities {
    /// What users are to know before they count on it: limits that are not enforced, when `limited`, and paths that are not
    /// real, when `placed`.
    #[must_use]
    pub fn warnings(&self, limited: bool, placed: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        let missing: Vec<&str> = [("CPU", self.limits.cpu), ("memory", self.limits.memory)]
            .into_iter()
            .filter_map(|(what, enforced)| (!enforced).then_some(what))
            .collect();
        if limited && !missing.is_empty() {
            let missing = missing.join(" and ");
            warnings
                .push(format!("limits of {missing} are not enforced: this program has no control group (version 2)"));
        }
        if placed && self.paths == Paths::Rewritten {
            let why = self.why.as_deref().map_or_else(String::new, |why| format!(" ({why})"));
            warnings.push(format!(
                "this machine allows no private mounts{why}: paths of mounts and outputs are rewritten in command, \
                 arguments and environment, and files outside of them are the machine's own"
            ));
        }
        warnings
    }
}

/// What a trial found.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProbeResult {
    pub(crate) paths: Paths,
    pub(crate) why: Option<String>,
}

/// Tries in this process and writes what it found.
pub(super) fn answer(out: &mut impl Write) -> io::Result<()> {
    let kind = if Uid::effective().is_root() { Paths::Namespace } else { Paths::UserNamespace };
    let found = match try_view(kind == Paths::UserNamespace) {
        Ok(()) => ProbeResult { paths: kind, why: None },
        // Root without the right to mount may still have it in a user namespace.
        Err(first) if kind == Paths::Namespace => match try_view(true) {
            Ok(()) => ProbeResult { paths: Paths::UserNamespace, why: None },
            Err(second) => ProbeResult { paths: Paths::Rewritten, why: Some(format!("{first}; {second}")) },
        },
        Err(error) => ProbeResult { paths: Paths::Rewritten, why: Some(error) },
    };
    let mut line = serde_json::to_vec(&found)?;
    line.push(b'\n');
    out.write_all(&line)
}

fn try_view(user_namespace: bool) -> Result<(), String> {
    super::supervisor::try_view(user_namespace).map_err(|failure| failure.to_string())
}

/// Parses what [`answer`] wrote.
pub(super) fn parse(bytes: &[u8]) -> io::Result<ProbeResult> {
    Ok(serde_json::from_slice(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_enforced_is_told_to_who_asks_for_it() {
        let limits = |cpu, memory| Limits { parent: None, cpu, memory, pids: false };
        let least = Capabilities { paths: Paths::Rewritten, why: Some("no".to_owned()), limits: limits(false, false) };
        insta::assert_snapshot!(least.warnings(true, true).join("\n"), @r"
        limits of CPU and memory are not enforced: this program has no control group (version 2)
        this machine allows no private mounts (no): paths of mounts and outputs are rewritten in command, arguments and environment, and files outside of them are the machine's own
        ");
        assert!(least.warnings(false, false).is_empty());
        let most = Capabilities { paths: Paths::UserNamespace, why: None, limits: limits(true, true) };
        assert!(most.warnings(true, true).is_empty());
        let half = Capabilities { limits: limits(true, false), ..most };
        insta::assert_snapshot!(half.warnings(true, true).join("\n"), @"limits of memory are not enforced: this program has no control group (version 2)");
    }
}
