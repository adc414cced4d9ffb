//! What one sentence says about a machine: words that make it count, quantities, cards,
//! systems. Owns the patterns; where sentences come from stands in `readme`.

mod kind;
mod quantity;
mod time;

use orlop_core::hardware::gpu::Vendor;

use super::super::card;
use super::super::fact::{At, Confidence, Feature, Finding, Sink, Strength, quoted};
use super::super::os::Os;
use super::super::version::Version;

/// Words that make a minimum, as beginnings of words.
const HARD: [&str; 7] = ["require", "need", "must", "minimum", "at least", "prerequisite", "minimal"];
/// Words that make a wish.
const WISH: [&str; 24] = [
    "hardware:",
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
    "trained at",
    "train on",
    "run on ",
    "runs on ",
    "were run on",
    "tested in",
    "trained with",
    "fine-tuned",
    "finetuned",
    "fine-tunes",
];

/// How much a sentence in lower case binds, if it counts at all.
pub(super) fn strength(small: &str) -> Option<Strength> {
    let begins = |words: &[&str]| {
        words.iter().any(|word| {
            small.match_indices(word).any(|(at, _)| {
                let before = small.get(..at).and_then(|text| text.chars().next_back());
                let after = small.get(at + word.len()..).unwrap_or_default();
                !before.is_some_and(char::is_alphanumeric) && !after.starts_with("ist")
            })
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

/// What stands around a sentence.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Around {
    /// What its heading, or the column of its table, makes of it.
    pub(super) inherited: Option<Strength>,
    /// Whether it stands in a section about doing without a GPU, which is one way of several.
    pub(super) is_choice: bool,
    /// Whether it is a row of several that describe variants.
    pub(super) is_variant: bool,
}

/// Judges a sentence.
pub(super) fn judge(sentence: &str, around: Around, at: At<'_>, sink: &mut Sink<'_>) {
    let small = sentence.to_lowercase();
    let is_choice = around.is_choice || kind::offers_choice(&small);
    if denies_gpu(&small) && !is_choice {
        return sink.add(at, "readme-no-gpu", Finding::CpuOnly, (Strength::Target, Confidence::Implied));
    }
    let tokens = tokens(&small);
    time::run_time(&tokens, &small, at, sink);
    let own = strength(&small).map(|own| if around.is_variant { Strength::Weak } else { own });
    let Some(strength) = own.max(around.inherited) else { return };
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
    let most = if around.is_variant { Strength::Target } else { Strength::Hard };
    // One way of several is an example of what it takes.
    let kind = if around.is_choice { kind::Kind::Example } else { kind::Kind::of(&small) };
    let (strength, confidence) = kind.bound(strength.min(most), Confidence::Implied);
    let said = CountedSentence { small: &small, tokens: &tokens, strength, confidence, at };
    let mark = sink.mark();
    said.quantities(sink);
    said.cards(sentence, sink);
    if strength == Strength::Weak && sink.holds_size(mark) {
        let file = sink.file();
        sink.note(format!("{file}:{}: \u{201c}{}\u{201d} is treated as a hint only", at.line, quoted(sentence)));
    }
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
        "gpu is not supported",
        "gpus are not supported",
    ];
    let denied = |phrase: &str| {
        small.match_indices(phrase).any(|(at, _)| {
            // `You do not need a GPU with 24 GB` is about a large one.
            let after = small.get(at + phrase.len()..).unwrap_or_default();
            if [" with ", " of ", " that "].iter().any(|word| after.starts_with(word)) {
                return false;
            }
            let start = at.saturating_sub(12);
            let before = (start..=at).find_map(|start| small.get(start..at)).unwrap_or_default();
            !["not ", "n't ", "cannot ", "never "].iter().any(|no| before.contains(no))
        })
    };
    let on_cpu = ["runs on cpu", "run on cpu", "runs on a cpu", "runs on the cpu", "run on a cpu"];
    plain.iter().any(|phrase| denied(phrase)) || !small.contains("gpu") && on_cpu.iter().any(|phrase| denied(phrase))
}

/// A number or a word in lower case, or a single mark.
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

/// A sentence that counts.
struct CountedSentence<'a> {
    small: &'a str,
    tokens: &'a [Token<'a>],
    strength: Strength,
    confidence: Confidence,
    at: At<'a>,
}

impl CountedSentence<'_> {
    fn add(&self, rule: &'static str, finding: Finding, sink: &mut Sink<'_>) {
        sink.add(self.at, rule, finding, (self.strength, self.confidence));
    }

    fn word(&self, index: usize) -> Option<&str> {
        match self.tokens.get(index) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn wish(&self, rule: &'static str, finding: Finding, sink: &mut Sink<'_>) {
        sink.add(self.at, rule, finding, (self.strength.min(Strength::Target), self.confidence));
    }

    /// Cards by name are alternatives: the smallest counts. A GPU in a minimum, or one that is recommended, is soft evidence.
    fn cards(&self, sentence: &str, sink: &mut Sink<'_>) {
        let has = |words: &[&str]| words.iter().any(|word| self.small.contains(word));
        let found = if self.is_about_cards() || self.is_of_cluster() { Vec::new() } else { card::find(sentence) };
        for one in &found {
            self.add("readme-card", Finding::Card(one.card), sink);
        }
        let (amd, nvidia) =
            (has(&["amd ", "rocm", "radeon", "instinct"]), has(&["nvidia", "cuda", "geforce", "tesla"]));
        if let Some(least) = found.iter().min_by_key(|one| one.memory_gb) {
            self.add("readme-card", Finding::Vram(least.memory_gb), sink);
            if let Some(count) = least.count {
                self.wish("readme-card", Finding::GpuCount(count), sink);
            }
            if found.iter().all(|one| one.card.vendor == Vendor::Amd) && !nvidia && self.strength > Strength::Weak {
                let how = (Strength::Hard, Confidence::Implied);
                return sink.add(self.at, "readme-amd-card", Finding::Gpu(Some(Vendor::Amd)), how);
            }
        }
        let is_word = |wanted: &[&str]| {
            self.tokens.iter().any(|token| matches!(token, Token::Word(word) if wanted.contains(word)))
        };
        if is_word(&["tpu", "tpus"]) && !is_word(&["gpu", "gpus", "cpu"]) && self.strength == Strength::Hard {
            self.wish("readme-tpu", Finding::Tpu, sink);
        }
        let named = !found.is_empty() || is_word(&["gpu", "gpus", "vram"]) || has(&["cuda support", "rocm installed"]);
        let optional = has(&[
            "optional",
            "if you have",
            "if available",
            "or cpu",
            "and cpu",
            "cpu or",
            "gpu version",
            "gpu support",
            "gpu build",
            "to use gpu",
            "to use a gpu",
            "with a gpu,",
            "gpu acceleration",
            "instead of gpu",
        ]);
        let is_wanted = self.strength == Strength::Hard || self.strength == Strength::Target && has(&["recommend"]);
        let vendor = match (amd, nvidia) {
            (true, false) => Some(Vendor::Amd),
            (false, true) => Some(Vendor::Nvidia),
            _ => None,
        };
        if named && is_wanted && !optional {
            self.wish("readme-gpu", Finding::Gpu(vendor), sink);
        } else if named || has(&["nvidia"]) {
            sink.add(self.at, "readme-gpu", Finding::Gpu(vendor), (Strength::Weak, Confidence::Implied));
        }
    }

    /// Whether it tells of more cards than any machine has: `16,000 H100 GPUs`.
    fn is_of_cluster(&self) -> bool {
        self.tokens.windows(2).any(|pair| match pair {
            [Token::Number(count), Token::Word(word)] => {
                *count > 64.0 && (word.starts_with("gpu") || card::CARDS.iter().any(|card| word.starts_with(card.key)))
            }
            _ => false,
        })
    }

    /// Whether a card is what something is needed for: `B200 support requires a newer version`.
    fn is_about_cards(&self) -> bool {
        let active = ["requires ", "require ", "needs ", "need "];
        let verb = active.iter().filter_map(|word| self.small.find(word)).min();
        let Some((before, after)) = verb.and_then(|at| self.small.split_at_checked(at)) else { return false };
        let asks = ["require", "need", "must", "minimum", "at least", "recommend"];
        !asks.iter().any(|word| before.contains(word)) && !card::find(before).is_empty() && card::find(after).is_empty()
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
        } else if name == "capability" && (3..=20).contains(&version.major) {
            self.add("readme-capability", Finding::Capability(version), sink);
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
