//! Advice by a model over an OpenAI-compatible endpoint. Owns the exchange, its limits and
//! its record; what is asked and what an answer may change stands in `analyze`. Every failure is a warning, never an error.

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
