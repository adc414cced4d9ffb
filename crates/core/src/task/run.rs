//! What an agent runs: the part of a job's specification that its runtimes read.

use serde::{Deserialize, Serialize};

use crate::spec::job::{LogPolicy, Pull};

/// What an agent runs for a specification. Made once, shared by all of its attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
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
    /// Whether its texts are taken as they are, without placeholders.
    #[serde(default)]
    pub literal: bool,
    /// Container image; none for a process.
    pub image: Option<String>,
    /// When the image is pulled.
    pub pull: Pull,
    /// Whether the attempt goes on when the agent dies.
    pub survive: bool,
    /// Whether it ends when the lease runs out, with or without the agent (`overlap: forbid`).
    pub forbid_overlap: bool,
    /// Whether the program itself keeps secrets out of its outputs, which then are taken as they are.
    #[serde(default)]
    pub checks_outputs: bool,
    /// Whether its directory stays after the end until it is removed, for its artifacts.
    pub keep: bool,
}
