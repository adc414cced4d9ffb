//! A fact: one thing a file says about the machine, with its strength and where it stands.
//! Owns the values and their collection; decides nothing.

use orlop_core::hardware::Arch;
use orlop_core::hardware::gpu::Vendor;
use serde::Serialize;

use super::card::Card;
use super::os::Os;
use super::place::FileLocation;
use super::sizing::{Class, ServiceClass};
use super::version::Version;
use crate::scrub::scrubbed;

/// How much a fact binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Strength {
    /// Never enough alone.
    Weak,
    /// A wish that may be relaxed with a note; for a GPU, yes unless vetoed.
    Target,
    /// A minimum that nothing but the user lowers.
    Hard,
}

/// How sure a fact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Nothing was found; 0.1.
    Default,
    /// Vague, or from sizes; 0.3.
    Vague,
    /// Implied by a dependency, or a sentence with a number; 0.6.
    Implied,
    /// Pinned, locked, or a demand for machines; 0.9.
    Pinned,
}

impl Confidence {
    /// The number, 0 to 1.
    #[must_use]
    pub const fn value(self) -> f64 {
        match self {
            Self::Default => 0.1,
            Self::Vague => 0.3,
            Self::Implied => 0.6,
            Self::Pinned => 0.9,
        }
    }
}

impl Serialize for Confidence {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.value())
    }
}

/// Hardware that is there or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Feature {
    /// A programmable board.
    Fpga,
    /// InfiniBand or RDMA.
    Infiniband,
    /// Disks on NVMe.
    Nvme,
    /// Persistent memory.
    Nvdimm,
    /// Cards connected by NVLink.
    Nvlink,
}

impl Feature {
    /// As options and messages name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fpga => "fpga",
            Self::Infiniband => "infiniband",
            Self::Nvme => "nvme",
            Self::Nvdimm => "nvdimm",
            Self::Nvlink => "nvlink",
        }
    }
}

impl std::str::FromStr for Feature {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Fpga, Self::Infiniband, Self::Nvme, Self::Nvdimm, Self::Nvlink];
        let found = all.into_iter().find(|feature| feature.name().eq_ignore_ascii_case(text.trim()));
        found.ok_or_else(|| format!("`{text}` is not known; use {}", all.map(Self::name).join(", ")))
    }
}

/// What a fact says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Hardware threads.
    Cores(u32),
    /// Memory in GiB.
    Ram(u32),
    /// Disk in GB.
    Disk(u32),
    /// A GPU, of this maker if one is meant.
    Gpu(Option<Vendor>),
    /// It runs without a GPU.
    CpuOnly,
    /// Cards.
    GpuCount(u32),
    /// Memory of one card in GB.
    Vram(u32),
    /// A card by name.
    Card(&'static Card),
    /// A version of CUDA.
    Cuda(Version),
    /// The compute capability of the oldest card that is accepted.
    Capability(Version),
    /// A version of Python, exactly.
    Python(Version),
    /// The lowest version of Python that is accepted.
    PythonFrom(Version),
    /// An operating system.
    Os(Os),
    /// A CPU architecture.
    Arch(Arch),
    /// Something special.
    Feature(Feature),
    /// What kind of project it is.
    Class(Class),
    /// A service that runs beside it, by name: its class, and its memory in GiB if that is written.
    Service(String, ServiceClass, Option<u32>),
    /// Memory on top, in GiB.
    ExtraRam(u32),
    /// How long it runs, in hours.
    Hours(u32),
    /// A tensor processing unit, which no site has.
    Tpu,
    /// What processes of a workflow with this label ask for.
    OfLabel(String, Box<Finding>),
    /// A process of a workflow: a label it bears, or the process itself.
    Label(String),
    /// Something for people to read.
    Special(String),
}

/// One thing a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What it says.
    pub finding: Finding,
    /// How much it binds.
    pub strength: Strength,
    /// How sure it is.
    pub confidence: Confidence,
    /// The file, by its path in the repository.
    pub file: String,
    /// The line, counted from 1; 0 for the file as a whole.
    pub line: u32,
    /// The rule that made it.
    pub rule: &'static str,
    /// The words it was made of.
    pub quote: String,
    /// Where its file stands.
    pub(super) place: FileLocation,
}

/// Strength and confidence of what a program would read as a demand.
pub(super) const HARD: (Strength, Confidence) = (Strength::Hard, Confidence::Pinned);
/// What is pinned without being a minimum.
pub(super) const PINNED: (Strength, Confidence) = (Strength::Target, Confidence::Pinned);
/// What a dependency implies.
pub(super) const SOFT: (Strength, Confidence) = (Strength::Target, Confidence::Implied);
/// What is only a hint.
pub(super) const WEAK: (Strength, Confidence) = (Strength::Weak, Confidence::Vague);

/// Bytes of a quote that are kept.
const QUOTE: usize = 160;
/// Facts that are kept of one repository; a hostile one may hold millions.
const MAX_FACTS: usize = 20_000;

/// Where the facts of one file go.
#[derive(Debug)]
pub(super) struct Sink<'a> {
    file: &'a str,
    facts: &'a mut Vec<Fact>,
    notes: &'a mut Vec<String>,
}

/// A line of a file: its number from 1, and its words.
#[derive(Debug, Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) line: usize,
    pub(super) quote: &'a str,
}

impl<'a> Sink<'a> {
    pub(super) fn new(file: &'a str, facts: &'a mut Vec<Fact>, notes: &'a mut Vec<String>) -> Self {
        Self { file, facts, notes }
    }

    pub(super) fn file(&self) -> &'a str {
        self.file
    }

    /// Takes down a fact, unless its value is beyond what machines have.
    pub(super) fn add(&mut self, at: At<'_>, rule: &'static str, finding: Finding, how: (Strength, Confidence)) {
        if let Some(beyond) = beyond(&finding) {
            self.note(format!("{}:{}: {beyond} is beyond any machine and was left out", self.file, at.line));
            return;
        }
        if self.facts.len() >= MAX_FACTS {
            return;
        }
        self.facts.push(Fact {
            finding,
            strength: how.0,
            confidence: how.1,
            file: self.file.to_owned(),
            line: u32::try_from(at.line).unwrap_or(u32::MAX),
            rule,
            quote: quoted(at.quote),
            place: FileLocation::Root,
        });
    }

    /// Where the facts that come next begin.
    pub(super) fn mark(&self) -> usize {
        self.facts.len()
    }

    /// Makes wishes of the minimums taken down since a mark, and no veto of what runs without a card.
    pub(super) fn soften(&mut self, mark: usize) {
        for fact in self.facts.iter_mut().skip(mark) {
            fact.strength = fact.strength.min(Strength::Target);
            fact.confidence = fact.confidence.min(Confidence::Implied);
            if fact.finding == Finding::CpuOnly {
                fact.strength = Strength::Weak;
            }
        }
    }

    /// Whether a fact since a mark says how large something is.
    pub(super) fn holds_size(&self, mark: usize) -> bool {
        let is_size = |finding: &Finding| {
            matches!(
                finding,
                Finding::Cores(_) | Finding::Ram(_) | Finding::Disk(_) | Finding::Vram(_) | Finding::GpuCount(_)
            )
        };
        self.facts.iter().skip(mark).any(|fact| is_size(&fact.finding))
    }

    pub(super) fn note(&mut self, note: String) {
        let note = scrubbed(&note);
        if self.notes.len() < 100 && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// A value that no machine has.
fn beyond(finding: &Finding) -> Option<String> {
    match *finding {
        Finding::OfLabel(_, ref finding) => beyond(finding),
        Finding::Ram(gib) | Finding::ExtraRam(gib) if gib > 8192 => Some(format!("{gib} GiB of memory")),
        Finding::Cores(cores) if cores > 512 => Some(format!("{cores} cores")),
        Finding::Vram(gb) if gb > 288 => Some(format!("{gb} GB of GPU memory")),
        Finding::Disk(gb) if gb > 200_000 => Some(format!("{gb} GB of disk")),
        Finding::GpuCount(count) if count > 64 => Some(format!("{count} cards")),
        Finding::Cores(0)
        | Finding::Ram(0)
        | Finding::Disk(0)
        | Finding::Vram(0)
        | Finding::GpuCount(0)
        | Finding::Hours(0) => Some("a size of zero".to_owned()),
        _ => None,
    }
}

/// Bytes of a line that are looked at for a quote: a secret that begins within it is seen as one.
const WINDOW: usize = QUOTE + 512;

/// Untrusted words for people: one line, no secrets, no control sequences, bounded.
pub(super) fn quoted(text: &str) -> String {
    let text = text.trim_start();
    let end = (0..=WINDOW.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let mut quote = scrubbed(visible(text.get(..end).unwrap_or_default()).trim());
    if quote.len() > QUOTE {
        let end = (0..=QUOTE).rev().find(|end| quote.is_char_boundary(*end)).unwrap_or(0);
        quote.truncate(end);
        quote.push('…');
    }
    quote
}

/// A text in one line without control sequences and characters that hide or turn others.
pub(super) fn visible(text: &str) -> String {
    let plain = text.chars().map(|ch| if ch.is_whitespace() { ' ' } else { ch });
    plain.filter(|ch| !ch.is_control() && !crate::repository::source::is_invisible(*ch)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_any_machine_are_left_out_with_a_note() {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        let mut sink = Sink::new("README.md", &mut facts, &mut notes);
        let at = At { line: 3, quote: "x" };
        for finding in
            [Finding::Ram(8193), Finding::Cores(513), Finding::Vram(289), Finding::Disk(200_001), Finding::Ram(0)]
        {
            sink.add(at, "test", finding, HARD);
        }
        for finding in [Finding::Ram(8192), Finding::Cores(512), Finding::Vram(288), Finding::Disk(200_000)] {
            sink.add(at, "test", finding, HARD);
        }
        assert_eq!(facts.len(), 4);
        insta::assert_snapshot!(notes.join("\n"), @r"
        README.md:3: 8193 GiB of memory is beyond any machine and was left out
        README.md:3: 513 cores is beyond any machine and was left out
        README.md:3: 289 GB of GPU memory is beyond any machine and was left out
        README.md:3: 200001 GB of disk is beyond any machine and was left out
        README.md:3: a size of zero is beyond any machine and was left out
        ");
    }

    #[test]
    fn quotes_hold_no_control_sequences_and_are_bounded() {
        assert_eq!(quoted("a\x1b[31mb\u{202e}c\nd\t "), "a[31mbc d");
        let long = quoted(&"é".repeat(1000));
        assert!(long.len() <= QUOTE + 3 && long.ends_with('…'));
    }

    #[test]
    fn quotes_hold_no_secrets_also_where_they_are_cut_or_hidden() {
        let key = format!("ghp_{}", "Q7wE9rT2yU5iO8pA1sD4fG6hJ3kL0zXc");
        for line in [
            format!("torch @ https://{key}@host/x"),
            format!("{} {key}", "x".repeat(QUOTE - 10)),
            format!("a gh\u{200b}p_{}", key.trim_start_matches("ghp_")),
        ] {
            let quote = quoted(&line);
            assert!(!quote.contains("Q7wE9") && quote.contains("[scrubbed:") | quote.ends_with('…'), "{quote}");
        }
    }

    #[test]
    fn confidence_has_four_steps() {
        let steps = [Confidence::Default, Confidence::Vague, Confidence::Implied, Confidence::Pinned];
        assert_eq!(steps.map(Confidence::value), [0.1, 0.3, 0.6, 0.9]);
    }
}
