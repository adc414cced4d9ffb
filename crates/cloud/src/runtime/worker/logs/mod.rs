//! Output of attempts on its way to the outbox log. Owns cutting it into numbered chunks and masking; never reads a pipe.

mod cut;
mod secret;

pub use cut::{Cutter, Fill, Moment};
pub use secret::{SECRET_MIN, masker};
