//! Advice by a model over an OpenAI-compatible endpoint. Owns the exchange, its limits and
//! its record; what is asked and what an answer may change stands in `analyze`. Every failure is a warning, never an error.

mod advise;
mod client;
mod council;
mod record;
mod request;
mod settings;
#[cfg(test)]
mod tests;

pub use advise::{hours, images, marker, requirements};
pub use client::Client;
pub use council::{Account, Council, MAX_TIME, Mode};
pub use record::{Entry, Record, digest};
pub use settings::{Settings, SettingsError};
