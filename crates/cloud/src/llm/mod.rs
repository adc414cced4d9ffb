//! Advice by a language model over an OpenAI-compatible endpoint. Owns the requests, their limits and a record of the answers; the
//! questions, and what an answer may change, are in [`analyze::advice`](crate::analyze::advice). A failure is a warning, never an error.

mod advise;
mod client;
mod record;
mod request;
mod session;
mod settings;
#[cfg(test)]
mod tests;

pub use advise::{hours, images, marker, requirements};
pub use client::Client;
pub use record::{Entry, Record, digest};
pub use session::{AdvisorSession, AdvisorUsage, MAX_TIME, Mode};
pub use settings::Settings;
