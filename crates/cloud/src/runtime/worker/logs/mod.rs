//! Output of attempts on its way to the outbox log. Owns cutting it into numbered chunks and masking; never reads a pipe.

mod cut;

pub use cut::{Cutter, Fill, Moment};

use super::super::logs::{Masker, SECRET_MIN};

/// Masks these values and their encodings, but no value below [`SECRET_MIN`] bytes: it stands in every log.
#[must_use]
pub fn masker<'a>(values: impl IntoIterator<Item = &'a str>) -> Masker {
    Masker::with_encodings(values.into_iter().filter(|value| value.trim().len() >= SECRET_MIN))
}
