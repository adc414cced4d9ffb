//! What one sentence says about a machine (provisioner contract, 3.3): words that make it count, quantities, cards,
//! systems. Owns the patterns; where sentences come from stands in `readme`.

mod quantity;

use orlop_core::hardware::gpu::Vendor;

use super::super::card;
use super::super::fact::{At, Confidence, Feature, Finding, Sink, Strength};
use super::super::os::Os;
use super::super::version::Version;

/// Words that make a minimum, as beginnings of words.
const HARD: [&str; 7] = ["require", "need", "must", "minimum", "at least", "prerequisite", "minimal"];
/// Words that make a wish.
const WISH: [&str; 13] = [
    "recommend",
    "tested on",
    "tested with",
    "trained on",
    "evaluated on",
    "ran on",
    "run on a",
    "we used",
    "machine with",
    "server with",
    "testbed",
    "trained using",
    "workstation with",
];

/// How much a sentence in small letters binds, if it counts at all.
pub(super) fn strength(small: &str) -> Option<Strength> {
    let begins = |words: &[&str]| {
        words.iter().any(|word| {
            small
                .match_indices(word)
                .any(|(at, _)| small.get(..at).is_some_and(|before| !before.ends_with(|ch: char| ch.is_alphanumeric())))
        })
    };
    if begins(&HARD) {
        Some(Strength::Hard)
    } else if begins(&WISH) {
        Some(Strength::Target)
    } else {
        None
    }
}

/// Judges a sentence; `inherited` is what its heading makes of it.
pub(super) fn judge(sentence: &str, inherited: Option<Strength>, at: At<'_>, sink: &mut Sink<'_>) {
    let small = sentence.to_lowercase();
    if denies_gpu(&small) {
        return sink.add(at, "readme-no-gpu", Finding::CpuOnly, (Strength::Target, Confidence::Implied));
    }
    let tokens = tokens(&small);
    run_time(&tokens, &small, at, sink);
    let Some(strength) = strength(&small).or(inherited) else { return };
    if [
        "not require",
        "n't require",
        "not need",
        "n't need",
        "no need",
        "not necessary",
        "not required",
        "isn't required",
    ]
    .iter()
    .any(|no| small.contains(no))
    {
        return;
    }
    let said = Said { small: &small, tokens: &tokens, strength, at };
    said.quantities(sink);
    said.cards(sentence, sink);
    said.software(sink);
    said.features(sink);
}

/// Phrases that say it runs without a GPU.
fn denies_gpu(small: &str) -> bool {
    let plain = [
        "cpu only",
        "cpu-only",
        "no gpu needed",
        "no gpu required",
        "no gpu is needed",
        "no gpu is required",
        "not require a gpu",
        "not require gpu",
        "n't require a gpu",
        "n't need a gpu",
        "not need a gpu",
        "gpu is not required",
        "gpu is not needed",
        "gpu not required",
        "gpus are not required",
        "without a gpu",
        "without gpu",
        "no gpus are required",
        "no gpu necessary",
    ];
    let denied = |phrase: &str| {
        small.match_indices(phrase).any(|(at, _)| {
            let start = at.saturating_sub(12);
            let before = (start..=at).find_map(|start| small.get(start..at)).unwrap_or_default();
            !["not ", "n't ", "cannot ", "never "].iter().any(|no| before.contains(no))
        })
    };
    let on_cpu = ["runs on cpu", "run on cpu", "runs on a cpu", "runs on the cpu", "run on a cpu"];
    plain.iter().any(|phrase| denied(phrase)) || !small.contains("gpu") && on_cpu.iter().any(|phrase| denied(phrase))
}

/// A number or a word in small letters, or a single mark.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'a> {
    Number(f64),
    Word(&'a str),
    Mark(char),
}

/// Tokens of a sentence that are looked at.
const MAX_TOKENS: usize = 600;

fn tokens(small: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = small;
    while let Some(ch) = rest.chars().next()
        && found.len() < MAX_TOKENS
    {
        let run = |fits: &dyn Fn(char) -> bool| rest.find(|ch: char| !fits(ch)).unwrap_or(rest.len());
        let end = if ch.is_ascii_digit() {
            let end = run(&|ch| ch.is_ascii_digit() || ch == '.' || ch == ',');
            let text = rest.get(..end).unwrap_or_default().trim_end_matches(['.', ',']);
            let grouped = text.split(',').skip(1).all(|group| group.len() == 3);
            let number = if grouped { text.replace(',', "") } else { text.replace(',', ".") };
            found.push(number.parse().map_or(Token::Mark('#'), Token::Number));
            text.len().max(1)
        } else if ch.is_alphabetic() {
            let end = run(&|ch| ch.is_alphanumeric());
            found.push(Token::Word(rest.get(..end).unwrap_or_default()));
            end
        } else {
            if !ch.is_whitespace() {
                found.push(Token::Mark(ch));
            }
            ch.len_utf8()
        };
        rest = rest.get(end..).unwrap_or_default();
    }
    found
}

/// Run times: `takes 12 hours`.
fn run_time(tokens: &[Token<'_>], small: &str, at: At<'_>, sink: &mut Sink<'_>) {
    let words = [
        "takes",
        "took",
        "run time",
        "runtime",
        "running time",
        "training time",
        "finishes in",
        "completes in",
        "total time",
    ];
    if !words.iter().any(|word| small.contains(word)) {
        return;
    }
    for (index, token) in tokens.iter().enumerate() {
        let Token::Number(number) = token else { continue };
        let unit = match tokens.get(index + 1) {
            Some(Token::Word(unit)) => *unit,
            Some(Token::Mark('-')) => match tokens.get(index + 2) {
                Some(Token::Word(unit)) => *unit,
                _ => continue,
            },
            _ => continue,
        };
        let hours = match unit {
            "minute" | "minutes" | "min" | "mins" => number / 60.0,
            "hour" | "hours" | "h" | "hr" | "hrs" => *number,
            "day" | "days" => number * 24.0,
            "week" | "weeks" => number * 168.0,
            _ => continue,
        };
        if hours > 0.0 && hours < 1e6 {
            sink.add(
                at,
                "readme-run-time",
                Finding::Hours(hours.ceil() as u32),
                (Strength::Target, Confidence::Implied),
            );
        }
    }
}

/// A sentence that counts.
struct Said<'a> {
    small: &'a str,
    tokens: &'a [Token<'a>],
    strength: Strength,
    at: At<'a>,
}

impl Said<'_> {
    fn add(&self, rule: &'static str, finding: Finding, sink: &mut Sink<'_>) {
        sink.add(self.at, rule, finding, (self.strength, Confidence::Implied));
    }

    fn word(&self, index: usize) -> Option<&str> {
        match self.tokens.get(index) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn wish(&self, rule: &'static str, finding: Finding, sink: &mut Sink<'_>) {
        sink.add(self.at, rule, finding, (Strength::Target, Confidence::Implied));
    }

    /// Cards by name are alternatives: the smallest counts. A plain mention of a GPU in a minimum is soft evidence.
    fn cards(&self, sentence: &str, sink: &mut Sink<'_>) {
        let found = card::find(sentence);
        for one in &found {
            self.add("readme-card", Finding::Card(one.card), sink);
        }
        if let Some(least) = found.iter().min_by_key(|one| one.memory_gb) {
            self.add("readme-card", Finding::Vram(least.memory_gb), sink);
            if let Some(count) = least.count {
                self.wish("readme-card", Finding::GpuCount(count), sink);
            }
            if found.iter().all(|one| one.card.vendor == Vendor::Amd) {
                sink.add(
                    self.at,
                    "readme-amd-card",
                    Finding::Gpu(Some(Vendor::Amd)),
                    (Strength::Hard, Confidence::Implied),
                );
                return;
            }
        }
        let named =
            !found.is_empty() || self.tokens.iter().any(|token| matches!(token, Token::Word("gpu" | "gpus" | "vram")));
        let optional = ["optional", "if you have", "if available", "or cpu", "and cpu", "cpu or"]
            .iter()
            .any(|word| self.small.contains(word));
        if named {
            let strength = if self.strength == Strength::Hard && !optional { Strength::Target } else { Strength::Weak };
            sink.add(self.at, "readme-gpu", Finding::Gpu(None), (strength, Confidence::Implied));
        }
    }

    /// Systems, CUDA, Python, kernels.
    fn software(&self, sink: &mut Sink<'_>) {
        let mut name = "";
        for (index, token) in self.tokens.iter().enumerate() {
            match token {
                Token::Word(word)
                    if ["lts", "linux", "version", "toolkit", "stream", "v", "versions", "release"].contains(word) => {}
                Token::Word(word) => name = word,
                Token::Number(number) if !name.is_empty() => {
                    self.version(name, *number, index, sink);
                    // `Ubuntu 20.04 / 22.04` names two.
                    let goes_on =
                        matches!(self.tokens.get(index + 1), Some(Token::Mark('/') | Token::Word("or" | "and")));
                    if !goes_on {
                        name = "";
                    }
                }
                Token::Mark('/' | '>' | '=' | '≥' | '+' | '(' | ':' | '*' | '`') | Token::Number(_) => {}
                Token::Mark(_) => name = "",
            }
            if let Token::Word("or" | "and") = token
                && let Some(Token::Number(_)) = self.tokens.get(index + 1)
                && let Some(Token::Word(before)) = index.checked_sub(2).and_then(|at| self.tokens.get(at))
            {
                name = before;
            }
        }
    }

    fn version(&self, name: &str, number: f64, index: usize, sink: &mut Sink<'_>) {
        let text = format!("{number}");
        // `22.04` is read as a number and loses its zero; `3.10` becomes `3.1`: the words still have both.
        let written = self.written(&text, index);
        let Some(version) = Version::read(&written) else { return };
        if let Some(os) = Os::of(name, &written).filter(|_| name != "arch") {
            self.wish("readme-os", Finding::Os(os), sink);
        } else if name == "cuda" && (7..=20).contains(&version.major) {
            self.add("readme-cuda", Finding::Cuda(version), sink);
        } else if name == "python" && (version.major == 3 || version == Version::new(2, 7)) && version.minor > 0 {
            let open = [
                "+",
                ">=",
                "≥",
                "or later",
                "or newer",
                "or higher",
                "or above",
                "and above",
                "at least",
                "or greater",
            ];
            let ranged = open.iter().any(|word| self.small.contains(word));
            let finding = if ranged { Finding::PythonFrom(version) } else { Finding::Python(version) };
            self.wish("readme-python", finding, sink);
        } else if name == "kernel" {
            self.wish("readme-kernel", Finding::Special(format!("Linux kernel {written}")), sink);
        }
    }

    /// The digits of a number as they were written: the sentence's n-th number is its token's.
    fn written(&self, fallback: &str, index: usize) -> String {
        let wanted =
            self.tokens.iter().take(index).filter(|token| matches!(token, Token::Number(_) | Token::Mark('#'))).count();
        let mut rest = self.small;
        let mut seen = 0;
        while let Some(ch) = rest.chars().next() {
            let end = if ch.is_ascii_digit() {
                let end = rest.find(|ch: char| !(ch.is_ascii_digit() || ch == '.' || ch == ',')).unwrap_or(rest.len());
                let text = rest.get(..end).unwrap_or_default().trim_end_matches(['.', ',']);
                if seen == wanted {
                    return text.to_owned();
                }
                seen += 1;
                text.len().max(1)
            } else if ch.is_alphabetic() {
                rest.find(|ch: char| !ch.is_alphanumeric()).unwrap_or(rest.len())
            } else {
                seen += usize::from(ch == '#');
                ch.len_utf8()
            };
            rest = rest.get(end..).unwrap_or_default();
        }
        fallback.to_owned()
    }

    fn features(&self, sink: &mut Sink<'_>) {
        let words = [
            (Feature::Fpga, &["fpga", "alveo", "xilinx"][..]),
            (Feature::Infiniband, &["infiniband", "rdma"]),
            (Feature::Nvme, &["nvme"]),
            (Feature::Nvdimm, &["nvdimm", "optane", "persistent memory"]),
            (Feature::Nvlink, &["nvlink"]),
        ];
        for (feature, names) in words {
            if names.iter().any(|name| self.small.contains(name)) {
                self.add("readme-feature", Finding::Feature(feature), sink);
            }
        }
    }
}

#[cfg(test)]
mod tests;
