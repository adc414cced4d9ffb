//! What kind of sentence it is: a general one, an example, somebody's own run, or a sum that is only worked out.

use super::super::super::fact::{Confidence, Strength};

/// The kind of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of the project as a whole.
    General,
    /// With a bound or a total, which is no minimum.
    Bounded,
    /// An example, or what somebody had; a general sentence wins over it.
    Example,
    /// Worked out, or for more than the usual: a hint.
    Hint,
}

impl Kind {
    /// The kind of a sentence in lower case.
    pub(super) fn of(small: &str) -> Self {
        let has = |phrases: &[&str]| phrases.iter().any(|phrase| small.contains(phrase));
        if has(&["naively", "naïvely", "full reproduction", "fully reproduce", "full replication", "in theory"]) {
            Self::Hint
        } else if has(&[
            "for example",
            "e.g.",
            "for instance",
            "example:",
            "may require",
            "might require",
            "may need",
            "might need",
            "may be required",
            "may be needed",
            "full fine-tun",
            "full finetun",
            "full-parameter",
            "full parameter",
        ]) || is_own_run(small)
        {
            Self::Example
        } else if has(&["in total", "up to", "total of", "altogether", "combined"]) {
            Self::Bounded
        } else {
            Self::General
        }
    }

    /// How much a sentence of this kind binds at most.
    pub(super) fn bound(self, strength: Strength, confidence: Confidence) -> (Strength, Confidence) {
        match self {
            Self::General => (strength, confidence),
            Self::Bounded => (strength.min(Strength::Target), confidence),
            Self::Example => (strength.min(Strength::Target), Confidence::Vague),
            Self::Hint => (Strength::Weak, Confidence::Vague),
        }
    }
}

/// Whether a sentence tells of what somebody used, without asking for it.
fn is_own_run(small: &str) -> bool {
    let own = [
        "we used",
        "we trained",
        "fine-tuned",
        "finetuned",
        "fine-tunes",
        "trained with",
        "was trained",
        "were trained",
        "trained on",
        "trained using",
        "trained at",
        "we ran",
        "ran on",
        "were run on",
        "was run on",
        "tested on",
        "tested with",
        "evaluated on",
        "our testbed",
        "hardware:",
        "testing and development",
        "developed and tested",
        "tested using",
        "when run on",
        "have tested",
        "our experiments",
    ];
    let asks = ["require", "need", "must", "minimum", "at least", "recommend"];
    own.iter().any(|phrase| small.contains(phrase)) && !asks.iter().any(|word| small.contains(word))
}

/// Whether a sentence offers doing without a GPU as one way of several, so that it denies nothing.
pub(super) fn offers_choice(small: &str) -> bool {
    [
        "if you",
        "option",
        "install",
        "possible",
        "can be",
        "can also",
        "also ",
        "may ",
        "but ",
        "small",
        "choose",
        "prefer",
        "want",
        "fallback",
        "fall back",
        "slow",
        "alternatively",
    ]
    .iter()
    .any(|phrase| small.contains(phrase))
}
