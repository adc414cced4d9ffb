//! Advice within bounds: four questions as values, and how an answer is read. Owns the words
//! of the questions and the schemas; what an answer may change stands in `merge`, who is asked in `llm`. Pure.

mod answer;
mod frame;
mod question;
mod schema;
#[cfg(test)]
mod tests;

pub use answer::{Advised, Answer, Pick, Quoted, read};
pub use frame::{FILE_CHARS, Framed, TOTAL_CHARS, frame};
pub use question::{MarkedQuestion, candidates, duration, final_image, repaired, requirements};

use super::injection::FLAG;
use super::requirements::Requirements;

/// What may be asked; there are no other questions. Types, sites, counts of machines, filters, networks, keys and money are
/// decided by code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// What the machine must have.
    Requirements,
    /// Which images come into question.
    ImageCandidates,
    /// Which of them is taken.
    FinalImage,
    /// How long it is wanted.
    Duration,
}

impl Point {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Requirements, Self::ImageCandidates, Self::FinalImage, Self::Duration];

    /// Its name in letters and `_`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requirements => "requirements",
            Self::ImageCandidates => "image_candidates",
            Self::FinalImage => "final_image",
            Self::Duration => "duration",
        }
    }
}

/// Whether text of the repository tries to give instructions: then rules alone decide what the machine must have and for
/// how long.
#[must_use]
pub fn is_tainted(requirements: &Requirements) -> bool {
    requirements.flags.iter().any(|flag| flag.starts_with(FLAG))
}
